"""The training side of one job in one pool: which layouts fit, and how long they take.

A layout is an option if it breaks no rule of divisibility and its memory bill fits. The fastest is taken, of equals the
simplest. Pipeline stages and context parallelism are options where the model does not fit without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace

from rollplan.models.accelerator import Gpu
from rollplan.models.architecture import Architecture
from rollplan.models.layout import Layout, layouts
from rollplan.models.layout import obstacle as shape_obstacle
from rollplan.models.memory.bill import MemoryBill, bill
from rollplan.models.memory.setup import MicroBatch, ModelSetup, Node, Role, Setup, TrainSetup
from rollplan.models.overheads import Provenance
from rollplan.models.recipe import TrainerSettings, Workload
from rollplan.models.reference.forward import forward_seconds
from rollplan.models.reference.training import train_mfu
from rollplan.models.stages.training import Passes, TrainingParts, TrainingSpeed, obstacle, training_parts
from rollplan.models.stages.work import Work


@dataclass(frozen=True, slots=True)
class TrainOption:
    """Training on `layout.gpus` GPUs in `seconds`."""

    layout: Layout
    seconds: float


@dataclass(frozen=True, slots=True)
class Site:
    """The GPUs of one pool that a job may use."""

    gpu: Gpu
    gpus_per_node: int
    host_gib: float
    counts: tuple[int, ...]


class Trainer:
    """The training side of one job on one site: times of layouts, and which of them fit."""

    def __init__(self, model: Architecture, site: Site, work: Work, workload: Workload, settings: TrainerSettings):
        self.model, self.site, self.work, self.workload, self.settings = model, site, work, workload, settings
        default = train_mfu(model, site.gpu.name)
        self.provenance: Provenance = "imported" if settings.mfu is not None else "estimated"
        self.mfu = settings.mfu if settings.mfu is not None else default.value
        self.passes = Passes(settings.old_logprob + settings.reference + settings.critic, settings.critic)
        self._speeds: dict[int, TrainingSpeed] = {}
        self._fits: dict[Layout | tuple[int, int, int], tuple[int, int]] = {}
        self._sorted: dict[int, list[tuple[float, Layout]]] = {}
        self.reasons: dict[str, str] = {}

    def seconds(self, layout: Layout) -> float:
        """Return the seconds of all training passes of one iteration."""
        return self.parts(layout).seconds

    def parts(self, layout: Layout) -> TrainingParts:
        """Return the seconds of the training passes of one iteration, each by itself."""
        full = self.settings.checkpointing == "full"
        return training_parts(
            self.model,
            layout,
            self.work,
            self._speed(layout.tp),
            self.passes,
            self.settings.micro_batch,
            full,
            self.settings.overhead_s,
        )

    def options(self) -> dict[int, TrainOption]:
        """Return the fastest layout that fits, by number of GPUs; counts without any are left out."""
        best = {gpus: self.fitting(gpus) for gpus in self.site.counts}
        if not self.reasons and not any(best.values()):
            self.reasons["degrees"] = f"training: {self._no_layout()}"
        return {gpus: option for gpus, option in best.items() if option is not None}

    def fitting(self, gpus: int) -> TrainOption | None:
        """Return the fastest layout of `gpus` GPUs on which training alone fits, None if there is none."""
        return self.best(gpus, lambda layout: bill(self.setup(layout), self.site.gpu))

    def best(self, gpus: int, bill_of: Callable[[Layout], MemoryBill]) -> TrainOption | None:
        """Return the fastest layout of `gpus` GPUs whose bill fits, None if there is none; of equals the simplest."""
        if gpus not in self._sorted:
            allowed = sorted((self.seconds(layout), layout.pp, layout.cp, layout.ep, layout) for layout in self._allowed(gpus))
            self._sorted[gpus] = [(seconds, layout) for seconds, *_, layout in allowed]
        for seconds, layout in self._sorted[gpus]:
            if not self._needless(layout, bill_of) and self._fit(layout, bill_of):
                return TrainOption(layout, seconds)
        return None

    def largest(self) -> Layout | None:
        """Return the simplest layout on the most GPUs within the budget, whether or not it fits; None if no count has one."""
        for gpus in reversed(self.site.counts[:-1]):
            if (layout := next(self._allowed(gpus), None)) is not None:
                return layout
        return None

    def alike(self) -> Trainer:
        """Return a trainer with the same speeds that knows of no fitting layout yet, for bills of another kind."""
        other = copy(self)
        other._fits = {}
        return other

    def setup(self, layout: Layout) -> Setup:
        """Return the memory setup of training alone: actor, reference and critic take turns on the same GPUs."""
        settings, tokens = self.settings, self.workload.context_tokens
        scored = MicroBatch(settings.micro_batch if settings.log_prob_batch is None else settings.log_prob_batch, tokens)
        actor = TrainSetup(
            architecture=self.model,
            layout=layout,
            sharding=settings.sharding,
            update=MicroBatch(settings.micro_batch, tokens),
            logit_copies=settings.logit_copies,
            log_prob=scored if settings.old_logprob else None,
            chunk_tokens=settings.loss_chunk,
            checkpointing=settings.checkpointing,
            optimizer_on_host=settings.optimizer_on_host,
            lora_rank=settings.lora_rank,
        )
        reference = ModelSetup(
            architecture=self.model, layout=layout, sharding=settings.sharding, log_prob=scored, chunk_tokens=settings.loss_chunk
        )
        # With adapters the frozen base is the reference.
        separate = settings.reference and settings.lora_rank is None
        roles: tuple[Role, ...] = ("train", *(("reference",) if separate else ()), *(("critic",) if settings.critic else ()))
        return Setup(
            train=actor,
            reference=reference if separate else None,
            critic=replace(actor, head="value", lora_rank=None) if settings.critic else None,
            shared=(roles,) if len(roles) > 1 else (),
            node=Node(gpus=self.site.gpus_per_node, memory_gib=self.site.host_gib),
        )

    def _allowed(self, gpus: int) -> Iterator[Layout]:
        settings = self.settings
        for layout in layouts(self.model, gpus, self.site.gpus_per_node, settings.tp, settings.pp, settings.cp, settings.ep):
            if (reason := obstacle(layout, self.work, settings.micro_batch)) is None:
                yield layout
            else:
                self.reasons.setdefault("batch", f"training: {reason}")

    def _needless(self, layout: Layout, bill_of: Callable[[Layout], MemoryBill]) -> bool:
        """Return whether the same GPUs would hold the model without pipeline stages and context parallelism.

        Both cost communication that this law does not count, so they are for memory, or for whoever asks for them.
        """
        pp = 1 if self.settings.pp is None else layout.pp
        cp = 1 if self.settings.cp is None else layout.cp
        plain = Layout(tp=layout.tp, pp=pp, cp=cp, dp=layout.gpus // (layout.tp * pp * cp))
        return plain.gpus_per_copy < layout.gpus_per_copy and self._fit(plain, bill_of)

    def _no_layout(self) -> str:
        """Return why the degrees that the settings name give no layout on any number of GPUs."""
        named = [Layout(**{name: degree}) for name in ("tp", "pp") for degree in getattr(self.settings, name) or ()]
        broken = [rule for layout in named if (rule := shape_obstacle(self.model, layout, self.site.gpus_per_node))]
        return (
            " and ".join(broken)
            or f"no layout on {self.site.counts[0]} to {self.site.counts[-1]} GPUs has the degrees that `trainer` names"
        )

    def _fit(self, layout: Layout, bill_of: Callable[[Layout], MemoryBill]) -> bool:
        """Return whether a layout fits; on whole nodes more data parallel copies never need more memory per GPU or host.

        On a part of a node they do: each copy adds what its GPUs keep on the same host.
        """
        whole_nodes = layout.gpus >= self.site.gpus_per_node
        kind = (layout.tp, layout.pp, layout.cp) if layout.ep == 1 and whole_nodes else layout
        too_few, enough = self._fits.get(kind, (0, 10**9))
        if layout.dp <= too_few or layout.dp >= enough:
            return layout.dp >= enough
        found = bill_of(layout)
        if not found.fits:
            self.reasons["memory"] = f"training as {layout}: {found.reasons[0]}"
        self._fits[kind] = (too_few, layout.dp) if found.fits else (layout.dp, enough)
        return found.fits

    def _speed(self, tp: int) -> TrainingSpeed:
        if tp not in self._speeds:
            length = max(1.0, self.work.tokens / self.work.samples)
            rate = {t: 1 / (t * forward_seconds(self.model, self.site.gpu.name, t, 1.0, length).value) for t in (1, tp)}
            self._speeds[tp] = TrainingSpeed(
                self.site.gpu.peak_tflops, self.mfu, rate[tp] / self.settings.forward_scale, min(1.0, rate[tp] / rate[1])
            )
        return self._speeds[tp]
