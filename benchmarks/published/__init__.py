"""Published measurements of RL frameworks, and what rollplan predicts for them; `benchmarks/reality.py` prints the table."""
