"""Where workers go: whole GPUs exclusively, shares of a GPU packed, groups on one machine.

Best fit, largest first. Without groups this never misses a packing if every share divides the larger shares and every whole
request the larger whole ones (each placement then takes the same number of slots from smaller requests, wherever it goes);
with other mixtures it may.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rollplan.executor.dataflow.graph import Node

WHOLE = 10_000
"""Shares are counted in ten-thousandths of a GPU, as Ray does, so that ten tenths are one."""


@dataclass(frozen=True, slots=True)
class Place:
    """One worker of a node. machine: None if any will do (no GPUs, no company). devices: numbers of GPUs on the machine."""

    node: str
    worker: int
    machine: int | None
    devices: tuple[int, ...]
    gpus: float


class Free:
    """What is left of every device of every machine, in ten-thousandths."""

    def __init__(self, devices: Sequence[int], places: Iterable[Place] = ()) -> None:
        self._left = [[WHOLE] * count for count in devices]
        for place in places:
            self._charge(place)

    def put(self, node: Node, worker: int, machine: int | None = None) -> Place | None:
        """Place one worker, on `machine` if that is given; None if there is no room."""
        found = None
        if not node.gpus:
            found = Place(node.name, worker, machine, (), 0)
        elif room := self._room(node.gpus, range(len(self._left)) if machine is None else (machine,)):
            found = Place(node.name, worker, *room, node.gpus)
            self._charge(found)
        return found

    def _charge(self, place: Place) -> None:
        for device in place.devices:
            assert place.machine is not None
            self._left[place.machine][device] -= min(WHOLE, round(place.gpus * WHOLE))

    def _room(self, gpus: float, machines: Iterable[int]) -> tuple[int, tuple[int, ...]] | None:
        if gpus < 1:
            share = round(gpus * WHOLE)
            fitting = [(left, machine, d) for machine in machines for d, left in enumerate(self._left[machine]) if left >= share]
            return (min(fitting)[1], (min(fitting)[2],)) if fitting else None
        empty = [([d for d, left in enumerate(self._left[machine]) if left == WHOLE], machine) for machine in machines]
        enough = [(len(numbers), machine, numbers) for numbers, machine in empty if len(numbers) >= gpus]
        return (min(enough)[1], tuple(min(enough)[2][: int(gpus)])) if enough else None


def pack(groups: Sequence[Sequence[Node]], workers: Mapping[str, int], devices: Sequence[int]) -> tuple[Place, ...] | None:
    """Place `workers[name]` workers of every node; a group of several nodes goes onto one machine. None if no packing was found.

    devices: GPUs of each machine. Within a group, workers of equal number are put next to each other, if that fits.
    """
    ordered = sorted(groups, key=lambda group: (-len(group), -sum(node.gpus * workers[node.name] for node in group)))
    singles = sorted((group[0] for group in ordered if len(group) == 1), key=lambda node: -node.gpus)
    for paired in (True, False):
        places: list[Place] = []
        for group in ordered:
            if len(group) > 1 and (found := _on_one_machine(group, workers, devices, places, paired)) is None:
                break
            places += found if len(group) > 1 and found else []
        else:
            free = Free(devices, places)
            rest = [free.put(node, worker) for node in singles for worker in range(workers[node.name])]
            if None not in rest:
                return (*places, *(place for place in rest if place))
    return None


def _on_one_machine(
    group: Sequence[Node], workers: Mapping[str, int], devices: Sequence[int], taken: Sequence[Place], paired: bool
) -> list[Place] | None:
    asked = [(node, worker) for node in group for worker in range(workers[node.name])]
    asked.sort(key=lambda one: (one[0].gpus < 1, one[1] if paired else -one[0].gpus, -one[0].gpus))
    used = [sum(place.gpus for place in taken if place.machine == machine) for machine in range(len(devices))]
    for machine in sorted(range(len(devices)), key=lambda machine: devices[machine] - used[machine]):
        free = Free(devices, taken)
        found = [free.put(node, worker, machine) for node, worker in asked]
        if None not in found:
            return [place for place in found if place]
    return None
