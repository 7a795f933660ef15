"""P3 co-location (RollMux and beyond): problem, exact solver, and verifier that knows nothing of the solver.

To read in this order. The problem: `problem`, `solution` (from a partition to a plan), `closed_form` (what holds before
any search). The solver: `exact` -> `columns` (all feasible groups; `nodes`: how few nodes each needs) -> `search`
(branching on the pools' totals) -> `master` (the LP), `choose` (the MILP). The judges, which import none of the solver:
`verify`, `certificate`, `algorithm1` (RollMux admission, line by line).
"""
