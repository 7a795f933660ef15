"""Which numbers of GPUs are candidates, and the fastest layout of each that fits: against every layout there is."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.layout import Layout, layouts
from rollplan.models.memory.bill import MemoryBill, bill
from rollplan.models.recipe import EngineSettings, TrainerSettings, Workload
from rollplan.models.reference.architectures import architecture
from rollplan.models.reference.gpus import gpu
from rollplan.models.stages.compile import work_of
from rollplan.models.stages.engines import Instance, calibration, instances
from rollplan.models.stages.options import (
    EVERY_COUNT_UP_TO,
    MOST_GPUS,
    RolloutOption,
    colocated_options,
    colocated_setup,
    counts,
    rollout_options,
)
from rollplan.models.stages.rollout import rollout_times
from rollplan.models.stages.trainer import Site, Trainer
from rollplan.models.stages.training import obstacle

WORKLOAD = Workload.build(
    {"prompts": 16, "samples_per_prompt": 6, "prompt_tokens": 512, "lengths": {"mean": 3000, "sigma": 0.8, "limit": 16384}}, "workload"
)
WORK = work_of(WORKLOAD)


# Counts.


@given(st.integers(1, 3000), st.sampled_from([1, 2, 4, 7, 8, 72, 128]))
def test_counts_are_all_up_to_64_and_whole_nodes_beyond(budget: int, per_node: int) -> None:
    """And one more step than the budget allows, so that a plan can say what the next GPUs would bring."""
    *within, beyond = counts(budget, per_node)
    assert within == [n for n in range(1, budget + 1) if n <= EVERY_COUNT_UP_TO or n % per_node == 0]
    if budget < EVERY_COUNT_UP_TO:
        assert beyond == budget + 1
    else:
        assert beyond == min(n for n in range(budget + 1, budget + per_node + 1) if n % per_node == 0)


@pytest.mark.parametrize("budget", [MOST_GPUS, 10**6, 10**9])
def test_no_job_is_looked_at_on_a_million_gpus(budget: int) -> None:
    """A pool may have as many nodes as one likes; a table of 10^8 counts would fill the memory."""
    found = counts(budget, 8)
    assert len(found) == 64 + (MOST_GPUS - 64) // 8 + 1
    assert all(fewer < more for fewer, more in pairwise(found))


# Layouts, against all there are.


def trainer_of(model: str, kind: str, per_node: int, host_gib: float, most: int, **settings: Any) -> Trainer:
    """A training side on 1 to `most` GPUs."""
    site = Site(gpu(kind), per_node, host_gib, tuple(range(1, most + 1)))
    return Trainer(architecture(model), site, WORK, WORKLOAD, TrainerSettings(**settings))


def fastest(trainer: Trainer, gpus: int, bill_of: Callable[[Layout], MemoryBill]) -> tuple[float, Layout] | None:
    """The least time of all layouts whose bill fits; of equals the one with fewest stages, then context ranks."""

    def needless(layout: Layout) -> bool:
        asked = trainer.settings
        pp, cp = 1 if asked.pp is None else layout.pp, 1 if asked.cp is None else layout.cp
        plain = Layout(tp=layout.tp, pp=pp, cp=cp, dp=gpus // (layout.tp * pp * cp))
        return plain.gpus_per_copy < layout.gpus_per_copy and bill_of(plain).fits

    asked = trainer.settings
    every = layouts(trainer.model, gpus, trainer.site.gpus_per_node, asked.tp, asked.pp, asked.cp, asked.ep)
    allowed = [layout for layout in every if obstacle(layout, WORK, asked.micro_batch) is None]
    fitting = [layout for layout in allowed if bill_of(layout).fits and not needless(layout)]
    best = min(fitting, key=lambda layout: (trainer.seconds(layout), layout.pp, layout.cp, layout.ep, layout), default=None)
    return None if best is None else (trainer.seconds(best), best)


SITES: dict[str, tuple[tuple[str, str, int, float, int], dict[str, Any]]] = {
    "plenty of memory": (("Qwen3-8B", "H100", 8, 2000.0, 16), {}),
    "little GPU memory": (("Qwen3-8B", "L40S", 4, 500.0, 12), {"sharding": "zero1"}),
    "little host memory": (("Qwen3-1.7B", "H100", 4, 40.0, 16), {"sharding": "ddp", "optimizer_on_host": True}),
    "little of both": (("Qwen3-1.7B", "L40S", 8, 60.0, 12), {"sharding": "zero1", "critic": True}),
    "experts": (("Qwen3-30B-A3B", "H200", 8, 2000.0, 8), {"micro_batch": 2}),
    "chosen degrees": (("Qwen3-8B", "H100", 8, 2000.0, 12), {"tp": (1, 2), "pp": (2, 3), "cp": (1, 2)}),
}


@pytest.mark.parametrize(("site", "settings"), SITES.values(), ids=SITES)
def test_training_takes_the_fastest_layout_that_fits(site: tuple[str, str, int, float, int], settings: dict[str, Any]) -> None:
    """On every count, and no count is left out that has one.

    Copies on one node share its host: what fits there once may not fit four times, although each GPU needs no more.
    """
    trainer, fresh = trainer_of(*site, **settings), trainer_of(*site, **settings)
    right = {n: fastest(fresh, n, lambda layout: bill(fresh.setup(layout), fresh.site.gpu)) for n in fresh.site.counts}
    assert {n: (option.seconds, option.layout) for n, option in trainer.options().items()} == {n: best for n, best in right.items() if best}


def engines_of(trainer: Trainer) -> list[Instance]:
    """Every instance that holds a sequence."""
    settings = EngineSettings()
    found, _ = instances(
        trainer.model, trainer.site.gpu, trainer.site.gpus_per_node, WORKLOAD, settings, calibration(trainer.model, settings)
    )
    return found


@pytest.mark.parametrize(("site", "settings"), SITES.values(), ids=SITES)
def test_stages_in_turn_take_the_fastest_pair_that_fits_on_the_same_gpus(
    site: tuple[str, str, int, float, int], settings: dict[str, Any]
) -> None:
    """Over all engines and all layouts: the fastest engine with the fastest training beside it is never the wrong choice here."""
    trainer, fresh = trainer_of(*site, **settings), trainer_of(*site, **settings)
    engines = engines_of(trainer)
    alone, _ = rollout_options(WORK, engines, trainer.site, "random", 1.0)
    found = colocated_options(trainer, alone)
    for n in trainer.site.counts:
        totals = []
        for engine in engines:
            if n % engine.layout.tp == 0:
                (time,) = rollout_times(WORK, engine.engine, [n // engine.layout.tp])
                option = RolloutOption(n, trainer.site.gpus_per_node, trainer.site.gpu, engine, time)
                best = fastest(fresh, n, lambda layout, option=option: bill(colocated_setup(fresh, option, layout), fresh.site.gpu))
                totals += [time.seconds + best[0]] if best else []
        if n in found:
            rollout, training = found[n]
            assert bill(colocated_setup(trainer, rollout, training.layout), trainer.site.gpu).fits
            assert rollout.time.seconds + training.seconds == pytest.approx(min(totals), rel=1e-9)
        else:
            assert not totals


@pytest.mark.parametrize("site", [site for site, _ in SITES.values()], ids=SITES)
def test_rollout_takes_the_fastest_engine_of_each_count(site: tuple[str, str, int, float, int]) -> None:
    """For one batch to its end, and for batches that overlap; every engine fits, with room for one longest sequence."""
    trainer = trainer_of(*site)
    engines = engines_of(trainer)
    alone, steady = rollout_options(WORK, engines, trainer.site, "random", 1.0)
    for n in trainer.site.counts:
        times = [rollout_times(WORK, each.engine, [n // each.layout.tp])[0] for each in engines if n % each.layout.tp == 0]
        if not times:
            assert n not in alone
            assert n not in steady
            continue
        assert alone[n].time.seconds == pytest.approx(min(time.seconds for time in times), rel=1e-9)
        assert steady[n].time.steady_s == pytest.approx(min(time.steady_s for time in times), rel=1e-9)
        for option in (alone[n], steady[n]):
            assert option.layout.gpus == option.gpus == n
            assert bill(option.setup, option.gpu).fits
            assert option.instance.engine.kv_tokens >= WORKLOAD.context_tokens


def test_there_are_never_more_instances_than_samples() -> None:
    """3 samples on 16 GPUs: at most 3 instances, so that 5 and 7 GPUs are no candidates."""
    few = Workload.build({"prompts": 3, "lengths": {"mean": 3000, "sigma": 0.8, "limit": 16384}}, "workload")
    trainer = trainer_of("Qwen3-8B", "H100", 8, 2000.0, 16)
    alone, _ = rollout_options(work_of(few), engines_of(trainer), trainer.site, "random", 1.0)
    assert sorted(alone) == [1, 2, 3, 4, 6, 8, 12, 16]
    assert all(option.layout.dp <= 3 for option in alone.values())


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"tp": (3,)}, "training: tp 3 does not divide the 32 attention heads"),
        ({"tp": (16,)}, "training: tp 16 spans nodes of 8 GPUs"),
        ({"pp": (5,), "tp": (1, 3)}, "training: tp 3 does not divide the 32 attention heads and pp 5 does not divide the 36 layers"),
        ({"cp": (32,)}, "training: no layout on 1 to 8 GPUs has the degrees that `trainer` names"),
        ({"micro_batch": 5}, "training: dp 1 x micro batch 5 does not divide the 96 samples of an update"),
    ],
)
def test_settings_that_leave_no_layout_are_explained(settings: dict[str, Any], says: str) -> None:
    """A user who asks for a degree wants to know what it does not divide."""
    trainer = trainer_of("Qwen3-8B", "H100", 8, 2000.0, 8, **settings)
    assert trainer.options() == {}
    assert list(trainer.reasons.values()) == [says]


def test_a_model_that_fits_nowhere_is_explained_with_the_peak_of_the_largest_layout() -> None:
    """70B on one L40S."""
    trainer = trainer_of("Llama-3.1-70B", "L40S", 8, 2000.0, 1)
    assert trainer.options() == {}
    (said,) = trainer.reasons.values()
    assert said.startswith("training as dp1: train + reference GPU: ")
    assert said.endswith("GiB in update, has 45.0 GiB")
