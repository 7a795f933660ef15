"""Phase times of a co-location job that gives none: its model and workload on the nodes it asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rollplan.models.architecture import Architecture
from rollplan.models.errors import InfeasibleError
from rollplan.models.hardware import Pool, Role
from rollplan.models.overheads import Provenance
from rollplan.models.recipe import EngineSettings, TrainerSettings, Workload
from rollplan.models.reference.gpus import gpu
from rollplan.models.stages.compile import work_of
from rollplan.models.stages.engines import calibration, instances
from rollplan.models.stages.options import rollout_options
from rollplan.models.stages.trainer import Site, Trainer
from rollplan.models.stages.work import Work


@dataclass(frozen=True, slots=True)
class DerivedPhase:
    """Seconds of one phase. worst_s: every response has the limit. expected_s: responses follow their law."""

    worst_s: float
    expected_s: float
    provenance: Provenance


def derived_phase(
    role: Role, model: Architecture, workload: Workload, engine: EngineSettings, trainer: TrainerSettings, pool: Pool, nodes: int
) -> DerivedPhase:
    """Return the times of a phase on whole nodes, with the fastest layout that fits; raise `InfeasibleError` if none does."""
    gpus = nodes * pool.gpus_per_node
    site = Site(gpu(pool.gpu), pool.gpus_per_node, pool.memory_gib, (gpus,))
    expected = work_of(workload)
    worst = replace(expected, outputs=np.full(expected.samples, int(workload.law().limit_tokens)))
    if role == "rollout":
        return _rollout(model, workload, engine, site, worst, expected, gpus)
    return _training(model, workload, trainer, site, worst, expected, gpus)


def _rollout(
    model: Architecture, workload: Workload, engine: EngineSettings, site: Site, worst: Work, expected: Work, gpus: int
) -> DerivedPhase:
    found, reasons = instances(model, site.gpu, site.gpus_per_node, workload, engine, calibration(model, engine))
    seconds = []
    for work in (worst, expected):
        options, _ = rollout_options(work, found, site, engine.dispatch, 1.0)
        if gpus not in options:
            raise InfeasibleError(reasons or [f"rollout of {work.samples} samples does not divide over {gpus} GPUs"])
        seconds.append(options[gpus].time.seconds)
    return DerivedPhase(max(seconds), seconds[1], found[0].provenance)


def _training(
    model: Architecture, workload: Workload, settings: TrainerSettings, site: Site, worst: Work, expected: Work, gpus: int
) -> DerivedPhase:
    seconds = []
    for work in (worst, expected):
        trainer = Trainer(model, site, work, workload, settings)
        option = trainer.fitting(gpus)
        if option is None:
            raise InfeasibleError(list(trainer.reasons.values()) or [f"training has no layout of {gpus} GPUs"])
        seconds.append(option.seconds)
    return DerivedPhase(max(seconds), seconds[1], trainer.provenance)
