"""Which machine each resource of a runbook lies on: machines in a fixed order, filled one after the other.

A machine (a Ray node) says by the custom resource `rollplan:<pool>` how many GPUs of that pool it stands for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rollplan.executor.core.runbook import Resource

PREFIX = "rollplan:"


@dataclass(frozen=True, slots=True)
class Machine:
    """One Ray node. stands_for: GPUs by pool. devices: real GPUs, 0 on a machine without."""

    node: str
    address: str
    stands_for: Mapping[str, int]
    devices: int = 0


@dataclass(frozen=True, slots=True)
class Spot:
    """One plan node of a resource. gpus: numbers of the real devices, none on a machine without."""

    machine: Machine
    gpus: tuple[int, ...]


class TooFewError(Exception):
    """The machines do not stand for what the runbook needs; the message names pool, numbers, and remedy."""


def needed(resources: Iterable[Resource]) -> dict[str, int]:
    """Return the GPUs that the resources take, by pool; those that lie on others take none of their own."""
    total: dict[str, int] = {}
    for one in resources:
        if one.on is None:
            total[one.pool] = total.get(one.pool, 0) + one.nodes * one.gpus
    return total


def place(
    resources: Sequence[Resource], machines: Collection[Machine], kept: Mapping[str, tuple[Spot, ...]] | None = None
) -> dict[str, tuple[Spot, ...]]:
    """Return the spots of each resource, one per plan node; a plan node never spans machines.

    kept: resources that are placed already and stay. Raises `TooFewError`. Where a machine stands for more GPUs than it has,
    as one that simulates pools does, devices are shared evenly.
    """
    placed = dict(kept or {})
    own = [one for one in resources if one.on is None]
    left = {(one.node, pool): number for one in machines for pool, number in one.stands_for.items()}
    shares = {one.node: dict.fromkeys(range(one.devices), 0) for one in machines}
    for resource in own:
        for spot in placed.get(resource.name, ()):
            left[spot.machine.node, resource.pool] -= resource.gpus
            _deal(shares[spot.machine.node], spot.gpus)
    in_order = sorted(machines, key=lambda one: (one.address, one.node))
    for resource in (one for one in own if one.name not in placed):
        spots = []
        for _ in range(resource.nodes):
            home = next((one for one in in_order if left.get((one.node, resource.pool), 0) >= resource.gpus), None)
            if home is None:
                raise TooFewError(_too_few(resource, resources, in_order))
            left[home.node, resource.pool] -= resource.gpus
            share = shares[home.node]
            gpus = tuple(sorted(sorted(share, key=lambda gpu: (share[gpu], gpu))[: resource.gpus]))
            _deal(share, gpus)
            spots.append(Spot(home, gpus))
        placed[resource.name] = tuple(spots)
    _place_on_others(resources, placed)
    return placed


def _deal(share: dict[int, int], gpus: Iterable[int]) -> None:
    for gpu in gpus:
        share[gpu] += 1


def _place_on_others(resources: Sequence[Resource], placed: dict[str, tuple[Spot, ...]]) -> None:
    """Place the resources that lie on another's nodes: in order, each on the next GPUs of it, from the first again at the end."""
    sizes = {one.name: one.gpus for one in resources}
    begin: dict[str, int] = {}
    for resource in resources:
        if resource.on is None:
            continue
        spots, size = placed[resource.on], sizes[resource.on]
        start = begin.get(resource.on, 0)
        begin[resource.on] = start + resource.nodes * resource.gpus
        places = []
        for node in range(resource.nodes):
            at = (start + node * resource.gpus) % (size * len(spots))
            spot = spots[at // size]
            places.append(Spot(spot.machine, spot.gpus[at % size : at % size + resource.gpus] or spot.gpus))
        placed[resource.name] = tuple(places)


def _too_few(resource: Resource, resources: Sequence[Resource], machines: Sequence[Machine]) -> str:
    key, pool = f"{PREFIX}{resource.pool}", resource.pool
    has = {one.address: one.stands_for[pool] for one in machines if one.stands_for.get(pool)}
    there = ", ".join(f"{number} on {address}" for address, number in has.items()) or "none"
    example = f"ray start --address=HEAD:PORT --resources='{{\"{key}\": {resource.gpus}}}'"
    return (
        f"pool {pool}: the plan needs {needed(resources)[pool]} GPUs, at least {resource.gpus} of each node on one machine; "
        f"machines of the cluster stand for {sum(has.values())} ({there}). Start more with {example}"
    )


def seats(world: int, spots: Sequence[Spot]) -> list[tuple[int, Spot]]:
    """Return the place of each rank and the number of its plan node: consecutive ranks fill one and share its devices evenly."""
    per_node = -(-world // len(spots))
    places = []
    for rank in range(world):
        node, turn = divmod(rank, per_node)
        gpus = spots[node].gpus
        share = max(1, len(gpus) // per_node)
        first = turn * share % max(1, len(gpus))
        places.append((node, Spot(spots[node].machine, gpus[first : first + share])))
    return places
