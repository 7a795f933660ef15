"""Runs in a file: restarts, resumed runs, lines that stand there twice, writers side by side; and which framework it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollplan import InputError
from rollplan.profilers.logs.detect import FRAMEWORKS, by_name

from .grammar import GRAMMARS, Grammar, Truth
from .truths import named, read_text, steady

VERL = named("verl console 2025")
NUMBERED = [g for g in GRAMMARS if "bare" not in g.name and "timers" not in g.name and g.framework != "TRL"]


@pytest.mark.parametrize("grammar", NUMBERED, ids=lambda grammar: grammar.name)
def test_a_count_that_begins_anew_is_another_run(tmp_path: Path, grammar: Grammar) -> None:
    """Two experiments that write to one file must not be averaged."""
    runs = read_text(tmp_path, grammar.write(steady(grammar)) + grammar.write(steady(grammar, base=40.0)))
    assert len(runs) == 2
    assert [step.step for run in runs for step in run.steps] == 2 * [grammar.first + n for n in range(4)]
    assert ["run 1 of 2" in runs[0].source, "run 2 of 2" in runs[1].source] == [True, True]


def test_steps_repeated_after_a_resume_count_once(tmp_path: Path) -> None:
    """The crash came after step 6, the checkpoint was of step 3: 4 to 6 ran twice, and are as good as any, but not twice."""
    before = steady(VERL, count=6)
    after = [Truth(t.step, {name: time + 1 for name, time in t.phases.items()}, t.gap) for t in steady(VERL, count=9)[3:]]
    (run,) = read_text(tmp_path, VERL.write(before) + VERL.write(after))
    assert [step.step for step in run.kept] == list(range(1, 10))
    assert [step.step for step in run.steps if step.dropped] == [4, 5, 6]
    assert all("resumed" in (step.dropped or "resumed") for step in run.steps)
    assert [step.phases["update"] for step in run.kept if step.step > 3] == [t.phases["update"] for t in after]
    assert any("3 repeated steps" in warning for warning in run.warnings)


def test_a_log_that_was_pasted_twice_is_one_run(tmp_path: Path) -> None:
    """`cat run.log run.log`, or two handlers on one logger."""
    text = VERL.write(steady(VERL))
    (run,) = read_text(tmp_path, text + text)
    assert len(run.kept) == 4
    (doubled,) = read_text(tmp_path, "".join(f"{line}\n{line}\n" for line in text.splitlines()))
    assert doubled.steps == run.steps
    assert any("4 steps stand in the log twice" in warning for warning in doubled.warnings)


def test_runs_that_write_side_by_side_are_told_apart(tmp_path: Path) -> None:
    """Ray says which process wrote a line."""
    one, other = VERL.write(steady(VERL)).splitlines(), VERL.write(steady(VERL, base=50.0)).splitlines()
    text = "".join(f"(TaskRunner pid=1) {a}\n(TaskRunner pid=2) {b}\n" for a, b in zip(one, other, strict=True))
    runs = read_text(tmp_path, text)
    assert [[step.phases["generation"] for step in run.steps] for run in runs] == [[20.0, 20.1, 20.2, 20.3], [50.0, 50.1, 50.2, 50.3]]


def test_two_runs_whose_lines_cannot_be_told_apart_are_not_called_a_resumed_one(tmp_path: Path) -> None:
    """Without a process id, steps that alternate look like a run that is resumed after each of them."""
    one, other = VERL.write(steady(VERL, count=6)).splitlines(), VERL.write(steady(VERL, count=6, base=50.0)).splitlines()
    runs = read_text(tmp_path, "".join(f"{a}\n{b}\n" for a, b in zip(one, other, strict=True)))
    told = [warning for run in runs for warning in run.warnings]
    assert any("lines of two runs may be mixed" in warning for warning in told)
    assert not any("the run was resumed" in warning for warning in told)


def test_a_resumed_run_has_another_process_and_is_still_one(tmp_path: Path) -> None:
    """The process id says nothing when one writer follows the other."""
    steps = steady(VERL, count=8)
    text = "".join(f"(TaskRunner pid={1 + n // 4}) {line}\n" for n, line in enumerate(VERL.write(steps).splitlines()))
    (run,) = read_text(tmp_path, text)
    assert len(run.kept) == 8


def test_a_log_with_the_newest_line_first_is_turned_round(tmp_path: Path) -> None:
    """Log viewers export it so."""
    lines = VERL.write(steady(VERL)).splitlines()
    assert read_text(tmp_path, "\n".join(reversed(lines)) + "\n")[0].steps == read_text(tmp_path, "\n".join(lines) + "\n")[0].steps


def test_both_sides_of_slime_may_be_a_step_apart(tmp_path: Path) -> None:
    """train_async.py prefetches: the rollout side is at step 1 when the trainer reports step 0."""
    grammar = named("slime async")
    lines = grammar.write(steady(grammar, count=5)).splitlines()
    rollout, train = lines[::2], lines[1::2]
    ahead = [rollout[0], *(line for pair in zip(rollout[1:], train, strict=False) for line in pair), train[-1]]
    assert read_text(tmp_path, "\n".join(ahead) + "\n")[0].steps == read_text(tmp_path, "\n".join(lines) + "\n")[0].steps


def test_a_run_without_a_step_that_counts_is_only_mentioned(tmp_path: Path) -> None:
    """Half a file is no reason to refuse the other half."""
    broken = "".join(f"step:{n} - timing_s/update_actor:90.0 - timing_s/step:50.0\n" for n in range(1, 4))
    runs = read_text(tmp_path, broken + VERL.write(steady(VERL)))
    assert len(runs) == 1
    assert any("run 1 of 2" in warning and "no step that can be used" in warning for warning in runs[0].warnings)


PAIRS = [(one, other) for place, one in enumerate(FRAMEWORKS) for other in FRAMEWORKS[place + 1 :]]


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=lambda framework: framework.name)
def test_a_mixed_log_is_refused_unless_one_is_chosen(tmp_path: Path, one: object, other: object) -> None:
    """Every pair: no reader takes the lines of another for its own."""
    names = [getattr(framework, "name", "") for framework in (one, other)]
    grammars = [next(grammar for grammar in GRAMMARS if grammar.framework == name) for name in names]
    text = "".join(grammar.write(steady(grammar)) for grammar in grammars)
    with pytest.raises(InputError, match="several frameworks") as refused:
        read_text(tmp_path, text)
    assert all(f"{name} (" in str(refused.value) for name in names)
    for name, grammar in zip(names, grammars, strict=True):
        (run,) = read_text(tmp_path, text, name)
        assert (run.framework, len(run.steps)) == (name, len(read_text(tmp_path, grammar.write(steady(grammar)))[0].steps))


def test_a_file_of_no_framework_says_what_was_looked_for(tmp_path: Path) -> None:
    """So that users see which of their files to give."""
    with pytest.raises(InputError) as refused:
        read_text(tmp_path, "INFO: hello\n" * 100)
    assert all(framework.name in str(refused.value) and framework.looked_for in str(refused.value) for framework in FRAMEWORKS)


def test_frameworks_are_named_in_any_way_of_writing() -> None:
    """`nemo_rl`, `NeMo-RL`, `PRIME RL`."""
    assert [by_name(name).name for name in ("nemo_rl", "NeMo", "PRIME RL", "openinstruct")] == [
        "NeMo-RL",
        "NeMo-RL",
        "prime-rl",
        "open-instruct",
    ]
    with pytest.raises(InputError, match="choose from verl, OpenRLHF"):
        by_name("deepspeed")


def test_the_framework_chosen_must_have_steps_in_the_log(tmp_path: Path) -> None:
    """Otherwise the choice was wrong, and nothing is invented."""
    with pytest.raises(InputError, match="holds no SkyRL step"):
        read_text(tmp_path, VERL.write(steady(VERL)), "skyrl")


def test_lines_out_of_all_order_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand runs in a file are none."""
    monkeypatch.setattr("rollplan.profilers.logs.read.MOST_RUNS", 3)
    text = "".join(VERL.write(steady(VERL, base=20.0 + 10 * n)) for n in range(5))
    with pytest.raises(InputError, match="not in order"):
        read_text(tmp_path, text)
