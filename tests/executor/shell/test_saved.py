"""Whatever is killed at whatever moment: one whole state is there, and it is the newest that all ranks have written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rollplan.executor.shell.saved import SavedStates, file_name


def save(states: SavedStates, finished: int) -> None:
    (states.begin(finished) / "rank-0").write_text(str(finished), encoding="utf-8")
    states.finish(finished)


def test_the_newest_whole_state_counts_and_older_ones_go(tmp_path: Path) -> None:
    states = SavedStates(tmp_path, "chat")
    assert states.finished() == 0
    for finished in (1, 2, 10):
        save(states, finished)
        assert states.finished() == finished
        assert [one.name for one in states.folder.iterdir()] == [str(finished)]
    assert (states.of(10) / "rank-0").read_text(encoding="utf-8") == "10"


def test_a_state_that_not_all_ranks_wrote_counts_for_nothing(tmp_path: Path) -> None:
    """A kill before the rename leaves a part; the next attempt starts it anew."""
    states = SavedStates(tmp_path, "chat")
    save(states, 1)
    (states.begin(2) / "rank-0").touch()
    assert SavedStates(tmp_path, "chat").finished() == 1
    assert list(states.begin(2).iterdir()) == []
    states.finish(2)
    assert states.finished() == 2


def test_a_kill_between_rename_and_clean_up_leaves_the_newer_state(tmp_path: Path) -> None:
    states = SavedStates(tmp_path, "chat")
    save(states, 1)
    older = tmp_path / "kept"
    shutil.copytree(states.of(1), older)
    save(states, 2)
    older.rename(states.of(1))
    assert states.finished() == 2


@pytest.mark.parametrize("name", ["a/b", "..", ".hidden", "ä ö", "%2E", "a\\b", "+" * 100])
def test_every_name_of_a_job_is_one_file_of_its_own(tmp_path: Path, name: str) -> None:
    """Names come from a scenario; none may leave the folder of the run."""
    states = SavedStates(tmp_path, name)
    save(states, 1)
    assert states.folder.parent == tmp_path / "jobs"
    assert states.folder.name not in ("", ".", "..")


def test_different_names_are_different_files() -> None:
    names = ["a/b", "a%2Fb", ".a", "%2Ea", "a", "+" * 99 + "a", "+" * 99 + "b"]
    assert len({file_name(name) for name in names}) == len(names)
