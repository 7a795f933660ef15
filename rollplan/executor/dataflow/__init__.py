"""The dataflow graph of the HybridFlow-scheduler article as a compact executor: compile, policies, run. Standard library only."""
