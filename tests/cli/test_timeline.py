"""The picture of one period that `explain` draws."""

from __future__ import annotations

from rollplan import Scenario, plan
from rollplan.cli.timeline import timeline

TWO_JOBS = """
name: two
overheads: zero
pools:
  h20: {role: rollout, gpu: H20, price: 1.85 $/h, memory: 2 TB}
  h800: {role: train, gpu: H800, price: 5.28 $/h, memory: 2 TB}
jobs:
  - {name: first, size: 7B, slo: 2, rollout: 50 s, train: 50 s}
  - {name: second, size: 7B, slo: 2, rollout: 50 s, train: 25 s}
"""


def rows() -> list[str]:
    (group,) = plan(Scenario.from_yaml(TWO_JOBS)).groups
    return list(timeline(group))


def test_the_letters_are_explained() -> None:
    """A reader sees names in the table above and letters in the rows."""
    assert rows()[0] == "  A first, B second"


def test_each_row_shows_as_much_of_a_letter_as_the_job_takes_of_the_period() -> None:
    """Period 100 s in 64 columns: 50 s are half of them, 25 s a quarter, and the training pool idles for a quarter."""
    node, training = (row.split()[-1] for row in rows()[1:])
    assert [(node.count(letter), training.count(letter)) for letter in "AB."] == [(32, 32), (32, 16), (0, 16)]


def test_a_job_never_trains_while_it_rolls_out() -> None:
    """One iteration in flight."""
    node, training = (row.split()[-1] for row in rows()[1:])
    assert [column for column in range(64) if node[column] == training[column] != "."] == []
