"""Why there is no plan, in the scenario's words: conflicting requirements, and what would end the conflict."""
