"""The co-location problem as one model, as a user would write it: for CP-SAT, and for CBC through PuLP.

Leader formulation: jobs sorted by the period they tolerate; `joins[k, m]` says that job k is in the group whose first job
is m, `pins[k, m, n]` that its rollout is pinned to node n there. The period a group may take is a constant then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import pulp
from ortools.sat.python import cp_model

from rollplan.models.colocation.problem import ColocationProblem, JobData, at_most


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model found: $/h, its own bound, seconds including the building of the model."""

    value: float
    bound: float
    seconds: float

    @property
    def gap(self) -> float:
        """(value - bound) / value."""
        return (self.value - self.bound) / self.value


def cp_sat(problem: ColocationProblem, limit_s: float) -> Answer | None:
    """Solve with CP-SAT on two workers, everything else at its defaults."""
    begun = perf_counter()
    model = cp_model.CpModel()

    def weighted(terms: list[tuple[float, Any]]) -> Any:
        return sum(round(1000 * weight) * variable for weight, variable in terms)

    def at_most_times(terms: list[tuple[float, Any]], limit: float, switch: Any) -> None:
        model.add(weighted(terms) <= round(1000 * limit) * switch)

    cost = _build(
        problem, lambda name: model.new_bool_var(name), lambda name, most: model.new_int_var(0, most, name), at_most_times, model.add
    )
    model.minimize(weighted(cost))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(0.1, limit_s - (perf_counter() - begun))
    solver.parameters.num_workers = 2
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return Answer(solver.objective_value / 1000, solver.best_objective_bound / 1000, perf_counter() - begun)


def cbc(problem: ColocationProblem, limit_s: float) -> Answer | None:
    """Solve with the CBC that comes with PuLP, on two threads; its bound is not read by PuLP, so 0 stands for it unless it is optimal."""
    begun = perf_counter()
    model = pulp.LpProblem("fleet", pulp.LpMinimize)

    def at_most_times(terms: list[tuple[float, Any]], limit: float, switch: Any) -> None:
        model.addConstraint(pulp.lpSum(weight * variable for weight, variable in terms) <= limit * switch)

    cost = _build(
        problem,
        lambda name: pulp.LpVariable(name, cat=pulp.LpBinary),
        lambda name, most: pulp.LpVariable(name, 0, most, cat=pulp.LpInteger),
        at_most_times,
        model.addConstraint,
    )
    model += pulp.lpSum(weight * variable for weight, variable in cost)
    model.solve(pulp.PULP_CBC_CMD(msg=False, timeLimit=max(0.1, limit_s - (perf_counter() - begun)), threads=2))
    if model.sol_status not in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible):
        return None
    value = float(pulp.value(model.objective))
    return Answer(value, value if model.sol_status == pulp.LpSolutionOptimal else 0.0, perf_counter() - begun)


PEERS: dict[str, Callable[[ColocationProblem, float], Answer | None]] = {"cp-sat": cp_sat, "cbc": cbc}


def _build(
    problem: ColocationProblem,
    binary: Callable[[str], Any],
    whole: Callable[[str, int], Any],
    at_most_times: Callable[[list[tuple[float, Any]], float, Any], None],
    add: Callable[[Any], Any],
) -> list[tuple[float, Any]]:
    """Add variables and constraints; return the cost as weights and variables."""
    order = sorted(range(len(problem.jobs)), key=lambda k: (problem.jobs[k].tolerable_s, k))
    jobs = [problem.jobs[k] for k in order]
    cost: list[tuple[float, Any]] = []
    joins: dict[tuple[int, int], Any] = {}
    for m, leader in enumerate(jobs):
        rollout, train = problem.pools[leader.rollout_pool], problem.pools[leader.train_pool]
        limit = leader.tolerable_s
        members = [k for k in range(m, len(jobs)) if k == m or _may_follow(leader, jobs[k])]
        most = sum(sorted((jobs[k].rollout_nodes for k in members), reverse=True)[: problem.max_group_size])
        leads = binary(f"leads{m}")
        used = [binary(f"used{m}_{n}") for n in range(most)]
        trainers = whole(f"trainers{m}", max(job.train_nodes for job in jobs))
        for k in members:
            joins[k, m] = leads if k == m else binary(f"joins{k}_{m}")
        at_most_times([(1, joins[k, m]) for k in members], problem.max_group_size, leads)
        at_most_times([(jobs[k].train_s, joins[k, m]) for k in members], limit, leads)
        at_most_times([(jobs[k].train_memory_gib, joins[k, m]) for k in members], train.memory_gib, leads)
        pins = {(k, n): binary(f"pins{k}_{m}_{n}") for k in members for n in range(most)}
        for k in members:
            add(sum(pins[k, n] for n in range(most)) == jobs[k].rollout_nodes * joins[k, m])
            add(trainers >= jobs[k].train_nodes * joins[k, m])
        for n in range(most):
            at_most_times([(jobs[k].rollout_s, pins[k, n]) for k in members], limit, used[n])
            at_most_times([(jobs[k].rollout_memory_gib, pins[k, n]) for k in members], rollout.memory_gib, used[n])
            if n:
                add(used[n] <= used[n - 1])
        cost += [(rollout.price_per_node_h, node) for node in used] + [(train.price_per_node_h, trainers)]
    for k in range(len(jobs)):
        add(sum(variable for (member, _), variable in joins.items() if member == k) == 1)
    return cost


def _may_follow(leader: JobData, job: JobData) -> bool:
    same = (job.rollout_pool, job.train_pool) == (leader.rollout_pool, leader.train_pool)
    return same and at_most(job.solo_s, leader.tolerable_s) and at_most(leader.train_s + job.train_s, leader.tolerable_s)
