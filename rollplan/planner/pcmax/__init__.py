"""P||Cmax: jobs on identical machines by name: LPT, MULTIFIT, local search, and the exact solver.

`solve` composes them: LPT, `multifit`, and `improve` (pairs of machines share their jobs anew).
"""
