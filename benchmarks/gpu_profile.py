"""Measure a GPU in under eight minutes: decode steps, training and log-prob passes, off-loading; beside the shipped reference data.

    python benchmarks/gpu_profile.py -o raw.json [--profiles DIR]      on a machine with one GPU, torch and transformers
    python benchmarks/gpu_profile.py --compare raw.json [--profiles DIR]   anywhere with rollplan, no GPU needed
    python benchmarks/gpu_profile.py --tiny                             a tiny model on the CPU: does the script work?

Measuring needs no more than torch and transformers: models of the public shapes of Qwen2.5-1.5B and 7B are made with random
weights, each measurement in a process of its own. What does not fit into memory or time is left out, with the reason.
The comparison and the profile files need rollplan's own dependencies, here or elsewhere. Exit code 1 if a part failed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from rollplan.models.errors import InputError
from rollplan.profilers.worker import ask

FORMAT = "rollplan/gpu-profile/1"
START_S = 60.0
"""What a process may take for libraries, weights and a last pass beyond its time limit."""
DEADLINE_S = 450.0
"""After this long nothing is begun, and what runs is stopped."""
PUBLIC = {"model_type": "qwen2", "num_hidden_layers": 28, "max_position_embeddings": 32768, "rope_theta": 1e6, "rms_norm_eps": 1e-6}


@dataclass(frozen=True)
class Case:
    """One model and what is measured of it. Time limits in seconds; checkpointing as a trainer of this size would have it."""

    name: str
    config: Mapping[str, Any]
    batches: tuple[int, ...] = (1, 8, 32, 64, 128, 256, 512)
    contexts: tuple[int, ...] = (1024, 4096, 8192, 16384)
    decode_s: float = 50.0
    tokens: tuple[int, ...] = (2048, 4096, 8192, 16384)
    lengths: tuple[int, ...] = (1024, 4096)
    checkpointing: bool = True
    moves: tuple[str, ...] = ("warm",)
    training_s: float = 90.0


CASES = (
    Case(
        "Qwen2.5-1.5B",
        {
            **PUBLIC,
            "hidden_size": 1536,
            "num_attention_heads": 12,
            "num_key_value_heads": 2,
            "intermediate_size": 8960,
            "vocab_size": 151936,
            "tie_word_embeddings": True,
        },
        checkpointing=False,
        moves=("warm", "cold"),
    ),
    Case(
        "Qwen2.5-7B",
        {
            **PUBLIC,
            "hidden_size": 3584,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "intermediate_size": 18944,
            "vocab_size": 152064,
            "tie_word_embeddings": False,
        },
    ),
)
TINY = Case(
    "tiny",
    {
        **PUBLIC,
        "num_hidden_layers": 2,
        "hidden_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 256,
        "vocab_size": 512,
        "tie_word_embeddings": True,
    },
    batches=(1, 4),
    contexts=(64, 256),
    decode_s=4.0,
    tokens=(64, 128, 256),
    lengths=(32, 64),
    moves=("warm", "cold"),
    training_s=8.0,
)


def measured(case: Case, until_s: float) -> dict[str, Any]:
    """Return everything that is measured of one model until a time of the clock; a part that fails is text instead of data."""
    found: dict[str, Any] = {"name": case.name, "config": dict(case.config), "checkpointing": "full" if case.checkpointing else "none"}
    common = {"config": dict(case.config), "spread": 0.03}
    decode = {**common, "batches": case.batches, "contexts": case.contexts, "time_limit_s": case.decode_s}
    with tempfile.TemporaryDirectory(prefix="rollplan-") as folder:
        training = {
            **common,
            "tokens": case.tokens,
            "lengths": case.lengths,
            "dtype": None,
            "checkpointing": case.checkpointing,
            "folder": folder,
            "log_prob": True,
            "moves": case.moves,
            "least": 3,
            "most": 20,
            "time_limit_s": case.training_s,
        }
        for part, module, request in (
            ("decode", "benchmarks.gpu.decode", decode),
            ("training", "rollplan.profilers.training.worker", training),
        ):
            print(f"{case.name}: measuring {part} for up to {request['time_limit_s']:.0f} s", file=sys.stderr, flush=True)
            left_s = until_s - monotonic()
            if left_s <= 0:
                found[part] = f"not begun: the {DEADLINE_S:.0f} s of the whole script are over"
                continue
            try:
                found[part] = ask(module, request, timeout_s=min(left_s, request["time_limit_s"] + START_S))
            except InputError as error:
                found[part] = str(error)
    return found


def rows(raw: Mapping[str, Any]) -> Iterator[str]:
    """Yield the measurements themselves as lines of tables; needs nothing but Python."""
    for case in raw["cases"]:
        decode, training = case["decode"], case["training"]
        yield f"\n{case['name']}, random weights, checkpointing {case['checkpointing']} in training"
        if isinstance(decode, str):
            yield f"decode failed: {decode}"
        else:
            yield f"decode on {decode['device']}, {decode['dtype']}: ms of a step"
            yield f"{'batch':>7}" + "".join(f"{context:>10}" for context in _contexts(decode)) + "  tokens of context"
            for batch in sorted({point["batch"] for point in decode["points"]}):
                ms = {point["context"]: median(point["ms"]) for point in decode["points"] if point["batch"] == batch}
                yield f"{batch:>7}" + "".join(f"{ms[c]:>10.3f}" if c in ms else f"{'-':>10}" for c in _contexts(decode))
        if isinstance(training, str):
            yield f"training failed: {training}"
            continue
        yield f"training on {training['device']}, {training['dtype']}: seconds of a micro-batch"
        yield f"{'as':>12}{'forward+backward':>18}{'log-probs':>11}{'peak GiB':>10}"
        for point in training["points"]:
            peak = "-" if point["peak_bytes"] is None else f"{point['peak_bytes'] / 2**30:.2f}"
            name = f"{point['sequences']} x {point['length']}"
            yield f"{name:>12}{median(point['update_s']):>18.4f}{median(point['log_prob_s']):>11.4f}{peak:>10}"
        yield f"optimizer step {median(training['optimizer_s']):.4f} s"
        for move in training["moves"]:
            seconds = median(move["seconds"])
            name = f"{move['temperature']} {move['direction']} of {move['what']}"
            yield f"{name:<28}{move['bytes'] / 2**30:>8.2f} GiB{seconds:>9.3f} s{move['bytes'] / 1e9 / seconds:>8.2f} GB/s"
        yield from (f"left out: {reason}" for part in (decode, training) if isinstance(part, dict) for reason in part["skipped"])


def _contexts(decode: Mapping[str, Any]) -> list[int]:
    return sorted({point["context"] for point in decode["points"]})


def compared(raw: Mapping[str, Any], profiles: Path | None) -> None:
    """Print the comparison and write the profile files, if rollplan's dependencies are here; else say where to do it."""
    try:
        from benchmarks.gpu.compare import comparison, write_profiles

        lines = list(comparison(raw))
        written = list(write_profiles(raw, profiles)) if profiles else []
    except ImportError as error:
        print(f"\nno comparison: {error.name} is not installed here; where rollplan is installed, run this script with --compare FILE")
        return
    print(*lines, *(f"profile written to {path}" for path in written), sep="\n")


def save(raw: Mapping[str, Any], output: Path | None) -> None:
    """Write what there is so far, also before anything is measured: a place that cannot be written shall not cost eight minutes."""
    if output:
        output.write_text(json.dumps(raw) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, help="file for the raw measurements (JSON)")
    parser.add_argument("--compare", type=Path, metavar="RAW", help="measure nothing, compare these raw measurements")
    parser.add_argument("--profiles", type=Path, metavar="DIR", help="folder for a rollplan profile of each model")
    parser.add_argument("--tiny", action="store_true", help="a tiny model on the CPU, to see that the script works")
    options = parser.parse_args()
    if options.compare:
        raw = json.loads(options.compare.read_text(encoding="utf-8"))
        if not isinstance(raw, dict) or raw.get("format") != FORMAT:
            parser.error(f"{options.compare} holds no raw measurements of this script")
    else:
        if options.tiny:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        date = datetime.now(UTC).isoformat(timespec="seconds")
        until_s = monotonic() + DEADLINE_S
        raw = {"format": FORMAT, "date": date, "cases": []}
        save(raw, options.output)
        for case in (TINY,) if options.tiny else CASES:
            raw["cases"].append(measured(case, until_s))
            save(raw, options.output)
    for line in rows(raw):
        print(line)
    compared(raw, options.profiles)
    sys.exit(any(isinstance(case[part], str) for case in raw["cases"] for part in ("decode", "training")))


if __name__ == "__main__":
    main()
