"""The ranker finds what prompts tell of lengths, claims nothing where they tell nothing, and never sees its test prompts."""

from __future__ import annotations

from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.models.errors import InputError
from rollplan.models.profile.lengths import Ranker
from rollplan.profilers.lengths.gather import Gathered, gather
from rollplan.profilers.lengths.ranker import estimates, part_of, train_ranker
from rollplan.profilers.lengths.recall import assess, recall
from rollplan.profilers.lengths.samples import Sample

HERE = Path("samples")
WORDS = ("prove", "count", "sum", "list", "draw", "name", "sort", "find")


def prompts(told: float, seed: int, prompts: int = 400, copies: int = 2) -> Gathered:
    """Return samples whose log length is `told` times a number of words in the prompt, and noise."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(prompts):
        hard = int(rng.integers(0, 6))
        text = f"task {number}: " + " ".join(["prove"] * hard + rng.choice(WORDS[1:], 6 - hard).tolist())
        step = number % 20
        for _ in range(copies):
            length = round(500 * float(np.exp(told * hard + 0.5 * rng.standard_normal())))
            rows.append(Sample(max(1, length), text, text, step, None))
    return gather(rows, HERE, keep_texts=True)


def trained(gathered: Gathered, seed: int = 0) -> Ranker:
    return train_ranker(gathered, HERE, seed)


def test_lengths_that_prompts_tell_are_ranked_far_better_than_chance() -> None:
    found = trained(prompts(told=0.6, seed=1))
    assert found.recalls[0].recall > 0.5
    assert found.recalls[0].better_than_chance
    assert found.recalls[0].low > found.recalls[0].chance
    assert [each.share for each in found.recalls] == [0.2, 0.1, 0.05]
    assert found.weights is not None


def test_independent_lengths_are_no_better_than_chance_and_no_ranker_is_kept() -> None:
    """The level is 1 %: of 20 sets of lengths, it is not to be more than one."""
    found = [trained(prompts(told=0.0, seed=seed)) for seed in range(20)]
    accepted = [ranker for ranker in found if ranker.recalls[0].better_than_chance]
    assert len(accepted) <= 1
    assert all((ranker.weights is None) == (ranker not in accepted) for ranker in found)


def test_drift_is_not_taken_for_a_property_of_prompts() -> None:
    """A curriculum: later steps have harder words, and longer responses because of the step alone. Within a step, words tell nothing."""
    rng = np.random.default_rng(3)
    rows = []
    for number in range(400):
        step = number % 20
        text = f"task {number}: " + "prove " * (step // 4) + "list " * (5 - step // 4)
        rows.append(Sample(round(500 * float(np.exp(0.5 * rng.standard_normal())) * 1.12**step), text, text, step, None))
    assert not trained(gather(rows, HERE, keep_texts=True)).recalls[0].better_than_chance
    without_steps = [Sample(row.length, row.prompt, row.group, None, None) for row in rows]
    assert trained(gather(without_steps, HERE, keep_texts=True)).recalls[0].better_than_chance


def test_the_parts_are_seven_two_one_and_equal_prompts_are_never_in_two() -> None:
    """Which part depends on prompt and seed alone, so more data do not move a prompt from test to training."""
    parts = np.array([part_of(f"prompt {number}", 0) for number in range(20_000)])
    assert np.bincount(parts) / len(parts) == pytest.approx([0.7, 0.2, 0.1], abs=0.01)
    assert all(part_of("What  is\n1 + 1?", seed) == part_of("what is 1 + 1?", seed) for seed in range(50))
    assert len({part_of("what is 1 + 1?", seed) for seed in range(50)}) == 3


def test_training_is_deterministic_and_the_estimates_are_those_that_were_assessed() -> None:
    """From the stored numbers alone; they travel as JSON, and nothing else is needed."""
    gathered = prompts(told=0.6, seed=4)
    first, again = trained(gathered, 5), trained(gathered, 5)
    assert first == again
    assert first.weights is not None
    stored = Ranker.model_validate_json(first.model_dump_json()).weights
    assert stored is not None
    test = [number for number, prompt in enumerate(gathered.prompts) if part_of(prompt, 5) == 2]
    of_test = np.isin(gathered.texts, test)
    place = {number: index for index, number in enumerate(test)}
    guesses = np.log(estimates(stored, [gathered.prompts[number] for number in test]))
    texts = np.array([place[text] for text in gathered.texts[of_test]])
    logs = np.log(gathered.lengths)
    _, step = np.unique(gathered.steps, return_inverse=True)
    relative = (logs - (np.bincount(step, logs) / np.bincount(step))[step])[of_test]
    assert assess(relative, texts, guesses, 0.2, 5).recall == pytest.approx(first.recalls[0].recall)


def test_estimates_of_any_text_are_finite() -> None:
    weights = trained(prompts(told=0.6, seed=4)).weights
    assert weights is not None
    found = estimates(weights, ["", "\ud800", "prove " * 10_000, "9" * 20_000])
    assert np.all(np.isfinite(found))
    assert np.all(found > 0)


def test_what_cannot_be_trained_says_why() -> None:
    few = gather([Sample(5, f"p {number}", None, None, None) for number in range(99)], HERE, keep_texts=True)
    equal = gather([Sample(5, f"p {number}", None, None, None) for number in range(200)], HERE, keep_texts=True)
    # Three samples of 7 have a mean logarithm that rounding sets apart from log 7: that is no difference to learn from.
    stepped = gather([Sample(5 + 2 * (n % 60 // 3), f"p {n}", None, n % 60 // 3, None) for n in range(180)], HERE, keep_texts=True)
    for gathered, message in ((few, "99 different prompts"), (equal, "responses of one length only"), (stepped, "one length only")):
        with pytest.raises(InputError, match=message):
            trained(gathered)


VALUES = st.lists(st.integers(0, 4), min_size=2, max_size=6)


@given(VALUES, st.data(), st.sampled_from([0.2, 0.34, 0.5]))
def test_ties_count_as_if_they_were_broken_at_random(lengths: list[int], data: st.DataObject, share: float) -> None:
    """The mean over all orders of equal values, by enumeration."""
    guesses = data.draw(st.lists(st.integers(0, 3), min_size=len(lengths), max_size=len(lengths)))
    size = max(1, round(share * len(lengths)))

    def chances(values: list[int]) -> np.ndarray:
        counts, orders = np.zeros(len(values)), 0
        for order in permutations(range(len(values))):
            if all(values[left] >= values[right] for left, right in pairwise(order)):
                counts[list(order[:size])] += 1
                orders += 1
        return counts / orders

    expected = float(chances(lengths) @ chances(guesses)) / size
    assert recall(np.array(lengths, float), np.array(guesses, float), share) == pytest.approx(expected)


@given(st.integers(10, 60), st.sampled_from([0.05, 0.1, 0.2]), st.integers(0, 100))
@settings(max_examples=20)
def test_who_knows_nothing_has_the_recall_of_chance_and_who_knows_all_has_one(samples: int, share: float, seed: int) -> None:
    lengths = np.random.default_rng(seed).permutation(samples).astype(float)
    numbers = np.arange(samples)
    blind, sighted = assess(lengths, numbers, np.zeros(samples), share), assess(lengths, numbers, lengths, share)
    assert blind.recall == pytest.approx(blind.chance)
    assert not blind.better_than_chance
    assert sighted.recall == pytest.approx(1)
    assert sighted.p_value < 1


def test_the_interval_of_recall_covers_the_truth() -> None:
    """40 test parts of 150 prompts with two samples; the truth is the recall of a hundred times as many prompts."""
    rng = np.random.default_rng(0)

    def drawn(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        guess = rng.standard_normal(count)
        numbers = np.repeat(np.arange(count), 2)
        return guess[numbers] + rng.standard_normal(2 * count), numbers, guess

    lengths, numbers, guess = drawn(100_000)
    truth = recall(lengths, guess[numbers], 0.2)
    found = [assess(*drawn(150), 0.2) for _ in range(40)]
    assert sum(each.low <= truth <= each.high for each in found) >= 34
