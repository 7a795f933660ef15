"""Independent verifier of a co-location plan: recomputes everything from the definitions.

It imports the problem's data and nothing of any solver. The period is not taken from the closed form but computed
from the precedence graph of strict round robin, as the largest ratio of a cycle's seconds to its iterations. A group
with a timetable is replayed: every resource serves one phase at a time, period after period, and every job goes through
rollout, training, delay, next rollout.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from math import floor, fsum, isfinite

from rollplan.models.colocation.problem import REL_TOL, ColocationProblem, ColocationSolution, Group, JobData, Run, at_most


def verify(problem: ColocationProblem, solution: ColocationSolution) -> tuple[str, ...]:
    """Return what is wrong with a plan, in words; empty when it is feasible and its cost is right."""
    found: list[str] = []
    placed = Counter(k for group in solution.groups for k in group.jobs)
    for k in sorted(placed):
        if not 0 <= k < len(problem.jobs):
            return (f"job index {k} does not exist",)
    for k, job in enumerate(problem.jobs):
        if placed[k] != 1:
            found.append(f"job {job.name} is in {placed[k]} groups, must be in exactly one")
    used = [0] * len(problem.pools)
    for number, group in enumerate(solution.groups):
        faults = group_faults(problem, group)
        found += [f"group {number + 1}: {fault}" for fault in faults]
        if group.jobs:
            used[problem.jobs[group.jobs[0]].rollout_pool] += group.rollout_nodes
            used[problem.jobs[group.jobs[0]].train_pool] += group.train_nodes
    for pool, nodes in zip(problem.pools, used, strict=True):
        if pool.nodes is not None and nodes > pool.nodes:
            found.append(f"pool {pool.name}: {nodes} nodes are used, it has {pool.nodes}")
    cost = fsum(nodes * pool.price_per_node_h for nodes, pool in zip(used, problem.pools, strict=True))
    if not abs(cost - solution.cost_per_h) <= 1e-6 * max(1.0, cost):  # NaN differs, too
        found.append(f"cost is {cost:.6f} $/h, the plan says {solution.cost_per_h:.6f}")
    return tuple(found)


def group_faults(problem: ColocationProblem, group: Group) -> list[str]:
    """Return what is wrong inside one group."""
    found: list[str] = []
    jobs = [problem.jobs[k] for k in group.jobs]
    if not jobs:
        return ["has no job"]
    if len(jobs) > problem.max_group_size:
        found.append(f"has {len(jobs)} jobs, at most {problem.max_group_size} may share nodes")
    if len({(job.rollout_pool, job.train_pool) for job in jobs}) > 1:
        found.append("holds jobs of different pools")
    if len(group.pinning) != len(jobs):
        return [*found, f"pins {len(group.pinning)} jobs, has {len(jobs)}"]
    for job, nodes in zip(jobs, group.pinning, strict=True):
        if len(set(nodes)) != len(nodes) or len(nodes) != job.rollout_nodes:
            found.append(f"job {job.name} is pinned to {len(set(nodes))} different rollout nodes, needs {job.rollout_nodes}")
        if any(not 0 <= node < group.rollout_nodes for node in nodes):
            found.append(f"job {job.name} is pinned to a node outside 0..{group.rollout_nodes - 1}")
        if job.train_nodes > group.train_nodes:
            found.append(f"job {job.name} needs {job.train_nodes} training nodes, the group has {group.train_nodes}")
    if idle := group.rollout_nodes - len({node for nodes in group.pinning for node in nodes}):
        found.append(f"{idle} rollout nodes hold no job")
    if group.train_nodes > max(job.train_nodes for job in jobs):
        found.append(f"has {group.train_nodes} training nodes, no job needs more than {max(job.train_nodes for job in jobs)}")
    resident: dict[int, float] = defaultdict(float)
    for job, nodes in zip(jobs, group.pinning, strict=True):
        for node in nodes:
            resident[node] += job.rollout_memory_gib
    for node, memory in sorted(resident.items()):
        if not at_most(memory, problem.pools[jobs[0].rollout_pool].memory_gib):
            found.append(f"rollout node {node} keeps {memory:.1f} GiB, it has {problem.pools[jobs[0].rollout_pool].memory_gib:.1f}")
    memory = fsum(job.train_memory_gib for job in jobs)
    if not at_most(memory, problem.pools[jobs[0].train_pool].memory_gib):
        found.append(f"a training node keeps {memory:.1f} GiB, it has {problem.pools[jobs[0].train_pool].memory_gib:.1f}")
    if any(len(set(nodes)) != len(nodes) or not nodes for nodes in group.pinning):
        return found  # such a pinning has no period
    return found + (_round_robin_faults(jobs, group) if group.timetable is None else timetable_faults(jobs, group, problem.max_rate))


def _round_robin_faults(jobs: Sequence[JobData], group: Group) -> list[str]:
    """Return which jobs strict round robin in the order of the list makes too slow."""
    seconds = round_robin_period(
        [job.rollout_s for job in jobs],
        [job.train_s for job in jobs],
        group.pinning,
        [job.delay_s for job in jobs],
        [place for place, job in enumerate(jobs) if job.gang],
    )
    found = [
        f"job {job.name} runs {seconds / job.solo_s:.3f} times slower than alone, its SLO allows {job.slo:g}"
        for job in jobs
        if not at_most(seconds, job.tolerable_s)
    ]
    if found and len(jobs) > 1 and any((job.gang and job.rollout_nodes > 1) or job.delay_s > 0 for job in jobs):
        found.append("has no timetable, and strict round robin in the order of its jobs does not do")
    return found


def timetable_faults(jobs: Sequence[JobData], group: Group, max_rate: int) -> list[str]:
    """Return what is wrong with a group's timetable, replayed period after period."""
    table = group.timetable
    assert table is not None, "asked for groups that have one"
    period_s = table.period_s
    if not (isfinite(period_s) and period_s > 0):
        return [f"the timetable has a period of {period_s} s, it must be positive"]
    if len(table.runs) != len(jobs):
        return [f"the timetable runs {len(table.runs)} jobs, the group has {len(jobs)}"]
    tolerance_s = REL_TOL * period_s
    found: list[str] = []
    busy: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for job, nodes, runs in zip(jobs, group.pinning, table.runs, strict=True):
        if not 1 <= len(runs) <= max_rate:
            found.append(f"job {job.name} runs {len(runs)} times per period, between 1 and {max_rate} are allowed")
        if any(len(run.rollout_at_s) != len(nodes) for run in runs):
            found.append(f"the timetable of job {job.name} does not have one rollout start for each of its {len(nodes)} nodes")
        elif not all(isfinite(at_s) for run in runs for at_s in (*run.rollout_at_s, run.train_at_s)):
            found.append(f"the timetable of job {job.name} has a start that is not a number")
        elif runs:
            found += _order_faults(job, runs, period_s)
            for number, run in enumerate(runs, start=1):
                busy["the training pool"].append((run.train_at_s, job.train_s, f"job {job.name}, run {number}"))
                for node, at_s in zip(nodes, run.rollout_at_s, strict=True):
                    busy[f"rollout node {node}"].append((at_s, job.rollout_s, f"job {job.name}, run {number}"))
            if not at_most(period_s / len(runs), job.tolerable_s):
                slower = period_s / len(runs) / job.solo_s
                found.append(f"job {job.name} runs {slower:.3f} times slower than alone, its SLO allows {job.slo:g}")
    for place, phases in busy.items():
        turns = sorted((at_s % period_s, seconds, who) for at_s, seconds, who in phases if seconds > 0)
        for (at_s, seconds, who), (next_s, _, other) in pairwise([*turns, *((at + period_s, s, w) for at, s, w in turns[:1])]):
            if at_s + seconds > next_s + tolerance_s:
                found.append(f"{who} is still on {place} when {other} starts there")
    return found


def _order_faults(job: JobData, runs: Sequence[Run], period_s: float) -> Iterator[str]:
    """Yield where a job does not follow rollout, training, delay, next rollout."""
    tolerance_s = REL_TOL * period_s
    ready_s = runs[-1].train_at_s + job.train_s + job.delay_s - period_s
    for number, run in enumerate(runs, start=1):
        if not -tolerance_s <= run.train_at_s < period_s:
            yield f"job {job.name}, run {number} trains at {run.train_at_s:g} s, outside the period"
        if job.gang and max(run.rollout_at_s) - min(run.rollout_at_s) > tolerance_s:
            yield f"job {job.name}, run {number} does not start on all its nodes at the same moment, as a gang must"
        if min(run.rollout_at_s) < ready_s - tolerance_s:
            yield f"job {job.name}, run {number} rolls out before it has the weights of the run before"
        if max(run.rollout_at_s) + job.rollout_s > run.train_at_s + tolerance_s:
            yield f"job {job.name}, run {number} trains before its rollout has ended"
        ready_s = run.train_at_s + job.train_s + job.delay_s


def round_robin_period(
    rollout_s: Sequence[float],
    train_s: Sequence[float],
    pinning: Sequence[Sequence[int]],
    delay_s: Sequence[float] | None = None,
    gang: Collection[int] = (),
) -> float:
    """Return the period of strict round robin in the given order, from its precedence graph.

    Nodes of the graph are the rollout of job j on rollout node n, and the training of j. An arc (a, b, seconds, shift)
    says: b of iteration i + shift starts no earlier than `seconds` after a of iteration i. The period is the maximum
    over cycles of (sum of seconds) / (sum of shifts) (max-plus algebra; Baccelli et al. 1992). It is found by raising
    the period to the ratio of a cycle that still gains, until none does. delay_s: seconds between training and the next
    rollout. gang: positions of jobs whose rollout is one node of the graph, on all their rollout nodes.
    """
    arcs: list[Arc] = []
    at_node: dict[int, list[tuple[int, tuple[str, int, int]]]] = defaultdict(list)
    delay_s = [0.0] * len(pinning) if delay_s is None else delay_s
    for j, nodes in enumerate(pinning):
        for node in nodes:
            rollout = ("rollout", j, -1 if j in gang else node)
            at_node[node].append((j, rollout))
            arcs.append((rollout, ("train", j, 0), rollout_s[j], 0))
            arcs.append((("train", j, 0), rollout, train_s[j] + delay_s[j], 1))
    for turn in at_node.values():
        arcs += [(turn[a][1], turn[b][1], rollout_s[turn[a][0]], shift) for a, b, shift in _cyclic(len(turn))]
    arcs += [(("train", a, 0), ("train", b, 0), train_s[a], shift) for a, b, shift in _cyclic(len(train_s))]
    return largest_ratio(arcs)


def group_period(problem: ColocationProblem, group: Group, rollout_s: Sequence[float], train_s: Sequence[float]) -> float:
    """Return a group's period if its jobs took these seconds: of its timetable's order, else of strict round robin."""
    if group.timetable is not None:
        return timetable_order_period(problem, group, rollout_s, train_s)
    jobs = [problem.jobs[k] for k in group.jobs]
    gangs = [place for place, job in enumerate(jobs) if job.gang]
    return round_robin_period(rollout_s, train_s, group.pinning, [job.delay_s for job in jobs], gangs)


def timetable_order_period(problem: ColocationProblem, group: Group, rollout_s: Sequence[float], train_s: Sequence[float]) -> float:
    """Return the period of a timetable's cyclic orders, run without a clock, if the jobs took these seconds.

    Nodes of the graph are the rollouts (of a gang one, else one on each node) and trainings of all runs of a period. On every
    node the phases follow each other as their starts do, modulo the period.
    """
    table = group.timetable
    assert table is not None, "asked for groups that have one"
    arcs: list[Arc] = []
    served: dict[int, list[tuple[int, float, float, Phase]]] = defaultdict(list)
    for place, (k, nodes, runs) in enumerate(zip(group.jobs, group.pinning, table.runs, strict=True)):
        job = problem.jobs[k]
        for number, run in enumerate(runs):
            training: Phase = ("train", place * 1000 + number, 0)
            turn, within = _turn(run.train_at_s, table.period_s)
            served[-1].append((turn, within, train_s[place], training))
            for node, at_s in zip(nodes, run.rollout_at_s, strict=True):
                rollout: Phase = ("rollout", place * 1000 + number, -1 if job.gang else node)
                after: Phase = ("rollout", place * 1000 + (number + 1) % len(runs), -1 if job.gang else node)
                arcs.append((rollout, training, rollout_s[place], 0))
                arcs.append((training, after, train_s[place] + job.delay_s, int(number + 1 == len(runs))))
                turn, within = _turn(at_s, table.period_s)
                served[node].append((turn, within, rollout_s[place], rollout))
    for phases in served.values():
        order = sorted(phases, key=lambda phase: (phase[1], phase[2], phase[3]))
        for (turn, _, seconds, phase), (next_turn, _, _, following), wraps in zip(
            order, [*order[1:], order[0]], [0] * (len(order) - 1) + [1], strict=True
        ):
            arcs.append((phase, following, seconds, turn - next_turn + wraps))
    return largest_ratio(arcs)


def _turn(at_s: float, period_s: float) -> tuple[int, float]:
    """Return the number of the period in which a start lies, and the seconds since that began; rounding errors count as 0."""
    turn = floor(at_s / period_s + REL_TOL)
    return turn, max(0.0, at_s - turn * period_s)


Phase = tuple[str, int, int]
Arc = tuple[Phase, Phase, float, int]
"""(a, b, seconds, shift): b of period i + shift starts no earlier than `seconds` after a of period i."""


def largest_ratio(arcs: Sequence[Arc]) -> float:
    """Return the largest ratio of a cycle's seconds to its shifts, raised from cycle to cycle until none gains."""
    names = {name: index for index, name in enumerate(dict.fromkeys(name for arc in arcs for name in arc[:2]))}
    graph = [(names[a], names[b], seconds, shift) for a, b, seconds, shift in arcs]
    value = 0.0
    while (ratio := _gaining_cycle(len(names), graph, value)) is not None and ratio > value * (1 + 1e-12):
        value = ratio
    return value


def _cyclic(size: int) -> list[tuple[int, int, int]]:
    """Return who follows whom in a cyclic order of positions; the step from last to first goes into the next iteration."""
    return [(a, b, 0) for a, b in pairwise(range(size))] + [(size - 1, 0, 1)]


def _gaining_cycle(size: int, graph: list[tuple[int, int, float, int]], period: float) -> float | None:
    """Return the ratio of a cycle whose seconds exceed period * shifts, None if there is none (Bellman-Ford)."""
    potential = [0.0] * size
    before: list[tuple[int, float, int] | None] = [None] * size
    last = -1
    for _ in range(size + 1):
        last = -1
        for a, b, seconds, shift in graph:
            reached = potential[a] + seconds - period * shift
            if reached > potential[b] + 1e-12 * (1 + abs(potential[b])):
                potential[b], before[b], last = reached, (a, seconds, shift), b
        if last < 0:
            return None
    for _ in range(size):
        last = before[last][0]  # type: ignore[index]  # a node that still improves lies behind a cycle
    total, shifts, at = 0.0, 0, last
    while True:
        previous = before[at]
        assert previous is not None
        total, shifts, at = total + previous[1], shifts + previous[2], previous[0]
        if at == last:
            return total / shifts
