"""Readers of launch configurations: files and scripts of RL frameworks, read and never executed."""
