"""Another interpreter finds rollplan, and nothing that is installed beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rollplan
from rollplan.models.process import python_path


def found(path: str, module: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-S", "-c", f"import {module}; print({module}.__file__)"]
    return subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False)


def test_another_interpreter_finds_this_rollplan_and_none_of_its_neighbours(tmp_path: Path) -> None:
    """Installed from a wheel, rollplan lies beside its own numpy and pydantic, which another interpreter must not take."""
    path = python_path(tmp_path / "code")
    assert Path(found(path, "rollplan").stdout.strip()).resolve() == Path(rollplan.__file__).resolve()
    assert found(path, "pytest").returncode != 0
    assert [entry.name for entry in (tmp_path / "code").iterdir()] == ["rollplan"]


def test_the_link_follows_another_installation_and_what_the_user_set_comes_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may be resumed by a newer rollplan."""
    (tmp_path / "rollplan").symlink_to(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "/users/own")
    assert python_path(tmp_path) == python_path(tmp_path) == f"{tmp_path}:/users/own"
    assert (tmp_path / "rollplan").resolve() == Path(rollplan.__file__).resolve().parent
