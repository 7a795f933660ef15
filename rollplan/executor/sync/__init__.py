"""Weights from training ranks to rollout workers: routes, bytes, transfers, and how long they take."""
