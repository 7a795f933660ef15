"""All samples of a calibration beside their laws, sorted by what they say, and those that say nothing with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from rollplan.models.architecture import Architecture
from rollplan.models.calibration import laws
from rollplan.models.calibration.laws import Job, Place, UnusableError
from rollplan.models.calibration.read import Source
from rollplan.models.calibration.robust import Observed
from rollplan.models.calibration.samples import DecodeSample, TrainingSample
from rollplan.models.latency import FloatArray
from rollplan.models.profile.calibration import LeftOut
from rollplan.models.profile.training import TrainingProfile

OWN_LATENCY = "the scenario has measured latencies (`engine.ptl` or `engine.latency`), so it does not use the reference"


@dataclass(slots=True)
class Usable:
    """Samples by what they are of; `take` adds those of a source."""

    job: Job
    decode: list[Observed] = field(default_factory=list)
    rollout: list[Observed] = field(default_factory=list)
    updates: list[Observed] = field(default_factory=list)
    micro_batches: list[Observed] = field(default_factory=list)
    forward: list[Observed] = field(default_factory=list)
    rollout_beside: list[Observed] = field(default_factory=list)
    train_beside: list[Observed] = field(default_factory=list)
    sync: list[Observed] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def take(self, source: Source) -> None:
        """Sort in every sample of a source."""
        place, samples = source.place, source.samples
        self.left_out += source.left_out
        engine = self.job.split.engine
        own = OWN_LATENCY if engine.ptl_s is not None or engine.latency is not None else None
        other = None if source.decode is None else self._other_model(source.decode.architecture, source.decode.model)
        if samples.decode and (reason := own or other):
            self._leave(place, f"{len(samples.decode)} decode steps", reason)
        else:
            for step in merged(samples.decode):
                self._add(self.decode, place, str(step), partial(laws.decode_step, self.job, step, place))
        if samples.rollout and own:
            self._leave(place, f"{len(samples.rollout)} rollout phases", own)
        else:
            for phase in samples.rollout:
                self._add(self.rollout, place, str(phase), partial(laws.rollout_phase, self.job, phase, place))
        for sample in samples.training:
            self._training(sample, place)
        for pair in samples.interference:
            beside = self.rollout_beside if pair.stage == "rollout" else self.train_beside
            beside.append(Observed(str(pair), place.source, place.kind, pair.beside_s, _times(pair.alone_s)))
        self.sync += [Observed(f"sync {seconds:g} s", place.source, place.kind, seconds, _times(1.0)) for seconds in samples.sync_s]
        if source.training is not None:
            self._micro_batches(source.training, place)

    def _training(self, sample: TrainingSample, place: Place) -> None:
        if sample.update_s is not None:
            self._add(self.updates, place, f"update, {sample}", partial(laws.update, self.job, sample, place, sample.update_s))
        for name, seconds in (("old_logprob", sample.old_logprob_s), ("reference", sample.reference_s)):
            if seconds is not None:
                passed = partial(laws.forward_pass, self.job, sample, place, name, seconds)
                self._add(self.forward, place, f"{name}, {sample}", passed)

    def _micro_batches(self, training: TrainingProfile, place: Place) -> None:
        reason = self._other_model(training.model, training.model.name)
        if reason is None and training.dtype != "bfloat16":
            reason = f"are in {training.dtype}, the law is for bfloat16"
        if reason is not None:
            self._leave(place, f"{len(training.points)} micro-batches", reason)
            return
        full = training.checkpointing == "full"
        for point in training.points:
            label = f"micro-batch of {point.sequences} x {point.sequence_length} tokens"
            self._add(self.micro_batches, place, label, partial(laws.micro_batch, self.job, point, full, place))
            if point.log_prob_s is not None:
                passed = partial(laws.micro_batch_forward, self.job, point, place, point.log_prob_s.median)
                self._add(self.forward, place, f"log-probs, {label}", passed)

    def _add(self, to: list[Observed], place: Place, label: str, observe: Callable[[], Observed]) -> None:
        try:
            to.append(observe())
        except UnusableError as error:
            self._leave(place, label, str(error))

    def _leave(self, place: Place, label: str, reason: str) -> None:
        self.left_out.append(LeftOut(sample=f"{place.source}: {label}"[:1000], reason=reason[:1000]))

    def _other_model(self, shape: Architecture | None, name: str) -> str | None:
        """Return the reason if a profile is of another model than the job's; a fine-tuned one has the same shape."""
        own = self.job.model
        if shape is None:
            return f"are of {name}, whose shape is not known" if name != own.name else None
        same = all(getattr(shape, key) == getattr(own, key) for key in _SHAPE)
        return None if same else f"are of {name}; the job has {own.name}"


_SHAPE = ("layers", "hidden", "heads", "kv_heads", "head_dim", "experts", "vocab")


def merged(steps: Iterable[DecodeSample]) -> list[DecodeSample]:
    """Return one sample for each point, the median of its repeats: what is left out in turn must be new to the fit."""
    repeats: dict[tuple[int, int, float, str | None], list[DecodeSample]] = {}
    for step in steps:
        repeats.setdefault((step.tp, step.batch, step.context, step.pool), []).append(step)
    return [same[0].model_copy(update={"ms": median(step.ms for step in same)}) for same in repeats.values()]


def _times(amount: float) -> Callable[[FloatArray], float]:
    return lambda constants: float(amount * constants[0])
