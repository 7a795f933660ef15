"""The folder of a run is one run's, of one plan, held by one process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rollplan.executor.core.records import Held, Remark
from rollplan.executor.run_folder import RunFolder, default_folder
from rollplan.models.errors import InputError

from .made import a_runbook, record


def test_a_resumed_folder_has_what_was_added(tmp_path: Path) -> None:
    """Records, remarks and memory, in their order; a line that a kill tore is skipped, and the next one is whole."""
    with RunFolder(tmp_path / "run", a_runbook()) as folder:
        folder.add(record("rollout", 0.0, 1.0, values={"tokens": 3.0}))
        folder.add(Remark(1.0, None, "something"))
        folder.add(Held(1.0, "a", "g1/train", 5))
    with (tmp_path / "run" / "records.jsonl").open("a") as file:
        file.write('{"job": "a", "res')
    with RunFolder(tmp_path / "run", a_runbook(), resume=True) as folder:
        folder.add(record("train", 1.0, 2.0))
    with RunFolder(tmp_path / "run", a_runbook(), resume=True) as folder:
        assert folder.records == (record("rollout", 0.0, 1.0, values={"tokens": 3.0}), record("train", 1.0, 2.0))
        assert folder.remarks == (Remark(1.0, None, "something"),)
        assert folder.held == (Held(1.0, "a", "g1/train", 5),)


def test_a_run_is_not_overwritten_by_accident(tmp_path: Path) -> None:
    """Whoever wants that says so; then nothing of it stays, and what is not the run's does."""
    with RunFolder(tmp_path / "run", a_runbook()) as folder:
        folder.add(record("rollout", 0.0, 1.0))
    (tmp_path / "run" / "jobs").mkdir()
    (tmp_path / "run" / "mine.txt").touch()
    with pytest.raises(InputError, match=r"holds a run already; go on with it \(--resume\)"):
        RunFolder(tmp_path / "run", a_runbook())
    with RunFolder(tmp_path / "run", a_runbook(), force=True) as folder:
        assert folder.records == ()
    assert not (tmp_path / "run" / "jobs").exists()
    assert (tmp_path / "run" / "mine.txt").exists()


def test_a_folder_of_something_else_is_never_taken(tmp_path: Path) -> None:
    """Not even by force: the files in it are not ours."""
    (tmp_path / "thesis.tex").touch()
    for force in (False, True):
        with pytest.raises(InputError, match="is not the folder of a run"):
            RunFolder(tmp_path, a_runbook(), force=force)


def test_another_plans_run_is_not_resumed(tmp_path: Path) -> None:
    """States of other jobs would be taken for these."""
    RunFolder(tmp_path / "run", a_runbook()).close()
    with pytest.raises(InputError, match="holds the run of another plan"):
        RunFolder(tmp_path / "run", replace(a_runbook(), seal="1" * 64), resume=True)


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    """A wrong path would begin from nothing unseen."""
    with pytest.raises(InputError, match="holds no run to go on with"):
        RunFolder(tmp_path / "run", a_runbook(), resume=True)


def test_two_runs_never_share_a_folder(tmp_path: Path) -> None:
    """The second one is refused while the first goes on."""
    with RunFolder(tmp_path / "run", a_runbook()), pytest.raises(InputError, match="its run is going on"):
        RunFolder(tmp_path / "run", a_runbook(), resume=True)
    RunFolder(tmp_path / "run", a_runbook(), resume=True).close()


def test_the_folder_stands_beside_the_plan() -> None:
    """Where nobody names one."""
    assert default_folder(Path("plans/mine.json")) == Path("plans/mine.run")
