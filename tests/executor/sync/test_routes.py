"""Laws of the routes: every byte once, one copy over the slow link, shallow trees, equal loads."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import ceil, log

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rollplan.executor.sync.routes import WORD, Routes, cut, flat, two_stage

RANKS = st.integers(1, 12)
SIZES = st.integers(1, 5000)
SITES = st.lists(st.integers(0, 2), min_size=1, max_size=12)


def received(routes: Routes, train_ranks: int, size: int) -> dict[int, Counter[int]]:
    """Walk the stages; return how often each rank got each byte. Nobody may send what it did not have before the stage."""
    holds: dict[int, set[int]] = defaultdict(set, {rank: set(range(size)) for rank in range(train_ranks)})
    got: dict[int, Counter[int]] = defaultdict(Counter)
    for stage in routes:
        had = {rank: set(held) for rank, held in holds.items()}
        for hop in stage:
            assert set(range(hop.first, hop.last)) <= had.get(hop.source, set())
            got[hop.target].update(range(hop.first, hop.last))
            holds[hop.target].update(range(hop.first, hop.last))
    return got


def crossing(routes: Routes, train_ranks: int, sites: list[int]) -> int:
    """Bytes between different sites."""
    place = [0] * train_ranks + sites
    return sum(hop.last - hop.first for stage in routes for hop in stage if place[hop.source] != place[hop.target])


@given(size=st.integers(1, 300), train=RANKS, sites=SITES, fan_out=st.integers(1, 4))
@example(size=7, train=3, sites=[1, 1, 1], fan_out=2)
def test_two_stages_bring_every_byte_to_every_rollout_rank_exactly_once(size: int, train: int, sites: list[int], fan_out: int) -> None:
    """Whatever the sites; and only what a rank has is passed on."""
    got = received(two_stage(size, train, sites, fan_out), train, size)
    assert set(got) == {train + rank for rank in range(len(sites))}
    assert all(count == Counter(range(size)) for count in got.values())


@given(size=st.integers(1, 300), train=RANKS, rollout=RANKS)
def test_flat_brings_every_byte_to_every_rollout_rank_exactly_once(size: int, train: int, rollout: int) -> None:
    """From trainers, in one stage."""
    routes = flat(size, train, rollout)
    got = received(routes, train, size)
    assert (len(routes), set(got)) == (1, {train + rank for rank in range(rollout)})
    assert all(count == Counter(range(size)) for count in got.values())


@given(size=SIZES, train=RANKS, sites=SITES)
def test_one_copy_crosses_to_each_site_in_two_stages_and_one_for_each_rank_if_flat(size: int, train: int, sites: list[int]) -> None:
    """The point of two stages (RollMux 5.2)."""
    assert crossing(two_stage(size, train, sites), train, sites) == size * len(set(sites) - {0})
    assert crossing(flat(size, train, len(sites)), train, sites) == size * sum(site != 0 for site in sites)


@given(size=st.integers(500, 5000), train=RANKS, rollout=RANKS)
def test_the_slow_link_is_crossed_by_as_many_equal_streams_as_both_sides_have_ranks(size: int, train: int, rollout: int) -> None:
    """Train rank i to rollout rank i; shards differ by a word and the rest of one."""
    first = [hop for hop in two_stage(size, train, [1] * rollout)[0] if hop.source < train]
    assert [(hop.source, hop.target) for hop in first] == [(rank, train + rank) for rank in range(min(train, rollout))]
    sizes = [hop.last - hop.first for hop in first]
    assert max(sizes) - min(sizes) < 2 * WORD


@given(train=RANKS, rollout=RANKS, fan_out=st.integers(2, 4), site=st.integers(0, 1))
def test_trees_are_as_deep_as_a_logarithm(train: int, rollout: int, fan_out: int, site: int) -> None:
    """k + k^2 + ... + k^d ranks are reached in d stages; a crossing comes before."""
    stages = len(two_stage(10_000, train, [site] * rollout, fan_out)) - site
    below = rollout - site
    deepest = 0 if below == 0 else ceil(log(below * (fan_out - 1) / fan_out + 1, fan_out) - 1e-9)
    assert stages == deepest


@given(train=RANKS, rollout=st.integers(2, 12), fan_out=st.integers(1, 4), site=st.integers(0, 1))
def test_no_rank_passes_on_much_more_than_its_share(train: int, rollout: int, fan_out: int, site: int) -> None:
    """Of what is sent inside the rollout site, in shards: at most the mean and two families of children."""
    routes = two_stage(8 * 1000 * train, train, [site] * rollout, fan_out)
    load = Counter(hop.source for stage in routes for hop in stage if hop.source >= train)
    mean = sum(load.values()) / rollout
    assert max(load.values(), default=0) <= mean + 2 * fan_out


@given(ranks=st.integers(2, 12), fan_out=st.integers(1, 4), more=st.integers(0, 3))
def test_with_a_trainer_for_every_rollout_rank_all_pass_on_the_same_in_every_stage(ranks: int, fan_out: int, more: int) -> None:
    """The trees are one tree, turned: every rank is once at every place of it."""
    routes = two_stage(8 * 1000 * ranks, ranks + more, [1] * ranks, fan_out)
    for stage in routes[1:]:
        for end in ("source", "target"):
            load = Counter[int]()
            for hop in stage:
                load[getattr(hop, end)] += hop.last - hop.first
            assert len(load) == ranks
            assert max(load.values()) == min(load.values())


@given(train=RANKS, rollout=RANKS)
def test_inside_one_site_every_trainer_is_the_root_of_a_tree_of_its_own(train: int, rollout: int) -> None:
    """StreamRL 2.7: balanced, and with no rollout rank that gets more than others."""
    routes = two_stage(8 * 1000 * train, train, [0] * rollout)
    load = Counter[int]()
    for hop in (hop for stage in routes for hop in stage if hop.source < train):
        load[hop.source] += hop.last - hop.first
    assert load == {rank: 8 * 1000 * min(2, rollout) for rank in range(train)}


@given(size=st.integers(0, 10_000), parts=st.integers(1, 40))
def test_shards_are_disjoint_whole_and_begin_at_words(size: int, parts: int) -> None:
    """So that checksums can add up words where they lie."""
    shards = cut(size, parts)
    assert [byte for first, last in shards for byte in range(first, last)] == list(range(size))
    assert all(first % WORD == 0 for first, last in shards if first < last)


def test_a_small_case_is_what_one_draws_by_hand() -> None:
    """Two trainers, four workers: halves to 2 and 3; there, each half goes on to two, and one of these has a child."""
    first, second, third = ({(hop.source, hop.target, hop.first) for hop in stage} for stage in two_stage(16, 2, [1, 1, 1, 1]))
    assert first == {(0, 2, 0), (1, 3, 8)}
    assert second == {(2, 3, 0), (2, 4, 0), (3, 5, 8), (3, 2, 8)}
    assert third == {(3, 5, 0), (5, 4, 8)}


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: flat(0, 1, 1), "size"),
        (lambda: flat(1, 0, 1), "train_ranks"),
        (lambda: two_stage(1, 1, []), "rollout_ranks"),
        (lambda: two_stage(1, 1, [1], fan_out=0), "fan_out"),
    ],
)
def test_what_cannot_be_routed_is_refused(call: object, field: str) -> None:
    """By name."""
    with pytest.raises(ValueError, match=f"{field} must be at least 1, got 0"):
        call()  # type: ignore[operator]
