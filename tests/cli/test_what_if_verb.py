"""What `what-if` says beside its tables: whether targets are kept, and which plans it cannot make again as they were made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


@pytest.fixture
def several(folder: Path) -> None:
    """Two jobs to be co-located and three splits, in several.yaml."""
    (folder / "several.yaml").write_text(Path(__file__).with_name("split_several.yaml").read_text())


@pytest.mark.usefixtures("several")
def test_what_if_shows_whether_a_target_is_kept(cli: Call) -> None:
    """A line that stands there only if a row misses it; of a split that never had a target there is nothing to say."""
    assert cli("plan", "several.yaml", "-o", "several.json", "-q").code == 0
    kept = cli("what-if", "several.json", "--job", "tables", "target=50 s").out
    assert [line for line in kept.splitlines() if line.startswith("  target")] == []
    missed = cli("what-if", "several.json", "--job", "tables", "target=50 s", "target=49 s").out
    (line,) = [line for line in missed.splitlines() if line.startswith("  target")]
    assert " ".join(line.split()) == "target target=50 s: 50 s kept, target=49 s: 49 s missed, all of these: 49 s missed"


@pytest.mark.parametrize(("objective", "says"), [("time", "kept"), ("cost", "can be kept")])
def test_what_if_says_of_a_dear_plan_that_it_could_keep_the_target(cli: Call, folder: Path, objective: str, says: str) -> None:
    """The cheapest plan takes 90 s; on twice the GPUs it takes 60 s, and less than twice as long."""
    text = """\
name: dear
pools:
  h20: {role: rollout, gpu: H20, nodes: 2, gpus_per_node: 1, price: 2 $/h, memory: 1 TB}
  h800: {role: train, gpu: H800, nodes: 1, gpus_per_node: 1, price: 1 $/h, memory: 1 TB}
jobs:
  - {name: j, split: {target: 1 s, pipelining: [one-step], rollout: {h20: {1: 90 s, 2: 60 s}}, train: {h800: {1: 50 s}}}}
"""
    (folder / "dear.yaml").write_text(text)
    assert cli("plan", "dear.yaml", "-o", "dear.json", "-q").code == 0
    outcome = cli("what-if", "dear.json", "target=70 s", f"objective={objective}").out
    assert f"all of these: 70 s {says}" in " ".join(outcome.split())


@pytest.mark.usefixtures("several")
def test_what_if_says_that_moves_of_a_plan_made_since_another_are_not_counted(cli: Call) -> None:
    """In the head, and of no other plan."""
    assert cli("plan", "several.yaml", "--method", "solo", "-o", "solo.json", "-q").code == 0
    assert cli("plan", "several.yaml", "--since", "solo.json", "--max-moved", "0", "-o", "since.json", "-q").code == 0
    screen = cli("what-if", "since.json", "max_group_size=2").out
    assert screen.splitlines()[0] == "several   what if   moves not counted: compare with the row `planned anew`"
    assert [row.split("  ")[0] for row in screen.splitlines()[-3:]] == ["as planned", "planned anew", "max_group_size=2"]
    assert cli("what-if", "solo.json", "max_group_size=2").out.splitlines()[0] == "several   what if"
