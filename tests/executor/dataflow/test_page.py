"""What docs/dataflow.md shows and names is there."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from rollplan.executor.dataflow.graph import Edge, Node
from rollplan.executor.dataflow.outcome import EdgeStatus, NodeStatus
from rollplan.executor.dataflow.policy import BackPressure

PAGE = (Path(__file__).parents[3] / "docs" / "dataflow.md").read_text()


def test_the_program_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Readers begin with a copy of it."""
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    exec(compile(program, "dataflow.md", "exec"), {})
    assert capsys.readouterr().out.startswith("(0, 2, 1, 0, 2, 1")


def test_every_field_stands_in_the_page() -> None:
    """What cannot be looked up is guessed."""
    words = set(re.findall(r"\w+", PAGE))
    names = {one.name for kind in (Node, Edge, BackPressure, NodeStatus, EdgeStatus) for one in fields(kind)}
    assert names - words == set()


def test_the_standard_library_is_enough() -> None:
    """Graphs, threads and policies work in any interpreter (docs/decisions/0013)."""
    program = "import sys, rollplan.executor.dataflow.run, rollplan.executor.dataflow.runtime; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pydantic", "numpy", "ray", "torch", "yaml"} & {name.partition(".")[0] for name in loaded}
