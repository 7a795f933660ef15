"""Watching a run: a table that refreshes on a terminal, a line for each finished iteration elsewhere; both on stderr."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from time import monotonic
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from rollplan.cli.output import note
from rollplan.cli.tables import new_table, seconds_text
from rollplan.executor.core.records import Record, Remark
from rollplan.executor.core.runbook import JobRun, Runbook
from rollplan.executor.supervise import Watcher

_PER_SECOND = 2
_REMARKS = 4


class Quiet:
    """A watcher that keeps how far the jobs are, and shows nothing."""

    def __init__(self, runbook: Runbook) -> None:
        self.runbook = runbook
        self.status: Mapping[str, Any] = {}
        self.reward: dict[str, float] = {}
        self._ends: dict[tuple[str, int], float] = {}

    def record(self, record: Record) -> None:
        """Keep the ends of trainings and rewards."""
        if record.kind in ("train", "step"):
            key = (record.job, record.iteration)
            self._ends[key] = max(self._ends.get(key, 0.0), record.end_s)
        if "reward" in record.values:
            self.reward[record.job] = record.values["reward"]

    def remark(self, remark: Remark) -> None:
        """Take no notice."""

    def state(self, state: Mapping[str, Any]) -> None:
        """Keep it."""
        self.status = state

    def tick(self) -> None:
        """Do nothing."""

    def of_job(self, name: str) -> Mapping[str, Any]:
        """Return the status of a job; empty if the driver has not told it yet."""
        known: Mapping[str, Any] = self.status.get("jobs", {}).get(name, {})
        return known

    def last_period(self, job: JobRun) -> str:
        """Return the seconds between the ends of the last two iterations, beside the predicted ones."""
        newest = self.of_job(job.name).get("iteration", 0) - 1
        ends = [self._ends.get((job.name, number)) for number in (newest - 1, newest)]
        predicted = f"predicted {seconds_text(job.predicted.iteration_s)}"
        return predicted if ends[0] is None or ends[1] is None else f"{seconds_text(ends[1] - ends[0])}, {predicted}"


class Lines(Quiet):
    """Prints a line for each finished iteration and each remark."""

    def __init__(self, runbook: Runbook) -> None:
        super().__init__(runbook)
        self._told: dict[str, int] = {}

    def remark(self, remark: Remark) -> None:
        """Print it."""
        note(remark_text(remark))

    def state(self, state: Mapping[str, Any]) -> None:
        """Print what was finished since the last state."""
        super().state(state)
        for job in self.runbook.jobs:
            done = self.of_job(job.name).get("iteration", 0)
            if done > self._told.setdefault(job.name, done):
                reward = f"   reward {self.reward[job.name]:.3f}" if job.name in self.reward else ""
                note(f"{job.name}   {done} of {job.iterations}   iteration {self.last_period(job)}{reward}")
            self._told[job.name] = done


class Table(Quiet):
    """Draws the table; a context that ends with its last state on the screen."""

    def __init__(self, runbook: Runbook) -> None:
        super().__init__(runbook)
        self._remarks: list[Remark] = []
        self._started = monotonic()
        self._live = Live(
            console=Console(stderr=True, highlight=False, markup=False), refresh_per_second=_PER_SECOND, get_renderable=self._draw
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._live.stop()
        except OSError:
            # The terminal is gone; the run is not, and whatever stderr still holds goes nowhere.
            note("", end="")

    def remark(self, remark: Remark) -> None:
        """Show it below the table, as long as no newer ones come."""
        self._remarks = [*self._remarks[1 - _REMARKS :], remark]

    def _draw(self) -> RenderableType:
        return run_table(self, monotonic() - self._started, self._remarks)


def run_table(seen: Quiet, seconds: float, remarks: Sequence[Remark] = ()) -> RenderableType:
    """Return what every resource does and who waits for it, and how far every job is."""
    resources = new_table(("resource", "left"), ("job", "left"), ("does", "left"), ("waiting", "left"), ("memory", "right"))
    statuses = seen.status.get("resources", {})
    for resource in seen.runbook.resources:
        status = statuses.get(resource.name, {})
        does = "lost" if status.get("lost") else status.get("does") or "-"
        held = sum(seen.status.get("memory", {}).get(resource.name, {}).values())
        memory = f"{held / 2**30:.1f} of {resource.memory_gib:.0f} GiB" if held else "-"
        resources.add_row(resource.name, status.get("holder") or "-", does, ", ".join(status.get("queue", ())) or "-", memory)
    jobs = new_table(
        ("job", "left"), ("state", "left"), ("iteration", "right"), ("samples", "right"), ("restarts", "right"), ("period", "left")
    )
    for job in seen.runbook.jobs:
        status = seen.of_job(job.name)
        done = f"{status.get('iteration', 0)} of {job.iterations}"
        samples = f"{status.get('samples_done', 0)} of {job.samples}"
        jobs.add_row(job.name, status.get("state", "-"), done, samples, str(status.get("restarts", 0)), seen.last_period(job))
    head = Text(f"{seen.runbook.policy}   {seconds:.0f} s" + ("" if seen.status else "   starting"))
    return Group(head, Text(), resources, Text(), jobs, *(Text(f"  {remark_text(remark)}", overflow="fold") for remark in remarks))


def remark_text(remark: Remark) -> str:
    """Return a remark as a line."""
    return f"{remark.at_s:.1f} s   {'' if remark.job is None else f'{remark.job}: '}{remark.text}"


class Several:
    """Watchers that all see the same."""

    def __init__(self, *watchers: Watcher) -> None:
        self._watchers = watchers

    def record(self, record: Record) -> None:
        """Pass it on."""
        for watcher in self._watchers:
            watcher.record(record)

    def remark(self, remark: Remark) -> None:
        """Pass it on."""
        for watcher in self._watchers:
            watcher.remark(remark)

    def state(self, state: Mapping[str, Any]) -> None:
        """Pass it on."""
        for watcher in self._watchers:
            watcher.state(state)

    def tick(self) -> None:
        """Pass it on."""
        for watcher in self._watchers:
            watcher.tick()


def watcher_for(runbook: Runbook, quiet: bool) -> Quiet:
    """Return the view that suits stderr."""
    if quiet:
        return Quiet(runbook)
    return Table(runbook) if sys.stderr is not None and sys.stderr.isatty() else Lines(runbook)
