"""One inference instance from model, GPU and settings: its latency law, its batch limits, its prefill speed."""

from __future__ import annotations

from dataclasses import dataclass

from rollplan.models.accelerator import Gpu
from rollplan.models.architecture import Architecture
from rollplan.models.latency import TableLatency
from rollplan.models.layout import Layout, divisors, obstacle
from rollplan.models.memory.kv import kv_obstacle, kv_room
from rollplan.models.memory.setup import RolloutSetup
from rollplan.models.overheads import Provenance
from rollplan.models.recipe import EngineSettings, Workload
from rollplan.models.reference.decode_latency import decode_latency
from rollplan.models.reference.forward import forward_seconds
from rollplan.models.reference.grids import Side
from rollplan.models.stages.rollout import Engine

DENSE_SCALE, MOE_SCALE = 1.07, 1.2
"""End-to-end decode latency over the kernels' sum, vLLM on H100 with long outputs: 7 % dense, 10 to 30 % experts."""
OVERHEAD_MS = 5.0
"""Host time per step inside an RL framework: two published verl runs of 2025 (R1-Distill 1.5B and 7B) imply 4 to 6 ms. A
current engine by itself takes 0.5 to 1.5 ms, so give `engine.overhead` where you have measured it."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """scale * reference + overhead_ms per decode step; `bound` chooses the end of an estimated interval."""

    scale: float
    overhead_ms: float
    bound: Side = "hi"


@dataclass(frozen=True, slots=True)
class Instance:
    """An engine on `layout.gpus_per_copy` GPUs, and where its latency comes from."""

    layout: Layout
    setup: RolloutSetup
    engine: Engine
    provenance: Provenance
    note: str


def calibration(model: Architecture, settings: EngineSettings) -> Calibration:
    """Return the settings' calibration, the documented default where they give none."""
    scale = settings.scale if settings.scale is not None else MOE_SCALE if model.moe else DENSE_SCALE
    overhead_ms = OVERHEAD_MS if settings.overhead_s is None else 1000 * settings.overhead_s
    return Calibration(scale, overhead_ms, settings.bound)


def instances(
    model: Architecture, gpu: Gpu, gpus_per_node: int, workload: Workload, settings: EngineSettings, used: Calibration
) -> tuple[list[Instance], list[str]]:
    """Return one instance for each tensor parallel degree that works, and why the others do not."""
    found, reasons = [], []
    for tp in settings.tp or settings.latency or ((1,) if settings.ptl_s is not None else divisors(gpus_per_node)):
        layout = Layout(tp=tp)
        setup = rollout_setup(model, layout, workload, settings)
        reason = obstacle(model, layout, gpus_per_node) or kv_obstacle(setup, gpu)
        law = None if reason else _law(model, gpu, tp, settings, used)
        if law is None:
            reasons.append(reason or f"rollout: no latency of tp {tp} on {gpu.name}; give `engine.ptl` or `engine.latency`")
            continue
        latency, provenance, note = law
        prefill_s = forward_seconds(model, gpu.name, tp, 1.0, max(1, workload.prompt_tokens), "last").value
        engine = Engine(latency, settings.max_num_seqs, kv_room(setup, gpu).tokens, prefill_s)
        found.append(Instance(layout, setup, engine, provenance, note))
    return found, reasons


def rollout_setup(model: Architecture, layout: Layout, workload: Workload, settings: EngineSettings) -> RolloutSetup:
    """Return the memory setup of engines in this layout."""
    return RolloutSetup(
        architecture=model,
        layout=layout,
        context_tokens=workload.context_tokens,
        gpu_memory_utilization=settings.gpu_memory_utilization,
    )


def _law(
    model: Architecture, gpu: Gpu, tp: int, settings: EngineSettings, used: Calibration
) -> tuple[TableLatency, Provenance, str] | None:
    if settings.ptl_s is not None:
        return TableLatency.of_batch({batch: 1000 * seconds for batch, seconds in settings.ptl_s.items()}), "measured", "engine.ptl"
    if settings.latency is not None:
        given = settings.latency.get(tp)
        return None if given is None else (given.law(), "measured", "engine.latency")
    known = decode_latency(model, gpu.name, tp, used.bound)
    if known is None:
        return None
    table = TableLatency(known.batches, known.contexts, known.ptl_ms).calibrated(used.scale, used.overhead_ms)
    return table, known.provenance, known.note
