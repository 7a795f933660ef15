"""P||Cmax: jobs on identical machines, least makespan.

To read in this order. The problem: `problem`, `solution`. What can be proven at once: `bounds`, `subset_sums`. The exact
method, bin packing by patterns: `knapsack` (the best pattern), `patterns` (the LP over all of them), `complete` (all
that can matter), `exact` (the search for the least capacity). The judge: `verify`.
"""
