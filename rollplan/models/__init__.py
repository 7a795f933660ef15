"""The world and its mathematics: data, laws, optimisation problems with exact solvers and independent verifiers."""
