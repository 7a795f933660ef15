"""What a witness proves, by the definition, and the optimum, by trying everything: the yardstick of the tests beside this file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations, count
from math import ceil, fsum, inf
from random import Random

from rollplan.models.certified import Branch, GroupCount, Leaf, Measure, PoolNodes, Together, TwoOfThree, Witness
from rollplan.models.colocation.problem import ColocationProblem, JobData, NodePool, at_most

H20, H800 = NodePool("H20", 14.8, 1000.0), NodePool("H800", 42.24, 1000.0)
Group = tuple[tuple[int, ...], int, int]
"""Members, training nodes, fewest rollout nodes."""


def random_problem(seed: int, jobs: int = 6) -> ColocationProblem:
    """Jobs of several nodes and footprints, most of them on one pair of pools, some on another."""
    random = Random(seed)
    pools = [0, 0, 0, 0, 2] if seed % 3 == 0 else [0]
    members = tuple(
        JobData(
            name=f"job{k}",
            slo=random.choice([1.0, 1.5, 2.0, 3.0]),
            rollout_s=random.choice([50.0, 100.0, 150.0, 200.0]),
            train_s=random.choice([20.0, 50.0, 100.0]),
            rollout_pool=random.choice(pools),
            rollout_nodes=random.choice([1, 1, 2, 3]),
            train_nodes=random.choice([1, 1, 2, 3]),
            rollout_memory_gib=random.choice([0.0, 300.0, 500.0]),
            train_memory_gib=random.choice([0.0, 250.0, 400.0]),
        )
        for k in range(jobs)
    )
    return ColocationProblem((H20, H800, NodePool("L40", 9.0, 600.0)), members, random.choice([2, 3, 4, 5]))


def fewest_nodes(jobs: list[JobData], limit_s: float, memory_gib: float) -> int:
    """Return the fewest rollout nodes, by trying all ways to place the jobs on 1, 2, ... nodes."""
    for nodes in count(1):
        loads = {((0.0, 0.0),) * nodes}
        for job in jobs:
            after = set()
            for load in loads:
                for chosen in combinations(range(nodes), job.rollout_nodes):
                    new = [(s + job.rollout_s, m + job.rollout_memory_gib) if n in chosen else (s, m) for n, (s, m) in enumerate(load)]
                    if all(at_most(s, limit_s) and at_most(m, memory_gib) for s, m in new):
                        after.add(tuple(sorted(new)))
            loads = after
        if loads:
            return nodes
    raise AssertionError


@cache
def all_groups(problem: ColocationProblem) -> tuple[Group, ...]:
    """Return every group that is feasible by the closed form, or may be if jobs may run several times per period."""
    found = []
    for size in range(1, problem.max_group_size + 1):
        for members in combinations(range(len(problem.jobs)), size):
            jobs = [problem.jobs[k] for k in members]
            same = len({(job.rollout_pool, job.train_pool) for job in jobs}) == 1
            if same and at_most(fsum(job.train_memory_gib for job in jobs), problem.pools[1].memory_gib):
                nodes = [nodes for period in periods(problem, jobs) if (nodes := nodes_at(problem, jobs, period)) is not None]
                found += [(members, max(job.train_nodes for job in jobs), min(nodes))] if nodes else []
    return tuple(found)


def periods(problem: ColocationProblem, jobs: list[JobData]) -> set[float]:
    """Return the periods at which a group may be feasible."""
    if problem.max_rate == 1:
        return {min(job.tolerable_s for job in jobs)}
    return {times * job.tolerable_s for job in jobs for times in range(1, problem.max_rate + 1)}


def nodes_at(problem: ColocationProblem, jobs: list[JobData], period: float) -> int | None:
    """Return the fewest rollout nodes of a group at a period: what each job does in it, run after run, must fit. None if it does not."""
    runs = [ceil(period / job.tolerable_s - 1e-6) for job in jobs]
    work = [replace(job, rollout_s=m * job.rollout_s, train_s=m * job.train_s) for m, job in zip(runs, jobs, strict=True)]
    fits = max(runs) <= problem.max_rate and all(at_most(m * job.solo_s, period) for m, job in zip(runs, jobs, strict=True))
    if not fits or not at_most(fsum(job.train_s for job in work), period):
        return None
    memory_gib = problem.pools[jobs[0].rollout_pool].memory_gib
    if problem.max_rate == 1:
        return fewest_nodes(work, period, memory_gib)
    fitting = {
        chosen
        for size in range(1, len(jobs) + 1)
        for chosen in combinations(range(len(jobs)), size)
        if size == 1
        or (
            at_most(fsum(work[k].rollout_s for k in chosen), period)
            and at_most(fsum(jobs[k].rollout_memory_gib for k in chosen), memory_gib)
            and all(has_room(jobs, runs, period, k, chosen) for k in chosen)
        )
    }
    if not all(has_room(jobs, runs, period, k, (k,)) for k in range(len(jobs))):
        return None
    return fewest_hosts([job.rollout_nodes for job in jobs], fitting)


def has_room(jobs: list[JobData], runs: list[int], period: float, k: int, node: tuple[int, ...]) -> bool:
    """Whether what a job leaves of the period has room for the parts of others' phases that cannot lie beside its own, on a node."""
    left = period - runs[k] * (jobs[k].rollout_s + jobs[k].train_s)
    train = {j: runs[j] * max(0.0, jobs[j].train_s - jobs[k].rollout_s) for j in range(len(jobs)) if j != k}
    roll = {j: runs[j] * max(0.0, jobs[j].rollout_s - jobs[k].train_s) for j in node if j != k}
    return at_most(max(fsum(train.values()), fsum(roll.values()), *(train[j] + roll[j] for j in roll), 0.0), left + 1e-6)


def fewest_hosts(demand: list[int], fitting: set[tuple[int, ...]]) -> int:
    """Return the fewest nodes, by trying all ways to place the jobs on 1, 2, ... nodes, each with a fitting set."""
    for nodes in count(1):
        placed: set[tuple[tuple[int, ...], ...]] = {((),) * nodes}
        for k, copies in enumerate(demand):
            ways = (
                tuple(sorted((*jobs, k) if n in chosen else jobs for n, jobs in enumerate(hosts)))
                for hosts in placed
                for chosen in combinations(range(nodes), copies)
            )
            placed = {hosts for hosts in ways if all(k not in jobs or jobs in fitting for jobs in hosts)}
        if placed:
            return nodes
    raise AssertionError


def adds(problem: ColocationProblem, measure: Measure, group: Group) -> int:
    """Return what a group adds to a measure of a plan."""
    members, train_nodes, rollout_nodes = group
    pools = problem.jobs[members[0]].rollout_pool, problem.jobs[members[0]].train_pool
    if isinstance(measure, PoolNodes):
        return (rollout_nodes if measure.pool == pools[0] else 0) + (train_nodes if measure.pool == pools[1] else 0)
    if isinstance(measure, Together):
        return int(measure.first in members and measure.second in members)
    if isinstance(measure, TwoOfThree):
        return int(len({measure.first, measure.second, measure.third} & set(members)) >= 2)
    sizes = ((measure.train_nodes, train_nodes), (measure.rollout_nodes, rollout_nodes))
    return int((measure.rollout_pool, measure.train_pool) == pools and all(want in (None, has) for want, has in sizes))


def cost(problem: ColocationProblem, group: Group) -> float:
    """Return dollars per hour of a group."""
    return sum(pool.price_per_node_h * adds(problem, PoolNodes(p), group) for p, pool in enumerate(problem.pools))


def partitions(problem: ColocationProblem) -> Iterator[list[Group]]:
    """Yield every way to part the jobs into feasible groups, whatever the pools have."""

    def part(rest: frozenset[int]) -> Iterator[list[Group]]:
        if not rest:
            yield []
        for group in all_groups(problem):
            if rest and min(rest) in group[0] and rest.issuperset(group[0]):
                yield from ([group, *others] for others in part(rest - set(group[0])))

    return part(frozenset(range(len(problem.jobs))))


@cache
def optimum(problem: ColocationProblem) -> float:
    """Return the least cost of a plan that the pools can hold; infinite if there is none."""
    fitting = [
        plan
        for plan in partitions(problem)
        if all(pool.nodes is None or total(problem, PoolNodes(p), plan) <= pool.nodes for p, pool in enumerate(problem.pools))
    ]
    return min((fsum(cost(problem, group) for group in plan) for plan in fitting), default=inf)


def proven(problem: ColocationProblem, witness: Witness, limits: dict[Measure, tuple[float, float]]) -> float:
    """Return what a witness proves, by the definition: every plan is in a leaf, every group has a leader."""
    if any(low > high for low, high in limits.values()):
        return inf
    if isinstance(witness, Branch):
        low, high = limits.get(witness.measure, limits_of(problem, witness.measure))
        below = proven(problem, witness.below, {**limits, witness.measure: (low, min(high, witness.at))})
        above = proven(problem, witness.above, {**limits, witness.measure: (max(low, witness.at + 1), high)})
        both = proven(problem, witness.prices, limits) if witness.prices else -inf
        return min(max(below, both), max(above, both))
    if contradictory(problem, limits):
        return inf
    value = fsum(witness.jobs)
    for measure, price in witness.measures:
        low, high = limits.get(measure, limits_of(problem, measure))
        value += price * (low if price >= 0 else high) if price else 0.0
    least = dict.fromkeys(range(len(problem.jobs)), 0.0)
    for group in all_groups(problem):
        if possible(problem, group, limits):
            reduced = cost(problem, group) - sum(price * adds(problem, measure, group) for measure, price in witness.measures)
            leader = min(group[0], key=lambda k: (problem.jobs[k].tolerable_s, k))
            least[leader] = min(least[leader], reduced - sum(witness.jobs[k] for k in group[0]))
    return value + fsum(least.values())


def contradictory(problem: ColocationProblem, limits: dict[Measure, tuple[float, float]]) -> bool:
    """Return whether jobs must be together that cannot be."""
    sets = [{k} for k in range(len(problem.jobs))]
    for pair in (pair for pair, (low, _) in limits.items() if isinstance(pair, Together) and low == 1):
        joined = {k for one in sets if {pair.first, pair.second} & one for k in one}
        sets = [one for one in sets if not one & joined] + [joined]
    apart = [measure for measure, (_, high) in limits.items() if isinstance(measure, (Together, TwoOfThree)) and high == 0]
    known = {frozenset(members) for members, _, _ in all_groups(problem)}
    broken = [one for one in sets if any(adds(problem, measure, (tuple(one), 0, 0)) for measure in apart)]
    return bool(broken) or any(len(one) > 1 and frozenset(one) not in known for one in sets)


def limits_of(problem: ColocationProblem, measure: Measure) -> tuple[float, float]:
    """Return the limits that every plan keeps."""
    if isinstance(measure, PoolNodes):
        return 0, inf if (nodes := problem.pools[measure.pool].nodes) is None else nodes
    return 0, 1 if isinstance(measure, (Together, TwoOfThree)) else inf


def possible(problem: ColocationProblem, group: Group, limits: dict[Measure, tuple[float, float]]) -> bool:
    """Return whether a plan within the limits may have a group."""
    for measure in [*limits, *map(PoolNodes, range(len(problem.pools)))]:
        low, high = limits.get(measure, limits_of(problem, measure))
        if adds(problem, measure, group) > high:
            return False
        if isinstance(measure, Together) and low == 1 and (measure.first in group[0]) != (measure.second in group[0]):
            return False
    return True


def wild_measure(random: Random, problem: ColocationProblem) -> Measure:
    """Return any measure of a plan."""
    if random.random() < 0.3:
        return PoolNodes(random.randrange(3))
    if random.random() < 0.4:
        one, other = random.sample(range(len(problem.jobs)), 2)
        return Together(one, other)
    if random.random() < 0.4:
        return TwoOfThree(*random.sample(range(len(problem.jobs)), 3))
    return GroupCount(random.choice([0, 0, 2]), 1, random.choice([None, 1, 2, 3]), random.choice([None, None, 1, 2, 3]))


def wild_leaf(random: Random, problem: ColocationProblem, limited: frozenset[Measure]) -> Leaf:
    """Return prices near those of a good plan, or of very different sizes; negative ones for measures that are limited."""
    if random.random() < 0.5:
        shares = {k: cost(problem, group) / len(group[0]) for group in best_plan(problem) for k in group[0]}
        jobs = tuple(shares[k] * random.uniform(0.8, 1.1) for k in range(len(problem.jobs)))
        return Leaf(
            jobs, tuple((measure, -random.uniform(0, 20)) for measure in sorted(limited, key=str) if not isinstance(measure, Together))
        )
    top = random.choice([30, 80, 200])
    jobs = tuple(random.choice([0.0, random.uniform(0, 20), random.uniform(0, top)]) for _ in problem.jobs)
    priced = {measure for measure in (wild_measure(random, problem) for _ in range(2)) if not isinstance(measure, Together)}
    measures = [(measure, random.uniform(0, 20) * (-1 if isinstance(measure, TwoOfThree) else 1)) for measure in sorted(priced, key=str)]
    cut = sorted((measure for measure in limited if not isinstance(measure, (Together, TwoOfThree))), key=str)
    return Leaf(jobs, (*measures, *((measure, random.uniform(-40, 10)) for measure in cut)))


def wild_tree(random: Random, problem: ColocationProblem, depth: int, limited: frozenset[Measure] = frozenset()) -> Witness:
    """Return a tree of random branches with wild prices."""
    limited |= {PoolNodes(p) for p, pool in enumerate(problem.pools) if pool.nodes is not None}
    if depth and random.random() < 0.85:
        measure, at = wild_measure(random, problem), random.choice([-1, 0, 0, 1, 2, 3, 6])
        below = wild_tree(random, problem, depth - 1, limited | {measure})
        prices = wild_leaf(random, problem, limited) if random.random() < 0.2 else None
        return Branch(measure, at, below, wild_tree(random, problem, depth - 1, limited), prices)
    return wild_leaf(random, problem, limited)


def total(problem: ColocationProblem, measure: Measure, plan: list[Group]) -> int:
    """Return a measure of a plan."""
    return sum(adds(problem, measure, group) for group in plan)


@cache
def best_plan(problem: ColocationProblem) -> list[Group]:
    """Return a plan of least cost if the pools had enough nodes."""
    return min(partitions(problem), key=lambda plan: fsum(cost(problem, group) for group in plan))


@cache
def scarce(seed: int) -> ColocationProblem:
    """Return a problem of which one pool is a node short of what the best plan would take."""
    free = random_problem(seed)
    taken = total(free, PoolNodes(0), best_plan(free))
    return replace(free, pools=(replace(H20, nodes=max(0, taken - 1)), *free.pools[1:]))
