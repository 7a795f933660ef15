"""An interpreter whose driver is a fake one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FAKE = Path(__file__).parent / "fake_driver.py"


@pytest.fixture
def fake_python(tmp_path: Path) -> str:
    """A program that answers as an interpreter with Ray does."""
    path = tmp_path / "fake-python"
    path.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exit 0\nexec "{sys.executable}" "{FAKE}"\n')
    path.chmod(0o755)
    return str(path)
