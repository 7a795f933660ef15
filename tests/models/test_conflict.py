"""Minimal conflicts of any problem: laws on random monotone ones, and what becomes of questions without an answer."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.conflict import minimal_conflict, weakest_change

SIZE = 9
CONFLICTS = st.lists(st.frozensets(st.integers(0, SIZE - 1), min_size=1, max_size=4), min_size=1, max_size=5)


def feasible_unless(conflicts: list[frozenset[int]], kept: frozenset[int]) -> bool:
    """Whether a set holds none of the conflicts: every problem whose requirements can be dropped is of this form."""
    return not any(conflict <= kept for conflict in conflicts)


def grouped(cuts: list[int]) -> list[list[int]]:
    """Cut 0 .. SIZE - 1 into groups."""
    ends = sorted({0, SIZE, *cuts})
    return [list(range(a, b)) for a, b in pairwise(ends)]


@given(conflicts=CONFLICTS, cuts=st.lists(st.integers(1, SIZE - 1), max_size=4))
def test_the_conflict_has_no_plan_and_every_proper_part_of_it_has_one(conflicts: list[frozenset[int]], cuts: list[int]) -> None:
    """Sufficiency and minimality, however the requirements are grouped."""
    found = minimal_conflict(grouped(cuts), lambda kept: feasible_unless(conflicts, kept))
    kept = frozenset(found.requirements)
    assert not feasible_unless(conflicts, kept)
    assert found.minimal
    assert all(feasible_unless(conflicts, frozenset(part)) for size in range(len(kept)) for part in combinations(kept, size))
    assert sum(found.parts, ()) == found.requirements
    assert found.unproven_parts == frozenset()


@given(conflicts=CONFLICTS, silent=st.frozensets(st.integers(0, 400), max_size=200))
def test_questions_without_an_answer_keep_a_conflict_and_are_said(conflicts: list[frozenset[int]], silent: frozenset[int]) -> None:
    """What is not said to be unproven is needed; the rest is still a conflict."""

    def feasible(kept: frozenset[int]) -> bool | None:
        return None if hash(tuple(sorted(kept))) % 401 in silent else feasible_unless(conflicts, kept)

    found = minimal_conflict(grouped([3, 6]), feasible)
    kept = frozenset(found.requirements)
    assert not feasible_unless(conflicts, kept)
    assert all(feasible_unless(conflicts, kept - {each}) for each in kept - found.unproven)
    assert all(feasible_unless(conflicts, kept - set(part)) for part in found.parts if part not in found.unproven_parts)


def test_after_the_stop_nothing_is_asked_and_everything_is_unproven() -> None:
    """Ctrl-C: the conflict known at that moment stands."""
    asked: list[frozenset[int]] = []

    def feasible(kept: frozenset[int]) -> bool:
        asked.append(kept)
        return feasible_unless([frozenset({8})], kept)

    found = minimal_conflict(grouped([4]), feasible, stop=lambda: len(asked) >= 1)
    assert asked == [frozenset({4, 5, 6, 7, 8})]
    assert found.requirements == (4, 5, 6, 7, 8)
    assert found.unproven == {4, 5, 6, 7, 8}
    assert found.unproven_parts == {(4, 5, 6, 7, 8)}


def test_a_small_conflict_among_many_takes_few_questions() -> None:
    """Halves: 3 of 1,000 requirements, about 3 log 1000 questions instead of 1,000."""
    conflict = frozenset({17, 503, 999})
    asked = []

    def feasible(kept: frozenset[int]) -> bool:
        asked.append(kept)
        return not conflict <= kept

    assert minimal_conflict([range(1000)], feasible).requirements == (17, 503, 999)
    assert len(asked) <= 70


@given(least=st.integers(0, 40), steps=st.integers(0, 40))
def test_the_weakest_change_is_the_first_that_suffices(least: int, steps: int) -> None:
    """None where none does."""
    assert weakest_change(steps, lambda k: k >= least) == (least if least < steps else None)


@given(least=st.integers(0, 20), silent=st.frozensets(st.integers(0, 20)))
def test_a_change_without_an_answer_counts_as_too_weak(least: int, silent: frozenset[int]) -> None:
    """What is said to suffice does."""
    found = weakest_change(21, lambda k: None if k in silent else k >= least)
    assert found is None or (found >= least and found not in silent)
    assert (found is None) == (20 in silent)
