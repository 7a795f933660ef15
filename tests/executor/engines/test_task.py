"""The tiny task: what it asks, what it pays, and how long its responses are."""

from __future__ import annotations

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.executor.engines.task import EOS, Task


@given(st.integers(0, 50), st.integers(0, 200))
def test_responses_of_a_group_answer_one_prompt_and_the_digits_take_turns(iteration: int, number: int) -> None:
    """So every iteration asks for every digit alike, as soon as it has as many prompts as digits."""
    task = Task(digits=4, group=8, prompt_tokens=3)
    first = number // 8 * 8
    assert task.prompt(iteration, number) == task.prompt(iteration, first)
    assert len(task.prompt(iteration, number)) == 3
    assert {task.prompt(iteration, 8 * prompt)[0] for prompt in range(4)} == {0, 1, 2, 3}


def test_the_reward_is_the_share_of_right_tokens() -> None:
    """The end of the sequence is no token, and an answer without tokens is worth nothing."""
    assert Task.reward((7, 7), (7, 7, 1, 7)) == 0.75
    assert Task.reward((7, 7), (7, 7, EOS)) == 1.0
    assert Task.reward((7, 7), (EOS,)) == 0.0
    assert Task.reward((7, 7), ()) == 0.0


def test_drawn_lengths_have_a_heavy_tail_and_stay_within_their_limit() -> None:
    """Log-normal: median 12, deviation 0.8 of the logarithm; 1.8 % are above 64 and are cut there. 4000 samples, seed 0."""
    task = Task()
    lengths = [task.limit(iteration, number) for iteration in range(50) for number in range(80)]
    assert median(lengths) == pytest.approx(12, abs=1)
    assert min(lengths) >= 1
    assert max(lengths) == 64
    assert lengths.count(64) / len(lengths) == pytest.approx(0.018, abs=0.008)


def test_lengths_depend_on_seed_iteration_and_number_only() -> None:
    """Whichever worker asks, and however often."""
    task, other = Task(seed=1), Task(seed=2)
    lengths = [task.limit(3, number) for number in range(50)]
    assert lengths == [Task(seed=1).limit(3, number) for number in range(50)]
    assert lengths != [other.limit(3, number) for number in range(50)]
    assert lengths != [task.limit(4, number) for number in range(50)]


def test_a_model_that_ends_its_responses_itself_has_the_whole_limit() -> None:
    """And only then a token ends them."""
    assert Task(lengths="eos").limit(0, 0) == 64
    assert (Task(lengths="eos").eos, Task().eos) == (EOS, None)
