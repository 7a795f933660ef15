"""Calibration: from a user's own measurements to the constants of the laws (decode latency, training, interference)."""
