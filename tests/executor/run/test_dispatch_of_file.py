"""What carries over from one dispatch to every iteration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rollplan.executor.core.runbook import Dispatch
from rollplan.executor.dispatch_of_file import read_dispatch
from rollplan.models.errors import InputError


def written(folder: Path, tokens: list[int], orders: list[list[int]]) -> Path:
    path = folder / "dispatch.json"
    path.write_text(json.dumps({"job": "a", "slots": 16, "output_tokens": tokens, "orders": orders, "instances": len(orders)}))
    return path


def test_instances_that_hold_the_longest_alone_are_the_tail(tmp_path: Path) -> None:
    """Their number, and the share of the samples that is theirs; each instance has its longest first."""
    path = written(tmp_path, [900, 100, 90, 80, 70, 60], [[1, 3], [2, 4, 5], [0]])
    assert read_dispatch(path) == ("a", Dispatch("lpt", 1 / 6, 1, 16, 16), 3)


def test_mixed_lengths_have_no_tail(tmp_path: Path) -> None:
    """Nothing is separated, and the order is not that of the lengths."""
    assert read_dispatch(written(tmp_path, [9, 8, 7, 6], [[3, 0], [1, 2]])) == ("a", Dispatch("given", slots=16, tail_slots=16), 2)


@pytest.mark.parametrize(
    ("tokens", "orders", "slots"),
    [
        ([9, 1], [[0]], 1),
        ([9, 1], [[0, 1], [1]], 1),
        ([9, 1], [[0, 7]], 1),
        ([9, 1], [0, 1], 1),
        (["9", "1"], [[0, 1]], 1),
        ([9], [[0]], 0),
    ],
)
def test_a_deal_that_is_none_is_refused(tmp_path: Path, tokens: list[int], orders: list[list[int]], slots: int) -> None:
    """A sample that is missing, doubled or unknown; no lists; no numbers; no slot."""
    path = written(tmp_path, tokens, orders)
    path.write_text(json.dumps({**json.loads(path.read_text()), "slots": slots}))
    with pytest.raises(InputError, match="is not a dispatch"):
        read_dispatch(path)


@pytest.mark.parametrize("text", ["", "[]", '{"job": "a"}', '{"job": 1, "slots": 1, "output_tokens": [], "orders": []}'])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    """It says what to give."""
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match="is not a dispatch; give what `rollplan dispatch SCENARIO --json` printed"):
        read_dispatch(path)
