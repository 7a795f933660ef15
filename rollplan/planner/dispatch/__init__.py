"""P2 dispatch: heuristics by name, and the best of them with a proven bound.

`solve` composes the candidates: `deal` (even, round robin, snake), `skewness` (StreamRL's Algorithm 2), `contiguous`
(contiguous blocks of the sorted requests), `balanced` (the same work everywhere), `improve` (moves and swaps from the
worst instance).
"""
