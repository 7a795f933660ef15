"""Who runs when: one period of a group's round robin as rows of letters, one row for each node kind that differs."""

from __future__ import annotations

from collections.abc import Iterator

from rollplan.models.plan import PlannedGroup
from rollplan.planner.simulate import simulate

_COLUMNS = 64
_MOST_ROWS = 12


def timeline(group: PlannedGroup) -> Iterator[str]:
    """Yield the lines: a letter where a job runs, a dot where the node idles; worst-case times, after the start-up.

    A letter covers the column in whose middle the job runs. Beyond twelve rollout nodes only the first twelve are drawn.
    """
    jobs = group.jobs
    iterations = 4 * len(jobs) + 8
    table = simulate([job.rollout_s for job in jobs], [job.train_s for job in jobs], [job.rollout_nodes for job in jobs], iterations)
    from_s = max(phase.end_s for phase in table.phases) - 3 * group.period_s
    rows: dict[str, list[str]] = {f"node {node}": ["."] * _COLUMNS for node in range(min(group.rollout_nodes, _MOST_ROWS))}
    rows["training"] = ["."] * _COLUMNS
    for column in range(_COLUMNS):
        at = from_s + (column + 0.5) * group.period_s / _COLUMNS
        for phase in table.window(at, at + 1e-9 * group.period_s):
            row = rows.get("training" if phase.node is None else f"node {phase.node}")
            if row is not None:
                row[column] = chr(ord("A") + phase.job)
    yield "  " + ", ".join(f"{chr(ord('A') + position)} {job.name}" for position, job in enumerate(jobs))
    for name, row in rows.items():
        yield f"  {name:<9}{''.join(row)}"
