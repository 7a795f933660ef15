"""Which steps count: warm-up, validation, checkpoints, sums that do not add up, and numbers that cannot be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollplan import InputError
from rollplan.models.profile.run import LoggedRun

from .grammar import Truth
from .truths import named, read_text, steady

VERL = named("verl console 2025")
TIMES = {"gen": 40.0, "old_log_prob": 10.0, "ref": 10.0, "update_actor": 38.0}


def line(step: int, total: float | None = None, **extra: float) -> str:
    """Return a verl line of a step of 100 s; extra: other timers, or keys with `__` for `/`."""
    times = {f"timing_s/{name}": extra.pop(name, time) for name, time in TIMES.items()}
    more = {key.replace("__", "/") if "__" in key else f"timing_s/{key}": value for key, value in extra.items()}
    cells = {**times, **more, "timing_s/step": 100.0 if total is None else total}
    return f"step:{step} - " + " - ".join(f"{key}:{value:.3f}" for key, value in cells.items()) + "\n"


def read(folder: Path, *lines: str) -> LoggedRun:
    (run,) = read_text(folder, "".join(lines))
    return run


def dropped(run: LoggedRun) -> dict[int, str]:
    return {step.step: step.dropped for step in run.steps if step.dropped}


def test_a_first_step_that_is_much_longer_is_warm_up(tmp_path: Path) -> None:
    """Compilation, graph capture, cold caches."""
    run = read(tmp_path, line(1, 160, gen=98), *(line(n) for n in range(2, 6)))
    assert dropped(run) == {1: "warm-up: 160.0 s, later steps 100.0 s"}


def test_a_first_step_like_the_others_counts(tmp_path: Path) -> None:
    """Nothing is dropped for its number alone (verl 9bc360aa9: 238.7 s, later 228 s)."""
    assert dropped(read(tmp_path, line(1, 104.5, gen=44), *(line(n) for n in range(2, 6)))) == {}


def test_an_only_step_is_kept_with_a_warning(tmp_path: Path) -> None:
    """It is all there is."""
    run = read(tmp_path, line(1))
    assert (len(run.kept), [w for w in run.warnings if "only one step counts" in w] != []) == (1, True)


def test_a_long_step_in_the_middle_is_kept(tmp_path: Path) -> None:
    """Agentic step times are heavy-tailed; the tail is real."""
    assert dropped(read(tmp_path, *(line(n, 100 if n != 4 else 400, gen=40 if n != 4 else 340) for n in range(1, 7)))) == {}


def test_an_asynchronous_run_may_also_begin_with_a_short_step(tmp_path: Path) -> None:
    """Its samples lay in the buffer already."""
    first = line(1, 62, gen=2, sync_rollout_weights=1)
    run = read(tmp_path, first, *(line(n, 101, sync_rollout_weights=1) for n in range(2, 6)))
    assert "start-up" in dropped(run)[1]
    assert dropped(read(tmp_path, line(1, 60, gen=0), *(line(n) for n in range(2, 6)))) == {}


def test_steps_with_validation_or_checkpoint_inside_are_dropped(tmp_path: Path) -> None:
    """verl until 2025 tested inside the step's timer; the reason says which and how long."""
    run = read(tmp_path, line(1), line(2, 152, testing=52), line(3, 130, save_checkpoint=30), line(4), line(5, testing=0.2))
    assert dropped(run) == {2: "validation (52.0 s) inside the step", 3: "checkpoint (30.0 s) inside the step"}


def test_validation_that_follows_the_step_is_told_from_one_inside(tmp_path: Path) -> None:
    """verl of 2026 tests after the step's timer has ended: the phases then fit only without it."""
    run = read(tmp_path, line(1), line(2, testing=52), line(3))
    assert dropped(run) == {2: "validation right after it (52.0 s, outside the step)"}
    assert "validation" not in run.steps[1].phases


@pytest.mark.parametrize("inside", [True, False])
def test_if_every_step_validates_its_seconds_are_taken_out(tmp_path: Path, inside: bool) -> None:
    """Otherwise nothing would be left; the warning says that the step was mended."""
    run = read(tmp_path, *(line(n, 152 if inside else 100, testing=52) for n in range(1, 4)))
    assert [step.step_s for step in run.kept] == [pytest.approx(100)] * 3
    assert all("validation" not in step.phases for step in run.kept)
    assert any("validation" in warning for warning in run.warnings)
    assert {step.total for step in run.kept} == {"stated and mended" if inside else "stated"}


def test_phases_longer_than_the_step_are_not_believed(tmp_path: Path) -> None:
    """verl's published table (docs/advance/fully_async.md, 32 GPUs) says update 313.81 s in a step of 294.77 s: cells are swapped."""
    times = "timing_s/gen:21.260 - timing_s/update_actor:313.810 - timing_s/step:294.770"
    wrong = f"step:9 - {times} - fully_async/count/stale_samples_processed:1\n"
    right = wrong.replace("313.810", "269.800")
    with pytest.raises(InputError, match="values may be swapped"):
        read_text(tmp_path, wrong)
    run = read(tmp_path, *(right.replace("step:9", f"step:{n}") for n in range(1, 4)), wrong)
    assert list(dropped(run)) == [9]
    assert run.kept[0].unexplained_s == pytest.approx(3.71)
    assert any("in 1 of 4 steps the phases are longer" in warning for warning in run.warnings)


def test_a_step_that_leaves_more_open_than_the_others_does_not_add_up(tmp_path: Path) -> None:
    """Something happened in it that no timer saw."""
    run = read(tmp_path, *(line(n, 100 if n != 3 else 190) for n in range(1, 6)))
    assert "does not add up: 48% of the step is in no phase, of others 2%" in dropped(run)[3]


def test_a_run_whose_phases_explain_little_is_warned_about(tmp_path: Path) -> None:
    """Keys were trimmed, or the framework does not time everything."""
    run = read(tmp_path, *(line(n, 200) for n in range(1, 6)))
    assert dropped(run) == {}
    assert any("51% of the step is in no phase" in warning for warning in run.warnings)


def test_a_utilisation_above_one_is_doubted(tmp_path: Path) -> None:
    """verl #1208: 1.018 on a GPU that its table does not know."""
    run = read(tmp_path, *(line(n, perf__mfu__actor=1.018) for n in range(1, 4)))
    assert any("mfu is 1.02, above 1" in warning for warning in run.warnings)


def test_an_idle_share_that_work_leaves_no_room_for_is_doubted(tmp_path: Path) -> None:
    """The update alone fills more of the step than the ratio leaves (verl #6693)."""
    text = [line(n, gen=2, update_actor=76, fully_async__trainer__idle_ratio=0.5) for n in range(1, 4)]
    run = read(tmp_path, *text)
    assert any("reported idle 50%" in warning for warning in run.warnings)


def test_lines_without_times_and_pieces_of_lines_do_not_count(tmp_path: Path) -> None:
    """The validation before training, and a line that was cut in the middle of the file."""
    run = read(tmp_path, "step:0 - val-core/gsm8k/reward:0.4\n", line(1), line(2), line(3)[:60] + "\n", line(4))
    assert dropped(run) == {0: "holds no times", 3: "has no step time, unlike others: part of its line is missing"}


def test_a_first_step_without_throughput_is_warm_up(tmp_path: Path) -> None:
    """prime-rl prints 0 tokens/s for it; it is known even with few steps after it."""
    grammar = named("prime-rl old")
    text = grammar.write(steady(grammar, count=2)).replace("Throughput: 3324", "Throughput: 0", 1)
    run = read(tmp_path, text)
    assert dropped(run) == {0: "warm-up: it reports a throughput of 0"}


def test_if_nothing_can_be_used_the_refusal_says_why(tmp_path: Path) -> None:
    """File, problem, remedy."""
    with pytest.raises(InputError) as refused:
        read_text(tmp_path, "".join(f"step:{n} - val/score:0.5\n" for n in range(3)))
    (finding,) = refused.value.findings
    assert (finding.path, finding.problem) == ("run.log", "holds no step that can be used: holds no times")
    assert "nothing was guessed" in finding.remedy


def test_steps_of_trl_that_reuse_completions_belong_to_the_step_that_made_them(tmp_path: Path) -> None:
    """With steps_per_generation above 1 most steps are about ten times shorter; their mean would be of nothing."""
    grammar = named("TRL")
    steps = [Truth(n, {}, 50.0 + n / 100 if n % 4 == 1 else 5.0) for n in range(1, 21)]
    run = read(tmp_path, grammar.write(steps))
    assert [step.step for step in run.kept] == [1, 5, 9, 13, 17]
    assert [step.step_s for step in run.kept] == [pytest.approx(65, abs=0.5)] * 5
    assert any("4 steps use the same completions" in warning for warning in run.warnings)
