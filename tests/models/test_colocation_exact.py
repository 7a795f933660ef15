"""Exact co-location against brute force over all set partitions, and what must hold for every problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations
from math import fsum
from random import Random

import pytest
from ortools.sat.python import cp_model

from rollplan.models.certified import Certified, Limits
from rollplan.models.colocation.certificate import CheckedBound, checked_bound, partition_bound
from rollplan.models.colocation.certificate import fluid_bound as checked_fluid_bound
from rollplan.models.colocation.closed_form import fluid_bound, impossible_jobs
from rollplan.models.colocation.exact import exact, lower_bound
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, JobData, NodePool
from rollplan.models.colocation.verify import verify
from rollplan.models.errors import InfeasibleError
from rollplan.planner.colocation import METHODS, heuristic, solve

SEEDS = range(200)
LIMITS_S = 60


def random_problem(seed: int, size: int | None = None) -> ColocationProblem:
    """At most eight jobs; often ties, several nodes, memory limits, two rollout pools or one pool for all, few nodes."""
    random = Random(seed)
    size = size or random.choice([1, 2, 3, 4, 5, 6, 7, 8, 8])
    ties = random.random() < 0.5
    spans = random.random() < 0.6
    tight = random.random() < 0.5
    layout = random.choice(["pair", "pair", "two rollout pools", "one pool"])
    limited = random.choice([None, None, None, 0, 1, 2]) if size > 2 else None
    prices = random.choice([(14.8, 42.24, 9.6), (20.0, 11.0, 5.0), (0.37, 1.0, 0.5)])
    pools = tuple(
        NodePool(name, price, gib) for name, price, gib in zip(("H20", "H800", "L20"), prices, (1000.0, 1000.0, 800.0), strict=True)
    )

    def seconds() -> float:
        return float(random.choice([50, 100, 150])) if ties else round(random.uniform(20, 300), 3)

    jobs = tuple(
        JobData(
            name=f"job{k}",
            slo=random.choice([1.0, 1.2, 1.5, 2.0, 2.0, 3.0]),
            rollout_s=seconds(),
            train_s=seconds(),
            rollout_pool=random.choice([0, 2]) if layout == "two rollout pools" else 0,
            train_pool=0 if layout == "one pool" else 1,
            rollout_nodes=random.choice([1, 1, 2, 3]) if spans else 1,
            train_nodes=random.choice([1, 1, 2]) if spans else 1,
            rollout_memory_gib=random.choice([0.0, 200.0, 500.0, 700.0]) if tight else 0.0,
            train_memory_gib=random.choice([0.0, 250.0, 500.0]) if tight else 0.0,
        )
        for k in range(size)
    )
    if limited is not None:
        need = sum(job.rollout_nodes * (job.rollout_pool == limited) + job.train_nodes * (job.train_pool == limited) for job in jobs)
        few = replace(pools[limited], nodes=random.randint(need // 3, need - need // 3))
        pools = (*pools[:limited], few, *pools[limited + 1 :])
    return ColocationProblem(pools, jobs, random.choice([1, 2, 3, 4, 5, 5, 5]))


def scarce_problem(seed: int, prices: tuple[float, float]) -> ColocationProblem:
    """Seven jobs on one pair of pools, where fewer nodes of one kind can be had for more of the other."""
    random = Random(seed)
    jobs = tuple(
        JobData(
            name=f"job{k}",
            slo=random.choice([1.5, 2.0, 3.0]),
            rollout_s=random.choice([50.0, 100.0, 150.0, 200.0]),
            train_s=random.choice([20.0, 50.0, 100.0]),
            rollout_nodes=random.choice([1, 1, 2, 3]),
            train_nodes=random.choice([1, 1, 2, 3]),
        )
        for k in range(7)
    )
    return ColocationProblem((NodePool("rollout", prices[0], 0.0), NodePool("train", prices[1], 0.0)), jobs, random.choice([2, 3, 4]))


def fits(value: float, limit: float) -> bool:
    """Compare as the problem does: sums that differ by rounding are equal."""
    return value <= limit * (1 + 1e-9)


def fewest_nodes(jobs: list[JobData], limit_s: float, memory_gib: float) -> int:
    """Assign every job to every set of nodes, new nodes included, and return the least number used."""
    least = sum(job.rollout_nodes for job in jobs)

    def assign(k: int, loads: list[tuple[float, float]]) -> None:
        nonlocal least
        if k == len(jobs):
            least = min(least, len(loads))
        elif len(loads) < least:
            job = jobs[k]
            room = [
                node
                for node, (busy_s, kept_gib) in enumerate(loads)
                if fits(busy_s + job.rollout_s, limit_s) and fits(kept_gib + job.rollout_memory_gib, memory_gib)
            ]
            for shared in range(min(len(room), job.rollout_nodes), -1, -1):
                for chosen in combinations(room, shared):
                    after = [(b + job.rollout_s, m + job.rollout_memory_gib) if n in chosen else (b, m) for n, (b, m) in enumerate(loads)]
                    assign(k + 1, after + [(job.rollout_s, job.rollout_memory_gib)] * (job.rollout_nodes - shared))

    assign(0, [])
    return least


def nodes_of_group(problem: ColocationProblem, members: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the nodes of each pool that a group takes, None if its jobs may not share."""
    jobs = [problem.jobs[k] for k in members]
    head = jobs[0]
    limit_s = min(job.slo * (job.rollout_s + job.train_s) for job in jobs)
    possible = (
        len(jobs) <= problem.max_group_size
        and len({(job.rollout_pool, job.train_pool) for job in jobs}) == 1
        and all(fits(job.rollout_s + job.train_s, limit_s) for job in jobs)
        and fits(sum(job.train_s for job in jobs), limit_s)
        and fits(sum(job.train_memory_gib for job in jobs), problem.pools[head.train_pool].memory_gib)
        and all(fits(job.rollout_memory_gib, problem.pools[head.rollout_pool].memory_gib) for job in jobs)
    )
    if not possible:
        return None
    used = [0] * len(problem.pools)
    used[head.rollout_pool] += fewest_nodes(jobs, limit_s, problem.pools[head.rollout_pool].memory_gib)
    used[head.train_pool] += max(job.train_nodes for job in jobs)
    return tuple(used)


def partitions(jobs: list[int]) -> Iterator[list[tuple[int, ...]]]:
    """Yield every set partition."""
    if not jobs:
        yield []
        return
    head, rest = jobs[0], jobs[1:]
    for others in range(len(rest) + 1):
        for chosen in combinations(rest, others):
            for tail in partitions([k for k in rest if k not in chosen]):
                yield [(head, *chosen), *tail]


def brute_force(problem: ColocationProblem) -> float | None:
    """Return the least cost over all set partitions, None if none is feasible."""
    known = {}
    for size in range(1, len(problem.jobs) + 1):
        for members in combinations(range(len(problem.jobs)), size):
            known[members] = nodes_of_group(problem, members)
    least = None
    for partition in partitions(list(range(len(problem.jobs)))):
        groups = [known[members] for members in partition]
        if None in groups:
            continue
        used = [sum(nodes) for nodes in zip(*groups, strict=True)]
        if all(pool.nodes is None or nodes <= pool.nodes for nodes, pool in zip(used, problem.pools, strict=True)):
            cost = fsum(nodes * pool.price_per_node_h for nodes, pool in zip(used, problem.pools, strict=True))
            least = cost if least is None else min(least, cost)
    return least


@cache
def solved(seed: int) -> Certified[ColocationSolution] | None:
    """Return the exact answer, None if it is that no plan exists."""
    try:
        return exact(random_problem(seed), Limits(time_s=LIMITS_S))
    except InfeasibleError:
        return None


def found() -> list[tuple[ColocationProblem, Certified[ColocationSolution]]]:
    """Return the problems that have a plan, with the exact answer."""
    return [(random_problem(seed), answer) for seed in SEEDS if (answer := solved(seed)) is not None]


def close(value: float, other: float) -> bool:
    """Equal but for rounding."""
    return abs(value - other) <= 1e-9 * max(1.0, abs(other))


def same(value: float | None, other: float | None) -> bool:
    """Both infeasible, or both the same cost."""
    return value is other is None or (value is not None and other is not None and close(value, other))


def value_of(problem: ColocationProblem) -> float | None:
    """Return the optimum, None if no plan exists."""
    try:
        return exact(problem, Limits(LIMITS_S)).value
    except InfeasibleError:
        return None


def test_exact_equals_brute_force_or_both_say_infeasible() -> None:
    """The judge on small cases: every set partition, every assignment of jobs to nodes."""
    answers = {seed: (answer.value if (answer := solved(seed)) else None, brute_force(random_problem(seed))) for seed in SEEDS}
    assert {seed: pair for seed, pair in answers.items() if not same(*pair)} == {}


@pytest.mark.parametrize(("short", "prices"), [(0, (14.8, 42.24)), (1, (42.24, 14.8))])
def test_exact_equals_brute_force_when_the_cheap_pool_is_one_node_short(short: int, prices: tuple[float, float]) -> None:
    """The optimum without limits is cut off by one node, so the limit binds or nothing fits."""
    outcomes = []
    for seed in range(60):
        free = scarce_problem(seed, prices)
        groups = exact(free, Limits(LIMITS_S)).solution.groups
        used = (sum(group.rollout_nodes for group in groups), sum(group.train_nodes for group in groups))[short]
        pools = tuple(replace(pool, nodes=used - 1) if p == short else pool for p, pool in enumerate(free.pools))
        problem = replace(free, pools=pools)
        outcomes.append((seed, value_of(problem), brute_force(problem)))
    assert [outcome for outcome in outcomes if not same(*outcome[1:])] == []
    assert sum(value is not None for _, value, _ in outcomes) >= 10


def test_the_random_problems_include_infeasible_ones() -> None:
    """Otherwise the comparison above would say nothing about infeasibility."""
    assert 10 <= sum(solved(seed) is None for seed in SEEDS) <= 100


def test_exact_proves_every_small_problem_optimal() -> None:
    """A minute is plenty for eight jobs, so the bound must meet the value."""
    assert [answer for _, answer in found() if not answer.optimal or answer.stopped != "optimal"] == []


def test_verifier_accepts_every_exact_plan() -> None:
    """Promise 1: no answer is believed until code that knows nothing of the solver has checked it."""
    assert [faults for problem, answer in found() if (faults := verify(problem, answer.solution))] == []


def test_cost_is_price_times_nodes() -> None:
    """RollMux 4.2: the hourly price of all provisioned nodes, counted here from the groups."""
    wrong = []
    for problem, answer in found():
        groups = answer.solution.groups
        leaders = [problem.jobs[group.jobs[0]] for group in groups]
        dollars = [
            group.rollout_nodes * problem.pools[job.rollout_pool].price_per_node_h
            + group.train_nodes * problem.pools[job.train_pool].price_per_node_h
            for group, job in zip(groups, leaders, strict=True)
        ]
        if not close(answer.value, fsum(dollars)) or answer.value != answer.solution.cost_per_h:
            wrong.append((problem, answer.value, fsum(dollars)))
    assert wrong == []


def test_every_job_is_in_exactly_one_group() -> None:
    """Groups number their nodes from 0 each, so groups that share no job share no node either."""
    placed = [(sorted(k for g in answer.solution.groups for k in g.jobs), len(problem.jobs)) for problem, answer in found()]
    assert [jobs for jobs, size in placed if jobs != list(range(size))] == []


def test_every_node_of_a_plan_holds_a_job() -> None:
    """A plan that rents idle nodes is not cheapest."""
    held = [(g.rollout_nodes, {n for nodes in g.pinning for n in nodes}) for _, answer in found() for g in answer.solution.groups]
    assert [nodes for count, nodes in held if nodes != set(range(count))] == []


def test_bound_proven_again_from_the_witness_is_at_most_the_optimum() -> None:
    """The certificate must never promise more than is true."""
    checked = [(checked_bound(problem, answer.witness), answer.value) for problem, answer in found()]
    assert [(bound, value) for bound, value in checked if bound.value > value * (1 + 1e-9) or bound.note] == []


def test_bound_proven_again_from_the_witness_is_the_bound_that_was_claimed() -> None:
    """Solver and certificate search for violated groups with different code; they must agree on what the LPs prove."""
    bounds = [(problem, *lower_bound(problem, Limits(LIMITS_S))) for problem, _ in found()]
    checked = [(claimed, checked_bound(problem, witness)) for problem, claimed, witness in bounds if witness is not None]
    assert [pair for pair in checked if not close(pair[0].value, pair[1].value)] == []
    assert len(checked) > 100


def test_fluid_bound_is_at_most_the_checked_bound() -> None:
    """The closed form is the fallback, so the witness may only improve on it."""
    bounds = [(checked_fluid_bound(problem), checked_bound(problem, answer.witness).value) for problem, answer in found()]
    assert [pair for pair in bounds if pair[0] > pair[1]] == []


def test_the_certificates_own_search_of_all_partitions_agrees_with_brute_force() -> None:
    """It is the proof of small plans, so it must be neither too high nor needlessly low where pools have no limit."""
    problems = [problem for problem, _ in found() if all(pool.nodes is None for pool in problem.pools)]
    bounds = [(brute_force(problem), partition_bound(problem)) for problem in problems]
    assert [pair for pair in bounds if pair[1] is None or not same(pair[0], pair[1].value)] == []


def test_the_certificates_own_search_of_all_partitions_is_a_bound_where_pools_are_limited() -> None:
    """It leaves the limits out, which can only make it lower."""
    bounds = [(answer.value, partition_bound(problem)) for problem, answer in found()]
    assert [pair for pair in bounds if pair[1] is None or pair[1].value > pair[0] * (1 + 1e-9)] == []


def test_the_certificates_own_search_of_all_partitions_names_its_argument_and_its_limit() -> None:
    """13 jobs are searched, 14 are left to the LP prices."""
    problem = random_problem(1, size=13)
    most = replace(problem, jobs=(*problem.jobs, problem.jobs[0]))
    assert partition_bound(problem) == CheckedBound(pytest.approx(value_of(problem)), "every partition searched")
    assert partition_bound(most) is None


@pytest.mark.parametrize("seed", range(0, 200, 10))
def test_solver_and_certificate_agree_on_the_fluid_bound(seed: int) -> None:
    """Two writings of one formula."""
    problem = random_problem(seed)
    assert checked_fluid_bound(problem) == pytest.approx(fluid_bound(problem), rel=1e-6)


def test_exact_is_never_dearer_than_any_heuristic() -> None:
    """And says so without having been given the heuristic's plan to start from."""
    plans = [(p, a.value, m, plan) for p, a in found() for m in METHODS[1:] if (plan := heuristic(p, m, seed=1)) is not None]
    assert [(p, value, m, plan) for p, value, m, plan in plans if plan.cost_per_h < value * (1 - 1e-9)] == []


def test_no_heuristic_is_dearer_than_every_job_alone() -> None:
    """Every method joins a group only by adding at most the nodes that the job would need alone."""
    problems = [replace(p, pools=tuple(replace(pool, nodes=None) for pool in p.pools)) for p in map(random_problem, SEEDS)]
    plans = [(p, m, plan) for p in problems for m in METHODS[1:] if (plan := heuristic(p, m, seed=1)) is not None]
    assert [(p, m) for p, m, plan in plans if plan.cost_per_h > p.solo_cost_per_h() * (1 + 1e-9)] == []


def test_verifier_accepts_every_plan_of_every_heuristic() -> None:
    """A heuristic may be dear, never wrong."""
    problems = [p for p in map(random_problem, SEEDS) if not list(impossible_jobs(p))]
    plans = [(p, m, plan) for p in problems for m in METHODS[1:] if (plan := heuristic(p, m, seed=1)) is not None]
    assert [(m, faults) for p, m, plan in plans if (faults := verify(p, plan))] == []


def test_exact_keeps_a_start_that_is_already_optimal() -> None:
    """The plan given as a start is returned when nothing is cheaper, so plans do not change without gain."""
    kept = [(exact(problem, Limits(LIMITS_S), answer.solution).solution, answer.solution) for problem, answer in found()[:60]]
    assert [pair for pair in kept if pair[0] != pair[1]] == []


@pytest.mark.parametrize("factor", [1 / 7, 60.0, 1e4])
@pytest.mark.parametrize("seed", range(0, 200, 20))
def test_scaling_all_durations_leaves_the_cost_unchanged(seed: int, factor: float) -> None:
    """Seconds or minutes: feasibility depends on ratios only."""
    problem = random_problem(seed)
    jobs = tuple(replace(job, rollout_s=factor * job.rollout_s, train_s=factor * job.train_s) for job in problem.jobs)
    assert value_of(replace(problem, jobs=jobs)) == value_of(problem)


@pytest.mark.parametrize("factor", [1e-3, 3.0, 7.1])
@pytest.mark.parametrize("seed", range(0, 200, 20))
def test_scaling_all_prices_scales_the_cost(seed: int, factor: float) -> None:
    """Dollars or cents."""
    problem = random_problem(seed)
    pools = tuple(replace(pool, price_per_node_h=factor * pool.price_per_node_h) for pool in problem.pools)
    value = value_of(problem)
    assert value_of(replace(problem, pools=pools)) == (None if value is None else pytest.approx(factor * value, rel=1e-9))


@pytest.mark.parametrize("seed", range(0, 200, 10))
def test_permuting_the_jobs_leaves_the_cost_unchanged(seed: int) -> None:
    """The optimum knows no order of arrival."""
    problem = random_problem(seed)
    jobs = tuple(Random(seed).sample(problem.jobs, len(problem.jobs)))
    assert value_of(replace(problem, jobs=jobs)) == value_of(problem)


@pytest.mark.parametrize("seed", range(1000, 1006))
def test_exact_equals_cp_sat_over_enumerated_groups(seed: int) -> None:
    """Twelve jobs are too many for all partitions (4 213 597); another solver over brute-force groups is the judge."""
    problem = random_problem(seed, size=12)
    model = cp_model.CpModel()
    holding: list[list[cp_model.IntVar]] = [[] for _ in problem.jobs]
    groups = []
    for size in range(1, problem.max_group_size + 1):
        for members in combinations(range(len(problem.jobs)), size):
            if (nodes := nodes_of_group(problem, members)) is not None:
                take = model.new_bool_var(str(members))
                groups.append((take, nodes))
                for k in members:
                    holding[k].append(take)
    for choices in holding:
        model.add_exactly_one(choices)
    used = [sum(take * nodes[p] for take, nodes in groups) for p in range(len(problem.pools))]
    for nodes, pool in zip(used, problem.pools, strict=True):
        if pool.nodes is not None:
            model.add(nodes <= pool.nodes)
    model.minimize(sum(round(100 * pool.price_per_node_h) * nodes for nodes, pool in zip(used, problem.pools, strict=True)))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    expected = solver.objective_value / 100 if solver.solve(model) == cp_model.OPTIMAL else None
    assert value_of(problem) == (None if expected is None else pytest.approx(expected, rel=1e-9))


def test_solve_returns_the_exact_answer_by_default() -> None:
    """The front door of the planner and the model's exact solver are one."""
    assert [p for p, answer in found()[:40] if not close(solve(p, limits=Limits(LIMITS_S)).value, answer.value)] == []
