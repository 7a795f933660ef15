"""P1 split with every way of pipelining: brute force, and what must hold between the ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from itertools import pairwise, product
from typing import Any, get_args

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rollplan.models.errors import InfeasibleError
from rollplan.models.split.candidates import undominated
from rollplan.models.split.exact import exact, fewest_gpus, pareto_front, ranking
from rollplan.models.split.iteration import stages
from rollplan.models.split.problem import (
    REL_TOL,
    STALENESS,
    SplitProblem,
    SplitSolution,
    Way,
    cost_per_iteration,
    objective_value,
)
from rollplan.models.split.verify import least_value, verify

WAYS: tuple[Way, ...] = get_args(Way)
POOLS = ("a", "b")


@dataclass(frozen=True)
class Row:
    """One candidate, straight from the definitions."""

    mode: str
    rollout_pool: str
    rollout_gpus: int
    train_pool: str
    train_gpus: int
    rollout_s: float
    train_s: float
    iteration_s: float
    pipelining: str
    cost: float

    @property
    def plan(self) -> tuple[Any, ...]:
        """The fields of a `SplitSolution`, in its order."""
        return astuple(self)[:-1]

    @property
    def gpus(self) -> int:
        """GPUs in use, shared ones once."""
        return self.rollout_gpus if self.mode == "colocated" else self.rollout_gpus + self.train_gpus

    def after(self, other: Row) -> bool:
        """Whether this one merely adds GPUs to the other, without being faster."""
        same = (self.mode, self.rollout_pool, self.train_pool) == (other.mode, other.rollout_pool, other.train_pool)
        more = self.rollout_gpus >= other.rollout_gpus and self.train_gpus >= other.train_gpus
        return same and more and self.iteration_s >= other.iteration_s


def seconds(problem: SplitProblem, way: str, p: str, x: int, q: str, y: int) -> tuple[float, float, float]:
    """Rollout, training and iteration of separate stages, written down once more."""
    alone, train = problem.rollout[p][x], problem.train[q][y]
    sync = problem.sync_between.get((p, q), problem.sync_s)
    if way == "serial":
        return alone, train, alone + train + sync
    slower, longer = problem.interference
    train *= longer
    steady = problem.steady.get(p, {}).get(x, alone) * slower
    if way == "async-streamed":
        train += problem.chunks * problem.chunk_s
        return steady, train, max(steady, train, sync, (steady + sync) / 2)
    if way == "async-batch":
        return steady, train, max(steady, train, sync, (steady + train + sync) / 2)
    if way == "one-step":
        return alone * slower, train, max(alone * slower, train) + sync
    shares = [share * slower for share in problem.finish.get(p, {}).get(x, (alone,))]
    chunks = len(shares) if way == "dynamic-batch" else min(problem.chunks, len(shares))
    free = 0.0
    for k in range(1, chunks + 1):
        # The chunk is there when the smallest number of shares that makes up k / chunks of the samples is finished.
        needed = next(n for n in range(1, len(shares) + 1) if n * chunks >= k * len(shares))
        free = max(free, shares[needed - 1]) + train / chunks + problem.chunk_s
    return alone * slower, train, free + sync


def brute_force(problem: SplitProblem) -> list[Row]:
    """Every candidate within the budgets."""
    return [*_separate(problem), *_colocated(problem)]


def _separate(problem: SplitProblem) -> Iterator[Row]:
    for p, q in product(problem.rollout, problem.train):
        for x, y, way in product(problem.rollout[p], problem.train[q], problem.pipelining):
            need = {p: x + y} if p == q else {p: x, q: y}
            if all(gpus <= problem.budgets[pool] for pool, gpus in need.items()):
                times = seconds(problem, way, p, x, q, y)
                yield Row("separate", p, x, q, y, *times, way, _price(problem, need) * times[2] / 3600)


def _colocated(problem: SplitProblem) -> Iterator[Row]:
    for p in POOLS:
        for k in range(1, problem.budgets[p] + 1):
            if problem.colocated is None:
                pair = problem.rollout.get(p, {}).get(k), problem.train.get(p, {}).get(k)
            else:
                pair = problem.colocated.get(p, {}).get(k, (None, None))
            if pair[0] is not None and pair[1] is not None:
                iteration = pair[0] + pair[1] + problem.switch_s + problem.sync_s
                yield Row("colocated", p, k, p, k, pair[0], pair[1], iteration, "serial", _price(problem, {p: k}) * iteration / 3600)


def _price(problem: SplitProblem, need: Mapping[str, int]) -> float:
    """Dollars per hour of whole nodes; stages of one pool may share a node."""
    size = problem.gpus_per_node
    return sum(-(-gpus // size.get(pool, 1)) * size.get(pool, 1) * problem.price_per_gpu_h[pool] for pool, gpus in need.items())


def order(problem: SplitProblem, row: Row) -> tuple[Any, ...]:
    """The order of plans. All generated numbers are binary fractions, so equal means equal."""
    value = row.iteration_s if problem.objective == "time" else row.cost
    place = problem.pipelining.index(row.pipelining) if row.mode == "separate" else -1
    balance = abs(row.rollout_s - row.train_s)
    return value, row.gpus, balance, row.rollout_gpus, row.rollout_pool, row.train_pool, place


quarters = st.integers(1, 40).map(lambda quarter: quarter / 4)
counts = st.integers(1, 6)
tables = st.dictionaries(st.sampled_from(POOLS), st.dictionaries(counts, quarters, min_size=1, max_size=4), min_size=1)


@st.composite
def problems(draw: st.DrawFn, exactly: bool = True) -> SplitProblem:
    """A small problem with everything that may be given; `exactly`: in numbers that floats hold without rounding."""
    number = quarters if exactly else st.floats(0.01, 1000)
    rollout, train = ({pool: {gpus: draw(number) for gpus in table} for pool, table in draw(tables).items()} for _ in ("rollout", "train"))
    shares = st.sampled_from([1, 2, 4, 8]) if exactly else st.integers(1, 9)
    finish: dict[str, dict[int, tuple[float, ...]]] = {}
    steady: dict[str, dict[int, float]] = {}
    for pool, table in rollout.items():
        for gpus, last in table.items():
            if draw(st.booleans()):
                parts = sorted(draw(st.integers(0, 8)) / 8 * last for _ in range(draw(shares) - 1))
                finish.setdefault(pool, {})[gpus] = (*parts, last)
            if draw(st.booleans()):
                steady.setdefault(pool, {})[gpus] = draw(st.integers(1, 8)) / 8 * last
    pairs = st.dictionaries(st.sampled_from(POOLS), st.dictionaries(counts, st.tuples(number, number), max_size=3))
    return SplitProblem(
        budgets={pool: draw(st.integers(1, 9)) for pool in POOLS},
        rollout=rollout,
        train=train,
        price_per_gpu_h={"a": draw(st.sampled_from([0.0, 1.0])), "b": 2.5},
        sync_s=draw(st.sampled_from([0.0, 0.25, 3.0])),
        trim=draw(st.sampled_from(["safe", "safe", "paper"])),
        pipelining=tuple(draw(st.lists(st.sampled_from(WAYS), min_size=1, unique=True))),
        objective=draw(st.sampled_from(["time", "cost"])),
        steady=steady,
        finish=finish,
        chunks=draw(shares),
        chunk_s=draw(st.sampled_from([0.0, 0.125])),
        colocated=draw(st.one_of(st.none(), pairs)),
        switch_s=draw(st.sampled_from([0.0, 1.5])),
        interference=(draw(st.sampled_from([1.0, 1.25])), draw(st.sampled_from([1.0, 1.5]))),
        gpus_per_node={pool: draw(st.sampled_from([1, 2, 4])) for pool in POOLS if draw(st.booleans())},
        sync_between={("a", "b"): 0.5, ("b", "a"): 2.0} if draw(st.booleans()) else {},
    )


feasible = problems().filter(brute_force)
safe = feasible.map(lambda problem: replace(problem, trim="safe"))


# Brute force.


@given(problems())
def test_exact_is_what_brute_force_finds(problem: SplitProblem) -> None:
    """Plan with all its ties, value, bound, and the verifier's own search; a refusal exactly when nothing fits."""
    problem = replace(problem, trim="safe")
    rows = brute_force(problem)
    if not rows:
        with pytest.raises(InfeasibleError):
            exact(problem)
        assert least_value(problem) is None
        return
    found, best = exact(problem), min(rows, key=lambda row: order(problem, row))
    assert astuple(found.solution) == best.plan
    assert found.value == found.bound.value == least_value(problem) == order(problem, best)[0]
    assert found.stopped == "optimal"


@given(safe, st.integers(1, 12))
def test_ranking_is_the_sorted_list_without_idle_gpus(problem: SplitProblem, limit: int) -> None:
    """Another way of pipelining on the same or more GPUs counts as idle GPUs, too, when it is not faster."""
    expected: list[Row] = []
    for row in sorted(brute_force(problem), key=lambda row: order(problem, row)):
        if not any(row.after(other) for other in expected):
            expected.append(row)
    assert [astuple(plan) for plan in ranking(problem, limit)] == [row.plan for row in expected[:limit]]


@given(safe)
def test_the_front_has_nothing_dominated_and_lacks_nothing(problem: SplitProblem) -> None:
    """Time, cost and staleness of every candidate; of equals, one with fewest GPUs."""
    rows = brute_force(problem)

    def worth(row: Row) -> tuple[float, float, int]:
        return row.iteration_s, row.cost, STALENESS[row.pipelining]

    values = {worth(row) for row in rows}
    expected = [v for v in sorted(values) if not any(o != v and all(a <= b for a, b in zip(o, v, strict=True)) for o in values)]
    front = pareto_front(problem)
    assert [(plan.iteration_s, cost_per_iteration(problem, plan), plan.staleness) for plan in front] == expected
    for plan, value in zip(front, expected, strict=True):
        equals = [row for row in rows if worth(row) == value]
        assert astuple(plan) in [row.plan for row in equals]
        assert plan.gpus == min(row.gpus for row in equals)


@given(safe, quarters)
def test_fewest_gpus_keep_the_target(problem: SplitProblem, target_s: float) -> None:
    """The least count, at its fastest; None exactly when no candidate is fast enough."""
    fast = [row for row in brute_force(problem) if row.iteration_s <= target_s]
    found = fewest_gpus(problem, target_s)
    if found is None:
        assert not fast
    else:
        assert (found.gpus, found.iteration_s) == min((row.gpus, row.iteration_s) for row in fast)
        assert astuple(found) in [row.plan for row in fast]


@given(problems(exactly=False))
def test_candidates_are_those_of_the_scalar_law_and_cover_all_others(problem: SplitProblem) -> None:
    """The grids are computed another way than `iteration.stages`; whatever they leave out has an equal on no more GPUs."""
    kept = undominated(problem)
    for plan in kept:
        if plan.mode == "separate":
            pools, gpus = (plan.rollout_pool, plan.train_pool), (plan.rollout_gpus, plan.train_gpus)
            right = stages(problem, plan.pipelining, pools, gpus)
            assert (plan.rollout_s, plan.train_s, plan.iteration_s) == pytest.approx(right, rel=1e-12)
    for row in brute_force(problem):
        assert any(
            (plan.mode, plan.rollout_pool, plan.train_pool, plan.pipelining) == (row.mode, row.rollout_pool, row.train_pool, row.pipelining)
            and plan.rollout_gpus <= row.rollout_gpus
            and plan.train_gpus <= row.train_gpus
            and plan.iteration_s <= row.iteration_s * (1 + REL_TOL)
            for plan in kept
        ), row


@given(problems(exactly=False))
def test_stages_are_what_the_definition_says(problem: SplitProblem) -> None:
    """Of every way, on every pair of counts, with numbers that round."""
    for p, q in product(problem.rollout, problem.train):
        for x, y, way in product(problem.rollout[p], problem.train[q], WAYS):
            assert stages(problem, way, (p, q), (x, y)) == pytest.approx(seconds(problem, way, p, x, q, y), rel=1e-12)


# The verifier.


@given(feasible)
def test_verify_accepts_whatever_is_found(problem: SplitProblem) -> None:
    """Choice, ranking, front and fewest GPUs, of both trims."""
    fewest = fewest_gpus(problem, 5.0)
    for plan in (exact(problem).solution, *ranking(problem, 5), *pareto_front(problem), *([fewest] if fewest else [])):
        assert verify(problem, plan) == ()
    assert exact(problem).value >= exact(problem).bound.value


def mutants(plan: SplitSolution, problem: SplitProblem) -> Iterator[dict[str, Any]]:
    """Changes that make any plan wrong, for each field."""
    yield {"mode": "hybrid"}
    if "serial" not in problem.pipelining:
        yield {"mode": "colocated" if plan.mode == "separate" else "separate"}
    yield from ({name: "nowhere"} for name in ("rollout_pool", "train_pool"))
    yield from ({name: count} for name in ("rollout_gpus", "train_gpus") for count in (0, -1, 7, 10**9))
    for name in ("rollout_s", "train_s", "iteration_s"):
        yield from ({name: getattr(plan, name) * factor} for factor in (1 + 1e-8, 0.5, -1.0, float("nan"), float("inf")))
    yield from ({"pipelining": way} for way in (*WAYS, "hybrid") if way not in problem.pipelining and way != plan.pipelining)
    if plan.mode == "colocated":
        yield from ({"pipelining": way} for way in WAYS if way != "serial")


@given(feasible)
def test_verify_rejects_any_changed_field(problem: SplitProblem) -> None:
    """One field at a time, by much or by 1e-8."""
    for plan in ranking(problem, 4):
        changes = list(mutants(plan, problem))
        assert {name for change in changes for name in change} | {"pipelining"} == set(SplitSolution.__slots__)
        for change in changes:
            assert verify(problem, replace(plan, **change)), change


@given(safe)
def test_verify_rejects_every_plan_above_a_budget(problem: SplitProblem) -> None:
    """One GPU less in any pool that a plan uses."""
    for plan in ranking(problem, 4):
        for pool in {plan.rollout_pool, plan.train_pool}:
            split = (plan.rollout_gpus if pool == plan.rollout_pool else 0) + (plan.train_gpus if pool == plan.train_pool else 0)
            used = plan.gpus if plan.mode == "colocated" else split
            if used > 1:
                tight = replace(problem, budgets={**problem.budgets, pool: used - 1})
                assert verify(tight, plan) == (f"pool {pool}: {used} GPUs are used, the budget is {used - 1}",)


# What holds between the ways (invariants of StreamRL's four modes, Zhong et al. 2025 Fig. 5).


def one_pair(problem: SplitProblem) -> SplitProblem:
    """The problem without interference and chunk overhead, and with steady times (they never exceed a whole batch)."""
    return replace(problem, interference=(1.0, 1.0), chunk_s=0.0, sync_between={})


@given(problems(exactly=False))
def test_more_overlap_never_takes_longer(problem: SplitProblem) -> None:
    """serial >= mini-batch >= one-step >= async-batch >= async-streamed >= each stage; steady <= one batch to its end."""
    problem = one_pair(problem)
    ways: tuple[Way, ...] = ("serial", "mini-batch", "one-step", "async-batch", "async-streamed")
    for p, q in product(problem.rollout, problem.train):
        for x, y in product(problem.rollout[p], problem.train[q]):
            times = [stages(problem, way, (p, q), (x, y))[2] for way in ways]
            for longer, shorter in pairwise(times):
                assert shorter <= longer * (1 + 1e-12)
            steady = problem.steady.get(p, {}).get(x, problem.rollout[p][x])
            assert times[-1] == max(steady, problem.train[q][y], problem.sync_s, (steady + problem.sync_s) / 2)


@given(problems(exactly=False), st.floats(0, 5))
def test_a_mini_batch_of_one_chunk_is_serial_and_its_overhead(problem: SplitProblem, chunk_s: float) -> None:
    """Nothing overlaps; so does a dynamic batch whose samples finish all at the end."""
    problem = replace(one_pair(problem), chunks=1, chunk_s=chunk_s)
    for p, q in product(problem.rollout, problem.train):
        for x, y in product(problem.rollout[p], problem.train[q]):
            serial = stages(problem, "serial", (p, q), (x, y))[2] + chunk_s
            assert stages(problem, "mini-batch", (p, q), (x, y))[2] == pytest.approx(serial, rel=1e-12)
            at_the_end = replace(problem, finish={})
            assert stages(at_the_end, "dynamic-batch", (p, q), (x, y))[2] == pytest.approx(serial, rel=1e-12)


@given(safe)
def test_staleness_of_a_plan_is_that_of_its_way(problem: SplitProblem) -> None:
    """Within an iteration nothing is stale; between iterations one version."""
    for plan in ranking(problem, 5):
        assert plan.staleness == (0 if plan.pipelining in ("serial", "mini-batch", "dynamic-batch") else 1)


@given(safe, st.sampled_from(WAYS))
def test_allowing_another_way_never_makes_the_plan_worse(problem: SplitProblem, way: Way) -> None:
    """Every plan of before is still a candidate."""
    assume(way not in problem.pipelining)
    more = exact(replace(problem, pipelining=(*problem.pipelining, way)))
    assert more.value <= exact(problem).value


@given(safe, st.integers(1, 4))
def test_larger_nodes_never_make_a_plan_cheaper(problem: SplitProblem, factor: int) -> None:
    """Whole nodes are paid: a node of twice the size holds what two held, or more."""
    larger = replace(problem, gpus_per_node={pool: factor * problem.gpus_per_node.get(pool, 1) for pool in POOLS})
    for plan in ranking(problem, 4):
        assert cost_per_iteration(larger, plan) >= cost_per_iteration(problem, plan)


@given(safe)
def test_the_objective_is_the_time_or_the_cost(problem: SplitProblem) -> None:
    """Neither of the two best plans beats the other in its own discipline."""
    fast, cheap = (exact(replace(problem, objective=objective)) for objective in ("time", "cost"))
    assert fast.value == fast.solution.iteration_s <= cheap.solution.iteration_s
    assert cheap.value == cost_per_iteration(problem, cheap.solution) <= cost_per_iteration(problem, fast.solution)
    assert objective_value(problem, fast.solution) in (fast.value, cost_per_iteration(problem, fast.solution))
