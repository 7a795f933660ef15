"""P4 b decided: `rules` (dispatching rules), `tabu` and `population` (tabu search, for shops without a choice of machines), `solve`."""
