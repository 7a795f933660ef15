"""Inference engines and trainers that programs may use; each imports its libraries when it is built, and only them."""
