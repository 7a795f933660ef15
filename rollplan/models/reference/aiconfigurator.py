"""Decode latency of any model from NVIDIA's kernel database, with the package `aiconfigurator-core` (80 MB, optional).

The shipped tables come from the same calls. Use this for a model, GPU or engine that they lack:

    python -m rollplan.models.reference.aiconfigurator MODEL_DIR b300_sxm --tp 1 2 4 --output latency.csv

and name the file in the scenario: `engine: {latency: {file: latency.csv}}`. Kernel times are calibrated on the way, see
--scale and --overhead-ms.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from rollplan.models.errors import Finding, InputError
from rollplan.models.files import write_whole
from rollplan.models.latency_given import COLUMNS
from rollplan.models.reference.decode_latency import ReferenceLatency

PACKAGE = "aiconfigurator_core"


def measured_grid(
    config_dir: str | Path,
    system: str,
    tp: int,
    contexts: Sequence[int],
    batches: Sequence[int],
    engine: str = "vllm",
    expert_parallel: bool = True,
) -> ReferenceLatency:
    """Return the decode latency of the model whose `config.json` is in `config_dir`; nothing is downloaded.

    system: name in the database, such as `h100_sxm`. contexts: tokens of each sequence, at least 2. expert_parallel: whether
    the GPUs share the experts out, as in the shipped tables, or each expert is divided. Memory is not checked.
    Raise `ImportError` without the package, `InputError` if the database has no answer.
    """
    if find_spec(PACKAGE) is None:
        raise ImportError(f"measured_grid needs `{PACKAGE}`: pip install 'rollplan[aic]'")
    if not (Path(config_dir) / "config.json").is_file():
        raise InputError("config_dir", [Finding("config_dir", f"`{config_dir}`", "has no config.json", "give a model's directory")])
    if not contexts or not batches or min(contexts) < 2 or min(batches) < 1:
        raise ValueError(f"contexts must be at least 2 and batches at least 1, got {list(contexts)} and {list(batches)}")
    experts = {"moe_tp_size": 1, "moe_ep_size": tp} if expert_parallel else {"moe_tp_size": tp, "moe_ep_size": 1}
    sizes, lengths = sorted(set(batches)), sorted(set(contexts))
    sdk = import_module(f"{PACKAGE}.sdk")
    try:
        handle = sdk.EngineHandle.compile(str(config_dir), system, engine, tp_size=tp, **experts)
        ptl_ms = np.array([[handle.predict_decode_latency(batch, length - 1) for length in lengths] for batch in sizes], dtype=float)
    except Exception as error:  # the package raises many kinds, some of its own
        problem = f"has no answer ({type(error).__name__}: {str(error)[:200]})"
        remedy = "choose another system, engine or tp"
        raise InputError(PACKAGE, [Finding("system", f"`{system}`", problem, remedy)]) from error
    note = f"kernel times of {engine} by {PACKAGE}, about 7 % optimistic (mixtures of experts 10 to 30 %), without the host's overhead"
    return ReferenceLatency(
        model=Path(config_dir).name,
        gpu=system,
        tp=tp,
        batches=np.array(sizes),
        contexts=np.array(lengths, dtype=float),
        ptl_ms=ptl_ms,
        measured=np.ones(ptl_ms.shape, dtype=bool),
        bound=None,
        provenance="reference",
        note=note,
    )


CONTEXTS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the latency of one model as a CSV file that scenarios read."""
    parser = ArgumentParser(prog="rollplan.models.reference.aiconfigurator", description=main.__doc__)
    parser.add_argument("config_dir", help="directory with the model's config.json")
    parser.add_argument("system", help="GPU in the database, such as h100_sxm")
    parser.add_argument("--tp", type=int, nargs="+", default=[1], help="tensor parallel degrees")
    parser.add_argument("--scale", type=float, default=1.07, help="end-to-end over kernels: 1.07 dense, 1.1 to 1.3 experts")
    parser.add_argument("--overhead-ms", type=float, default=5.0, help="host time per step: 5 in RL frameworks, 1 in an engine alone")
    parser.add_argument("--output", "-o", type=Path, required=True)
    given = parser.parse_args(arguments)
    lines = [",".join(COLUMNS)]
    for tp in given.tp:
        grid = measured_grid(given.config_dir, given.system, tp, CONTEXTS, BATCHES)
        for batch, row in zip(grid.batches.tolist(), grid.ptl_ms.tolist(), strict=True):
            for context, ms in zip(grid.contexts.tolist(), row, strict=True):
                lines.append(f"{tp},{context:g},{batch},{given.overhead_ms + given.scale * ms:.4f}")
    write_whole(given.output, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
