"""P1 split: chunks of a batch, steps within the tolerance, and data that cannot be built wrong."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import Any, get_args

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rollplan.models.errors import InfeasibleError
from rollplan.models.split.exact import exact
from rollplan.models.split.iteration import joined, stages
from rollplan.models.split.problem import REL_TOL, SplitProblem, Way
from rollplan.models.split.verify import least_value

WAYS: tuple[Way, ...] = get_args(Way)


@given(st.lists(st.floats(0, 100), min_size=12, max_size=12).map(sorted), st.floats(0.1, 200), st.sampled_from([1, 2, 3, 4, 6, 12]))
def test_without_overhead_finer_chunks_never_take_longer(finish: list[float], train_s: float, chunks: int) -> None:
    """When one division refines the other; `dynamic-batch` is the finest."""
    last = finish[-1]
    assume(last > 0)

    def iteration(way: Way, count: int, chunk_s: float = 0.0) -> float:
        problem = SplitProblem(
            {"a": 1, "b": 1},
            {"a": {1: last}},
            {"b": {1: train_s}},
            {"a": 1.0, "b": 1.0},
            finish={"a": {1: tuple(finish)}},
            chunks=count,
            chunk_s=chunk_s,
        )
        return stages(problem, way, ("a", "b"), (1, 1))[2]

    for coarser in (d for d in range(1, chunks + 1) if chunks % d == 0):
        assert iteration("mini-batch", chunks) <= iteration("mini-batch", coarser) * (1 + 1e-12)
    assert iteration("dynamic-batch", 1) == pytest.approx(iteration("mini-batch", 12), rel=1e-12)
    # With an overhead for each chunk, finer may be worse: that is why the paper warns of small chunks.
    assert iteration("dynamic-batch", 1, 1000.0) > iteration("mini-batch", 1, 1000.0)


@given(st.lists(st.floats(0, 9), min_size=1, max_size=70).map(sorted), st.integers(1, 80))
def test_chunks_end_with_the_last_of_their_shares(shares: list[float], chunks: int) -> None:
    """Of n shares, chunk k of K ends with share ceil(n k / K); never more chunks than shares."""
    ends = joined(shares, chunks)
    assert len(ends) == min(chunks, len(shares))
    assert ends[-1] == shares[-1]
    assert ends == sorted(ends)
    if chunks >= len(shares):
        assert ends == shares


def test_many_steps_within_the_tolerance_do_not_add_up() -> None:
    """Each of 40 counts is faster than the one before by 0.9e-9, all together by 3.6e-8: that is another plan."""
    table = {gpus: 10.0 * (1 - 0.9e-9 * gpus) for gpus in range(1, 41)}
    problem = SplitProblem({"a": 40, "b": 1}, {"a": table}, {"b": {1: 1.0}}, {"a": 1.0, "b": 1.0})
    least = least_value(problem)
    assert least is not None
    assert exact(problem).value <= least * (1 + REL_TOL)
    assert exact(problem).solution.rollout_gpus == 39


# What cannot be built.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pipelining": ()}, "pipelining must name at least one way, got none"),
        ({"pipelining": ("two-step",)}, f"pipelining must be one of {', '.join(WAYS)}, got two-step"),
        ({"objective": "speed"}, "objective must be one of time, cost, got speed"),
        ({"chunks": 0}, "chunks must be finite and at least 1, got 0"),
        ({"chunk_s": -1.0}, "chunk_s must be finite and at least 0, got -1.0"),
        ({"switch_s": float("nan")}, "switch_s must be finite and at least 0, got nan"),
        ({"interference": (0.9, 1.0)}, "interference must be finite and at least 1, got 0.9"),
        ({"gpus_per_node": {"a": 0}}, "gpus_per_node of a must be finite and at least 1, got 0"),
        ({"sync_between": {("a", "b"): -1.0}}, "sync_between a and b must be finite and at least 0, got -1.0"),
        ({"steady": {"a": {1: float("inf")}}}, "steady of a on 1 GPUs must be finite and at least 0, got inf"),
        ({"colocated": {"a": {0: (1.0, 1.0)}}}, "GPU counts in colocated of a must be finite and at least 1, got 0"),
        ({"colocated": {"a": {2: (1.0, float("nan"))}}}, "colocated of a on 2 GPUs must be finite and at least 0, got nan"),
        ({"colocated": {"a": {2: (1.0, float("inf"))}}}, "colocated of a on 2 GPUs must be finite and at least 0, got inf"),
        ({"colocated": {"c": {2: (1.0, 1.0)}}}, "budgets must hold every pool that has a table, got none for c"),
        ({"finish": {"a": {1: ()}}}, "finish of a on 1 GPUs must be ascending seconds of at least one share, got ()"),
        ({"finish": {"a": {1: (2.0, 1.0)}}}, "finish of a on 1 GPUs must be ascending seconds of at least one share, got (2.0, 1.0)"),
        ({"finish": {"a": {1: (1.0, 3.0)}}}, "finish of a on 1 GPUs must end with the seconds of the rollout, 2.0, got 3.0"),
        ({"finish": {"a": {1: (1.0, float("nan"))}}}, "finish of a on 1 GPUs must end with the seconds of the rollout, 2.0, got nan"),
        ({"finish": {"a": {3: (1.0, 2.0)}}}, "finish of a on 3 GPUs must end with the seconds of the rollout, None, got 2.0"),
    ],
)
def test_data_cannot_be_built_wrong(changes: dict[str, Any], message: str) -> None:
    """Field, rule, value."""
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the whole message is compared
        replace(SplitProblem({"a": 4, "b": 4}, {"a": {1: 2.0}}, {"b": {1: 2.0}}, {"a": 1.0, "b": 1.0}), **changes)
    assert str(refused.value) == message


def test_a_job_may_fit_in_turn_only() -> None:
    """Roles that leave the GPUs to each other need less memory at once; then no stage has a table of its own."""
    problem = SplitProblem({"a": 4}, {"a": {1: 9.0}}, {}, {"a": 1.0}, colocated={"a": {2: (5.0, 3.0)}})
    assert astuple(exact(problem).solution) == ("colocated", "a", 2, "a", 2, 5.0, 3.0, 8.0, "serial")
    assert least_value(problem) == 8.0
    with pytest.raises(ValueError, match="train must hold the table of at least one pool, got none"):
        replace(problem, colocated={})


def test_the_refusal_knows_the_counts_of_stages_in_turn() -> None:
    """4 GPUs are in both tables, but only on 8 do both stages fit together."""
    problem = SplitProblem({"a": 4}, {"a": {4: 9.0}}, {"a": {4: 1.0}}, {"a": 1.0}, colocated={"a": {8: (5.0, 3.0)}})
    with pytest.raises(InfeasibleError, match=r"need at least 4 \+ 4 = 8 GPUs, sharing in time at least 8; raise `budget.a`, now 4"):
        exact(problem)


def test_later_changes_of_the_callers_mappings_do_not_reach_the_problem() -> None:
    """Frozen means frozen: what happened to be the caller's dictionary is copied."""
    finish, sizes, between = {"a": {1: (1.0, 2.0)}}, {"a": 2}, {("a", "b"): 1.0}
    problem = SplitProblem(
        {"a": 4, "b": 4},
        {"a": {1: 2.0}},
        {"b": {1: 2.0}},
        {"a": 1.0, "b": 1.0},
        finish=finish,
        gpus_per_node=sizes,
        sync_between=between,
    )
    finish["a"][1] = (0.0, 2.0)
    sizes["a"] = 8
    between["a", "b"] = 9.0
    assert (problem.finish["a"][1], problem.gpus_per_node["a"], problem.sync("a", "b")) == ((1.0, 2.0), 2, 1.0)
