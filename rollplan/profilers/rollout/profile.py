"""From a request to a profile: the worker measures, this module asks it, judges what came back, and says where it is from."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import fmean, median
from typing import Any, Literal

from rollplan import __version__
from rollplan.models.errors import Finding, InputError
from rollplan.models.fits.ptl import fit_ptl
from rollplan.models.profile.decode import DecodeCurve, DecodePoint, DecodeProfile, PrefillCost
from rollplan.models.profile.file import Profile
from rollplan.models.profile.origin import Origin, Spread
from rollplan.profilers import worker
from rollplan.profilers.rollout.model import architecture_of, model_folder, model_name

Engine = Literal["vllm", "torch"]
TOO_DISTURBED = 0.05
_LOADING_S = 1800.0
"""What loading, compiling and rehearsing may take beyond the time for the rounds."""


@dataclass(frozen=True, slots=True)
class RolloutRequest:
    """What is to be measured. model: see `model_folder`. python: interpreter that has the engine; None, this one.

    tp: degrees of tensor parallelism, one after the other. batches, contexts, slots, prompt_tokens: None, what the engine
    holds. spread: quartile spread, by the median, that each point must reach within time_limit_s in each process.
    processes: engines that are started one after the other; what differs between them (layout of memory, clock rate, the
    hour) no single one sees. Raises `InputError` for what an engine cannot do, before any of it is measured.
    """

    model: str
    engine: Engine = "vllm"
    python: str | None = None
    tp: tuple[int, ...] = (1,)
    batches: tuple[int, ...] | None = None
    contexts: tuple[int, ...] | None = None
    slots: int | None = None
    weights: Literal["dummy", "real"] = "dummy"
    spread: float = 0.02
    time_limit_s: float = 300.0
    processes: int = 2
    prompt_tokens: int | None = None
    enforce_eager: bool = False

    def __post_init__(self) -> None:
        if self.engine == "torch" and self.tp != (1,):
            degrees = ",".join(map(str, self.tp))
            raise InputError("command line", [Finding("--tp", degrees, "the torch engine runs on one device", "use --engine vllm")])


@dataclass(frozen=True, slots=True)
class MeasuredBatch:
    """A whole batch that was generated beside the measurement.

    step_s: typical seconds of every step. round_s: seconds of each round by the clock. finish_step: for each round, after
    which step each request was finished.
    """

    step_s: tuple[float, ...]
    round_s: tuple[float, ...]
    finish_step: tuple[tuple[int, ...], ...]

    @property
    def seconds(self) -> float:
        """How long the batch takes: the sum of its typical steps."""
        return sum(self.step_s)

    @property
    def spread(self) -> float:
        """By how much the rounds disagree: the distance of their quartiles, by the typical time."""
        whole = Spread.of(self.round_s)
        return (whole.high - whole.low) / self.seconds


def profile_rollout(request: RolloutRequest, on_line: Callable[[str], None] | None = None) -> Profile:
    """Measure an engine; raise `InputError` if it cannot be measured, with what the engine said."""
    return profile_and_generate(request, (), on_line)[0]


def profile_and_generate(
    request: RolloutRequest, batches: Sequence[tuple[Sequence[int], Sequence[int]]], on_line: Callable[[str], None] | None = None
) -> tuple[Profile, tuple[MeasuredBatch, ...]]:
    """Measure an engine, and in the same rounds whole batches (prompt and output tokens), to compare a prediction with.

    With several tp, the batches are those of the last one.
    """
    curves, warnings, answers = [], list[str](), list[dict[str, Any]]()
    with model_folder(request.model, request.weights == "real") as folder:
        architecture = architecture_of(folder, model_name(request.model))
        for tp in request.tp:
            answers.append(pooled([_ask(request, str(folder), tp, batches, on_line) for _ in range(request.processes)]))
            curves.append(_curve(tp, answers[-1]))
            warnings += [*_warnings(tp, answers[-1], request.spread), *_of_shape(curves[-1])]
    last = answers[-1]
    section = DecodeProfile(
        model=model_name(request.model),
        architecture=architecture,
        settings=last["settings"],
        compute_threads=last["threads"],
        curves=tuple(curves),
    )
    profile = Profile(name=f"{section.model} on {last['device']}", origin=_origin(request, last), decode=section, warnings=tuple(warnings))
    whole = tuple(
        MeasuredBatch(tuple(one["step_s"]), tuple(one["round_s"]), tuple(map(tuple, one["finish_step"]))) for one in last["workloads"]
    )
    return profile, whole


def _ask(
    request: RolloutRequest,
    folder: str,
    tp: int,
    batches: Sequence[tuple[Sequence[int], Sequence[int]]],
    on_line: Callable[[str], None] | None,
) -> dict[str, Any]:
    measure = {
        "batches": request.batches,
        "contexts": request.contexts,
        "spread": request.spread,
        "time_limit_s": request.time_limit_s,
        "prompt_tokens": request.prompt_tokens,
        "workloads": batches,
    }
    message = {
        "model": folder,
        "weights": request.weights,
        "tp": tp,
        "slots": request.slots,
        "enforce_eager": request.enforce_eager,
        "measure": measure,
    }
    module = f"rollplan.profilers.rollout.engine_{request.engine}"
    answer: dict[str, Any] = worker.ask(module, message, request.python, timeout_s=2 * request.time_limit_s + _LOADING_S, on_line=on_line)
    return answer


def pooled(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what several processes measured as one: their rounds together, of the points that all of them have."""
    first = answers[0]
    cells = [{(one["batch"], one["context"]): one for one in answer["points"]} for answer in answers]
    points = [
        {**point, "ms": [ms for table in cells for ms in table[cell]["ms"]]}
        for cell, point in cells[0].items()
        if all(cell in table for table in cells)
    ]
    prefill = first["prefill"]
    if prefill and all(answer["prefill"] for answer in answers):
        prefill = {**prefill, "s_per_token": [value for answer in answers for value in answer["prefill"]["s_per_token"]]}
    return {
        **first,
        "points": points,
        "prefill": prefill,
        "workloads": [_one_workload(same) for same in zip(*(answer["workloads"] for answer in answers), strict=True)],
        "dropped": list(dict.fromkeys(reason for answer in answers for reason in answer["dropped"])),
        "rounds": sum(answer["rounds"] for answer in answers),
        "seconds": sum(answer["seconds"] for answer in answers),
        "disturbed": fmean(answer["disturbed"] for answer in answers),
    }


def _one_workload(same: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one workload of several processes; its schedule does not depend on time, so a step is the same in all."""
    if len(counts := {len(one["step_s"]) for one in same}) > 1:
        raise worker.failure(
            "profile rollout", f"the engine takes {sorted(counts)} steps for the same work; turn off what it decides by time"
        )
    return {
        "step_s": [median(steps) for steps in zip(*(one["step_s"] for one in same), strict=True)],
        "round_s": [seconds for one in same for seconds in one["round_s"]],
        "finish_step": [steps for one in same for steps in one["finish_step"]],
    }


def _curve(tp: int, answer: dict[str, Any]) -> DecodeCurve:
    points = tuple(
        DecodePoint(batch=one["batch"], context_tokens=one["context"], attended_tokens=one["attended"], ms=Spread.of(one["ms"]))
        for one in answer["points"]
    )
    found = answer["prefill"]
    prefill = found and PrefillCost(prompt_tokens=found["prompt_tokens"], batch=found["batch"], s_per_token=Spread.of(found["s_per_token"]))
    curve = DecodeCurve(
        tp=tp,
        points=points,
        prefill=prefill,
        max_num_seqs=answer["slots"],
        max_model_len=answer["max_model_len"],
        kv_tokens=answer["kv_tokens"],
    )
    return curve.model_copy(update={"fits": fit_ptl(curve.batches, curve.contexts, curve.ms())})


def _warnings(tp: int, answer: dict[str, Any], spread: float) -> list[str]:
    """Return what a reader must know before trusting the numbers."""
    found = [f"tp {tp}: not measured: {reason}" for reason in answer["dropped"]]
    if unsettled := sum(Spread.of(one["ms"]).relative > spread for one in answer["points"]):
        count = f"{unsettled} of {len(answer['points'])} points"
        found.append(f"tp {tp}: {count} spread by more than {spread:.1%} over all rounds and processes; their quartiles say how much")
    if answer["disturbed"] > TOO_DISTURBED:
        share = f"{answer['disturbed']:.0%} of the steps took more than 1.5 times their typical time"
        found.append(f"tp {tp}: {share}: something else was using the machine")
    return found


def _of_shape(curve: DecodeCurve) -> list[str]:
    """Return what the laws say about a curve that is not as they assume."""
    assert curve.fits is not None, "filled in when built"
    return [f"tp {curve.tp}: use the table, not a fit: {curve.fits.reason}"] if curve.fits.use == "table" else []


def _origin(request: RolloutRequest, answer: dict[str, Any]) -> Origin:
    return Origin(
        kind="measured",
        by=f"rollplan {__version__}",
        date=datetime.now(UTC).astimezone().isoformat(timespec="seconds"),
        source=f"rollplan profile rollout, {answer['rounds']} rounds in {request.processes} processes, {answer['seconds']:.0f} s",
        host=f"{platform.system()} {platform.machine()}",
        device=answer["device"],
        devices=request.tp[-1],
        engine=request.engine,
        versions=answer["versions"],
        weights=request.weights,
    )
