"""Which jobs one rollout node may host where jobs run several times per period, and how many nodes that takes.

Fix a period P, runs m_k, a job k and one of its nodes. The m_k rollouts of k on that node and its m_k trainings exclude each
other and take turns; outside them there are P - m_k (r_k + t_k) seconds. A training of another job j lies outside the
trainings of k. It is in one piece, so it meets no more than one rollout of k there, and max(0, t_j - r_k) seconds of it are
outside the phases of k. Trainings of different runs exclude each other. So what all others have outside adds up to no more
than there is. The same is true, with the two kinds of phases exchanged, of rollouts on that node. And what one job
has outside of both kinds adds up, too, since its own rollout and training exclude each other.

This needs phases of k that have some length: a phase of none, or of less than the tolerance of a replayed timetable, keeps
nothing apart. Other jobs' phases may have any length.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import fsum

from rollplan.models.colocation.certificate.plain import few_shapes, nodes_by_weights
from rollplan.models.colocation.problem import JobData, at_most

Masks = tuple[int, ...]
"""Sets of jobs as bits of their positions."""
_DEEPEST = 300
"""Most nodes of all jobs of a group up to which the fewest are searched: it goes one deeper for each."""
_TOO_SHORT = 1e-6
"""Share of the period below which a phase keeps nothing apart."""


def full_nodes(jobs: Sequence[JobData], runs: Sequence[int], period_s: float, memory_gib: float) -> Masks | None:
    """Return the sets of jobs that one rollout node may host and no other job can join; None if the trainer excludes the group.

    The period has room for the runs of every job, and for all trainings.
    """
    outside = [period_s - count * (job.rollout_s + job.train_s) for count, job in zip(runs, jobs, strict=True)]
    apart = [min(job.rollout_s, job.train_s) > _TOO_SHORT * period_s for job in jobs]
    trained, rolled = (
        [[count * max(0.0, part) for count, part in zip(runs, parts, strict=True)] for parts in table]
        for table in (
            [[other.train_s - job.rollout_s for other in jobs] for job in jobs],
            [[other.rollout_s - job.train_s for other in jobs] for job in jobs],
        )
    )
    everyone = range(len(jobs))
    if any(apart[k] and not at_most(fsum(trained[k][j] for j in everyone if j != k), outside[k]) for k in everyone):
        return None
    alone = [{j for j in everyone if j == k or not apart[k] or at_most(trained[k][j] + rolled[k][j], outside[k])} for k in everyone]
    load = [count * job.rollout_s for count, job in zip(runs, jobs, strict=True)]

    def hosted(chosen: Sequence[int]) -> bool:
        return (
            at_most(fsum(load[k] for k in chosen), period_s)
            and at_most(fsum(jobs[k].rollout_memory_gib for k in chosen), memory_gib)
            and all(alone[k].issuperset(chosen) for k in chosen)
            and all(not apart[k] or at_most(fsum(rolled[k][j] for j in chosen if j != k), outside[k]) for k in chosen)
        )

    found: list[tuple[int, ...]] = [(k,) for k in everyone]
    for chosen in found:  # grows while it is read: a part of a set that a node may host is one, too
        found += [(*chosen, k) for k in range(chosen[-1] + 1, len(jobs)) if hosted((*chosen, k))]
    masks = [sum(1 << k for k in chosen) for chosen in found]
    return tuple(mask for mask in masks if not any(mask != other and mask & other == mask for other in masks))


def is_searched(demand: Sequence[int]) -> bool:
    """Return whether the fewest nodes for a demand are searched, so that the answer is no mere bound."""
    return few_shapes(demand) and sum(demand) <= _DEEPEST


@lru_cache(maxsize=100_000)
def nodes_at_least(full: Masks, demand: tuple[int, ...]) -> int:
    """Return the fewest nodes, each hosting a part of a full one, that give every job as many nodes as it demands.

    For demands with too many combinations a lower bound.
    """
    if is_searched(demand):
        return _fewest(full, demand)
    bound = nodes_by_weights(demand, [[k for k in range(len(demand)) if mask >> k & 1] for mask in full])
    return max(bound, *demand)


@lru_cache(maxsize=200_000)
def _fewest(full: Masks, demand: tuple[int, ...]) -> int:
    """Return the fewest nodes: some node hosts the first job that still demands one, and the fuller the better."""
    first = next((k for k, count in enumerate(demand) if count), None)
    if first is None:
        return 0
    left = {tuple(count - (count > 0 and mask >> k & 1) for k, count in enumerate(demand)) for mask in full if mask >> first & 1}
    return 1 + min(_fewest(full, rest) for rest in left)
