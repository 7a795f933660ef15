"""Small cases decided without any solver: is a period possible in a cyclic shop, and what does a fleet of gangs cost at least?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations, product

from rollplan.models.colocation.problem import ColocationProblem
from rollplan.models.cyclic_shop.problem import CyclicShopProblem, Phase, ShopJob

Arc = tuple[int, int, Fraction]


def possible(problem: CyclicShopProblem, period: Fraction) -> bool:
    """Return whether a schedule of a period exists, by trying every number of periods between any two phases that share a resource."""
    parts: list[tuple[int, frozenset[int], Fraction]] = []
    arcs: list[Arc] = []
    for number, job in enumerate(problem.jobs):
        steps: list[tuple[list[int], Fraction]] = []
        for _, phase in product(range(job.runs), job.phases):
            seconds = Fraction(phase.seconds)
            if phase.resources:
                places = [frozenset(phase.resources)] if phase.together else [frozenset([r]) for r in phase.resources]
                steps.append(([len(parts) + i for i in range(len(places))], seconds))
                parts += [(number, place, seconds) for place in places]
            else:
                steps[-1] = (steps[-1][0], steps[-1][1] + seconds)
        for (these, seconds), (those, _) in zip(steps, [*steps[1:], steps[0]], strict=True):
            back = period if those == steps[0][0] else Fraction(0)
            arcs += [(a, b, seconds - back) for a in these for b in those]
    pairs = [
        (a, b)
        for a, b in combinations(range(len(parts)), 2)
        if parts[a][0] != parts[b][0] and parts[a][1] & parts[b][1] and parts[a][2] and parts[b][2]
    ]

    def rest(open_pairs: list[tuple[int, int]], arcs: list[Arc]) -> bool:
        if not consistent(len(parts), arcs):
            return False
        if not open_pairs:
            return True
        (a, b), *others = open_pairs
        between = ([(a, b, parts[a][2] - h * period), (b, a, parts[b][2] - (1 - h) * period)] for h in (-1, 0, 1, 2))
        return any(rest(others, [*arcs, *both]) for both in between)

    return rest(pairs, arcs)


def consistent(size: int, arcs: list[Arc]) -> bool:
    """Return whether starts x with x_b >= x_a + seconds exist (Bellman-Ford)."""
    at = [Fraction(0)] * size
    for _ in range(size + 1):
        changed = False
        for a, b, seconds in arcs:
            if at[a] + seconds > at[b]:
                at[b], changed = at[a] + seconds, True
        if not changed:
            return True
    return False


def shop(
    nodes: int, *jobs: tuple[float, float, tuple[int, ...]], gang: bool = True, runs: tuple[int, ...] = (), delays: tuple[float, ...] = ()
) -> CyclicShopProblem:
    """Return the shop of jobs (rollout, training, rollout nodes) on `nodes` nodes, 0 and up, with a trainer behind them."""
    made = []
    for place, (rollout, train, pinned) in enumerate(jobs):
        phases = (Phase(rollout, pinned, gang), Phase(train, (nodes,)))
        phases += (Phase(delays[place]),) if delays and delays[place] else ()
        made.append(ShopJob("ABCDEFGH"[place], phases, runs[place] if runs else 1))
    return CyclicShopProblem((*(f"node {node}" for node in range(nodes)), "trainer"), tuple(made))


def fewest_nodes(problem: ColocationProblem, members: tuple[int, ...]) -> int | None:
    """Return the fewest rollout nodes on which a group of one pair of pools keeps its SLOs, by trying every pinning."""
    jobs = [problem.jobs[k] for k in members]
    limit = min(Fraction(job.slo) * Fraction(job.solo_s) for job in jobs)
    own = sum(job.rollout_nodes for job in jobs)
    roomy = problem.pools[jobs[0].train_pool].memory_gib >= sum(job.train_memory_gib for job in jobs)
    if len(members) > 1 and (len(members) > problem.max_group_size or not roomy):
        return None
    if max(Fraction(job.solo_s) for job in jobs) > limit or sum(Fraction(job.train_s) for job in jobs) > limit:
        return None
    for nodes in range(max(job.rollout_nodes for job in jobs), own + 1):
        for pinning in product(*(combinations(range(nodes), job.rollout_nodes) for job in jobs)):
            if pinning[0] != tuple(range(len(pinning[0]))) or {node for pinned in pinning for node in pinned} != set(range(nodes)):
                continue  # nodes are equal, so the first job takes the first ones
            hosted = [[job for job, pinned in zip(jobs, pinning, strict=True) if node in pinned] for node in range(nodes)]
            if any(sum(job.rollout_memory_gib for job in here) > problem.pools[jobs[0].rollout_pool].memory_gib for here in hosted):
                continue
            if any(sum(Fraction(job.rollout_s) for job in here) > limit for here in hosted):
                continue
            made = tuple(
                ShopJob(
                    job.name,
                    (Phase(job.rollout_s, pinned, job.gang), Phase(job.train_s, (nodes,)), *([Phase(job.delay_s)] if job.delay_s else [])),
                )
                for job, pinned in zip(jobs, pinning, strict=True)
            )
            if possible(CyclicShopProblem(tuple(map(str, range(nodes + 1))), made), limit):
                return nodes
    raise AssertionError("nodes of their own are enough for jobs that share a trainer")


def least_cost(problem: ColocationProblem, fewest: Callable[[tuple[int, ...]], int | None]) -> float:
    """Return the least cost of a plan without node limits: a dynamic programme over the subsets of jobs.

    fewest: rollout nodes of a group, None if its jobs cannot share.
    """

    @cache
    def cost(members: tuple[int, ...]) -> float:
        nodes = fewest(members)
        if nodes is None:
            return float("inf")
        rollout, train = (problem.pools[pool] for pool in (problem.jobs[members[0]].rollout_pool, problem.jobs[members[0]].train_pool))
        return nodes * rollout.price_per_node_h + max(problem.jobs[k].train_nodes for k in members) * train.price_per_node_h

    @cache
    def least(left: tuple[int, ...]) -> float:
        if not left:
            return 0.0
        return min(
            cost(group) + least(tuple(k for k in left if k not in group)) for group in groups_with_first(left, problem.max_group_size)
        )

    return least(tuple(range(len(problem.jobs))))


def groups_with_first(left: tuple[int, ...], most: int) -> Iterator[tuple[int, ...]]:
    """Yield the subsets of at most `most` jobs that hold the first of `left`."""
    for size in range(min(most, len(left))):
        for others in combinations(left[1:], size):
            yield (left[0], *others)
