"""The benchmarks run and print what they promise; how fast they are is not tested."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def run(name: str, *options: str) -> list[str]:
    command = [sys.executable, str(BENCHMARKS / name), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.splitlines()


def test_the_admission_benchmark_finds_equal_decisions_and_prints_two_ratios() -> None:
    """It ends with an error where ours and the transcription decide differently."""
    assert [line.split()[-2] for line in run("admission.py", "--live", "60", "--arrivals", "5") if "ratio" in line] == ["ratio", "ratio"]


def test_the_colocation_benchmark_prints_one_row_for_each_problem() -> None:
    """Every plan in it passes the verifier, or it ends with an error."""
    rows = [line.split() for line in run("colocation.py", "--jobs", "8")[2:]]
    assert [(row[0], row[1]) for row in rows] == [("8", "1"), ("8", "2"), ("8", "3")]
    assert [row[7] for row in rows] == ["0.00"] * 3
