r"""The period of a timetable's order: what a group takes when every node keeps the order and nobody looks at the clock.

A timetable says in which cyclic order each node serves the runs. Run in that order, each phase as early as it can, the
group repeats after the least P for which start times x exist with

.. math:: x_b + s P \ge x_a + d_a

for every pair of phases of which b waits for a; s is 1 where b belongs to the next period. That is a linear program. Less
seconds loosen its constraints, so shorter phases never make the period longer (max-plus algebra; Baccelli et al. 1992).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from math import floor, fsum

import numpy as np

from rollplan.models.colocation.problem import ColocationProblem, Group, Run, Timetable

Arc = tuple[int, int, float, int]
"""(a, b, seconds, shift): b of period i + shift starts no earlier than `seconds` after a of period i."""


class _Phases:
    """The phases of one period as numbers, their times in the timetable, and who waits for whom."""

    def __init__(self, problem: ColocationProblem, group: Group, table: Timetable, rollout_s: Sequence[float], train_s: Sequence[float]):
        self.at_s: list[float] = []
        self.rollouts: list[list[tuple[int, ...]]] = []
        self.trainings: list[list[int]] = []
        self.arcs: list[Arc] = []
        on_node: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for k, nodes, runs, rollout, train in zip(group.jobs, group.pinning, table.runs, rollout_s, train_s, strict=True):
            job = problem.jobs[k]
            self.rollouts.append([self._rollout(run, len(nodes), job.gang) for run in runs])
            self.trainings.append([self._phase(run.train_at_s) for run in runs])
            for run, (begin, end) in enumerate(zip(self.rollouts[-1], self.trainings[-1], strict=True)):
                following = self.rollouts[-1][(run + 1) % len(runs)]
                self.arcs += [(phase, end, rollout, 0) for phase in set(begin)]
                self.arcs += [(end, phase, train + job.delay_s, int(run + 1 == len(runs))) for phase in set(following)]
                on_node[-1].append((end, train))
                for node, phase in zip(nodes, begin, strict=True):
                    on_node[node].append((phase, rollout))
        for phases in on_node.values():
            self.arcs += self._in_turn(phases, table.period_s)

    def _phase(self, at_s: float) -> int:
        self.at_s.append(at_s)
        return len(self.at_s) - 1

    def _rollout(self, run: Run, nodes: int, gang: bool) -> tuple[int, ...]:
        if gang:
            return (self._phase(run.rollout_at_s[0]),) * nodes
        return tuple(self._phase(at_s) for at_s in run.rollout_at_s)

    def _in_turn(self, phases: list[tuple[int, float]], period_s: float) -> list[Arc]:
        """Return who follows whom on one node; a phase of no length that starts with another goes first."""
        order = sorted(phases, key=lambda phase: (_within(self.at_s[phase[0]], period_s), phase[1], phase[0]))
        arcs = []
        for (a, seconds), (b, _) in [*pairwise(order), (order[-1], order[0])]:
            wraps = (a, b) == (order[-1][0], order[0][0])
            shift = _period(self.at_s[a], period_s) - _period(self.at_s[b], period_s) + int(wraps)
            arcs.append((a, b, seconds, shift))
        return arcs


def _period(at_s: float, period_s: float) -> int:
    """Return in which period a time lies; one a rounding error before a period's begin lies in it."""
    return floor(at_s / period_s + 1e-9)


def _within(at_s: float, period_s: float) -> float:
    return max(0.0, at_s - _period(at_s, period_s) * period_s)


def frozen_period(
    problem: ColocationProblem, group: Group, rollout_s: Sequence[float] | None = None, train_s: Sequence[float] | None = None
) -> float:
    """Return the seconds in which the order of a group's timetable repeats, if its jobs took these seconds (absent: their own)."""
    return _earliest(problem, group, rollout_s, train_s)[0]


def tightened(problem: ColocationProblem, group: Group) -> Group:
    """Return the group with its timetable's order run as early as it can: the same order, the least period."""
    period_s, at_s, phases = _earliest(problem, group, None, None)
    assert group.timetable is not None, "only timetables are tightened"
    runs = []
    for rollouts, trainings in zip(phases.rollouts, phases.trainings, strict=True):
        moved = [
            _moved(Run(tuple(float(at_s[phase]) for phase in begin), float(at_s[end])), period_s)
            for begin, end in zip(rollouts, trainings, strict=True)
        ]
        runs.append(tuple(sorted(moved, key=lambda run: run.train_at_s)))
    return Group(group.jobs, group.pinning, group.rollout_nodes, group.train_nodes, Timetable(period_s, tuple(runs)))


def _moved(run: Run, period_s: float) -> Run:
    """Return a run moved by whole periods so that its training starts in [0, period_s)."""
    by_s = _period(run.train_at_s, period_s) * period_s
    return Run(tuple(round(at_s - by_s, 9) for at_s in run.rollout_at_s), round(max(0.0, run.train_at_s - by_s), 9))


def _earliest(
    problem: ColocationProblem, group: Group, rollout_s: Sequence[float] | None, train_s: Sequence[float] | None
) -> tuple[float, list[float], _Phases]:
    """Return the least period, start times with which it holds, and the phases they belong to."""
    from scipy.optimize import linprog

    assert group.timetable is not None, "without a timetable the closed form holds"
    jobs = [problem.jobs[k] for k in group.jobs]
    rollout = [job.rollout_s for job in jobs] if rollout_s is None else list(rollout_s)
    train = [job.train_s for job in jobs] if train_s is None else list(train_s)
    phases = _Phases(problem, group, group.timetable, rollout, train)
    size, count = len(phases.at_s), len(phases.arcs)
    before, after = (np.array([arc[end] for arc in phases.arcs]) for end in (0, 1))
    seconds, shift = (np.array([arc[what] for arc in phases.arcs], dtype=float) for what in (2, 3))
    # x_a - x_b - shift * P <= -seconds, and the first phase starts at 0.
    matrix = np.zeros((count, size + 1))
    np.add.at(matrix, (np.arange(count), before), 1.0)
    np.add.at(matrix, (np.arange(count), after), -1.0)
    matrix[:, size] = -shift
    free: list[tuple[float | None, float | None]] = [(None, None)] * size
    free[0] = (0.0, 0.0)
    cost = np.append(np.zeros(size), 1.0)
    found = linprog(cost, matrix, -seconds, bounds=[*free, (0.0, None)], method="highs-ds")
    if found.x is None:
        raise ArithmeticError(f"no period found for the order of a timetable: {found.message}")
    # The dual of a vertex is one cycle: its seconds by its periods are the period without the solver's tolerances.
    cycle = np.asarray(found.ineqlin.marginals) < -1e-6
    period_s = fsum(seconds[cycle]) / float(shift[cycle].sum())
    at_s = np.asarray(found.x[:-1])
    for _ in range(size + 1):
        earliest = at_s.copy()
        np.maximum.at(earliest, after, at_s[before] + seconds - shift * period_s)
        if np.abs(earliest - at_s).max() <= 1e-10 * period_s:
            return period_s, at_s.tolist(), phases
        at_s = earliest
    raise ArithmeticError(f"the order of a timetable has no schedule of period {period_s}")
