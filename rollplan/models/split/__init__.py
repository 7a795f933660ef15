"""P1 split: how many GPUs of one job roll out, how many train, and how the two stages overlap.

A table R_p says how many seconds the rollout of one iteration takes on so many GPUs of pool p, a table T_q says the
same of training; both hold the best parallel layout of each count. b_p GPUs of pool p may be used. Candidates:

    separate   x GPUs of p roll out, y GPUs of q train, pipelined in one of the allowed ways:
               pipelining.iteration_s(R_p(x), T_q(y));  x <= b_p and y <= b_q; on one site (p = q) x + y <= b_p
    colocated  k GPUs of p roll out, then train:  R_p(k) + T_p(k) + switch + sync,  k <= b_p

The least time wins, or the least cost per iteration. Values closer than 1e-9 of the best are equal; then fewer GPUs,
then less difference between the stages, then smaller x (which prefers separate to colocated), then pools by name, then
the pipelining named first. So each side of a separate plan gives back what it does not need (trim `safe`). Trim
`paper` replaces the candidates on two sites by the one of StreamRL's Algorithm 1 (Zhong et al. 2025), which may be
slower: it takes the time nearest to the bottleneck, from above as well as from below.
"""
