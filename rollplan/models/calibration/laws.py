"""Each kind of sample beside the law that plans use, as a function of the constants that are to be found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rollplan.models.architecture import Architecture
from rollplan.models.calibration.robust import Kind, Observed
from rollplan.models.calibration.samples import DecodeSample, RolloutSample, TrainingSample
from rollplan.models.hardware import Pool
from rollplan.models.latency import FloatArray, TableLatency, ptl_ms
from rollplan.models.layout import Layout, obstacle
from rollplan.models.lengths.drift import drifted
from rollplan.models.lengths.sampling import stratified
from rollplan.models.profile.training import TrainingPoint
from rollplan.models.recipe import EngineSettings, Workload
from rollplan.models.reference.decode_latency import decode_latency
from rollplan.models.reference.forward import forward_seconds
from rollplan.models.reference.gpus import gpu
from rollplan.models.split.given import Pools, Split
from rollplan.models.stages.compile import work_of
from rollplan.models.stages.engines import Calibration, Instance, calibration, instances
from rollplan.models.stages.rollout import rollout_times
from rollplan.models.stages.trainer import Site, Trainer
from rollplan.models.stages.training import update_flops
from rollplan.models.stages.work import Work


class UnusableError(Exception):
    """A sample that says nothing about the constants; the message says why."""


@dataclass(frozen=True, slots=True)
class Job:
    """The job that is calibrated. pools: those that it may use."""

    name: str
    split: Split
    model: Architecture
    workload: Workload
    pools: Pools

    def pool(self, name: str | None, stage: str, device: str | None = None) -> Pool:
        """Return the pool that a sample means: by name, by the GPU that it was measured on, else the only kind there is."""
        able = {key: pool for key, pool in self.pools.items() if pool.role in (stage, "any")}
        if name is not None:
            if name not in able:
                raise UnusableError(f"pool {name} may not {'roll out' if stage == 'rollout' else stage}; those that may: {', '.join(able)}")
            return able[name]
        if device is not None:
            found = next((pool for pool in able.values() if gpu(pool.gpu).name == device), None)
            if found is None:
                raise UnusableError(f"was measured on {device}, and no pool of that stage has it")
            return found
        if len({gpu(pool.gpu).name for pool in able.values()}) != 1:
            raise UnusableError(f"does not say on which GPUs: add `pool`, one of {', '.join(able) or 'none'}")
        return next(iter(able.values()))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sample comes from. device: name of the GPU in the reference, where the file says so."""

    source: str
    kind: Kind
    device: str | None = None


def decode_step(job: Job, sample: DecodeSample, place: Place) -> Observed:
    """Return a decode step, in ms, by (scale, overhead_ms)."""
    pool = job.pool(sample.pool, "rollout", place.device)
    known = decode_latency(job.model, pool.gpu, sample.tp, calibration(job.model, job.split.engine).bound)
    if known is None:
        raise UnusableError(f"no reference latency of {job.model.name} on {pool.gpu} with tp {sample.tp} to calibrate")
    table = TableLatency(known.batches, known.contexts, known.ptl_ms)

    def predict(constants: FloatArray) -> float:
        return ptl_ms(table.calibrated(*map(float, constants)), sample.batch, sample.batch * sample.context)

    label = f"{sample}, beyond the reference's grid" if table.outside(sample.batch, sample.context) else str(sample)
    return Observed(label, place.source, place.kind, sample.ms, predict)


def rollout_phase(job: Job, sample: RolloutSample, place: Place) -> Observed:
    """Return a whole generation phase, in seconds, by (scale, overhead_ms): the simulation that plans use."""
    pool = job.pool(sample.pool, "rollout", place.device)
    work = work_at(job.workload, sample.samples, sample.response_mean)
    settings = job.split.engine if sample.tp is None else job.split.engine.model_copy(update={"tp": (sample.tp,)})
    tp = _fastest(job, pool, settings, work, sample.gpus)

    def predict(constants: FloatArray) -> float:
        return _seconds(job, pool, settings.model_copy(update={"tp": (tp,)}), work, sample.gpus, constants)[tp]

    label = f"{sample} (tp {tp} assumed)" if sample.tp is None and len(settings.tp or ()) != 1 else str(sample)
    return Observed(label, place.source, place.kind, sample.time_s, predict)


def update(job: Job, sample: TrainingSample, place: Place, seconds: float) -> Observed:
    """Return the update of one iteration, in seconds, by (1 / MFU, overhead_s)."""
    trainer, layout = _trainer(job, sample, place)
    full_speed_s = trainer.parts(layout).update_s
    updates = trainer.work.updates
    return Observed(
        f"update, {sample}{_assumed(sample, layout)}",
        place.source,
        place.kind,
        seconds,
        lambda constants: float(full_speed_s * constants[0] + updates * constants[1]),
    )


def micro_batch(job: Job, point: TrainingPoint, full_recompute: bool, place: Place) -> Observed:
    """Return forward and backward of one measured micro-batch on one GPU, in seconds, by (1 / MFU, overhead_s)."""
    pool = job.pool(None, "train", place.device)
    work = Work(np.full(point.sequences, point.sequence_length), 0, 1)
    flops = update_flops(job.model, work) * (4 / 3 if full_recompute else 1.0)
    full_speed_s = flops / (gpu(pool.gpu).peak_tflops * 1e12)
    label = f"micro-batch of {point.sequences} x {point.sequence_length} tokens"
    return Observed(label, place.source, place.kind, point.forward_backward_s.median, lambda constants: float(full_speed_s * constants[0]))


def forward_pass(job: Job, sample: TrainingSample, place: Place, name: str, seconds: float) -> Observed:
    """Return one log-prob pass of a sample, in seconds, by the factor on the reference."""
    trainer, layout = _trainer(job, sample, place)
    pass_s = trainer.parts(layout).forward_s
    label = f"{name}, {sample}{_assumed(sample, layout)}"
    return Observed(label, place.source, place.kind, seconds, lambda factor: float(pass_s * factor[0]))


def micro_batch_forward(job: Job, point: TrainingPoint, place: Place, seconds: float) -> Observed:
    """Return the log-probs of one measured micro-batch on one GPU, in seconds, by the factor on the reference."""
    pool = job.pool(None, "train", place.device)
    pass_s = forward_seconds(job.model, pool.gpu, 1, point.tokens, point.sequence_length).value
    label = f"log-probs of {point.sequences} x {point.sequence_length} tokens"
    return Observed(label, place.source, place.kind, seconds, lambda factor: float(pass_s * factor[0]))


def work_at(workload: Workload, samples: int | None = None, response_mean: float | None = None, tokens: float | None = None) -> Work:
    """Return a typical iteration of a workload, with another number of samples or other tokens where they are given.

    tokens: prompts and responses together. Other lengths are those of the workload times a factor, cut off at its limit.
    """
    if samples is None and response_mean is None and tokens is None:
        return work_of(workload)
    # Logs count what arrived: 8191 of 8192. Updates of equal size are close enough.
    count = workload.samples if samples is None else max(1, round(samples / workload.updates)) * workload.updates
    if tokens is not None:
        response_mean = tokens / count - workload.prompt_tokens
    law = workload.law()
    if response_mean is not None:
        if not 1 <= response_mean < law.limit_tokens:
            raise UnusableError(f"has {response_mean:.4g} tokens per response; the workload allows 1 to {law.limit_tokens:g}")
        low, high = 1e-6, 1e6
        for _ in range(80):
            factor = (low * high) ** 0.5
            low, high = (factor, high) if drifted(law, factor).mean() < response_mean else (low, factor)
        law = drifted(law, high)
    return Work(stratified(law, count), workload.prompt_tokens, workload.samples_per_prompt, workload.updates)


def _fastest(job: Job, pool: Pool, settings: EngineSettings, work: Work, gpus: int) -> int:
    """Return the degree that a plan would take on these GPUs."""
    used = calibration(job.model, settings)
    times = _seconds(job, pool, settings, work, gpus, np.array([used.scale, used.overhead_ms]))
    return min(times, key=lambda tp: (times[tp], tp))


def _seconds(job: Job, pool: Pool, settings: EngineSettings, work: Work, gpus: int, constants: FloatArray) -> Mapping[int, float]:
    """Return the seconds of generation by tensor parallel degree; raise `UnusableError` if no degree works."""
    used = Calibration(float(constants[0]), float(constants[1]), settings.bound)
    found, reasons = instances(job.model, gpu(pool.gpu), pool.gpus_per_node, job.workload, settings, used)
    if not found:
        raise UnusableError(reasons[0])
    whole = [one for one in found if gpus % one.layout.tp == 0]
    if not whole:
        raise UnusableError(f"no degree of tensor parallelism divides {gpus} GPUs")
    able = [one for one in whole if gpus // one.layout.tp <= work.samples]
    if not able:
        raise UnusableError(f"{gpus} GPUs are more engines than the {work.samples} samples of an iteration")
    return {one.layout.tp: _generation_s(one, work, gpus, job) for one in able}


def _generation_s(instance: Instance, work: Work, gpus: int, job: Job) -> float:
    try:
        return rollout_times(work, instance.engine, [gpus // instance.layout.tp], job.split.engine.dispatch)[0].seconds
    except ValueError as error:
        raise UnusableError(f"cannot be simulated: {error}") from None


def _trainer(job: Job, sample: TrainingSample, place: Place) -> tuple[Trainer, Layout]:
    """Return a trainer that reaches the peak speed and makes one forward pass, and the layout of a sample."""
    pool = job.pool(sample.pool, "train", place.device)
    work = work_at(job.workload, sample.samples, tokens=sample.tokens)
    settings = job.split.trainer.model_copy(
        update={"mfu": 1.0, "forward_scale": 1.0, "overhead_s": 0.0, "old_logprob": True, "reference": False, "critic": False}
    )
    layout = Layout.parse(sample.layout) if sample.layout is not None else None
    if layout is not None and (rule := obstacle(job.model, layout, pool.gpus_per_node)):
        raise UnusableError(f"{layout} cannot be: {rule}")
    gpus = layout.gpus if layout is not None else sample.gpus
    assert gpus is not None
    site = Site(gpu(pool.gpu), pool.gpus_per_node, pool.memory_gib, (gpus,))
    trainer = Trainer(job.model, site, work, job.workload, settings)
    if layout is None:
        planned = Trainer(job.model, site, work_of(job.workload), job.workload, job.split.trainer)
        option = planned.fitting(gpus)
        if option is None:
            reason = next(iter(planned.reasons.values()), "no layout has the degrees that `trainer` names")
            raise UnusableError(
                f"no layout on {gpus} GPUs fits, so write it as a sample with `layout`: {reason.removeprefix('training: ')}"
            )
        layout = option.layout
    return trainer, layout


def _assumed(sample: TrainingSample, layout: Layout) -> str:
    return "" if sample.layout is not None else f" ({layout} assumed)"
