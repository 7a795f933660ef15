"""Raw measurements of `gpu_profile.py` beside the shipped reference data, and as profile files. Needs rollplan, no GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from rollplan import __version__
from rollplan.models.architecture import Architecture
from rollplan.models.errors import InputError
from rollplan.models.profile.decode import DecodeCurve, DecodePoint, DecodeProfile
from rollplan.models.profile.file import Profile
from rollplan.models.profile.origin import Origin, Spread
from rollplan.models.profile.training import TrainingPoint, TrainingProfile
from rollplan.models.reference.architectures import from_hf_config
from rollplan.models.reference.decode_latency import decode_latency
from rollplan.models.reference.forward import forward_seconds
from rollplan.models.reference.gpus import gpu
from rollplan.models.reference.training import train_mfu
from rollplan.models.stages.training import update_flops
from rollplan.models.stages.work import Work
from rollplan.profilers.training.profile import training_of, warnings


def comparison(raw: Mapping[str, Any]) -> Iterator[str]:
    """Yield the errors of the reference data against the measurements: reference over measurement, less one."""
    for case in raw["cases"]:
        model = from_hf_config(case["config"], case["name"])
        yield f"\n{case['name']}: what the shipped reference says (error: reference / measured - 1)"
        if isinstance(case["decode"], dict):
            yield from _decode(model, case["decode"])
        if isinstance(case["training"], dict):
            training = training_of(model, case["training"], case["checkpointing"])
            yield from _training(training, case["training"]["device"])
            yield from _memory(training)


def _decode(model: Architecture, decode: Mapping[str, Any]) -> Iterator[str]:
    try:
        reference = decode_latency(model, decode["device"], 1)
    except InputError:
        reference = None
    if reference is None:
        yield f"decode: no reference for {decode['device']}"
        return
    yield f"decode: {reference.note}"
    yield f"{'batch':>7}{'context':>9}{'measured ms':>13}{'reference ms':>14}{'error':>8}"
    errors = []
    for point in decode["points"]:
        row, column = (
            np.flatnonzero(axis == point[name]) for axis, name in ((reference.batches, "batch"), (reference.contexts, "context"))
        )
        if row.size and column.size and reference.measured[row[0], column[0]]:
            seen, said = median(point["ms"]), float(reference.ptl_ms[row[0], column[0]])
            errors.append(said / seen - 1)
            yield f"{point['batch']:>7}{point['context']:>9}{seen:>13.3f}{said:>14.3f}{errors[-1]:>+8.1%}"
    if errors:
        yield f"decode: {len(errors)} cells, median error {median(errors):+.1%}, median size {median(map(abs, errors)):.1%}"


def _training(training: TrainingProfile, device: str) -> Iterator[str]:
    try:
        peak, said = gpu(device).peak_tflops * 1e12, train_mfu(training.model, device)
    except InputError:
        yield f"training: no reference for {device}"
        return
    yield f"training: {said.note}; the default is {said.value:.2f}"
    yield f"{'as':>12}{'MFU':>7}{'error':>8}{'log-prob s':>12}{'reference s':>13}{'error':>8}"
    times = 4 / 3 if training.checkpointing == "full" else 1.0
    for point in training.points:
        # The reference counts recomputation as work: with full checkpointing the same MFU means 4/3 of the time.
        mfu = _flops(training.model, point) * times / point.forward_backward_s.median / peak
        line = f"{f'{point.sequences} x {point.sequence_length}':>12}{mfu:>7.2f}{mfu / said.value - 1:>+8.1%}"
        if point.log_prob_s is not None:
            expected = forward_seconds(training.model, device, 1, point.tokens, point.sequence_length).value
            line += f"{point.log_prob_s.median:>12.4f}{expected:>13.4f}{expected / point.log_prob_s.median - 1:>+8.1%}"
        yield line


def _flops(model: Architecture, point: TrainingPoint) -> float:
    return update_flops(model, Work(np.full(point.sequences, point.sequence_length), prompt_tokens=0, samples_per_prompt=1))


def _memory(training: TrainingProfile) -> Iterator[str]:
    for check in training.memory:
        yield f"memory of {check.kind}, {check.sequences} x {check.sequence_length} tokens: GiB by the bill, measured"
        for term in check.terms:
            error = "" if term.error is None else f"{term.error:>+8.1%}"
            yield f"{term.term:>24}{term.predicted_gib:>9.2f}{term.measured_gib:>9.2f}{error}"


def write_profiles(raw: Mapping[str, Any], folder: Path) -> Iterator[Path]:
    """Write a profile of each model that was measured; yield the files."""
    folder.mkdir(parents=True, exist_ok=True)
    for case in raw["cases"]:
        decode, training = case["decode"], case["training"]
        measured = [part for part in (decode, training) if isinstance(part, dict)]
        if not measured:
            continue
        device = measured[0]["device"]
        model = from_hf_config(case["config"], case["name"])
        section = training_of(model, training, case["checkpointing"]) if isinstance(training, dict) else None
        origin = Origin(
            kind="measured",
            by=f"rollplan {__version__}",
            date=raw["date"],
            source="benchmarks/gpu_profile.py",
            host=measured[0]["host"],
            device=device,
            devices=1,
            engine="torch",
            versions=measured[-1]["versions"],
            weights="dummy",
        )
        made = Profile(
            name=f"{case['name']} on {device}",
            origin=origin,
            decode=_decode_section(model, decode) if isinstance(decode, dict) else None,
            training=section,
            warnings=tuple(warnings(section, device)) if section else (),
        )
        path = folder / f"{case['name']}_{device}.json".replace(" ", "_")
        made.save(path)
        yield path


def _decode_section(model: Architecture, decode: Mapping[str, Any]) -> DecodeProfile:
    points = tuple(
        DecodePoint(batch=raw["batch"], context_tokens=raw["context"], attended_tokens=float(raw["context"]), ms=Spread.of(raw["ms"]))
        for raw in decode["points"]
    )
    curve = DecodeCurve(
        tp=1, points=points, max_num_seqs=max(point.batch for point in points), max_model_len=max(point.context_tokens for point in points)
    )
    settings = {
        "attention": "scaled_dot_product_attention",
        "dtype": decode["dtype"],
        "steps": "CUDA graph" if decode["threads"] is None else "eager",
    }
    return DecodeProfile(model=model.name, architecture=model, settings=settings, compute_threads=decode["threads"], curves=(curve,))
