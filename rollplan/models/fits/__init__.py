"""Laws fitted to what was measured, each with its error."""
