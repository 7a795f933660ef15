"""From decisions to the numbers of a plan: periods, slowdowns, busy shares, costs, warnings.

The planner and `check` both use it, each with a period law of its own: the planner the closed form, `check` the
precedence graph.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from rollplan.models.certified import Stopped
from rollplan.models.colocation.problem import REL_TOL, ColocationProblem, ColocationSolution, Group, Run, at_most
from rollplan.models.plan import Busy, PlannedGroup, PlannedJob, PlannedRun, PoolUse
from rollplan.models.plan_split import PlannedSplit, SplitChoice
from rollplan.models.resolve import JobTimes, Resolved, ResolvedJob
from rollplan.models.scenario import Scenario

PeriodLaw = Callable[[ColocationProblem, Group, Sequence[float], Sequence[float]], float]
"""Seconds of a group's period if its jobs took these rollout and training seconds."""


def describe_groups(
    problem: ColocationProblem, resolved: Resolved, solution: ColocationSolution, law: PeriodLaw
) -> tuple[PlannedGroup, ...]:
    """Return the groups with everything a reader wants to know of them."""
    return tuple(_group(f"g{number}", problem, resolved, group, law) for number, group in enumerate(solution.groups, start=1))


def _group(name: str, problem: ColocationProblem, resolved: Resolved, group: Group, law: PeriodLaw) -> PlannedGroup:
    jobs = [resolved.jobs[k] for k in group.jobs]
    worst, expected = [job.worst for job in jobs], [job.expected for job in jobs]
    period = law(problem, group, [t.rollout_s for t in worst], [t.train_s for t in worst])
    expected_period = law(problem, group, [t.rollout_s for t in expected], [t.train_s for t in expected])
    runs = group.timetable.runs if group.timetable else ((),) * len(jobs)
    times = [max(1, len(of_job)) for of_job in runs]
    room = [count * job.slo * job.worst.solo_s for count, job in zip(times, jobs, strict=True)]
    tightest = room.index(min(room))
    rollout_pool, train_pool = problem.jobs[group.jobs[0]].rollout_pool, problem.jobs[group.jobs[0]].train_pool
    nodes, solo_nodes = [0] * len(problem.pools), [0] * len(problem.pools)
    nodes[rollout_pool] += group.rollout_nodes
    nodes[train_pool] += group.train_nodes
    for job in jobs:
        solo_nodes[rollout_pool] += job.rollout_nodes
        solo_nodes[train_pool] += job.train_nodes
    return PlannedGroup(
        name=name,
        rollout_pool=jobs[0].rollout_pool,
        train_pool=jobs[0].train_pool,
        rollout_nodes=group.rollout_nodes,
        train_nodes=group.train_nodes,
        jobs=tuple(
            _job(job, pinned, period, expected_period, of_job) for job, pinned, of_job in zip(jobs, group.pinning, runs, strict=True)
        ),
        period_s=period,
        expected_period_s=expected_period,
        binds=_binds(jobs, times, group.pinning, period),
        tightest=jobs[tightest].name,
        headroom=room[tightest] / period,
        rollout_busy=Busy(
            worst=_rollout_busy(jobs, worst, times, group, period), expected=_rollout_busy(jobs, expected, times, group, expected_period)
        ),
        train_busy=Busy(worst=_train_busy(worst, times, period), expected=_train_busy(expected, times, expected_period)),
        cost_per_h=problem.price(nodes),
        solo_cost_per_h=problem.price(solo_nodes),
    )


def _job(job: ResolvedJob, pinned: tuple[int, ...], period: float, expected_period: float, runs: tuple[Run, ...]) -> PlannedJob:
    times = max(1, len(runs))
    return PlannedJob(
        name=job.name,
        slo=job.slo,
        rollout_nodes=pinned,
        train_nodes=job.train_nodes,
        rollout_s=job.worst.rollout_s,
        train_s=job.worst.train_s,
        solo_s=job.worst.solo_s,
        slowdown=period / times / job.worst.solo_s,
        expected_rollout_s=job.expected.rollout_s,
        expected_train_s=job.expected.train_s,
        expected_solo_s=job.expected.solo_s,
        expected_slowdown=expected_period / times / job.expected.solo_s,
        expected_known=job.expected_known,
        rollout_memory_gib=job.rollout_memory_gib,
        train_memory_gib=job.train_memory_gib,
        runs=tuple(PlannedRun(rollout_at_s=run.rollout_at_s, train_at_s=run.train_at_s) for run in runs),
    )


def _binds(jobs: Sequence[ResolvedJob], times: Sequence[int], pinning: Sequence[Sequence[int]], period: float) -> str:
    """Return what the period equals: a job alone if there is one, else the training pool, a rollout node, or nothing but the order."""
    least = period * (1 - REL_TOL)
    alone = [count * job.worst.solo_s for count, job in zip(times, jobs, strict=True)]
    if max(alone) >= least:
        return f"job {jobs[alone.index(max(alone))].name} alone"
    if sum(count * job.worst.train_s for count, job in zip(times, jobs, strict=True)) >= least:
        return "training pool"
    load: dict[int, float] = defaultdict(float)
    for count, job, nodes in zip(times, jobs, pinning, strict=True):
        for node in nodes:
            load[node] += count * job.worst.rollout_s
    fullest = max(sorted(load), key=load.__getitem__)
    return f"rollout node {fullest}" if load[fullest] >= least else "order of the phases"


def _rollout_busy(jobs: Sequence[ResolvedJob], seconds: Sequence[JobTimes], times: Sequence[int], group: Group, period: float) -> float:
    work = sum(count * job.rollout_nodes * t.rollout_s for count, job, t in zip(times, jobs, seconds, strict=True))
    return work / (period * group.rollout_nodes)


def _train_busy(seconds: Sequence[JobTimes], times: Sequence[int], period: float) -> float:
    return sum(count * t.train_s for count, t in zip(times, seconds, strict=True)) / period


def split_nodes(scenario: Scenario, choice: SplitChoice) -> dict[str, int]:
    """Return the whole nodes a split takes of each pool."""
    gpus: dict[str, int] = {choice.rollout_pool: choice.rollout_gpus}
    if choice.mode == "separate":
        gpus[choice.train_pool] = gpus.get(choice.train_pool, 0) + choice.train_gpus
    return {pool: -(-count // scenario.pools[pool].gpus_per_node) for pool, count in gpus.items()}


def describe_pools(scenario: Scenario, groups: Sequence[PlannedGroup], splits: Sequence[PlannedSplit]) -> dict[str, PoolUse]:
    """Return what the plan takes of each pool, and how busy it keeps that."""
    shares: dict[str, list[tuple[int, Busy]]] = {name: [] for name in scenario.pools}
    for group in groups:
        shares[group.rollout_pool].append((group.rollout_nodes, group.rollout_busy))
        shares[group.train_pool].append((group.train_nodes, group.train_busy))
    for split in splits:
        choice = split.choice
        busy = {choice.rollout_pool: choice.rollout_gpus * choice.rollout_s}
        busy[choice.train_pool] = busy.get(choice.train_pool, 0.0) + choice.train_gpus * choice.train_s
        for pool, nodes in split_nodes(scenario, choice).items():
            share = busy[pool] / (choice.iteration_s * nodes * scenario.pools[pool].gpus_per_node)
            shares[pool].append((nodes, Busy(worst=share, expected=share)))
    return {name: _pool(scenario, name, parts) for name, parts in shares.items()}


def _pool(scenario: Scenario, name: str, parts: list[tuple[int, Busy]]) -> PoolUse:
    pool = scenario.pools[name]
    nodes = sum(count for count, _ in parts)
    busy = None
    if nodes:
        busy = Busy(
            worst=sum(count * share.worst for count, share in parts) / nodes,
            expected=sum(count * share.expected for count, share in parts) / nodes,
        )
    gpus = nodes * pool.gpus_per_node
    return PoolUse(
        gpu=pool.gpu,
        nodes=nodes,
        gpus=gpus,
        price_per_node_h=pool.price_per_node_h,
        memory_gib_per_node=pool.memory_gib,
        cost_per_h=round(nodes * pool.price_per_node_h, 9),
        busy=busy,
    )


def plan_warnings(
    resolved: Resolved, groups: Sequence[PlannedGroup], splits: Sequence[PlannedSplit], stopped: Stopped | None
) -> tuple[str, ...]:
    """Return what a reader must know before trusting the plan."""
    found = list(resolved.warnings)
    jobs = [job for group in groups for job in group.jobs]
    over = [job for job in jobs if not at_most(job.expected_slowdown, job.slo)]
    if over:
        worst = max(over, key=lambda job: job.expected_slowdown / job.slo)
        found.append(
            f"{len(over)} of {len(jobs)} jobs are slower than SLO x their own solo time at expected times "
            f"(most: {worst.name}, {worst.expected_slowdown:.2f} with SLO {worst.slo:g}); "
            "the guarantee `bound` holds for worst-case times only"
        )
    for split in splits:
        if split.colocated is None:
            found.append(f"split {split.name}: colocated was not compared, because no pool can hold both stages at one number of GPUs")
        found += [
            f"split {split.name}: {' + '.join(use.roles)} leave less than 10 % of the {'GPU' if use.where == 'gpu' else 'host'} memory, "
            "which arithmetic allows and reality may not"
            for use in split.memory
            if use.tight
        ]
        found += [f"split {split.name}: {note}" for note in split.notes]
    if stopped in ("time limit", "interrupted"):
        found.append(f"the search was stopped by the {stopped if stopped == 'time limit' else 'user'}: another run may end elsewhere")
    return tuple(found)
