"""P3 co-location (RollMux and beyond): problem, exact solver, and verifier that knows nothing of the solver.

To read in this order. The problem: `problem`, `solution` (from a partition to a plan), `closed_form` (what holds before
any search), `nodes` (how few a group needs). The solver (docs/colocation_exact.md): `exact`, which runs branch and price
(`tree`) over the groups that `pricing` finds, beside a search for plans (`plans`). Groups beyond the closed form:
`timetables` (gangs, delays), `rates` (several runs per period), `frozen_order` (the period of a timetable's order). Why
nothing fits: `requirements`, `second_proof`. The judges, which import none of the solver: `verify`, `certificate`,
`algorithm1` (RollMux admission, line by line).
"""
