"""Advice from the log of a run: who binds, what idles, and which split, mode or setting would help, by how much."""
