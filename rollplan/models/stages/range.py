"""How far stage times that were not measured may be off: factors at an optimistic and at a pessimistic calibration.

Rollout: kernels alone (no host time) to kernels with 6 ms per step, the most that RL frameworks of 2025 implied;
GPUs with estimates only, from their lower to their upper bound. Training: published runs of dense models reach 0.23 to 0.40
of the peak speed, around the default of 0.35. What the user calibrated or measured stands as it is.
"""

from __future__ import annotations

from rollplan.models.architecture import Architecture
from rollplan.models.recipe import Workload
from rollplan.models.split.given import Split
from rollplan.models.split.problem import SplitSolution
from rollplan.models.stages.compile import Compiled, work_of
from rollplan.models.stages.engines import Calibration, calibration, instances
from rollplan.models.stages.options import RolloutOption
from rollplan.models.stages.rollout import rollout_times

SLOW_STACK_MS = 6.0
MFU_FACTORS = (0.40 / 0.35, 0.23 / 0.35)

Factors = tuple[float, float]
"""Of rollout and of training time."""


def stage_ranges(split: Split, compiled: Compiled, chosen: SplitSolution) -> tuple[Factors, Factors]:
    """Return the factors at the optimistic and at the pessimistic end."""
    rollout = train = (1.0, 1.0)
    if split.model is not None and split.workload is not None:
        measured = split.rollout.get(chosen.rollout_pool), split.train.get(chosen.train_pool)
        overlapping = chosen.mode == "separate" and chosen.pipelining.startswith("async")
        tables = compiled.steady if overlapping else compiled.rollout
        option = tables.get(chosen.rollout_pool, {}).get(chosen.rollout_gpus)
        if option is not None and not measured[0] and split.engine.ptl_s is None and split.engine.latency is None:
            rollout = _rollout(split, split.model, split.workload, option, overlapping)
        if not measured[1] and split.trainer.mfu is None:
            train = (1 / MFU_FACTORS[0], 1 / MFU_FACTORS[1])
    return (rollout[0], train[0]), (rollout[1], train[1])


def _rollout(split: Split, model: Architecture, workload: Workload, option: RolloutOption, overlapping: bool) -> Factors:
    settings = split.engine.model_copy(update={"tp": (option.layout.tp,)})
    used = calibration(model, settings)
    fast = Calibration(
        scale=used.scale if settings.scale is not None else 1.0,
        overhead_ms=used.overhead_ms if settings.overhead_s is not None else 0.0,
        bound="lo" if "bound" not in settings.model_fields_set else used.bound,
    )
    slow = Calibration(used.scale, used.overhead_ms if settings.overhead_s is not None else SLOW_STACK_MS, used.bound)
    times = [option.time]
    for end in (fast, slow):
        found, _ = instances(model, option.gpu, option.gpus_per_node, workload, settings, end)
        times += rollout_times(work_of(workload), found[0].engine, [option.layout.dp], settings.dispatch, split.staleness)
    chosen_s, fast_s, slow_s = (time.steady_s if overlapping else time.seconds for time in times)
    return fast_s / chosen_s, slow_s / chosen_s
