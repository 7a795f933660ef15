"""What a run measured, as a profile: one logged run per job, in the words that every log is read into.

`rollplan calibrate` reads it like the log of a framework, and a scenario's job can name it (`measured: run-profile.json`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path

from rollplan.executor.core.chunks import WITH_SYNC
from rollplan.executor.core.records import Record
from rollplan.executor.core.runbook import JobRun, Runbook
from rollplan.executor.iterations import Iteration, iterations
from rollplan.models.profile.file import Profile
from rollplan.models.profile.origin import Origin
from rollplan.models.profile.run import AmountName, BesideName, LoggedRun, LoggedStep, PhaseName
from rollplan.models.profile.settings import FRAMEWORK

_AMOUNTS: Mapping[str, AmountName] = {
    "reward": "reward",
    "samples": "samples",
    "staleness": "staleness",
    "response_mean": "response_mean",
}
"""Values of records that a step has a name for."""


def profile_of_run(
    runbook: Runbook, records: Sequence[Record], plan: Path, by: str, date: str, host: str, device: str | None = None
) -> Profile | None:
    """Return the profile of a run, None if no job has trained an iteration.

    by: rollplan and its version; date: ISO 8601 with time zone; host: system and processor. device: of the workers, absent if
    they did not say.
    """
    runs = tuple(run for job in runbook.jobs if (run := _run(runbook, job, records)) is not None)
    if not runs:
        return None
    origin = Origin(kind="measured", by=by, date=date, source=f"run of {plan.name}", host=host, device=device, engine=FRAMEWORK)
    return Profile(name=f"run of {plan.stem}", origin=origin, runs=runs, warnings=tuple(_warnings(runbook)))


def _run(runbook: Runbook, job: JobRun, records: Sequence[Record]) -> LoggedRun | None:
    found = iterations(job, records)
    if not found:
        return None
    turns = job.way in WITH_SYNC
    gpus = _gpus(runbook, job.rollout), _gpus(runbook, (job.train,))
    shared = any(runbook.resource(name).on for name in job.rollout)
    apart = () if shared else (f"rollout had {gpus[0]} GPUs, training {gpus[1]} others (--rollout-gpus {gpus[0]} --train-gpus {gpus[1]})",)
    return LoggedRun(
        framework=FRAMEWORK,
        dialect="records of a run",
        mode="sync" if turns else "async",
        mode_reason=f"the plan ran the job {job.way}",
        source=job.name,
        gpus=gpus[1] if shared else None,
        steps=tuple(_step(iteration, turns) for iteration in found),
        warnings=apart,
    )


def _step(iteration: Iteration, turns: bool) -> LoggedStep:
    phases: dict[PhaseName, float] = {}
    beside: dict[BesideName, float] = {}
    if iteration.rollout_s is not None:
        if turns:
            phases["generation"] = iteration.rollout_s
        else:
            beside["generation"] = iteration.rollout_s
    # What goes on at the rollout nodes of an overlapping job is no part of its trainer's step.
    sides = (iteration.rollout_switch_s if turns else None, iteration.train_switch_s)
    switches = [seconds for seconds in sides if seconds is not None]
    rest: tuple[tuple[PhaseName, float | None], ...] = (
        ("update", iteration.train_s),
        ("checkpoint", iteration.save_s),
        ("switch", sum(switches) if switches else None),
        ("sync", iteration.sync_s),
    )
    phases |= {name: seconds for name, seconds in rest if seconds is not None}
    amounts = {_AMOUNTS[name]: value for name, value in iteration.values.items() if name in _AMOUNTS and isfinite(value)}
    if iteration.rollout_switch_s is not None:
        amounts["rollout_switch_s"] = iteration.rollout_switch_s
    return LoggedStep(
        step=iteration.number,
        step_s=iteration.period_s,
        total="none" if iteration.period_s is None else "timestamps",
        phases=phases,
        beside=beside,
        amounts=amounts,
        dropped=iteration.left_out,
    )


def _gpus(runbook: Runbook, names: Sequence[str]) -> int:
    return sum(runbook.resource(name).nodes * runbook.resource(name).gpus for name in names)


def _warnings(runbook: Runbook) -> Iterator[str]:
    for group in dict.fromkeys(job.group for job in runbook.jobs):
        members = [job.name for job in runbook.jobs if job.group == group]
        if len(members) > 1:
            yield f"{', '.join(members)} shared nodes: a step of one holds waiting for the others, which no phase counts"
