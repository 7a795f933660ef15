"""P4 (a), the cyclic phase shop: phases on exclusive resources, repeated with the least period.

To read in this order: `problem` (jobs, phases, schedules), `parts` (what has a start of its own, and what follows what),
`bounds` (what no period can be below), `orders` (the least period of given cyclic orders, by max-plus algebra), `fixed`
(CP-SAT: is there a schedule of this period?) on a `grid` of whole numbers, `exact` (the least period), `verify` (knows
nothing of the others), `groups` (co-execution groups as shops).
Explained in docs/cyclic_shop.md.
"""
