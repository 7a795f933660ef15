"""Exit code 3: what a user reads when nothing fits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Call = Callable[..., Any]
EXAMPLES = Path(__file__).parents[2] / "examples" / "infeasible"


def test_jobs_that_do_not_fit_are_told_what_excludes_them_and_what_would_do(cli: Call) -> None:
    """240 s of training in turn against 231 s: a node, or 0.05 of an SLO, or a job."""
    outcome = cli("plan", str(EXAMPLES / "one_node_short.yaml"), "-q")
    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err.splitlines() == [
        "error: no plan fits",
        "  because these 4 requirements exclude each other, and without any one of them the others have a plan (proven twice)",
        "  because pool h800 has nodes: 1 (nodes: 2 would do)",
        "  because job math: needs 1 node of h20 and 1 of h800, slo 1.05 (at most 231 s per iteration, 220 s alone) "
        "(slo 1.1, or leaving it out would do)",
        "  because job code: needs 1 node of h20 and 1 of h800 (leaving it out would do)",
        "  because job chat: needs 1 node of h20 and 1 of h800 (leaving it out would do)",
    ]


def test_what_would_do_does(cli: Call, folder: Path) -> None:
    """Each change that is named, made by hand; one step less does not."""
    text = (EXAMPLES / "one_node_short.yaml").read_text()
    for old, enough, too_little in (("nodes: 1}", "nodes: 2}", "nodes: 1}"), ("slo: 1.05", "slo: 1.1", "slo: 1.09")):
        (folder / "enough.yaml").write_text(text.replace(old, enough))
        (folder / "too_little.yaml").write_text(text.replace(old, too_little))
        assert [cli("plan", name, "-q").code for name in ("enough.yaml", "too_little.yaml")] == [0, 3]


def test_a_split_beyond_its_budget_is_told_the_one_that_would_do(cli: Call) -> None:
    """The exact cause first, then the change, with the nodes it asks for."""
    outcome = cli("plan", str(EXAMPLES / "small_budget.yaml"), "-q")
    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err.splitlines() == [
        "error: no plan fits",
        "  because train on pool h800 needs at least 16 GPUs, the fewest in its table, and the budget is 8 "
        "(raise `budget.h800`, or add fewer GPUs to `train.h800`)",
        "  because one requirement of split coder excludes every plan (proven twice)",
        "  because budget.h800: 8 GPUs (budget.h800: 16 would do, with nodes: 2 of pool h800)",
    ]


def test_reserved_nodes_are_counted(cli: Call, folder: Path, scenario_text: str) -> None:
    """A split has nodes of its own; the scenario says `nodes` of the whole pool, and so does the remedy."""
    short = scenario_text.replace("5.28 $/h, memory: 900 GB, nodes: 8", "5.28 $/h, memory: 900 GB, nodes: 2")
    (folder / "short.yaml").write_text(short)
    outcome = cli("plan", "short.yaml", "-q")
    assert outcome.code == 3
    assert "pool h800 has nodes: 2, 1 of them set aside for splits" in outcome.err
    enough = outcome.err.partition("pool h800")[2].partition("(nodes: ")[2].split()[0]
    (folder / "enough.yaml").write_text(short.replace("nodes: 2}", f"nodes: {enough}}}"))
    assert cli("plan", "enough.yaml", "-q").code == 0
