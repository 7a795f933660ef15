"""P2 dispatch (StreamRL Algorithm 2 and beyond): which request to which instance, and in which order.

To read in this order. The problem: `problem`, `recall` (rankers that err), `solution` (orders and their makespan). What
can be proven: `bounds`, `minorants` (tables bounded by affine laws), `exact` -> `cpsat` (affine laws) and `subsets` (any
law, few requests). The judge: `verify`.
"""
