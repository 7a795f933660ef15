"""A conflict of co-location requirements in the scenario's words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from rollplan.models.colocation.closed_form import pool_needs
from rollplan.models.colocation.problem import ColocationProblem
from rollplan.models.colocation.requirements import Footprint, Gang, GroupSize, PoolLimit, Requirement, Runs, Slo, some
from rollplan.models.conflict import Conflict

FEW = 4
"""Jobs that are spoken of one by one; more share a line."""


@dataclass(frozen=True, slots=True)
class Found:
    """What an explanation found out.

    twice: the conflict was proven by two ways. remedies: for requirements loosened together, the change that would do
    with all others as they are; "" if none does, None if that is not known. together: nodes of pools that would do.
    stopped: why the search ended before its end, None if it did not.
    """

    conflict: Conflict[Requirement]
    twice: bool
    remedies: Mapping[tuple[Requirement, ...], str | None]
    together: Mapping[int, int] | None
    stopped: str | None


def sentences(problem: ColocationProblem, found: Found, set_aside: Mapping[str, int]) -> list[str]:
    """Return the reasons: what the list is and what would do together, then one line for each requirement or job."""
    speech = _Speech(problem, found, set_aside)
    return ["; ".join([speech.head(), *speech.together()]), *speech.pools(), *speech.rules(), *speech.jobs()]


class _Speech:
    def __init__(self, problem: ColocationProblem, found: Found, set_aside: Mapping[str, int]) -> None:
        self.problem, self.found, self.set_aside = problem, found, set_aside
        self.kept = found.conflict.requirements

    def head(self) -> str:
        """Say what the lines are, and how sure that is."""
        lines = len([*self.pools(), *self.rules(), *self.jobs()])
        proof = "proven twice" if self.found.twice else "proven once, not confirmed by a second solve"
        conflict = self.found.conflict
        if conflict.minimal:
            return f"these {lines} requirements exclude each other, and without any one of them the others have a plan ({proof})"
        why = f", the {self.found.stopped} came first" if self.found.stopped else ""
        if conflict.unproven_parts:
            return f"these {lines} requirements exclude each other ({proof}), perhaps not all are needed: not proven minimal{why}"
        return (
            f"these {lines} requirements exclude each other, and without any one of them the others have a plan ({proof}); "
            f"perhaps fewer jobs would be too many, too: not proven minimal{why}"
        )

    def pools(self) -> list[str]:
        """Return a line for each pool of the conflict."""
        lines = []
        for each in self.kept:
            if isinstance(each, PoolLimit):
                pool = self.problem.pools[each.pool]
                aside = self.set_aside.get(pool.name, 0)
                shown = f"nodes: {(pool.nodes or 0) + aside}" + (f", {aside} of them set aside for splits" if aside else "")
                remedy = self.found.remedies[(each,)]
                more = _would_do([f"nodes: {int(remedy) + aside}" if remedy else remedy])
                least = ceil(pool_needs(self.problem)[each.pool] * (1 - 1e-9) - 1e-9)
                if least > (pool.nodes or 0):
                    shown += f", all jobs together need at least {least + aside} however they are grouped"
                lines.append(f"pool {pool.name} has {shown} ({more})")
        return lines

    def rules(self) -> list[str]:
        """Return the line of the group size, if it is in the conflict."""
        return [
            f"max_group_size: {self.problem.max_group_size} ({_would_do([self.found.remedies[(each,)]])})"
            for each in self.kept
            if isinstance(each, GroupSize)
        ]

    def jobs(self) -> list[str]:
        """Return a line for each job, or one for all if they are many."""
        numbers = sorted({each.job for each in self.kept if isinstance(each, Runs)})
        if len(numbers) > FEW:
            return [self._many(numbers)]
        return [self._one(k) for k in numbers]

    def together(self) -> list[str]:
        """Say what pools would do together where none does alone."""
        if self.found.together is None:
            return []
        pools = [
            f"pool {self.problem.pools[p].name} with nodes: {nodes + self.set_aside.get(self.problem.pools[p].name, 0)}"
            for p, nodes in self.found.together.items()
        ]
        return [f"{' and '.join(pools)} would do together"] if len(pools) > 1 else []

    def _one(self, k: int) -> str:
        job = self.problem.jobs[k]
        rollout, train = self.problem.pools[job.rollout_pool], self.problem.pools[job.train_pool]
        parts = [f"needs {_nodes(job.rollout_nodes)} of {rollout.name} and {job.train_nodes} of {train.name}"]
        mine = [each for each in self.kept if not isinstance(each, PoolLimit | GroupSize) and each.job == k]
        for each in mine:
            if isinstance(each, Slo):
                parts.append(f"slo {job.slo:g} (at most {job.tolerable_s:.4g} s per iteration, {job.solo_s:.4g} s alone)")
            elif isinstance(each, Footprint):
                gib, pool = (job.rollout_memory_gib, rollout) if each.role == "rollout" else (job.train_memory_gib, train)
                word = "rollout" if each.role == "rollout" else "training"
                parts.append(f"{word} keeps {gib:.1f} of the {pool.memory_gib:.1f} GiB of a node of {pool.name}")
            elif isinstance(each, Gang):
                parts.append(f"gang: all {job.rollout_nodes} rollout nodes at the same time")
        changes = [remedy for loosened, remedy in self.found.remedies.items() if any(each in loosened for each in mine)]
        return f"job {job.name}: {', '.join(parts)} ({_would_do(changes)})"

    def _many(self, numbers: Sequence[int]) -> str:
        jobs = [self.problem.jobs[k] for k in numbers]
        parts = list(self._kinds())
        changes = [remedy for loosened, remedy in self.found.remedies.items() if not isinstance(loosened[0], PoolLimit | GroupSize)]
        return f"{len(jobs)} jobs, {some([job.name for job in jobs])}: {'; '.join(parts)} ({_would_do(changes)})"

    def _kinds(self) -> Iterator[str]:
        jobs = [self.problem.jobs[each.job] for each in self.kept if isinstance(each, Runs)]
        yield (
            f"on nodes of their own they take {sum(job.rollout_nodes for job in jobs)} for rollout "
            f"and {sum(job.train_nodes for job in jobs)} for training"
        )
        for role, word in (("train", "training"), ("rollout", "rollout")):
            heavy = [self.problem.jobs[each.job] for each in self.kept if isinstance(each, Footprint) and each.role == role]
            if heavy:
                gib = [job.train_memory_gib if role == "train" else job.rollout_memory_gib for job in heavy]
                yield f"{word} of {len(heavy)} keeps {_span([f'{x:.1f}' for x in (min(gib), max(gib))])} GiB on a node"
        if gangs := [each for each in self.kept if isinstance(each, Gang)]:
            yield f"gang of {len(gangs)}"
        if tight := [self.problem.jobs[each.job].slo for each in self.kept if isinstance(each, Slo)]:
            yield f"slo {_span([f'{x:g}' for x in (min(tight), max(tight))])} of {len(tight)}"


def _span(ends: list[str]) -> str:
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _would_do(changes: Sequence[str | None]) -> str:
    """Return which changes would do, each alone."""
    if enough := [change for change in changes if change]:
        return f"{', or '.join(enough)} would do"
    return "no change of it alone is known to be enough" if None in changes else "no change of it alone is enough"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
