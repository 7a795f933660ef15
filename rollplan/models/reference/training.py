"""Which share of the peak speed training reaches, where nobody has measured."""

from __future__ import annotations

from rollplan.models.architecture import Architecture
from rollplan.models.reference.gpus import gpu, gpu_name
from rollplan.models.reference.tables import Sourced, rows

DENSE_MFU = 0.35
"""Llama-3.1-8B in bf16 on 8 H100 with torchtitan (FSDP2, compile): 343 of 989 TFLOPS. Its 70B on 256 H100: 0.30."""

MOE_MFU = 0.15
"""GPT-OSS 120B in bf16 on 64 H100 with Megatron-Bridge: 153 of 989 TFLOPS. Newer ones on GB200: up to 0.31."""

H20_DENSE_MFU = 0.40
"""No published run. At 37 operations per byte almost nothing but the multiplications costs time; careful all the same."""


def train_mfu(model: Architecture, gpu_text: str) -> Sourced:
    """Return a default share of the peak bf16 speed for a training step, with the range of published runs in the note.

    The defaults are those of H100 (`reference`); on other GPUs they are `estimated`.
    Published runs are pre-training with full, equal sequences. Updates in RL logs reach 0.37 to 0.42 without, and much less
    with, padding and off-loading. So a measured training time always wins over this.
    """
    kind = gpu_name(gpu_text)
    default = MOE_MFU if model.moe else H20_DENSE_MFU if kind == "H20" else DENSE_MFU
    runs = {name: _published(model.moe, name) for name in (kind, *(row["gpu"] for row in rows("training.csv")))}
    own, others = runs[kind], [share for shares in runs.values() for share in shares]
    shares, where = (own, kind) if own else (others, "other GPUs")
    what = "mixtures of experts" if model.moe else "dense models"
    spread = " to ".join(dict.fromkeys(f"{share:.2f}" for share in (min(shares), max(shares))))
    note = f"published bf16 pre-training of {what} on {where}: {spread} of the peak speed"
    return Sourced(default, "reference" if kind == "H100" else "estimated", note)


def _published(moe: bool, kind: str) -> list[float]:
    peak = gpu(kind).peak_tflops
    return [float(row["model_tflops_per_gpu"]) / peak for row in rows("training.csv") if row["gpu"] == kind and (row["moe"] == "1") == moe]
