"""What terminals, Ray and compression put around lines is taken off, in bounded memory; damaged ends are survived."""

from __future__ import annotations

import gzip
import io
import random
import sys
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan import InputError
from rollplan.profilers.logs.lines import BLOCK, LONGEST, LogFile, cleaned
from rollplan.profilers.logs.read import logged_run, read_log
from rollplan.profilers.logs.values import duration, number, pairs

from .grammar import GRAMMARS, Grammar
from .truths import named, read_text, steady

EVERY = pytest.mark.parametrize("grammar", GRAMMARS, ids=lambda grammar: grammar.name)
RAY = "\x1b[36m(TaskRunner pid=4711, ip=10.0.0.1)\x1b[0m "


@EVERY
def test_compressed_coloured_and_prefixed_logs_read_like_plain_ones(tmp_path: Path, grammar: Grammar) -> None:
    """They are what users have: `ray job logs` writes all three."""
    text = grammar.write(steady(grammar))
    plain = read_text(tmp_path, text)
    assert read_text(tmp_path, gzip.compress(text.encode())) == plain
    assert read_text(tmp_path, text.replace("\n", "\r\n")) == plain
    if "jsonl" not in plain[0].dialect and "file" not in grammar.name:
        assert read_text(tmp_path, "".join(f"{RAY}{line}\n" for line in text.splitlines())) == plain
        assert read_text(tmp_path, "".join(f"[36m(main_task pid=1)[0m {line}\n" for line in text.splitlines())) == plain
        assert read_text(tmp_path, "".join(f"\x1b[1m{line}\x1b[0m\n" for line in text.splitlines())) == plain


@EVERY
def test_lines_of_other_processes_in_between_change_nothing(tmp_path: Path, grammar: Grammar) -> None:
    """Blocks and tables of several lines are interleaved with whatever the other actors print."""
    text = grammar.write(steady(grammar))
    noise = ["(vLLM pid=7) INFO: Avg generation throughput: 100 tokens/s", "(Worker pid=8) │ a │ 1 │", "(Worker pid=9)  • x: 1.0s"]
    mixed = [line for place, own in enumerate(text.splitlines()) for line in (noise[place % 3], f"(Trainer pid=1) {own}")]
    read = read_text(tmp_path, "\n".join(mixed) + "\n")
    assert [run.model_copy(update={"source": "", "warnings": ()}) for run in read] == [
        run.model_copy(update={"source": "", "warnings": ()}) for run in read_text(tmp_path, text)
    ]


@EVERY
@given(data=st.data())
def test_a_log_that_breaks_off_anywhere_is_read_up_to_there(
    tmp_path_factory: pytest.TempPathFactory, grammar: Grammar, data: st.DataObject
) -> None:
    """Runs are killed, disks are full: what came before the break counts, and no value of the broken step is believed."""
    steps = steady(grammar, count=5)
    text = grammar.write(steps)
    cut = data.draw(st.integers(len(text) // 2, len(text)))
    try:
        runs = read_text(tmp_path_factory.mktemp("cut"), text[:cut])
    except InputError:
        return
    known = {truth.step: truth for truth in steps}
    for step in (step for run in runs for step in run.kept):
        for name, time in step.phases.items():
            assert time == pytest.approx(known[step.step].phases.get(name, 0.0), rel=grammar.precision, abs=0.02)


def test_a_gzip_file_that_breaks_off_is_read_up_to_there(tmp_path: Path) -> None:
    """It is still being written, or the copy stopped."""
    random.seed(0)
    grammar = named("verl console numpy 2")
    noise = "".join(f"{random.random()}\n" for _ in range(20_000))
    packed = gzip.compress((grammar.write(steady(grammar)) + noise).encode())
    (run,) = read_text(tmp_path, packed[: len(packed) // 2])
    assert len(run.kept) == 4
    assert any("the gzip file is cut off" in warning for warning in run.warnings)
    several = b"".join(gzip.compress(f"{line}\n".encode()) for line in grammar.write(steady(grammar)).splitlines())
    assert read_text(tmp_path, several)[0].steps == run.steps


def test_a_progress_bar_before_the_line_is_another_text() -> None:
    """tqdm returns the carriage and writes on."""
    texts = [line.text for line in cleaned(b"Training:  3%|#  | 3/100\rTraining:  4%|#  | 4/100\rstep:3 - timing_s/gen:1.0", 1)]
    assert texts[-1] == "step:3 - timing_s/gen:1.0"


def test_rays_note_of_repetition_and_its_prefix_are_taken_off() -> None:
    """The prefix says who wrote the line, which tells writers apart."""
    (line,) = cleaned(b"\x1b[36m(Actor.step pid=12, ip=1.2.3.4)\x1b[0m perf 1: {} [repeated 3x across cluster] (Ray ...)", 7)
    assert (line.number, line.text, line.actor) == (7, "perf 1: {}", "Actor.step pid=12, ip=1.2.3.4")


@given(st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"")), max_size=30), st.booleans())
def test_line_numbers_are_those_of_an_editor(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], ended: bool) -> None:
    """Messages name lines; whoever opens the file must find them."""
    path = tmp_path_factory.mktemp("numbers") / "x.log"
    wanted = {place: b"needle" in line for place, line in enumerate([*lines, b"needle"], 1)}
    path.write_bytes(b"  " + b"\n".join([*lines, b"needle"]) + (b"\n" if ended else b""))
    with closing(LogFile(path)) as log:
        found = {line.number for line in log.lines((b"needle",))}
    assert found == {place for place, there in wanted.items() if there}


def test_a_line_without_end_is_cut_and_the_next_ones_are_read(tmp_path: Path) -> None:
    """A dump of all samples on one line must not fill the memory, nor hide the steps after it."""
    grammar = named("verl console 2025")
    text = grammar.write(steady(grammar))
    head, rest = text.split("\n", 1)
    (run,) = read_text(tmp_path, f"{head}\n{'x' * (LONGEST + 3 * BLOCK)}\n{rest}")
    assert len(run.kept) == 4
    assert any("longer than 8 MiB" in warning for warning in run.warnings)


@pytest.mark.slow
def test_a_large_log_needs_little_memory(tmp_path: Path) -> None:
    """50 MB of noise and steps; 1 GB would be the same."""
    grammar = named("verl console 2025")
    path = tmp_path / "large.log"
    noise = "(vLLM pid=7) INFO 01-01 00:00:00 engine.py:1] Avg prompt throughput: 1234.5 tokens/s, Running: 12 reqs\n" * 500
    with path.open("w") as file:
        for truth in steady(grammar, count=1000):
            file.write(noise + grammar.write([truth]))
    assert path.stat().st_size > 50e6
    tracemalloc.start()
    try:
        (run,) = read_log(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(run.steps) == 1000
    assert peak < 20e6


def test_no_more_steps_are_kept_than_memory_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the profile says that it does not hold all."""
    monkeypatch.setattr("rollplan.profilers.logs.read.MOST_RECORDS", 10)
    grammar = named("verl console 2025")
    (run,) = read_text(tmp_path, grammar.write(steady(grammar, count=12)))
    assert len(run.steps) == 10
    assert any("only the first 10 were read" in warning for warning in run.warnings)


def test_stdin_is_read_like_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ray job logs ID | rollplan profile import -`."""
    grammar = named("SkyRL dicts")
    text = grammar.write(steady(grammar))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    (run,) = read_log(Path("-"))
    assert run.steps == read_text(tmp_path, text)[0].steps


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12.3", 12.3),
        ("np.float64(12.3)", 12.3),
        ("'12.3'", 12.3),
        ("1,234.5", 1234.5),
        ("1e-05", 1e-5),
        ("tensor(0.5, device='cuda:0')", 0.5),
    ],
)
def test_numbers_are_read_as_frameworks_print_them(text: str, value: float) -> None:
    """numpy 2, quoted floats, tensors; thousands only where a person is to read them, so never in dicts."""
    assert number(text) == value
    if text != "1,234.5":
        assert pairs(f"{{'a/b': {text}}}") == {"a/b": value}


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "None", "True", "1.2.3", "", "[1, 2]", "12 of 5"])
def test_what_is_no_finite_number_is_left_out(text: str) -> None:
    """Never a sentinel, never a guess."""
    assert number(text) is None
    assert pairs(f"{{'a': {text!r}, 'b': 2}}") == {"b": 2.0}


@pytest.mark.parametrize(
    ("text", "value"), [("850ms", 0.85), ("12.3s", 12.3), ("2m 3s", 123.0), ("1h 4m", 3840.0), ("1d 2h", 93600.0), ("5 apples", None)]
)
def test_durations_of_mixed_units_are_seconds(text: str, value: float | None) -> None:
    """As prime-rl prints them."""
    assert duration(text) == (None if value is None else pytest.approx(value))


def test_one_run_of_a_log_or_of_its_profile_can_be_asked_for(tmp_path: Path) -> None:
    """`advise` takes either; absent a number, the last run counts."""
    from rollplan.profilers.logs.read import import_log

    grammar = named("verl console 2025")
    path = tmp_path / "two.log"
    path.write_text(grammar.write(steady(grammar)) + grammar.write(steady(grammar, base=40.0)))
    profile = tmp_path / "two.json"
    import_log(path).save(profile)
    assert logged_run(path) == logged_run(path, number=2) == logged_run(profile, number=2) != logged_run(path, number=1)
    with pytest.raises(InputError, match="holds 2 runs that can be used"):
        logged_run(path, number=3)
