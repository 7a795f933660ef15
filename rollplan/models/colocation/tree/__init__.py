"""Branch and price: the tree (`search`), its nodes (`relax`: column generation over the LP of `master`), and what parts them.

`choice`: what to branch on; `cuts`: rows that every plan keeps; `dive`: plans from the LP; `windows`: the first prices of a
large fleet.
"""
