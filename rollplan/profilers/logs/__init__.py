"""Reads the logs of RL post-training frameworks: find the framework, read its lines, part the runs, judge the steps."""
