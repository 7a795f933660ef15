"""Response lengths from what a run has written down, and a ranker that predicts their order from the prompts."""
