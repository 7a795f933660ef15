"""Where resources lie: the same every time, within what machines stand for, and a clear refusal otherwise."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.executor.core.runbook import Resource
from rollplan.executor.shell.placement import Machine, Spot, TooFewError, needed, place, seats


def resource(name: str, pool: str = "roll", nodes: int = 1, gpus: int = 8, on: str | None = None) -> Resource:
    return Resource(name, pool, "rollout", ("a",), nodes, gpus, 1000.0, on)


def machine(node: str, devices: int = 8, **stands_for: int) -> Machine:
    return Machine(node, f"10.0.0.{node}", stands_for, devices)


def test_machines_are_filled_in_order_of_address() -> None:
    machines = [machine("2", roll=8), machine("1", roll=8, train=8, devices=16)]
    placed = place([resource("r0"), resource("r1"), resource("t", "train")], machines)
    assert [placed[name][0].machine.node for name in ("r0", "r1", "t")] == ["1", "2", "1"]
    assert placed["r0"][0].gpus == tuple(range(8))
    assert placed["t"][0].gpus == tuple(range(8, 16))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.randoms())
def test_the_place_does_not_depend_on_the_order_in_which_ray_names_machines(sizes: list[int], shuffled: random.Random) -> None:
    machines = [machine(str(number), roll=4, devices=4) for number in range(len(sizes))]
    resources = [resource(f"r{number}", gpus=gpus) for number, gpus in enumerate(sizes)]
    other = machines[:]
    shuffled.shuffle(other)
    assert place(resources, machines) == place(resources, other)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 8)), min_size=1, max_size=8), st.integers(1, 8))
def test_no_machine_carries_more_than_it_stands_for_and_no_device_is_given_twice(wanted: list[tuple[int, int]], number: int) -> None:
    resources = [resource(f"r{at}", nodes=nodes, gpus=gpus) for at, (nodes, gpus) in enumerate(wanted)]
    machines = [machine(str(one), roll=8) for one in range(number)]
    try:
        placed = place(resources, machines)
    except TooFewError:
        return
    taken = [(spot.machine.node, gpu) for spots in placed.values() for spot in spots for gpu in spot.gpus]
    assert len(taken) == len(set(taken)) == needed(resources)["roll"]


def test_too_few_machines_are_refused_with_pool_numbers_and_command() -> None:
    with pytest.raises(TooFewError) as caught:
        place([resource("r0"), resource("r1")], [machine("1", roll=8, train=8)])
    said = str(caught.value)
    assert "pool roll: the plan needs 16 GPUs" in said
    assert "stand for 8 (8 on 10.0.0.1)" in said
    assert """ray start --address=HEAD:PORT --resources='{"rollplan:roll": 8}'""" in said


def test_a_plan_node_is_not_torn_between_machines() -> None:
    with pytest.raises(TooFewError, match="at least 8 of each node on one machine"):
        place([resource("r0")], [machine("1", roll=4), machine("2", roll=4)])


def test_a_machine_that_simulates_pools_shares_its_devices_evenly() -> None:
    """One GPU and two pools: both use it, in turns."""
    one = machine("1", devices=1, roll=1, train=1)
    placed = place([resource("r", gpus=1), resource("t", "train", gpus=1)], [one])
    assert placed["r"][0].gpus == placed["t"][0].gpus == (0,)
    none = place([resource("r", gpus=1)], [machine("1", devices=0, roll=1)])
    assert none["r"][0].gpus == ()


def test_a_stage_that_takes_turns_lies_on_the_other_ones_devices() -> None:
    """The instances of a colocated split share the trainer's nodes out among themselves."""
    resources = [resource("r0", gpus=4, on="t"), resource("r1", gpus=4, on="t"), resource("t", "train", gpus=8)]
    placed = place(resources, [machine("1", train=8)])
    assert [placed[name][0].gpus for name in ("r0", "r1")] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert needed(resources) == {"train": 8}


def test_what_is_placed_stays_when_a_lost_machine_comes_back() -> None:
    first, second = machine("1", roll=8), machine("2", roll=8)
    resources = [resource("r0"), resource("r1")]
    placed = place(resources, [first, second])
    again = machine("0", roll=8)
    kept = {"r0": placed["r0"]}
    with pytest.raises(TooFewError):
        place(resources, [first], kept)
    assert place(resources, [again, first], kept) == {"r0": placed["r0"], "r1": (Spot(again, tuple(range(8))),)}


def test_ranks_fill_node_after_node_and_share_its_devices() -> None:
    one, two = machine("1", train=8), machine("2", train=8)
    spots = [Spot(one, tuple(range(8))), Spot(two, tuple(range(8)))]
    assert [(node, spot.machine.node, spot.gpus) for node, spot in seats(4, spots)] == [
        (0, "1", (0, 1, 2, 3)), (0, "1", (4, 5, 6, 7)), (1, "2", (0, 1, 2, 3)), (1, "2", (4, 5, 6, 7))
    ]  # fmt: skip
    assert [spot.gpus for _, spot in seats(2, [Spot(one, (0,))])] == [(0,), (0,)]
    assert [spot.gpus for _, spot in seats(2, [Spot(machine("1", devices=0), ())])] == [(), ()]
