"""A program's faults are told in words, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollplan.executor.shell.program import ProgramError, load_program

HEAD = "from rollplan.executor.api import phase\n"
ROLLOUT = '@phase(pool="rollout")\ndef rollout(worker, task): return iter(())\n'
TRAIN = '@phase(pool="train")\ndef train(worker, task): return {}\n'


def write(folder: Path, text: str, name: str = "given.py") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return name


def test_a_file_is_found_relative_to_the_folder_and_its_phases_by_their_marks(tmp_path: Path) -> None:
    """The function's own name counts for nothing if the mark says the kind."""
    name = write(tmp_path, HEAD + ROLLOUT + '@phase(pool="train", kind="train")\ndef learn(worker, task): return {}\n')
    program = load_program(name, tmp_path)
    found = program.function("train", "train")
    assert found is not None
    assert found.__name__ == "learn"
    assert program.function("rollout", "init") is None


def test_a_dotted_module_is_a_program_too(tmp_path: Path) -> None:
    assert load_program("rollplan.executor.programs.sleep", tmp_path).function("rollout", "estimate") is not None


def test_a_function_under_two_names_is_one_function(tmp_path: Path) -> None:
    name = write(tmp_path, HEAD + ROLLOUT + TRAIN + "again = train\n")
    assert len(load_program(name, tmp_path).functions) == 2


def test_files_beside_a_program_can_be_imported_by_it(tmp_path: Path) -> None:
    write(tmp_path, "VALUE = 3\n", "beside_the_program.py")
    name = write(tmp_path, HEAD + "from beside_the_program import VALUE\n" + ROLLOUT + TRAIN)
    assert load_program(name, tmp_path).functions


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + TRAIN, 'no function is marked @phase(pool="rollout") as `rollout` (marked: train of pool train)'),
        (HEAD + ROLLOUT, 'no function is marked @phase(pool="train") as `train`'),
        (
            HEAD + ROLLOUT + TRAIN + TRAIN.replace("def train", "def other").replace(")\n", ', kind="train")\n', 1),
            "train and other are both",
        ),
        (
            "import no_such_module_anywhere\n",
            "cannot be imported: ModuleNotFoundError: No module named 'no_such_module_anywhere' (given.py:1)",
        ),
        ("raise SystemExit(3)\n", "cannot be imported: SystemExit: 3 (given.py:1)"),
        ("def broken(:\n", "cannot be imported: SyntaxError"),
    ],
)
def test_what_is_wrong_with_a_program_is_said_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ProgramError) as caught:
        load_program(write(tmp_path, text), tmp_path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named_with_its_whole_path(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="is not a file; relative paths start at the folder of the plan"):
        load_program("nowhere.py", tmp_path)
