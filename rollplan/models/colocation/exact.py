"""P3 solved exactly: enumerate the feasible groups, bound by the LP, choose by the MILP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import numpy as np

from rollplan.models.certified import Bound, Certified, Limits, Report, Stopped, Witness, gap, silent
from rollplan.models.colocation.columns import Columns, Ints, enumerate_groups
from rollplan.models.colocation.nodes import cover, fitting_sets, pin
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, Group, at_most
from rollplan.models.colocation.set_partition import Relaxation, relax, select
from rollplan.models.errors import InfeasibleError, NoSolutionError

_MILP_COLUMNS = 40_000
"""Most columns given to the MILP: 40 000 take about 3 s to build and are still searched."""


def exact(
    problem: ColocationProblem,
    limits: Limits | None = None,
    start: ColocationSolution | None = None,
    seed: int = 0,
    report: Report = silent,
) -> Certified[ColocationSolution]:
    """Return the best plan found within `limits`, never worse than `start`, with a proven bound and its witness.

    Raises `InfeasibleError` if the pools cannot hold the jobs, `NoSolutionError` if the limit came first.
    """
    limits = limits or Limits()
    if reasons := list(impossible_jobs(problem)):
        raise InfeasibleError(reasons)
    best = start
    if best is not None:
        report(best.cost_per_h, fluid_bound(problem))
    columns = enumerate_groups(problem, limits.part(0.4).stop)
    relaxed = relax(problem, columns, limits.part(0.5))
    bound, witness = _proven(problem, columns, relaxed)
    if best is not None:
        report(best.cost_per_h, bound.value)
    stopped: Stopped = limits.stop() or "optimal"
    if stopped == "optimal" and (best is None or gap(best.cost_per_h, bound.value) > max(limits.target_gap, 1e-9)):
        kept, cut = _worth_keeping(columns, relaxed, best.cost_per_h if best else None)

        def progress(value: float, milp_bound: float | None) -> None:
            """Report; the MILP's bound counts only if it sees every group that matters."""
            beyond = max(bound.value, min(milp_bound or 0.0, relaxed.bound + cut)) if columns.complete else bound.value
            report(value if best is None else min(value, best.cost_per_h), min(beyond, value))

        found = select(problem, columns, kept, limits, seed, _known_columns(problem, columns, kept, best), progress)
        stopped = cast(Stopped, found.stopped)
        if found.chosen is not None:
            chosen = solution_of(problem, ([int(k) for k in columns.members[c] if k >= 0] for c in found.chosen))
            best = chosen if best is None or chosen.cost_per_h < best.cost_per_h * (1 - 1e-12) else best
        elif found.stopped == "infeasible" and best is None and columns.complete and cut == np.inf:
            raise InfeasibleError(_capacity_reasons(problem))
        # A plan with a column left out costs at least the LP bound plus the reduced cost at which the cut was made.
        claimed = problem.next_cost(min(found.bound, relaxed.bound + cut))
        if columns.complete and claimed > bound.value:
            bound = Bound(min(claimed, best.cost_per_h if best else claimed), "branch and bound")
    if best is None:
        raise NoSolutionError("no plan was found before the limit; raise --time-limit or --node-limit")
    if gap(best.cost_per_h, bound.value) <= 1e-9:
        stopped = "optimal"
    elif stopped == "optimal":
        stopped = "target gap"
    return Certified(best, best.cost_per_h, bound, stopped, seed=seed, witness=witness)


def lower_bound(problem: ColocationProblem, limits: Limits, max_columns: int = 200_000) -> tuple[Bound, Witness | None]:
    """Return the LP bound and its witness where all groups are few enough to enumerate, else the fluid bound."""
    columns = enumerate_groups(problem, limits.stop, max_columns, or_neighbours=False)
    if not columns.complete:
        return Bound(problem.next_cost(fluid_bound(problem)), "fluid"), None
    return _proven(problem, columns, relax(problem, columns, limits))


def _proven(problem: ColocationProblem, columns: Columns, relaxed: Relaxation) -> tuple[Bound, Witness | None]:
    """Return the better of the LP bound, if it saw every group, and the fluid bound."""
    fluid = problem.next_cost(fluid_bound(problem))
    relaxation = problem.next_cost(relaxed.bound)
    if not columns.complete or relaxation < fluid:
        return Bound(fluid, "fluid"), None
    return Bound(relaxation, "LP relaxation"), Witness(
        tuple(map(float, relaxed.duals + 0.0)), tuple(map(float, relaxed.capacity_duals + 0.0))
    )


def solution_of(problem: ColocationProblem, groups: Iterable[list[int]]) -> ColocationSolution:
    """Build the plan of a partition: fewest nodes for each group, jobs pinned to them, groups in order of their jobs."""
    built = tuple(group_of(problem, sorted(members)) for members in sorted(map(sorted, groups)))
    return ColocationSolution(built, cost_of(problem, built))


def group_of(problem: ColocationProblem, members: list[int]) -> Group:
    """Build one group on the fewest nodes; the round-robin order is the order of the jobs (any order is as good)."""
    jobs = [problem.jobs[k] for k in members]
    sets = fitting_sets(
        [job.rollout_s for job in jobs],
        [job.rollout_memory_gib for job in jobs],
        min(job.tolerable_s for job in jobs),
        problem.pools[jobs[0].rollout_pool].memory_gib,
    )
    nodes = cover(sets, tuple(job.rollout_nodes for job in jobs))
    return Group(tuple(members), pin(nodes, len(jobs)), len(nodes), max(job.train_nodes for job in jobs))


def cost_of(problem: ColocationProblem, groups: Iterable[Group]) -> float:
    """Return dollars per hour of the groups' nodes."""
    nodes = [0] * len(problem.pools)
    for group in groups:
        job = problem.jobs[group.jobs[0]]
        nodes[job.rollout_pool] += group.rollout_nodes
        nodes[job.train_pool] += group.train_nodes
    return problem.price(nodes)


def fluid_bound(problem: ColocationProblem) -> float:
    """Return the closed-form bound in dollars per hour: work and memory poured into nodes without regard to pieces.

    A node of a group gives at most its period, which no member k lets exceed slo_k * solo_k; so
    n_rollout(S) >= sum over S of r_k * rollout_k / (slo_k * solo_k), likewise for training, memory and group size.
    """
    total = 0.0
    for pool_index, pool in enumerate(problem.pools):
        for use in ("rollout", "train"):
            jobs = [job for job in problem.jobs if (job.rollout_pool if use == "rollout" else job.train_pool) == pool_index]
            if not jobs:
                continue
            nodes = np.array([job.rollout_nodes if use == "rollout" else job.train_nodes for job in jobs])
            busy = np.array([job.rollout_s if use == "rollout" else job.train_s for job in jobs])
            memory = np.array([job.rollout_memory_gib if use == "rollout" else job.train_memory_gib for job in jobs])
            shares = [nodes * busy / np.array([job.tolerable_s for job in jobs]), nodes / problem.max_group_size]
            if pool.memory_gib > 0:
                shares.append(nodes * memory / pool.memory_gib)
            total += pool.price_per_node_h * max(float(share.sum()) for share in shares) / (1 + 1e-9)
    return total


def impossible_jobs(problem: ColocationProblem) -> Iterable[str]:
    """Yield, for each job that fits nowhere even alone, the requirement that excludes it."""
    for job in problem.jobs:
        for phase, pool_index, nodes, memory in (
            ("rollout", job.rollout_pool, job.rollout_nodes, job.rollout_memory_gib),
            ("training", job.train_pool, job.train_nodes, job.train_memory_gib),
        ):
            pool = problem.pools[pool_index]
            if not at_most(memory, pool.memory_gib):
                yield (
                    f"job {job.name}: {phase} keeps {memory:.1f} GiB resident on each node, a node of pool {pool.name} has "
                    f"{pool.memory_gib:.1f} GiB (more memory per node, or a smaller footprint)"
                )
            if pool.nodes is not None and nodes > pool.nodes:
                yield f"job {job.name}: {phase} needs {nodes} nodes, pool {pool.name} has {pool.nodes} for it (raise `nodes`)"


def _worth_keeping(columns: Columns, relaxed: Relaxation, value: float | None) -> tuple[Ints, float]:
    """Return the columns that can be part of a better plan, and the reduced cost beyond which any were left out."""
    cut = np.inf
    reduced = relaxed.reduced_cost
    kept = np.arange(len(columns)) if value is None else np.flatnonzero(reduced <= value - relaxed.bound + 1e-6)
    if len(kept) > _MILP_COLUMNS:
        cut = float(np.partition(reduced[kept], _MILP_COLUMNS)[_MILP_COLUMNS])
        kept = kept[reduced[kept] < cut]
    single = np.flatnonzero((columns.members >= 0).sum(axis=1) == 1)
    return np.union1d(kept, single).astype(np.int32), cut


def _known_columns(problem: ColocationProblem, columns: Columns, kept: Ints, best: ColocationSolution | None) -> set[int] | None:
    """Return the kept columns that make up a known plan, None unless all are there."""
    if best is None:
        return None
    wanted = {frozenset(group.jobs) for group in best.groups}
    found = {int(c) for c in kept if frozenset(int(k) for k in columns.members[c] if k >= 0) in wanted}
    return found if len(found) == len(wanted) else None


def _capacity_reasons(problem: ColocationProblem) -> list[str]:
    limited = [pool for pool in problem.pools if pool.nodes is not None]
    return [
        f"{len(problem.jobs)} jobs do not fit into {' and '.join(f'{pool.nodes} nodes of {pool.name}' for pool in limited)} "
        "without breaking an SLO, memory or group-size limit (raise `nodes`, loosen `slo`, or remove jobs)"
    ]
