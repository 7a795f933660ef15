"""Independent verifier of a co-location plan: recomputes everything from the definitions.

It imports the problem's data and nothing of any solver. The period is not taken from the closed form but computed
from the precedence graph of strict round robin, as the largest ratio of a cycle's seconds to its iterations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from math import fsum

from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, Group, at_most


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
    seconds = round_robin_period([job.rollout_s for job in jobs], [job.train_s for job in jobs], group.pinning)
    for job in jobs:
        if not at_most(seconds, job.slo * (job.rollout_s + job.train_s)):
            found.append(
                f"job {job.name} runs {seconds / (job.rollout_s + job.train_s):.3f} times slower than alone, its SLO allows {job.slo:g}"
            )
    return found


def round_robin_period(rollout_s: Sequence[float], train_s: Sequence[float], pinning: Sequence[Sequence[int]]) -> float:
    """Return the period of strict round robin in the given order, from its precedence graph.

    Nodes of the graph are the rollout of job j on rollout node n, and the training of j. An arc (a, b, seconds, shift)
    says: b of iteration i + shift starts no earlier than `seconds` after a of iteration i. The period is the maximum
    over cycles of (sum of seconds) / (sum of shifts) (max-plus algebra; Baccelli et al. 1992). It is found by raising
    the period to the ratio of a cycle that still gains, until none does.
    """
    arcs: list[tuple[tuple[str, int, int], tuple[str, int, int], float, int]] = []
    at_node: dict[int, list[int]] = defaultdict(list)
    for j, nodes in enumerate(pinning):
        for node in nodes:
            at_node[node].append(j)
            arcs.append((("rollout", j, node), ("train", j, 0), rollout_s[j], 0))
            arcs.append((("train", j, 0), ("rollout", j, node), train_s[j], 1))
    for node, jobs in at_node.items():
        arcs += [(("rollout", a, node), ("rollout", b, node), rollout_s[a], shift) for a, b, shift in _cyclic(jobs)]
    arcs += [(("train", a, 0), ("train", b, 0), train_s[a], shift) for a, b, shift in _cyclic(list(range(len(train_s))))]
    names = {name: index for index, name in enumerate(dict.fromkeys(name for arc in arcs for name in arc[:2]))}
    graph = [(names[a], names[b], seconds, shift) for a, b, seconds, shift in arcs]
    value = 0.0
    while (ratio := _gaining_cycle(len(names), graph, value)) is not None and ratio > value * (1 + 1e-12):
        value = ratio
    return value


def _cyclic(jobs: list[int]) -> list[tuple[int, int, int]]:
    """Return who follows whom in a cyclic order; the step from last to first goes into the next iteration."""
    return [(a, b, 0) for a, b in pairwise(jobs)] + [(jobs[-1], jobs[0], 1)]


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
