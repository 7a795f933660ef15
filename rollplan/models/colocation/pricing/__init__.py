"""What finds groups for the LP: all of them in a list (`listing`), or the best by a compiled search (`kernel`).

`block`: the jobs of one pair of pools as arrays. `measures`: what branching adds to the price of a group. The list:
`columns`, `lister`, `scan`. The search by leaders: `leader`, `knapsack`, `node_count`; `one_group` serves both.
"""
