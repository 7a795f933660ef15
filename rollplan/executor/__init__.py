"""Runs plans on real engines. Built after the planner; nothing here yet."""
