"""Independent proof of a co-location bound from its witness.

The witness is a tree. A branch parts the plans by how many nodes of a pool they use in total; a leaf holds prices u_k
per job and d_p per pool. No plan with the fewest nodes for each group and totals in the leaf's box [l, h] costs less than

    sum_k u_k + sum_p (d_p l_p if d_p >= 0 else d_p h_p) + sum over leaders of min(0, least reduced cost they lead),

where a group's reduced cost is cost - sum_p d_p nodes_p - sum of its jobs' u. The bound of the tree is the least of its
leaves; plans with nodes to spare cost more than their twins without. All feasible groups are searched here by a
depth-first search of its own, in plain Python: nothing of the solver is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from math import ceil, fsum, inf, isfinite, prod

from rollplan.models.certified import Leaf, Witness
from rollplan.models.colocation.problem import ColocationProblem, JobData, at_most

MAX_EXHAUSTIVE_JOBS = 13
_MAX_DEPTH = 400
_SEARCHED_SHAPES = 20_000
"""Most combinations of node counts up to which the fewest nodes are searched exactly."""
_MAX_NODES = 10**9
_MAX_PRICE = 1e12


class SearchStoppedError(Exception):
    """The search for violated groups was stopped before its end."""


class BadWitnessError(Exception):
    """The witness cannot prove anything."""


@dataclass(frozen=True, slots=True)
class CheckedBound:
    """A bound proven here: dollars per hour, the argument, and what was said against the witness.

    rough: the jobs are so wide that node counts were bounded instead of searched, so the witness may prove more.
    """

    value: float
    proof: str
    note: str = ""
    rough: bool = False


def checked_bound(problem: ColocationProblem, witness: Witness | None, stop: Callable[[], object] = lambda: None) -> CheckedBound:
    """Return the best bound that can be proven from the witness; without a usable witness, the fluid bound.

    stop: when it answers, the search ends and only the fluid bound stands.
    """
    fluid = CheckedBound(problem.next_cost(fluid_bound(problem)), "fluid", rough=_wide(problem))
    if witness is None:
        return fluid
    low = (0.0,) * len(problem.pools)
    high = tuple(inf if pool.nodes is None else float(pool.nodes) for pool in problem.pools)
    try:
        value = problem.next_cost(_tree_bound(problem, witness, low, high, stop, 0))
    except SearchStoppedError:
        return replace(fluid, note="the search for violated groups was stopped")
    except BadWitnessError as error:
        return replace(fluid, note=f"the witness {error}")
    return replace(fluid, value=value, proof="LP prices, every feasible group searched") if value > fluid.value else fluid


def _wide(problem: ColocationProblem) -> bool:
    """Return whether some group may be too wide for its node count to be searched."""
    widest = sorted((job.rollout_nodes + 1 for job in problem.jobs), reverse=True)
    return prod(widest[: problem.max_group_size]) > _SEARCHED_SHAPES


def _tree_bound(
    problem: ColocationProblem, witness: Witness, low: tuple[float, ...], high: tuple[float, ...], stop: Callable[[], object], depth: int
) -> float:
    """Return the least cost of plans with totals in the box that the witness proves; infinite for an empty box."""
    if any(low[p] > high[p] for p in range(len(problem.pools))):
        return inf
    if isinstance(witness, Leaf):
        return _leaf_bound(problem, witness, low, high, stop)
    if not 0 <= witness.pool < len(problem.pools):
        raise BadWitnessError("parts plans by a pool that does not exist")
    if depth > _MAX_DEPTH:
        raise BadWitnessError("has too many branches")
    if abs(witness.at) > _MAX_NODES:
        raise BadWitnessError("parts plans by an absurd total")
    p = witness.pool
    below = (*high[:p], min(high[p], float(witness.at)), *high[p + 1 :])
    above = (*low[:p], max(low[p], float(witness.at + 1)), *low[p + 1 :])
    return min(
        _tree_bound(problem, witness.below, low, below, stop, depth + 1), _tree_bound(problem, witness.above, above, high, stop, depth + 1)
    )


def _leaf_bound(
    problem: ColocationProblem, prices: Leaf, low: tuple[float, ...], high: tuple[float, ...], stop: Callable[[], object]
) -> float:
    if len(prices.jobs) != len(problem.jobs) or len(prices.pools) != len(problem.pools):
        raise BadWitnessError("has the wrong number of prices")
    if not all(isfinite(price) for price in (*prices.jobs, *prices.pools)) or any(price < 0 for price in prices.jobs):
        raise BadWitnessError("has a price that is negative or not finite")
    if any(abs(price) > _MAX_PRICE for price in (*prices.jobs, *prices.pools)):
        raise BadWitnessError("has a price beyond all measure")
    ends = 0.0
    for price, least, most in zip(prices.pools, low, high, strict=True):
        if price < 0 and most == inf:
            raise BadWitnessError("prices a total that has no limit")
        ends += price * (least if price >= 0 else most) if price else 0.0
    violation = fsum(_least_reduced_cost(problem, leader, prices, stop) for leader in range(len(problem.jobs)))
    return fsum(prices.jobs) + ends + violation


def partition_bound(problem: ColocationProblem) -> CheckedBound | None:
    """Return the least cost over every partition into feasible groups, None for more than 13 jobs.

    Limits on a pool's nodes are left out, which can only make it lower. Dynamic program over sets of jobs.
    """
    if len(problem.jobs) > MAX_EXHAUSTIVE_JOBS:
        return None
    groups: dict[int, list[tuple[int, float]]] = {k: [] for k in range(len(problem.jobs))}

    def extend(members: list[int], start: int) -> None:
        """Add every feasible group that begins with these members; a part of a feasible group is feasible."""
        cost = _group_cost(problem, [problem.jobs[k] for k in members])
        if cost is None:
            return
        groups[members[0]].append((sum(1 << k for k in members), cost))
        for k in range(start, len(problem.jobs)):
            if len(members) < problem.max_group_size:
                extend([*members, k], k + 1)

    for first in range(len(problem.jobs)):
        extend([first], first + 1)
    least = [0.0] + [inf] * ((1 << len(problem.jobs)) - 1)
    for rest in range(1, len(least)):
        first = (rest & -rest).bit_length() - 1
        least[rest] = min((least[rest ^ mask] + cost for mask, cost in groups[first] if mask & rest == mask), default=inf)
    return CheckedBound(round(least[-1], 9), "every partition searched") if isfinite(least[-1]) else None


def _group_cost(problem: ColocationProblem, jobs: list[JobData]) -> float | None:
    """Return dollars per hour of a group on the fewest nodes, None if it is not feasible."""
    if len({(job.rollout_pool, job.train_pool) for job in jobs}) > 1:
        return None
    rollout, train = problem.pools[jobs[0].rollout_pool], problem.pools[jobs[0].train_pool]
    limit = min(job.tolerable_s for job in jobs)
    fits = (
        at_most(max(job.solo_s for job in jobs), limit)
        and at_most(fsum(job.train_s for job in jobs), limit)
        and at_most(fsum(job.train_memory_gib for job in jobs), train.memory_gib)
    )
    if not fits:
        return None
    shapes = tuple((job.rollout_nodes, job.rollout_s, job.rollout_memory_gib) for job in jobs)
    nodes, _ = _between(shapes, limit, rollout.memory_gib)
    return nodes * rollout.price_per_node_h + max(job.train_nodes for job in jobs) * train.price_per_node_h


def fluid_bound(problem: ColocationProblem) -> float:
    """Return sum over pools of price * the largest of three needs: work, memory, places in groups (docs/bounds.md)."""
    total = 0.0
    for index, pool in enumerate(problem.pools):
        for rollout in (True, False):
            work = memory = places = 0.0
            for job in problem.jobs:
                if (job.rollout_pool if rollout else job.train_pool) != index:
                    continue
                nodes = job.rollout_nodes if rollout else job.train_nodes
                work += nodes * (job.rollout_s if rollout else job.train_s) / job.tolerable_s
                memory += nodes * (job.rollout_memory_gib if rollout else job.train_memory_gib)
                places += nodes / problem.max_group_size
            total += pool.price_per_node_h * max(work, places, memory / pool.memory_gib if pool.memory_gib else 0.0)
    return total * (1 - 1e-9)


def _least_reduced_cost(problem: ColocationProblem, leader: int, prices: Leaf, stop: Callable[[], object]) -> float:
    """Return min(0, least reduced cost) of the feasible groups in which `leader` tolerates least (ties: lowest index)."""
    head = problem.jobs[leader]
    limit = head.tolerable_s
    rollout_pool, train_pool = problem.pools[head.rollout_pool], problem.pools[head.train_pool]
    # What a node costs beyond what the witness pays for it; negative where a total is forced up.
    rollout_price = rollout_pool.price_per_node_h - prices.pools[head.rollout_pool]
    train_price = train_pool.price_per_node_h - prices.pools[head.train_pool]
    most_rollout = inf if rollout_pool.nodes is None else rollout_pool.nodes
    most_train = inf if train_pool.nodes is None else train_pool.nodes
    others = [
        (prices.jobs[k], k, job)
        for k, job in enumerate(problem.jobs)
        if k != leader
        and (job.rollout_pool, job.train_pool) == (head.rollout_pool, head.train_pool)
        and (job.tolerable_s, k) > (limit, leader)
        # A job without a price only adds nodes, which helps where nodes are paid for.
        and (prices.jobs[k] > 0 or min(rollout_price, train_price) < 0)
        and at_most(job.solo_s, limit)
        and at_most(head.train_s + job.train_s, limit)
    ]
    others.sort(key=lambda item: (-item[0], item[1]))
    widest_rollout = max((job.rollout_nodes for _, _, job in others), default=0)
    widest_train = max((job.train_nodes for _, _, job in others), default=0)
    best = 0.0

    def search(group: list[JobData], price: float, start: int) -> None:
        nonlocal best
        if stop():
            raise SearchStoppedError
        trainers = max(job.train_nodes for job in group)
        nodes = _nodes_at_least(group, limit, rollout_pool.memory_gib)
        if nodes > most_rollout or trainers > most_train:
            return  # no plan holds this group, nor a larger one
        separate = sum(job.rollout_nodes for job in group)
        # The fewest nodes lie between `nodes` and one set for each job.
        if rollout_price * (nodes if rollout_price >= 0 else separate) + train_price * trainers - price < best:
            shapes = sorted((job.rollout_nodes, job.rollout_s, job.rollout_memory_gib) for job in group)
            least, most = _between(tuple(shapes), limit, rollout_pool.memory_gib)
            if least <= most_rollout:
                best = min(best, rollout_price * (least if rollout_price >= 0 else most) + train_price * trainers - price)
        places = problem.max_group_size - len(group)
        if places == 0:
            return
        # The least that a larger group can cost, before the prices of its new jobs.
        floor = rollout_price * (nodes if rollout_price >= 0 else separate + places * widest_rollout) - price
        floor += train_price * (trainers if train_price >= 0 else max(trainers, widest_train))
        trained = fsum(job.train_s for job in group)
        kept = fsum(job.train_memory_gib for job in group)
        for position in range(start, len(others)):
            # Sorted by price: whatever is added from here on earns at most `places` times this price.
            if floor - places * others[position][0] >= best:
                return
            dual, _, job = others[position]
            if at_most(trained + job.train_s, limit) and at_most(kept + job.train_memory_gib, train_pool.memory_gib):
                search([*group, job], price + dual, position + 1)

    search([head], prices.jobs[leader], 0)
    return best


def _nodes_at_least(group: list[JobData], period_s: float, memory_gib: float) -> int:
    """Return a quick lower bound on the rollout nodes of a group: its widest job, its work, its memory."""
    nodes = max(job.rollout_nodes for job in group)
    nodes = max(nodes, ceil(fsum(job.rollout_nodes * job.rollout_s for job in group) / period_s * (1 - 1e-9)))
    if memory_gib > 0:
        nodes = max(nodes, ceil(fsum(job.rollout_nodes * job.rollout_memory_gib for job in group) / memory_gib * (1 - 1e-9)))
    return nodes


@lru_cache(maxsize=100_000)
def _between(jobs: tuple[tuple[int, float, float], ...], period_s: float, memory_gib: float) -> tuple[int, int]:
    """Return two counts between which the fewest nodes lie: equal, unless the jobs are too wide to be searched."""
    if prod(copies + 1 for copies, _, _ in jobs) <= _SEARCHED_SHAPES:
        exact = _fewest_nodes(jobs, period_s, memory_gib)
        return exact, exact
    return _nodes_by_weights(jobs, period_s, memory_gib), sum(copies for copies, _, _ in jobs)


def _nodes_by_weights(jobs: tuple[tuple[int, float, float], ...], period_s: float, memory_gib: float) -> int:
    """Return a lower bound on the nodes: if no node can host jobs of more than total weight 1, sum of copies * weight.

    Any weights prove a bound, so it does not matter here that a library's LP finds good ones.
    """
    from scipy.optimize import linprog

    sets = [
        chosen
        for size in range(1, len(jobs) + 1)
        for chosen in combinations(range(len(jobs)), size)
        if size == 1 or (at_most(fsum(jobs[k][1] for k in chosen), period_s) and at_most(fsum(jobs[k][2] for k in chosen), memory_gib))
    ]
    found = linprog(
        [-copies for copies, _, _ in jobs], [[float(k in chosen) for k in range(len(jobs))] for chosen in sets], [1.0] * len(sets)
    )
    weights = [max(0.0, float(weight)) for weight in found.x] if found.x is not None else [0.0] * len(jobs)
    heaviest = max(1.0, *(fsum(weights[k] for k in chosen) for chosen in sets))
    return ceil(fsum(copies * weight for (copies, _, _), weight in zip(jobs, weights, strict=True)) / heaviest - 1e-6)


@lru_cache(maxsize=100_000)
def _fewest_nodes(jobs: tuple[tuple[int, float, float], ...], period_s: float, memory_gib: float) -> int:
    """Return the fewest nodes that host jobs (copies, seconds, GiB), by branching on where the next job goes.

    Each job's copies go to different nodes, at most `period_s` seconds and `memory_gib` on each node.
    """
    upper = sum(copies for copies, _, _ in jobs)
    best = upper

    def place(index: int, loads: tuple[tuple[float, float, int], ...]) -> None:
        """loads: (seconds, GiB, how many nodes stand exactly so), all nodes in use."""
        nonlocal best
        used = sum(count for _, _, count in loads)
        if used >= best:
            return
        if index == len(jobs):
            best = used
            return
        copies, seconds, memory = jobs[index]
        fitting = [kind for kind in loads if at_most(kind[0] + seconds, period_s) and at_most(kind[1] + memory, memory_gib)]
        for chosen in _choices(copies, [count for _, _, count in fitting]):
            after = [kind for kind in loads if kind not in fitting]
            for (busy, kept, count), taken in zip(fitting, chosen, strict=True):
                after += [(busy + seconds, kept + memory, taken)] if taken else []
                after += [(busy, kept, count - taken)] if count > taken else []
            new = copies - sum(chosen)
            after += [(seconds, memory, new)] if new else []
            place(index + 1, tuple(after))

    place(0, ())
    return best


def _choices(copies: int, counts: list[int]) -> list[tuple[int, ...]]:
    """Return all ways to take at most `copies` from kinds of `counts` nodes, fullest use first."""
    ways: list[tuple[int, ...]] = [()]
    for count in counts:
        ways = [(*way, taken) for way in ways for taken in range(min(count, copies - sum(way)), -1, -1)]
    return sorted(ways, key=lambda way: -sum(way))
