"""Placement, policies, and what is refused before anything runs."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.executor.dataflow.compile import Compiled, compile_graph
from rollplan.executor.dataflow.graph import Edge, Graph, Node
from rollplan.executor.dataflow.placement import pack
from rollplan.models.errors import InfeasibleError

from .virtual import echo


def load(compiled: Compiled) -> dict[tuple[int, int], float]:
    """Return the share of every device in use."""
    used: dict[tuple[int, int], float] = {}
    for place in compiled.places:
        for device in place.devices:
            assert place.machine is not None
            used[place.machine, device] = used.get((place.machine, device), 0) + min(1, place.gpus)
    return used


def machines(compiled: Compiled, *names: str) -> set[int | None]:
    return {place.machine for name in names for place in compiled.workers(name)}


ARTICLE = (
    Node("actor", echo, gpus=2, parallelism=8),
    Node("critic", echo, gpus=1, parallelism=4),
    Node("reward", echo, gpus=0.5, parallelism=16),
)


def test_the_example_of_the_article_asks_for_28_gpus_and_has_8() -> None:
    """Contradiction 1 of the article: actor GPU 2 x 8, critic GPU 1 x 4, reward GPU .5 x 16 on 8 x A100."""
    with pytest.raises(InfeasibleError) as refused:
        compile_graph(Graph(ARTICLE), (8,))
    assert refused.value.reasons == (
        "the graph declares 28 GPUs (actor 2 x 8 = 16, critic 1 x 4 = 4, reward 0.5 x 16 = 8), the cluster has 8 (8); parallelism"
        " actor 2, critic 2, reward 4 would fit, none of them can be raised; alone on the cluster: at most actor 4",
    )


def test_what_the_refusal_proposes_fits() -> None:
    """And one more of anything does not."""
    proposed = {"actor": 2, "critic": 2, "reward": 4}
    groups = [[node] for node in ARTICLE]
    assert pack(groups, proposed, (8,)) is not None
    assert [pack(groups, {**proposed, name: count + 1}, (8,)) for name, count in proposed.items()] == [None] * 3


def test_the_walk_through_of_the_article_is_refused_too() -> None:
    """Four actors with two GPUs each on GPUs 0-3; the article lists two of them and says four."""
    with pytest.raises(InfeasibleError, match=r"declares 8 GPUs .* has 4"):
        compile_graph(Graph((Node("actor", echo, gpus=2, parallelism=4),)), (4,))


def test_even_the_least_may_be_too_much() -> None:
    """Then no parallelism is proposed."""
    with pytest.raises(InfeasibleError, match="even min_parallelism of every node does not fit"):
        compile_graph(Graph((Node("actor", echo, gpus=4),)), (2, 2))


def test_eight_workers_make_two_stages_of_four_gpus() -> None:
    """The article's example of the staged policy."""
    compiled = compile_graph(Graph((Node("actor", echo, gpus=1, parallelism=8),)), (8,))
    assert compiled.lanes("actor") == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert [(one.policy, one.subject, one.applies) for one in compiled.policies] == [("staged", "actor", True)]
    assert [place.devices for place in compiled.workers("actor")] == [(number,) for number in range(8)]


def test_workers_of_two_gpus_fill_a_stage_by_twos() -> None:
    """A stage has four GPUs, whatever a worker takes of them; it does not reach over machines."""
    compiled = compile_graph(Graph((Node("actor", echo, gpus=2, parallelism=5),)), (6, 4))
    machine = {place.worker: place.machine for place in compiled.workers("actor")}
    assert sorted([machine[worker] for worker in lane] for lane in compiled.lanes("actor")) == [[0], [0, 0], [1, 1]]


@pytest.mark.parametrize(("gpus", "parallelism"), [(0.5, 8), (1, 1), (0, 4)])
def test_shares_and_single_workers_are_not_staged(gpus: float, parallelism: int) -> None:
    """Trigger: parallelism above 1 and whole GPUs."""
    compiled = compile_graph(Graph((Node("actor", echo, gpus=gpus, parallelism=parallelism),)), (8,))
    assert compiled.policies == ()
    assert compiled.lanes("actor") == (tuple(range(parallelism)),)


PAIR = (Node("actor", echo, gpus=1, parallelism=2), Node("reward", echo, gpus=0.5, parallelism=2))


def test_co_location_goes_before_staging() -> None:
    """The article gives no order; ours is written down in the compiled graph."""
    compiled = compile_graph(Graph(PAIR, (Edge("actor", "reward", co_locate=True),)), (4, 3))
    assert [(one.policy, one.subject, one.applies) for one in compiled.policies] == [
        ("co-location", "actor -> reward", True),
        ("staged", "actor", False),
    ]
    assert machines(compiled, "actor", "reward") == {1}, "the smaller machine has room"
    assert compiled.lanes("actor") == ((0, 1),)


def test_small_and_frequent_data_keeps_its_ends_together() -> None:
    """Gradients, KL statistics; the limit is the article's 10,000,000 bytes."""
    nodes = (Node("actor", echo, gpus=2), Node("critic", echo, gpus=2))
    apart = compile_graph(Graph(nodes, (Edge("actor", "critic", "gradients", max_size_bytes=10_000_001, frequent=True),)), (3, 2, 4))
    assert (apart.groups, apart.policies) == ((), ())
    small = Edge("actor", "critic", "gradients", frequent=True)
    together = compile_graph(Graph(nodes, (small,)), (3, 2, 4))
    assert (machines(apart, "actor", "critic"), machines(together, "actor", "critic")) == ({1, 0}, {2})
    assert together.transport(small) == "shared memory up to 10000000 bytes"
    assert "gradients is small (up to 10000000 bytes) and frequent" in together.policies[0].reason


def test_what_is_only_frequent_goes_apart_if_it_must_but_a_demand_is_a_demand() -> None:
    """Contradiction 6 of the article: a co-located edge whose ends are apart is refused, not ignored."""
    nodes = (Node("actor", echo, gpus=2), Node("critic", echo, gpus=2))
    compiled = compile_graph(Graph(nodes, (Edge("actor", "critic", frequent=True),)), (2, 2))
    assert [(one.applies, one.reason.endswith("do not fit on one machine")) for one in compiled.policies] == [(False, True)]
    with pytest.raises(InfeasibleError, match=r"with actor\+critic each on one machine: drop a co_locate"):
        compile_graph(Graph(nodes, (Edge("actor", "critic", co_locate=True),)), (2, 2))


def test_shares_of_co_located_workers_meet_on_one_gpu() -> None:
    """Worker by worker, not node by node."""
    nodes = (Node("actor", echo, gpus=0.5, parallelism=2), Node("reward", echo, gpus=0.5, parallelism=2))
    compiled = compile_graph(Graph(nodes, (Edge("actor", "reward", co_locate=True),)), (2,))
    assert [place.devices for place in compiled.workers("actor")] == [place.devices for place in compiled.workers("reward")] == [(0,), (1,)]


def test_neighbours_come_second_to_fitting() -> None:
    """Worker by worker, four quarters and three times 0.3 need three GPUs; largest first, two."""
    nodes = (Node("actor", echo, gpus=0.25, parallelism=4), Node("reward", echo, gpus=0.3, parallelism=3))
    compiled = compile_graph(Graph(nodes, (Edge("actor", "reward", co_locate=True),)), (2,))
    assert load(compiled) == {(0, 0): pytest.approx(0.9), (0, 1): pytest.approx(1)}


def test_ten_tenths_are_one_gpu() -> None:
    """0.1 has no exact binary form."""
    assert set(load(compile_graph(Graph((Node("reward", echo, gpus=0.1, parallelism=10),)), (1,)))) == {(0, 0)}


SIZES = (0.25, 0.5, 1, 2)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=2), st.lists(st.integers(0, 4), min_size=4, max_size=4))
def test_what_divides_is_packed_whenever_a_packing_exists(devices: list[int], counts: list[int]) -> None:
    """Brute force over all packings of shares and GPUs that divide each other."""

    @cache
    def fits(left: tuple[tuple[int, ...], ...], todo: tuple[int, ...]) -> bool:
        if not todo:
            return True
        first, rest = todo[0], todo[1:]
        for number, machine in enumerate(left):
            others = left[:number] + left[number + 1 :]
            if first > 4:
                whole = [share for share in machine if share == 4]
                used = [share for share in machine if share != 4]
                options = [tuple(used + whole[first // 4 :])] if len(whole) >= first // 4 else []
            else:
                options = [(*machine[:d], share - first, *machine[d + 1 :]) for d, share in enumerate(machine) if share >= first]
            if any(fits(tuple(sorted((*others, tuple(sorted(option))))), rest) for option in options):
                return True
        return False

    nodes = [Node(str(size), echo, gpus=size, parallelism=max(1, count)) for size, count in zip(SIZES, counts, strict=True)]
    todo = [round(4 * size) for size, count in zip(SIZES, counts, strict=True) for _ in range(count)]
    places = pack([[node] for node in nodes], dict(zip(map(str, SIZES), counts, strict=True)), devices)
    start = tuple(sorted((4,) * count for count in devices))
    assert (places is not None) == fits(start, tuple(sorted(todo)))


@given(
    st.lists(st.sampled_from([0, 0.1, 0.3, 0.5, 1, 2]), min_size=1, max_size=4),
    st.lists(st.integers(1, 4), min_size=4, max_size=4),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3))),
)
def test_no_device_is_promised_twice(gpus: list[float], workers: list[int], devices: list[int], joined: set[tuple[int, int]]) -> None:
    """Whatever is accepted: shares of a device add up to at most one, whole GPUs are exclusive, co-located nodes share a machine."""
    nodes = tuple(Node(str(number), echo, gpus=size, parallelism=workers[number]) for number, size in enumerate(gpus))
    pairs = [(a, b) for a, b in sorted(joined) if a < b < len(nodes)]
    try:
        compiled = compile_graph(Graph(nodes, tuple(Edge(str(a), str(b), co_locate=True) for a, b in pairs)), devices)
    except InfeasibleError:
        return
    assert max(load(compiled).values(), default=0) <= 1 + 1e-9
    assert all(device < devices[machine] for machine, device in load(compiled))
    assert all(len(set(place.devices)) == -(-place.gpus // 1) for place in compiled.places)
    assert all(len(compiled.workers(node.name)) == node.parallelism for node in nodes)
    assert all(len(machines(compiled, str(a), str(b))) == 1 for a, b in pairs)
