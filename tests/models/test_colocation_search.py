"""The search under limits: whatever stops it, the plan is a plan and the bound is a bound."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from rollplan.models.certified import Certified, Limits
from rollplan.models.colocation.certificate import checked_bound
from rollplan.models.colocation.exact import exact
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, JobData, NodePool
from rollplan.models.colocation.verify import verify

POOLS = (NodePool("h20", 14.80, 1863.0), NodePool("h800", 42.24, 1863.0))


@cache
def mixed(seed: int) -> ColocationProblem:
    """Thirty jobs like those of RollMux Table 6, some on several nodes."""
    random = Random(seed)
    jobs = [
        JobData(
            name=f"j{number}",
            slo=round(random.uniform(1, 2), 2),
            rollout_s=round(random.uniform(25, 600), 1),
            train_s=round(random.uniform(25, 600), 1),
            rollout_nodes=random.choice([1, 1, 1, 2, 3]),
            train_nodes=random.choice([1, 1, 2]),
            rollout_memory_gib=random.choice([105.0, 256.0, 415.0]),
            train_memory_gib=random.choice([145.0, 224.0, 425.0]),
        )
        for number in range(30)
    ]
    return ColocationProblem(POOLS, tuple(jobs))


@cache
def proven(seed: int) -> Certified[ColocationSolution]:
    found = exact(mixed(seed), Limits(120.0, 100_000))
    assert found.optimal
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("limits", [(60.0, 1, 0.0), (60.0, 5, 0.0), (60.0, 1000, 0.05), (0.0, 1000, 0.0), (0.1, 1000, 0.0)])
def test_a_stopped_search_returns_a_plan_and_a_bound_around_the_optimum(seed: int, limits: tuple[float, int, float]) -> None:
    """Node limit, target gap and time limit may not touch what was promised, only how near it is."""
    problem, optimum = mixed(seed), proven(seed).value
    found = exact(problem, Limits(*limits), start=None if limits[0] > 1 else proven(seed).solution)
    assert verify(problem, found.solution) == ()
    assert found.bound.value <= optimum + 1e-9 <= found.value + 2e-9
    assert checked_bound(problem, found.witness).value <= optimum + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_the_start_is_kept_if_nothing_better_is_found(seed: int) -> None:
    """`exact` is never worse than its start."""
    found = exact(mixed(seed), Limits(0.0), start=proven(seed).solution)
    assert found.value == proven(seed).value


def test_the_target_gap_ends_the_search_and_is_named() -> None:
    """A gap of 100 % is reached by the first plan."""
    found = exact(mixed(0), Limits(60.0, 1000, 1.0))
    assert found.stopped in ("target gap", "optimal")
    assert found.gap <= 1.0
