"""Who sends which bytes of the weights to whom, and in which order.

Ranks are counted through: train rank i is i, rollout rank j is `train_ranks + j`. A stage is what may move at once; a
rank begins a stage when its own part of the one before is done. Sites are numbered, and the trainers are in site 0.

* `flat`: every rollout rank pulls a whole copy from a trainer (the all-gather of verl, as RollMux 5.2 describes it).
* `two_stage`: N = min(train ranks, rollout ranks of a site) disjoint shards cross to the site in N parallel streams, so
  that one copy crosses (RollMux 5.2); there, every shard goes on along a tree of its own. Rollout ranks in the trainers'
  site are reached by trees that are rooted at different trainers (StreamRL). Trees have `fan_out` children per rank and
  are turned against each other, so that who is a leaf of one passes on in another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

WORD = 8
"""Shards begin at multiples of so many bytes, which is what checksums add up."""
FAN_OUT = 2


@dataclass(frozen=True, slots=True)
class Hop:
    """Bytes `first` to `last` (exclusive) from one rank to another."""

    source: int
    target: int
    first: int
    last: int


Stage = tuple[Hop, ...]
Routes = tuple[Stage, ...]


def flat(size: int, train_ranks: int, rollout_ranks: int) -> Routes:
    """Return the one stage in which every rollout rank gets all `size` bytes from a trainer."""
    _check(size, train_ranks, rollout_ranks)
    return (tuple(Hop(rank % train_ranks, train_ranks + rank, 0, size) for rank in range(rollout_ranks)),)


def two_stage(size: int, train_ranks: int, sites: Sequence[int], fan_out: int = FAN_OUT) -> Routes:
    """Return the stages in which one copy crosses to every other site and trees spread it there.

    size: bytes. sites: of every rollout rank. Raises `ValueError` for no bytes, no ranks, or a fan-out below one.
    """
    _check(size, train_ranks, len(sites))
    if fan_out < 1:
        raise ValueError(f"fan_out must be at least 1, got {fan_out}")
    routes: list[Routes] = []
    for site in sorted(set(sites)):
        members = [train_ranks + rank for rank, place in enumerate(sites) if place == site]
        if site == 0:
            shards = cut(size, train_ranks)
            routes += [tree(root, _turned(members, root, train_ranks), shard, fan_out) for root, shard in enumerate(shards)]
            continue
        shards = cut(size, min(train_ranks, len(members)))
        crossing = tuple(Hop(rank, members[rank], *shard) for rank, shard in enumerate(shards))
        for rank, shard in enumerate(shards):
            others = [one for one in _turned(members, rank, len(shards)) if one != members[rank]]
            routes.append((crossing[rank : rank + 1], *tree(members[rank], others, shard, fan_out)))
    return tuple(stage for stage in (_without_empty(hops) for hops in zip_longest(*routes, fillvalue=())) if stage)


def tree(root: int, others: Sequence[int], shard: tuple[int, int], fan_out: int) -> Routes:
    """Return one stage for each level of the tree in which everybody has `fan_out` children, filled in the order of `others`."""
    nodes = [root, *others]
    levels: list[list[Hop]] = []
    depth = {0: -1}
    for place in range(1, len(nodes)):
        parent = (place - 1) // fan_out
        depth[place] = depth[parent] + 1
        if depth[place] == len(levels):
            levels.append([])
        levels[depth[place]].append(Hop(nodes[parent], nodes[place], *shard))
    return tuple(tuple(level) for level in levels)


def cut(size: int, parts: int) -> list[tuple[int, int]]:
    """Return disjoint shards (first, last) of `size` bytes, of nearly the same number of words; those beyond the last word are empty."""
    words = -(-size // WORD)
    bounds = [min(size, WORD * (words * part // parts)) for part in range(parts + 1)]
    return list(pairwise(bounds))


def _turned(members: list[int], tree_number: int, trees: int) -> list[int]:
    """Return the members in cyclic order from where this tree starts: the trees start at equal distances."""
    start = (tree_number * len(members) // trees + 1) % len(members)
    return members[start:] + members[:start]


def _without_empty(stages: Sequence[Stage]) -> Stage:
    return tuple(hop for stage in stages for hop in stage if hop.first < hop.last)


def _check(size: int, train_ranks: int, rollout_ranks: int) -> None:
    for name, value in (("size", size), ("train_ranks", train_ranks), ("rollout_ranks", rollout_ranks)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
