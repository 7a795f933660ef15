"""What was written is read back: for every grammar of every framework, mode, steps, phases and totals."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollplan.profilers.logs.detect import FRAMEWORKS

from .grammar import GRAMMARS, Grammar, Truth
from .truths import read_text, truths

EVERY = pytest.mark.parametrize("grammar", GRAMMARS, ids=lambda grammar: grammar.name)
QUICK = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])


@EVERY
@given(data=st.data())
@QUICK
def test_what_was_written_is_read_back(tmp_path: Path, grammar: Grammar, data: st.DataObject) -> None:
    """The writer knows nothing of the reader, so both would have to be wrong in the same way."""
    steps: list[Truth] = data.draw(truths(grammar))
    (run,) = read_text(tmp_path, grammar.write(steps))
    assert (run.framework, run.mode) == (grammar.framework, grammar.mode)
    assert [step.step for step in run.steps] == [truth.step for truth in steps]
    assert [step.dropped for step in run.steps] == [None] * len(steps)
    for place, (read, truth) in enumerate(zip(run.steps, steps, strict=True)):
        assert {name: time for name, time in read.phases.items() if time} == pytest.approx(truth.phases, rel=grammar.precision, abs=0.006)
        late = grammar.framework == "ROLL" and "agentic" not in grammar.name and place == len(steps) - 1
        known = truth.step_s - truth.gap if late else truth.step_s
        assert read.step_s == pytest.approx(known, rel=grammar.precision, abs=0.03 if grammar.precision < 0.01 else 1.0)
        assert read.total == ("summed" if late else grammar.total)
        assert {name: read.beside[name] for name in grammar.beside} == grammar.beside
        if grammar.responses:
            assert read.amounts["response_mean"] == pytest.approx(truth.response)


def test_every_framework_has_a_grammar() -> None:
    """A reader without one is tested by nothing."""
    assert {grammar.framework for grammar in GRAMMARS} == {framework.name for framework in FRAMEWORKS}


@EVERY
def test_in_no_async_run_is_the_wait_called_generation(tmp_path: Path, grammar: Grammar) -> None:
    """The finding that matters most: frameworks call the trainer's wait `gen`; a planner that believes it is wrong in sign."""
    if grammar.mode == "async":
        steps = [Truth(grammar.first + n, dict.fromkeys(grammar.phases, 20.0 + n), 20.0 if not grammar.phases else 1.0) for n in range(3)]
        (run,) = read_text(tmp_path, grammar.write(steps))
        assert all("generation" not in step.phases for step in run.steps)
