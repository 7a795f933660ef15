"""Pipelining modes and staleness: how rollout and training of one job interlock in time, and what each side waits for.

To read in this order. `stages` (one iteration's work), `modes` (their names and results), `iteration` (one iteration in
steady state), `series` (fluctuating iterations, by recurrence). With a staleness bound: `rules`, `pool` (continuous
batching with arrivals), `asynchronous` (the run, simulated by events), `outcome`, `staleness` (the smallest bound that
pays). `reading` says what idle ratios mean. Mathematics and sources: docs/modes.md.
"""
