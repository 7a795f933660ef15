"""The profile: what was measured on real hardware, or read from the log of a real run. Planner and profilers meet here."""
