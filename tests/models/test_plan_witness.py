"""The witness in a plan file: a tree in a flat list that can be read back, however deep, and is refused if it is none."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.certified import Branch, GroupCount, Leaf, Measure, PoolNodes, Together, TwoOfThree, Witness
from rollplan.models.colocation.problem import ColocationProblem, JobData, NodePool
from rollplan.models.errors import InputError
from rollplan.models.plan_witness import PlannedWitness, prices_in, with_indices, with_names
from rollplan.models.strict import tuples

PROBLEM = ColocationProblem((NodePool("r", 1.0, 9.0), NodePool("t", 2.0, 9.0)), tuple(JobData(name, 2.0, 5.0, 5.0) for name in "abc"))
MEASURES: list[Measure] = [
    PoolNodes(0),
    PoolNodes(1),
    GroupCount(0, 1, 2, None),
    GroupCount(0, 1, None, None),
    Together(0, 2),
    TwoOfThree(2, 0, 1),
]


def tree(random: Random, levels: int) -> Witness:
    """Return a tree of random shape."""
    if levels == 0 or random.random() < 0.2:
        measures = [measure for measure in MEASURES if not isinstance(measure, Together | TwoOfThree) and random.random() < 0.3]
        return Leaf(tuple(round(random.uniform(0, 50), 6) for _ in "abc"), tuple((measure, random.uniform(-9, 9)) for measure in measures))
    both = tree(random, 0) if random.random() < 0.3 else None
    assert not isinstance(both, Branch)
    return Branch(random.choice(MEASURES), random.randint(-1, 9), tree(random, levels - 1), tree(random, levels - 1), both)


@given(st.integers(0, 10**6), st.integers(0, 6))
def test_a_witness_is_read_as_it_was_written(seed: int, levels: int) -> None:
    """Through JSON, names in place of indices."""
    witness = tree(Random(seed), levels)
    text = json.dumps(with_names(PROBLEM, witness).model_dump(mode="json"))
    assert with_indices(PROBLEM, PlannedWitness.build(tuples(json.loads(text)), "plan")) == witness


def test_a_witness_may_be_deep() -> None:
    """A list has no depth at which JSON or Python give up."""
    witness: Witness = Leaf((1.0, 2.0, 3.0))
    for at in range(20_000):
        witness = Branch(PoolNodes(0), at, witness, Leaf((0.0, 0.0, 0.0)))
    written = with_names(PROBLEM, witness)
    assert (len(written.tree), prices_in(witness)) == (40_001, 3 * 20_001)
    back = with_indices(PROBLEM, PlannedWitness.build(tuples(json.loads(json.dumps(written.model_dump(mode="json")))), "plan"))
    for at in reversed(range(20_000)):
        assert isinstance(back, Branch)
        assert back.at == at
        back = back.below
    assert back == Leaf((1.0, 2.0, 3.0))


PRICES = {"jobs": [1.0, 2.0, 3.0], "measures": []}
CUT = {"measure": 0, "at": 2, "prices": None}
POOL = {"kind": "nodes of pool", "pool": "r"}


@pytest.mark.parametrize(
    ("measures", "tree", "problem"),
    [
        ([POOL], [], "has a `tree` that is not one whole tree"),
        ([POOL], [CUT], "has a `tree` that is not one whole tree"),
        ([POOL], [CUT, PRICES], "has a `tree` that is not one whole tree"),
        ([POOL], [PRICES, PRICES], "has a `tree` that is not one whole tree"),
        ([POOL], [PRICES, CUT, PRICES], "has a `tree` that is not one whole tree"),
        ([POOL], [CUT, PRICES, PRICES, PRICES], "has a `tree` that is not one whole tree"),
        ([], [CUT, PRICES, PRICES], "speaks of a measure that it does not list"),
        ([POOL], [{**PRICES, "measures": [[1, 2.0]]}], "speaks of a measure that it does not list"),
        ([POOL], [{**PRICES, "measures": [[-1, 2.0]]}], "speaks of a measure that it does not list"),
    ],
)
def test_what_is_no_tree_is_refused(measures: list[Any], tree: list[Any], problem: str) -> None:
    """A file that was cut off, or put together by hand."""
    with pytest.raises(InputError, match=problem):
        PlannedWitness.build(tuples({"measures": measures, "tree": tree}), "plan")


@pytest.mark.parametrize(
    "measure",
    [
        {"kind": "nodes of pool", "pool": "x"},
        {"kind": "groups of size", "rollout_pool": "r", "train_pool": "x", "train_nodes": 1, "rollout_nodes": None},
        {"kind": "jobs together", "jobs": ["a", "x"]},
        {"kind": "two of three jobs", "jobs": ["a", "b", "x"]},
    ],
)
def test_a_name_that_the_scenario_does_not_have_is_said(measure: dict[str, Any]) -> None:
    """`check` calls it a fault of the plan."""
    written = PlannedWitness.build(tuples({"measures": [measure], "tree": [CUT, PRICES, PRICES]}), "plan")
    with pytest.raises(KeyError, match="x"):
        with_indices(PROBLEM, written)
