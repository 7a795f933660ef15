"""Carries out the core's instructions with Ray: processes, places, time, files. Standard library and Ray only."""
