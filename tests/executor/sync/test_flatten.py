"""Weights as bytes and back, in the interpreter that has torch."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]


PYTHON = os.environ.get("ROLLPLAN_VLLM_PYTHON")
PROGRAM = Path(__file__).parent / "flatten_checks.py"
CHECKS = re.findall(r"^def (check_\w+)", PROGRAM.read_text(), flags=re.MULTILINE)
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(PYTHON is None, reason="ROLLPLAN_VLLM_PYTHON must name a Python with torch (make test-vllm)"),
]


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    """All checks are run at once: torch takes longer to load than they do."""
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([str(PYTHON), str(PROGRAM)], capture_output=True, text=True, check=False, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("check", CHECKS)
def test_the_check_of_this_name_passes(found: dict[str, str], check: str) -> None:
    """Its name is the sentence; it stands in flatten_checks.py."""
    assert found[check] == ""
