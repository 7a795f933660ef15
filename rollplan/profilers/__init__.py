"""Measures and imports: phase times, latency curves, links, lengths. Built after the planner; nothing here yet."""
