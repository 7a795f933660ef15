"""The job shop benchmark without its peers, which live in environments of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "job_shop.py"
SHOP = "2 2\n0 3 1 2\n1 2 0 4\n"


def run(folder: Path, upper: int, lower: int) -> subprocess.CompletedProcess[str]:
    (folder / "small.txt").write_text(SHOP)
    (folder / "bounds.csv").write_text(f"name,lb,ub\nsmall,{lower},{upper}\n")
    command = [sys.executable, str(BENCHMARK), "--instances", str(folder), "--method", "repeatable", "--time-limit", "30"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_it_prints_a_row_for_each_instance_and_a_summary(tmp_path: Path) -> None:
    """7 is the optimum of two jobs on two machines."""
    lines = run(tmp_path, 7, 7).stdout.splitlines()
    assert next(line for line in lines if line.startswith("| small")).startswith("| small | 4 | 7 | rollplan | 7 | 7 | 0.00 | 0.00 |")
    assert next(line for line in lines if line.startswith("| rollplan, OR-Tools")).endswith("| 1 | 1 | 0.00 | 0.00 | 0.00 | 0.00 |")


def test_a_bound_above_the_best_known_makespan_ends_it_with_an_error(tmp_path: Path) -> None:
    """A wrong bound is never a row of a table."""
    done = run(tmp_path, 6, 5)
    assert done.returncode == 1
    assert "small: bound 7.0 above the best known makespan 6.0" in done.stderr
    done = run(tmp_path, 9, 8)
    assert "small: makespan 7.0 below the best known bound 8.0" in done.stderr
