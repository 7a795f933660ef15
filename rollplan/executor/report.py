"""What a run says of its plan: predicted beside executed, of every phase, period, edge and resource. Pure functions of records.

Executed seconds of a phase are the median over the iterations that count: not the first one, which warms up, and none that
had to be started again. A period is the mean distance between the ends of training while all jobs of the group were running,
because the plan speaks of that time; if that was too short, of all iterations that count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

from rollplan.executor.core.records import Record, RecordKind, Remark
from rollplan.executor.core.runbook import JobRun, Runbook
from rollplan.executor.edges import Edge, edges
from rollplan.executor.efficiency import Efficiency, efficiencies
from rollplan.executor.iterations import Iteration, busy_s, counting, iterations
from rollplan.executor.supervise import Ended
from rollplan.models.plan import Plan

_EPS_S = 1e-6
_WORK: tuple[RecordKind, ...] = ("load", "rollout", "train", "step", "save", "offload", "sync", "migrate")


@dataclass(frozen=True, slots=True)
class Compared:
    """Seconds of one phase per iteration. executed_s: None if it never happened. count: iterations it rests on."""

    phase: str
    predicted_s: float
    executed_s: float | None
    count: int

    @property
    def difference(self) -> float | None:
        """Executed against predicted, as a share of the predicted seconds; None where there is nothing to divide."""
        return None if self.executed_s is None or self.predicted_s <= 0 else self.executed_s / self.predicted_s - 1


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds that make a job ready on one kind of nodes: cold (program, engine, state) and warm (load and off-load).

    warm_s: None where the job shares no node, because its state stays loaded.
    """

    pool: str
    cold_s: float
    warm_s: float | None

    @property
    def ratio(self) -> float | None:
        """How many times as long a cold start takes."""
        return self.cold_s / self.warm_s if self.warm_s else None


@dataclass(frozen=True, slots=True)
class JobReport:
    """One job. finished: iterations, also of earlier parts of the run. save_s: median of writing the state, part of training.

    together: whether the period is of the time in which all jobs of the group ran. restarts: that succeeded, or those in a row
    that did not, if they are more. failed: why the job did not finish.
    """

    name: str
    group: str
    finished: int
    wanted: int
    phases: tuple[Compared, ...]
    save_s: float | None
    together: bool
    starts: tuple[Start, ...]
    edges: tuple[Edge, ...]
    restarts: int
    failed: str | None

    def phase(self, name: str) -> Compared:
        """Return one phase by name."""
        return {phase.phase: phase for phase in self.phases}[name]


@dataclass(frozen=True, slots=True)
class BusyReport:
    """Share of the steady time in which a resource did anything, predicted and executed; None if there was no steady time."""

    resource: str
    predicted: float | None
    executed: float | None


@dataclass(frozen=True, slots=True)
class RunReport:
    """A whole run beside its plan."""

    plan: str
    policy: str
    reason: str
    jobs: tuple[JobReport, ...]
    busy: tuple[BusyReport, ...]
    efficiency: tuple[Efficiency, ...]
    remarks: tuple[Remark, ...]

    @property
    def complete(self) -> bool:
        """Whether every job has finished all its iterations."""
        return all(job.finished >= job.wanted for job in self.jobs)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, differences and ratios written out."""
        data = asdict(self)
        for job, raw in zip(self.jobs, data["jobs"], strict=True):
            for phase, entry in zip(job.phases, raw["phases"], strict=True):
                entry["difference"] = phase.difference
            for start, entry in zip(job.starts, raw["starts"], strict=True):
                entry["ratio"] = start.ratio
        return {**data, "complete": self.complete}


def report(plan: Plan, runbook: Runbook, ended: Ended, rehearsed: Sequence[Record]) -> RunReport:
    """Return the report of a run. rehearsed: the predicted timeline; with `fifo` periods are predicted by it, not by the plan."""
    records = ended.records
    by_job = {job.name: iterations(job, records) for job in runbook.jobs}
    predicted = {job.name: iterations(job, rehearsed) for job in runbook.jobs}
    windows = {job.group: _together(runbook, job.group, by_job) for job in runbook.jobs}
    jobs = tuple(_job(runbook, job, by_job[job.name], predicted[job.name], ended, windows[job.group]) for job in runbook.jobs)
    periods = {job.name: (job.phase("iteration").predicted_s, job.phase("iteration").executed_s) for job in jobs}
    busy = tuple(
        BusyReport(
            resource.name,
            _share(rehearsed, resource.name, _together(runbook, _group(runbook, resource.jobs), predicted)),
            _share(records, resource.name, windows[_group(runbook, resource.jobs)]),
        )
        for resource in runbook.resources
    )
    alone_s = {job.name: sum(phase.executed_s or 0.0 for phase in job.phases if phase.phase != "iteration") for job in jobs}
    efficiency = tuple(efficiencies(plan, runbook, periods, alone_s))
    return RunReport(runbook.seal, runbook.policy, ended.reason, jobs, busy, efficiency, ended.remarks)


def _job(
    runbook: Runbook,
    job: JobRun,
    found: Sequence[Iteration],
    rehearsed: Sequence[Iteration],
    ended: Ended,
    window: tuple[float, float] | None,
) -> JobReport:
    own = [record for record in ended.records if record.job == job.name]
    counted = counting(found)
    promised = job.predicted
    period_s, count, together = _period(found, window)
    iteration_s = promised.iteration_s
    if runbook.policy == "fifo":
        iteration_s = _period(rehearsed, None)[0] or iteration_s
    train = [_sum(iteration.train_s, iteration.save_s) for iteration in counted]
    phases = (
        _compared("rollout", promised.rollout_s, [iteration.rollout_s for iteration in counted]),
        _compared("train", promised.train_s, train),
        _compared("rollout switch", promised.rollout_switch_s, [iteration.rollout_switch_s for iteration in counted]),
        _compared("train switch", promised.train_switch_s, [iteration.train_switch_s for iteration in counted]),
        _compared("sync", promised.sync_s, [iteration.sync_s for iteration in counted]),
        Compared("iteration", iteration_s, period_s, count),
    )
    state = ended.state.get("jobs", {}).get(job.name, {})
    finished = max(state.get("iteration", 0), _saved(job, own))
    return JobReport(
        name=job.name,
        group=job.group,
        finished=finished,
        wanted=job.iterations,
        phases=phases,
        save_s=_median([iteration.save_s for iteration in counted]),
        together=together,
        starts=tuple(_starts(runbook, job, own)),
        edges=tuple(edges(job, own)),
        restarts=max(state.get("restarts", 0), _restarts(job, own)),
        failed=None if finished >= job.iterations else _last_word(job, ended.remarks),
    )


def _together(runbook: Runbook, group: str, by_job: Mapping[str, Sequence[Iteration]]) -> tuple[float, float] | None:
    """Return from when to when all jobs of a group ran in the steady state; None if they never did."""
    members = [by_job[job.name] for job in runbook.jobs if job.group == group]
    if not all(members):
        return None
    from_s = max(found[0].ended_s for found in members)
    to_s = min(counting(found)[-1].ended_s for found in members)
    return (from_s, to_s) if from_s < to_s else None


def _period(found: Sequence[Iteration], window: tuple[float, float] | None) -> tuple[float | None, int, bool]:
    """Return the mean period, the iterations it rests on, and whether they lie in the window."""
    periods = [(one.ended_s, one.period_s) for one in found if one.period_s is not None and one.left_out is None]
    if window is not None:
        inside = [period for end, period in periods if end - period >= window[0] - _EPS_S and end <= window[1] + _EPS_S]
        if inside:
            return fmean(inside), len(inside), True
    every = [period for _, period in periods]
    return (fmean(every), len(every), False) if every else (None, 0, False)


def _share(records: Iterable[Record], resource: str, window: tuple[float, float] | None) -> float | None:
    if window is None:
        return None
    from_s, to_s = window
    cut = [
        Record(record.job, resource, record.kind, record.iteration, max(from_s, record.start_s), min(to_s, record.end_s))
        for record in records
        if record.resource == resource and record.start_s < to_s and record.end_s > from_s
    ]
    return (busy_s(cut, _WORK, [resource]) or 0.0) / (to_s - from_s)


def _group(runbook: Runbook, jobs: Sequence[str]) -> str:
    return runbook.job(jobs[0]).group


def _starts(runbook: Runbook, job: JobRun, own: Sequence[Record]) -> Iterable[Start]:
    for pool, resources in (("rollout", job.rollout), ("train", (job.train,))):
        here = [record for record in own if record.resource in resources]
        cold = [record.values.get("cold_s", record.seconds) for record in here if record.kind in ("start", "restart")]
        loads, offloads = ([record.seconds for record in here if record.kind == kind] for kind in ("load", "offload"))
        if cold:
            shared = any(len(runbook.resource(name).jobs) > 1 for name in resources)
            warm = median(loads) + (median(offloads) if offloads else 0.0) if loads and shared else None
            yield Start(pool, median(cold), warm)


def _compared(phase: str, predicted_s: float, executed: Sequence[float | None]) -> Compared:
    return Compared(phase, predicted_s, _median(executed), sum(value is not None for value in executed))


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _sum(*values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _restarts(job: JobRun, own: Iterable[Record]) -> int:
    """Return how often the job became ready again; its first trainer is always among the workers."""
    return sum(record.kind == "restart" and record.resource == job.train and record.worker == 0 for record in own)


def _saved(job: JobRun, own: Iterable[Record]) -> int:
    """Return how many iterations all ranks have saved; the state of some of them only is none."""
    ranks: dict[int, set[int]] = {}
    for record in own:
        if record.kind == "save":
            ranks.setdefault(record.iteration, set()).add(record.worker)
    return sum(len(saved) == job.train_ranks for saved in ranks.values())


def _last_word(job: JobRun, remarks: Iterable[Remark]) -> str | None:
    """Return what was last said of a job."""
    return next((remark.text for remark in reversed(list(remarks)) if remark.job == job.name), None)
