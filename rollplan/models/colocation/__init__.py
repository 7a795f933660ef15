"""P3 co-location (RollMux and beyond): problem, exact solver, and verifier that knows nothing of the solver.

To read in this order. The problem: `problem`, `solution` (from a partition to a plan), `closed_form` (what holds before
any search). The solver (docs/colocation_exact.md): `exact` -> `search` (branch and price; `choice`: what to branch on,
`cuts`, `measures`) -> `relax` (column generation) -> `master` (the LP) and what finds groups for it: `listing` (all groups
in a list; `columns`, `lister`, `scan`) or `kernel` (a compiled search; `block`, `leader`, `knapsack`, `node_count`). Plans
come from `improve` (neighbourhoods: `regroup`, `few_jobs`, `exact_cover`; `moves`: at a price), `dive`, `start` and
`incumbent`, the first prices of a large fleet from `windows`. Groups beyond the closed form: `timetables` (gangs, delays),
`rates` and `rates_*` (several runs per period), `frozen_order` (the period of a timetable's order). Why nothing fits:
`requirements`, `second_proof`. The judges, which
import none of the solver: `verify`, `certificate`, `algorithm1` (RollMux admission, line by line).
"""
