"""Worker: measures training in an interpreter that has torch and transformers; started by `profile.py`."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from rollplan.profilers.training.measure import DEFAULTS, NoRoomError, measure, micro_batches
from rollplan.profilers.worker import WorkerError, serve


def work(request: dict[str, Any]) -> dict[str, Any]:
    """Return what `measure.measure` returns, and on what it was measured.

    request: that of `measure` without points, and config (content of a config.json), tokens and lengths (of micro-batches; None:
    what suits the device and the model), dtype (`bfloat16`, `float32`; None: what suits the device), checkpointing (bool),
    folder (for files of cold moves). The device is a GPU if torch sees one.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # Threads that wait for each other stand still as soon as another process takes a core.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Micro-batches of many sizes take turns: without this, what fits once may not fit again.
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    import torch
    import transformers

    from rollplan.profilers.training.torch_trainer import TorchTrainer

    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    dtype = request["dtype"] or ("bfloat16" if cuda else "float32")
    points = _points(request, device.type)
    try:
        trainer = TorchTrainer(request["config"], getattr(torch, dtype), device, request["checkpointing"], Path(request["folder"]))
        found = measure(trainer, {**request, "points": points})
    except NoRoomError as error:
        raise WorkerError(f"the training state does not fit: {error}; take a smaller model or fewer tokens") from None
    return {
        **found,
        "dtype": dtype,
        "device": torch.cuda.get_device_name(device) if cuda else "CPU",
        "memory_gib": torch.cuda.get_device_properties(device).total_memory / 2**30 if cuda else None,
        "threads": None if cuda else torch.get_num_threads(),
        "host": f"{platform.system()} {platform.machine()}",
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__},
    }


def _points(request: dict[str, Any], device: str) -> list[tuple[int, int]]:
    """Return the micro-batches that were asked for, or the default ones as far as the model's positions reach."""
    tokens, lengths = DEFAULTS[device]
    longest = request["config"].get("max_position_embeddings") or max(lengths)
    asked = request["tokens"] or tokens, request["lengths"] or [length for length in lengths if length <= longest] or [longest]
    points = micro_batches(*asked)
    if not points:
        raise WorkerError(f"no number of tokens ({asked[0]}) is a multiple of a sequence length ({asked[1]}); give --tokens and --lengths")
    return points


def main() -> None:
    """Answer the request on stdin."""
    serve(work)


if __name__ == "__main__":
    main()
