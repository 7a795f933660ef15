"""P3 co-location (RollMux and beyond): problem, exact solver, and verifier that knows nothing of the solver."""
