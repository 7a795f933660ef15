"""Who runs when: one period of a group as rows of letters, one row for each node kind that differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rollplan.models.plan import PlannedGroup
from rollplan.planner.simulate import simulate

_COLUMNS = 64
_MOST_ROWS = 12


def timeline(group: PlannedGroup) -> Iterator[str]:
    """Yield the lines: a letter where a job runs, a dot where the node idles; worst-case times, after the start-up.

    A letter covers the column in whose middle the job runs. Beyond twelve rollout nodes only the first twelve are drawn.
    """
    jobs = group.jobs
    runs_at = _by_timetable(group) if jobs[0].runs else _by_round_robin(group)
    rows: dict[str, list[str]] = {f"node {node}": ["."] * _COLUMNS for node in range(min(group.rollout_nodes, _MOST_ROWS))}
    rows["training"] = ["."] * _COLUMNS
    for column in range(_COLUMNS):
        for node, job in runs_at((column + 0.5) * group.period_s / _COLUMNS):
            row = rows.get("training" if node is None else f"node {node}")
            if row is not None:
                row[column] = chr(ord("A") + job)
    yield "  " + ", ".join(f"{chr(ord('A') + position)} {job.name}" for position, job in enumerate(jobs))
    for name, row in rows.items():
        yield f"  {name:<9}{''.join(row)}"


RunsAt = Callable[[float], Iterator[tuple[int | None, int]]]
"""The nodes (None: training) that are busy at a second of the period, and the place of the job that they serve."""


def _by_round_robin(group: PlannedGroup) -> RunsAt:
    jobs = group.jobs
    iterations = 4 * len(jobs) + 8
    table = simulate([job.rollout_s for job in jobs], [job.train_s for job in jobs], [job.rollout_nodes for job in jobs], iterations)
    from_s = max(phase.end_s for phase in table.phases) - 3 * group.period_s

    def runs_at(second: float) -> Iterator[tuple[int | None, int]]:
        for phase in table.window(from_s + second, from_s + second + 1e-9 * group.period_s):
            yield phase.node, phase.job

    return runs_at


def _by_timetable(group: PlannedGroup) -> RunsAt:
    phases = [
        (node, place, at_s, seconds)
        for place, job in enumerate(group.jobs)
        for run in job.runs
        for node, at_s, seconds in (
            (None, run.train_at_s, job.train_s),
            *((node, at_s, job.rollout_s) for node, at_s in zip(job.rollout_nodes, run.rollout_at_s, strict=True)),
        )
    ]

    def runs_at(second: float) -> Iterator[tuple[int | None, int]]:
        for node, place, at_s, seconds in phases:
            if (second - at_s) % group.period_s < seconds:
                yield node, place

    return runs_at
