"""Reference per-token latency: what one decode step takes by published kernel measurements.

The measurements are sums of kernel times, without scheduler, sampler and host. Compared with end-to-end measurements of
vLLM on H100 with long outputs, dense models took about 7 % longer, mixtures of experts 10 to 30 %; RL frameworks add
0.5 to 5 ms per step. So calibrate (`scale`, `c0`) before you rely on an absolute number. Weights and KV cache are bf16;
the GPUs of a mixture of experts share the experts out (expert parallelism as wide as tensor parallelism).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from rollplan.models.architecture import Architecture
from rollplan.models.overheads import Provenance
from rollplan.models.reference.architectures import architecture, table_name
from rollplan.models.reference.gpus import gpu, gpu_name
from rollplan.models.reference.grids import BoolArray, FloatArray, Grid, IntArray, Key, Side, estimated_grids, kernel_grids
from rollplan.models.reference.scaling import nearest, scaled
from rollplan.models.reference.tables import rows

KERNELS_OF = {"A800": "A100", "GB200": "B200"}
"""GPUs with the same chip as a measured one, but another NVLink, which is not in the numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceLatency:
    """Milliseconds of one decode step of `model` on `tp` GPUs, and where they come from.

    batches (m), contexts (n): ascending, in sequences and in tokens of each sequence. ptl_ms (m, n): complete, not made
    monotone. measured (m, n): which cells rest on a value of the table; the others do not fit into memory there. bound: which
    end of the interval this is, where only an interval is known.
    """

    model: str
    gpu: str
    tp: int
    batches: IntArray
    contexts: FloatArray
    ptl_ms: FloatArray
    measured: BoolArray
    bound: Side | None
    provenance: Provenance
    note: str

    def __post_init__(self) -> None:
        shape = (self.batches.size, self.contexts.size)
        if self.ptl_ms.shape != shape or self.measured.shape != shape:
            raise ValueError(f"ptl_ms and measured must have shape {shape}, got {self.ptl_ms.shape} and {self.measured.shape}")


class AffineFit(NamedTuple):
    """PTL = a + b * sequences + c * sequences * context / 1000 in ms, and the mean error of the fit in percent."""

    a_ms: float
    b_ms_per_sequence: float
    c_ms_per_sequence_per_ktoken: float
    mape_pct: float


def tps(model: str | Architecture, gpu_text: str) -> tuple[int, ...]:
    """Return the degrees of tensor parallelism for which `decode_latency` has an answer, ascending; none if it has none."""
    kind, shape = gpu_name(gpu_text), _architecture(model)
    known = {key.tp for key in (*kernel_grids(), *estimated_grids()) if key.gpu == KERNELS_OF.get(kind, kind)}
    return tuple(tp for tp in sorted(known) if decode_latency(shape, kind, tp))


def decode_latency(model: str | Architecture, gpu_text: str, tp: int, bound: Side = "hi") -> ReferenceLatency | None:
    """Return the reference latency of a model on `tp` GPUs of one kind; None without data for the GPU or the degree.

    bound: which end of the estimated interval for GPUs without kernel measurements (H20, H800); others ignore it. A model
    of a shape that was not measured is scaled from the nearest one and marked as estimated, see `scaling.scaled`.
    Raise `InputError` for an unknown model or GPU.
    """
    kind, shape = gpu_name(gpu_text), _architecture(model)
    if tp < 1 or shape.heads % tp:
        return None
    chip = KERNELS_OF.get(kind, kind)
    grids, side = _grids(chip, tp, bound)
    name = table_name(shape)
    if name is not None and name in grids:
        grid, origin = grids[name], []
    else:
        source = nearest(shape, grids, tp)
        if source is None:
            return None
        grid = scaled(grids[source.name], source, shape, gpu(kind), tp)
        times = source.active_params_b / shape.active_params_b
        origin = [
            f"scaled from {source.name}{' (dense)' if shape.moe and not source.moe else ''} with {times:.2g} times the active parameters"
        ]
    if chip != kind:
        origin.append(f"kernels of {chip}, whose NVLink differs")
    if side:
        origin.append("lower estimate" if side == "lo" else "upper estimate")
        origin.append("derived from kernels of other GPUs, not measured")
    about = "10 to 30 %" if shape.moe else "about 7 %"
    origin.append(f"kernel times of vLLM by aiconfigurator-core 0.12.0, {about} optimistic, without the host's overhead")
    provenance: Provenance = "reference" if len(origin) == 1 else "estimated"
    parts = (grid.batches, grid.contexts, grid.ptl_ms, grid.measured)
    return ReferenceLatency(shape.name, kind, tp, *parts, side, provenance, "; ".join(origin))


def affine_fit(model: str | Architecture, gpu_text: str, tp: int) -> AffineFit | None:
    """Return the affine law of a measured model, GPU and degree; None for everything else.

    Not for mixtures of experts where there is a choice: their latency saturates in batch, the fit is 17 % off.
    """
    kind = gpu_name(gpu_text)
    return _fits().get((table_name(_architecture(model)), KERNELS_OF.get(kind, kind), tp))


def _architecture(model: str | Architecture) -> Architecture:
    return architecture(model) if isinstance(model, str) else model


def _grids(chip: str, tp: int, bound: Side) -> tuple[Mapping[str, Grid], Side | None]:
    """Return the grids of a chip and degree by model, and the side of the interval if that is what they are."""
    measured = {key.model: grid for key, grid in kernel_grids().items() if (key.gpu, key.tp) == (chip, tp)}
    if measured:
        return measured, None
    return {key.model: grid for key, grid in estimated_grids().items() if key == Key(key.model, chip, tp, bound)}, bound


@cache
def _fits() -> Mapping[tuple[str | None, str, int], AffineFit]:
    numbers = ("a_ms", "b_ms", "c_ms", "mape_pct")
    return {
        (row["model"], row["gpu"], int(row["tp"])): AffineFit(*(float(row[number]) for number in numbers))
        for row in rows("decode_fits.csv")
    }
