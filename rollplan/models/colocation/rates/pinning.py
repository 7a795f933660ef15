"""All ways to pin the jobs of a group to a number of like nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def pinnings(sets: Sequence[int], demand: Sequence[int], nodes: int) -> Iterator[tuple[int, ...]]:
    """Yield the bit masks of the jobs on each of `nodes` nodes, every job on demand[k] of them, no node empty.

    sets: the masks a node may host. Nodes are alike, so every multiset of masks comes once: masks whose lowest job is 0
    first, then those whose lowest job is 1, and so on, each block in falling order. With demands of 1 these are the
    partitions of the jobs into `nodes` sets.
    """
    yield from _rest(sorted(sets, reverse=True), tuple(demand), nodes, 0)


def _rest(sets: Sequence[int], demand: tuple[int, ...], nodes: int, before: int) -> Iterator[tuple[int, ...]]:
    if nodes == 0:
        if not any(demand):
            yield ()
        return
    if not max(demand) <= nodes <= sum(demand):
        return
    lowest = next(1 << k for k, open_nodes in enumerate(demand) if open_nodes)
    open_jobs = sum(1 << k for k, open_nodes in enumerate(demand) if open_nodes)
    for mask in sets:
        if mask & -mask != lowest or mask & ~open_jobs or (before & -before == lowest and mask > before):
            continue
        left = tuple(open_nodes - (mask >> k & 1) for k, open_nodes in enumerate(demand))
        for others in _rest(sets, left, nodes - 1, mask):
            yield (mask, *others)
