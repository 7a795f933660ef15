"""Candidates: rollout on every GPU count, training on every GPU count, and both in turn on the same GPUs.

Counts: every number of GPUs up to 64, whole nodes beyond, no more than 16,384. Of a count's layouts the fastest that fits is kept: a slower
one on the same GPUs is never better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rollplan.models.accelerator import Gpu
from rollplan.models.layout import Layout
from rollplan.models.memory.bill import MemoryBill, bill
from rollplan.models.memory.setup import Node, Setup, time_shared
from rollplan.models.stages.engines import Instance
from rollplan.models.stages.rollout import Dispatch, RolloutTime, rollout_times
from rollplan.models.stages.trainer import Site, Trainer, TrainOption
from rollplan.models.stages.work import Work

EVERY_COUNT_UP_TO = 64
MOST_GPUS = 16_384
"""Of one stage in one pool; larger budgets are used up to here. The largest jobs published have a few thousand."""


@dataclass(frozen=True, slots=True)
class RolloutOption:
    """Rollout on `gpus` GPUs: instances of one layout."""

    gpus: int
    gpus_per_node: int
    gpu: Gpu
    instance: Instance
    time: RolloutTime

    @property
    def layout(self) -> Layout:
        """The layout with all instances as data parallel copies."""
        return Layout(tp=self.instance.layout.tp, dp=self.gpus // self.instance.layout.gpus_per_copy)

    @property
    def setup(self) -> Setup:
        """The memory setup of rollout alone."""
        return Setup(rollout=replace(self.instance.setup, layout=self.layout), node=Node(gpus=self.gpus_per_node))


def counts(budget: int, gpus_per_node: int) -> tuple[int, ...]:
    """Return the candidate numbers of GPUs up to a budget, one more step included (for the price of one more)."""
    looked_at = min(budget, MOST_GPUS)
    every = range(1, min(looked_at, EVERY_COUNT_UP_TO) + 1)
    nodes = range((EVERY_COUNT_UP_TO // gpus_per_node + 1) * gpus_per_node, looked_at + 1, gpus_per_node)
    more = budget + 1 if budget < EVERY_COUNT_UP_TO else (looked_at // gpus_per_node + 1) * gpus_per_node
    return (*every, *nodes, more)


def rollout_options(
    work: Work, instances: Sequence[Instance], site: Site, dispatch: Dispatch, staleness: float
) -> tuple[dict[int, RolloutOption], dict[int, RolloutOption]]:
    """Return the option with the least `seconds`, and the one with the least `steady_s`, by number of GPUs."""
    alone: dict[int, RolloutOption] = {}
    steady: dict[int, RolloutOption] = {}
    for instance in instances:
        size = instance.layout.gpus_per_copy
        fitting = [gpus for gpus in site.counts if gpus % size == 0 and gpus // size <= work.samples]
        times = rollout_times(work, instance.engine, [gpus // size for gpus in fitting], dispatch, staleness)
        for gpus, time in zip(fitting, times, strict=True):
            option = RolloutOption(gpus, site.gpus_per_node, site.gpu, instance, time)
            if gpus not in alone or time.seconds < alone[gpus].time.seconds:
                alone[gpus] = option
            if gpus not in steady or time.steady_s < steady[gpus].time.steady_s:
                steady[gpus] = option
    return alone, steady


def colocated_options(trainer: Trainer, rollout: Mapping[int, RolloutOption]) -> dict[int, tuple[RolloutOption, TrainOption]]:
    """Return, by number of GPUs, the best rollout and the fastest training whose common bill fits on the same GPUs."""
    # One for each kind of instance: what fits beside it, fits beside more of it.
    beside = {option.instance.layout.tp: trainer.alike() for option in rollout.values()}
    found = {}
    for gpus, option in rollout.items():
        training = beside[option.instance.layout.tp].best(gpus, _shared_bill(trainer, option))
        if training is not None:
            found[gpus] = (option, training)
    return found


def _shared_bill(trainer: Trainer, option: RolloutOption) -> Callable[[Layout], MemoryBill]:
    return lambda layout: bill(colocated_setup(trainer, option, layout), trainer.site.gpu)


def colocated_setup(trainer: Trainer, rollout: RolloutOption, layout: Layout) -> Setup:
    """Return the memory setup of all roles in turn on the same GPUs."""
    engine = replace(rollout.instance.setup, layout=rollout.layout)
    return time_shared(replace(trainer.setup(layout), rollout=engine, shared=()))
