"""From a request to a profile of training: the worker measures, this module fits and compares."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from rollplan import __version__
from rollplan.models.architecture import Architecture
from rollplan.models.errors import Finding, InputError
from rollplan.models.files import read_text
from rollplan.models.memory.amount import GIB
from rollplan.models.profile.file import Profile
from rollplan.models.profile.origin import Origin, Spread
from rollplan.models.profile.training import Kind, Move, PassLaw, TrainingPoint, TrainingProfile, fitted
from rollplan.models.reference.architectures import from_hf_config
from rollplan.profilers.training.measure import micro_batches
from rollplan.profilers.training.memory import checks
from rollplan.profilers.worker import ask

WORKER = "rollplan.profilers.training.worker"
DTYPE_BYTES = {"bfloat16": 2, "float32": 4}
LEAST, MOST = 3, 30
"""Repeats of everything that is measured."""
_START_S = 300.0
"""What loading libraries, making the model and one pass that overruns may take beyond the time limit."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to measure. dtype: None takes bfloat16 on a GPU, float32 on a CPU. spread: quartile spread at which repeats end.

    tokens: of a micro-batch; lengths: of its sequences, all alike: every pair that divides is one micro-batch; None takes what
    suits the device. disk: folder for cold moves, None for the system's temporary one. Raises `InputError` for what cannot be measured.
    """

    tokens: Sequence[int] | None = None
    lengths: Sequence[int] | None = None
    checkpointing: Literal["none", "full"] = "none"
    dtype: Literal["bfloat16", "float32"] | None = None
    moves: bool = True
    spread: float = 0.05
    time_limit_s: float = 300.0
    disk: Path | None = None

    def __post_init__(self) -> None:
        findings = []
        for option, values in (("--tokens", self.tokens), ("--lengths", self.lengths)):
            if values is not None and (not values or min(values) < 1):
                findings.append(Finding(option, ", ".join(map(str, values)), "are not counts of tokens", "write 2048,4096"))
        if not findings and self.tokens and self.lengths and not micro_batches(self.tokens, self.lengths):
            remedy = "give numbers of tokens that are multiples of a length"
            findings.append(Finding("--tokens", ", ".join(map(str, self.tokens)), "hold no whole sequences of the lengths", remedy))
        if self.disk is not None and not self.disk.is_dir():
            findings.append(Finding("--disk", f"`{self.disk}`", "is not a folder", "give the folder that checkpoints are written to"))
        if findings:
            raise InputError("command line", findings)


def profile(
    model: Path,
    wanted: Wanted,
    python: str | None = None,
    environment: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Profile:
    """Measure a model's training on this machine.

    model: a config.json, or its folder; weights are not read. python: interpreter with torch and transformers. Raises `InputError` for
    a config that is not understood or too short for the lengths, and if the measuring fails.
    """
    architecture = from_hf_config(model)
    config = _content(model)
    longest = config.get("max_position_embeddings")
    if wanted.lengths and isinstance(longest, int) and max(wanted.lengths) > longest:
        problem = f"is beyond the model's max_position_embeddings = {longest}"
        raise InputError("command line", [Finding("--lengths", str(max(wanted.lengths)), problem, "give shorter ones")])
    # The folder is ours, so that files of cold moves do not outlive a worker that was killed.
    with tempfile.TemporaryDirectory(prefix="rollplan-", dir=wanted.disk) as folder:
        answer = ask(WORKER, request(config, wanted, folder), python, environment, wanted.time_limit_s + _START_S, on_line)
    return profile_of(architecture, answer, wanted.checkpointing)


def request(config: Mapping[str, Any], wanted: Wanted, folder: str) -> dict[str, Any]:
    """Return the worker's request."""
    return {
        "config": config,
        "dtype": wanted.dtype,
        "checkpointing": wanted.checkpointing == "full",
        "folder": folder,
        "tokens": wanted.tokens,
        "lengths": wanted.lengths,
        "log_prob": True,
        "moves": ["warm", "cold"] if wanted.moves else [],
        "spread": wanted.spread,
        "least": LEAST,
        "most": MOST,
        "time_limit_s": wanted.time_limit_s,
    }


def profile_of(model: Architecture, answer: Mapping[str, Any], checkpointing: Literal["none", "full"]) -> Profile:
    """Return the profile that a worker's answer makes."""
    training = training_of(model, answer, checkpointing)
    origin = Origin(
        kind="measured",
        by=f"rollplan {__version__}",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        source=f"rollplan profile train --model {model.name}",
        host=answer["host"],
        device=answer["device"],
        devices=1,
        engine="torch",
        versions=answer["versions"],
        weights="dummy",
    )
    return Profile(name=f"training of {model.name}", origin=origin, training=training, warnings=tuple(warnings(training, answer["device"])))


def training_of(model: Architecture, answer: Mapping[str, Any], checkpointing: Literal["none", "full"]) -> TrainingProfile:
    """Return the section that a worker's answer makes."""
    points = tuple(
        TrainingPoint(
            sequences=raw["sequences"],
            sequence_length=raw["length"],
            forward_backward_s=Spread.of(raw["update_s"]),
            log_prob_s=Spread.of(raw["log_prob_s"]) if raw["log_prob_s"] else None,
            peak_gib=_gib(raw["peak_bytes"]),
            log_prob_peak_gib=_gib(raw["log_prob_peak_bytes"]),
        )
        for raw in answer["points"]
    )
    moves = tuple(
        Move(
            what=raw["what"],
            direction=raw["direction"],
            temperature=raw["temperature"],
            gib=raw["bytes"] / GIB,
            seconds=Spread.of(raw["seconds"]),
            from_storage=raw.get("from_storage"),
        )
        for raw in answer["moves"]
    )
    dtype = answer["dtype"]
    update = _law(points, "update")
    assert update is not None
    return TrainingProfile(
        model=model,
        dtype=dtype,
        checkpointing=checkpointing,
        optimizer=f"AdamW, moments in {dtype}",
        threads=answer["threads"],
        points=points,
        optimizer_s=Spread.of(answer["optimizer_s"]),
        update=update,
        log_prob=_law(points, "log-prob"),
        moves=moves,
        memory=checks(model, DTYPE_BYTES[dtype], checkpointing, points, answer["state_bytes"]),
        skipped=tuple(answer["skipped"]),
    )


FEW_POINTS = 3
"""With fewer, the law has as many terms as points."""


def warnings(training: TrainingProfile, device: str) -> list[str]:
    """Return what a reader must know before trusting the numbers."""
    found = []
    if device == "CPU":
        found.append("measured on a CPU: warm moves copy between two places of the same memory, peaks of memory are coarse")
    uneven = [point for point in training.points if point.forward_backward_s.relative > 0.1]
    if uneven:
        found.append(
            f"{len(uneven)} of {len(training.points)} micro-batches have quartiles more than 10 % from their median: the machine was busy"
        )
    if len(training.points) < FEW_POINTS:
        count = f"{len(training.points)} micro-batch{'es' if len(training.points) > 1 else ''}"
        found.append(f"only {count} could be measured in the time: a law through so few says nothing of other sizes; allow more time")
    if "c" not in training.update.terms:
        found.append("one sequence length only: the law holds for it alone, attention is hidden in the other terms")
    if any(move.temperature == "cold" and move.direction == "load" and (move.from_storage or 0) < 0.9 for move in training.moves):
        found.append("cold loads came, in part or for all that is known, from the cache of the operating system, not from storage")
    return found


def _law(points: tuple[TrainingPoint, ...], kind: Kind) -> PassLaw | None:
    fit = fitted(points, kind)
    return None if fit is None else PassLaw.of(fit)


def _gib(size: int | None) -> float | None:
    return size / GIB if size else None


def _content(model: Path) -> dict[str, Any]:
    """Return the content of a config.json that `from_hf_config` has accepted already."""
    content: dict[str, Any] = json.loads(read_text(model / "config.json" if model.is_dir() else model, "config.json"))
    return content
