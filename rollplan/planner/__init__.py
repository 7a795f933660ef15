"""Decides: heuristics, exact solves, bounds, and the composition of a whole plan."""
