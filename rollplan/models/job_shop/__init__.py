"""P4 b, the makespan shop: job shop, flexible job shop, flow shop and hybrid flow shop.

To read in this order. The problem: `problem`, `read` (the standard text formats), `solution` (a schedule). What can be
proven without a search: `bounds`. Orders and alternatives given, when everything starts: `timing`. The model: `whole`
(durations as whole numbers, interchangeable machines as one), `cpsat` (one search), `exact` (searches side by side). The
judge: `verify`.
"""
