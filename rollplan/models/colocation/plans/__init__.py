"""Plans without a proof: made at once (`start`), improved in neighbourhoods (`improve`), and the best so far (`incumbent`).

The neighbourhoods: `regroup`, `few_jobs`, `exact_cover`. `placed`: what groups take; `moves`: who moves when a plan changes.
"""
