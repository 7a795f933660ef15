"""Why a split has no plan or none within its target, against going through all budgets."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from rollplan.models.hardware import Pool
from rollplan.models.split.given import Split
from rollplan.models.split.problem import SplitProblem
from rollplan.models.split.verify import least_value
from rollplan.planner.infeasible.split import Budget, Pipelining, Requirement, Target, conflict_of, explain

POOLS = {name: Pool.build({"role": "any", "gpu": "H800", "price": "5.28 $/h", "memory": "900 GB"}, name) for name in ("a", "b")}


def split(**changed: object) -> Split:
    """A split of two sites whose stages take 100 s on 8 GPUs and 50 s on 16."""
    given = {
        "budget": {"a": 8, "b": 8},
        "rollout": {"a": {8: "100 s", 16: "50 s"}},
        "train": {"b": {8: "90 s", 16: "45 s"}},
        "sync": "2 s",
        **changed,
    }
    return Split.build(given, "split")


def random_split(seed: int) -> Split:
    """Tables of one or two pools, small budgets, a target that some keep."""
    random = Random(seed)

    def table() -> dict[str, dict[int, str]]:
        pools = random.sample(["a", "b"], random.randint(1, 2))
        return {pool: {gpus: f"{round(400 / gpus)} s" for gpus in random.sample([2, 4, 8, 16], 2)} for pool in pools}

    ways = random.choice([{}, {"pipelining": ("serial",)}])
    target = random.choice([{}, {"target": f"{random.randint(20, 150)} s"}])
    return split(budget={"a": random.randint(1, 12), "b": random.randint(1, 12)}, rollout=table(), train=table(), **ways, **target)


def has_plan(asked: Split, kept: frozenset[Requirement]) -> bool:
    """By the verifier's own enumeration."""
    ways = asked.ways if Pipelining() in kept or asked.pipelining is None else ("serial", "one-step", "async-batch", "async-streamed")
    problem = SplitProblem(
        budgets={pool: asked.budget[pool] if Budget(pool) in kept else 1000 for pool in POOLS},
        rollout=asked.rollout,
        train=asked.train,
        price_per_gpu_h=dict.fromkeys(POOLS, 1.0),
        sync_s=2.0,
        pipelining=ways,
    )
    least_s = least_value(problem)
    return least_s is not None and (Target() not in kept or asked.target_s is None or least_s <= asked.target_s)


def requirements(asked: Split) -> frozenset[Requirement]:
    ways: set[Requirement] = {Pipelining()} if asked.pipelining is not None else set()
    target: set[Requirement] = {Target()} if asked.target_s is not None else set()
    return frozenset({Budget("a"), Budget("b"), *ways, *target})


INFEASIBLE = [seed for seed in range(80) if not has_plan(random_split(seed), requirements(random_split(seed)))]


@pytest.mark.parametrize("seed", INFEASIBLE)
def test_a_conflict_has_no_plan_and_without_any_requirement_it_has_one(seed: int) -> None:
    """Sufficient and minimal, unless no requirement helps."""
    asked = random_split(seed)
    found = conflict_of(asked, POOLS)
    kept = frozenset(found.requirements)
    assert found.minimal
    assert not has_plan(asked, kept)
    assert all(has_plan(asked, kept - {each}) for each in kept)


def test_the_seeds_hold_every_kind_of_requirement() -> None:
    """Otherwise the law above would say little."""
    kinds = {type(each) for seed in INFEASIBLE for each in conflict_of(random_split(seed), POOLS).requirements}
    assert kinds == {Budget, Pipelining, Target}


def test_a_target_that_no_plan_keeps_is_named_with_what_would_do() -> None:
    """102 s with 8 + 8 GPUs; 16 GPUs of `a` alone still train for 90 s."""
    assert explain("x", split(target="95 s"), POOLS) == [
        "these 2 requirements of split x exclude each other (proven twice)",
        "budget.a: 8 GPUs (budget.a: 16 would do)",
        "target: 95 s per iteration (target: 102 s would do)",
    ]


def test_serial_stages_are_named_where_they_miss_the_target() -> None:
    """100 + 90 + 2 s one after the other, 102 s overlapped."""
    assert "pipelining: serial (one-step or async-batch or async-streamed would do)" in explain(
        "x", split(target="110 s", pipelining=("serial",)), POOLS
    )


def test_a_budget_below_every_count_is_named_with_the_one_that_would_do() -> None:
    """The least count of the table."""
    assert explain("x", split(budget={"a": 5, "b": 8}), POOLS) == [
        "one requirement of split x excludes every plan (proven twice)",
        "budget.a: 5 GPUs (budget.a: 8 would do)",
    ]


@pytest.mark.parametrize(("a", "b"), list(product((8, 16), repeat=2)))
def test_nothing_is_said_of_a_split_that_has_a_plan(a: int, b: int) -> None:
    """Neither without a target nor with one that is kept."""
    assert explain("x", split(budget={"a": a, "b": b}), POOLS) == []
    assert explain("x", split(budget={"a": a, "b": b}, target="102 s"), POOLS) == []
