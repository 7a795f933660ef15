"""Multi-rate groups: a short job runs several times while a long one of its group runs once.

Strict round robin makes all jobs of a group run equally often, so the longest alone decides whether a short one may
join. Here job k makes m_k runs in a period P, P / m_k <= slo_k * solo_k, in a fixed cyclic order on every node: the
order of a timetable. Rates come from `necessary`, timetables from periodic EDF (`edf`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, permutations
from typing import Literal

import numpy as np

from rollplan.models.certified import Limits
from rollplan.models.colocation.nodes import cover, pin
from rollplan.models.colocation.problem import REL_TOL, ColocationProblem, Group, JobData, Run, Timetable, at_most
from rollplan.models.colocation.rates.decided import decide
from rollplan.models.colocation.rates.edf import Ticks, starts
from rollplan.models.colocation.rates.necessary import Groups, Rates, masks, node_sets, rates
from rollplan.models.colocation.rates.pinning import pinnings
from rollplan.models.colocation.solution import group_of

TICKS_PER_S = 10**6
"""Durations are rounded up, periods down to whole microseconds; each is cut further so that every slot P / m_k is whole."""
_PINNINGS = 100
"""Most pinnings that are tried for one pair of rates and node count; five jobs on one node each have at most 25."""
_QUESTIONS = 60
"""Most questions to CP-SAT about one group."""
_ORDERS, _DRAWN = 6, 12
"""How many orders of first trainings and how many drawn releases are tried."""

Members = tuple[int, ...]
Pinning = tuple[tuple[int, ...], ...]
RoundRobin = Callable[[Members], tuple[Group | None, bool]]
"""The group on the fewest nodes on which strict round robin was found to hold, None if there is none; whether fewer are refuted."""


class RateTimetables:
    """The fewest rollout nodes of groups, with strict round robin or a multi-rate timetable; answers are kept.

    round_robin: how groups with gangs or delays, for which the closed form does not hold, are given strict round robin;
    without it they get a timetable or none. decided: whether CP-SAT settles what periodic EDF leaves open; without it a
    node count is proved only where the necessary tests refute all smaller ones. The seed draws the last offsets that are
    tried. After the limits have struck, only strict round robin is tried.
    """

    def __init__(
        self, problem: ColocationProblem, limits: Limits, seed: int = 0, round_robin: RoundRobin | None = None, decided: bool = True
    ) -> None:
        self.problem = problem
        self.limits = limits
        self.seed = seed
        self.decided = decided
        self.round_robin = round_robin
        self._known: dict[Members, tuple[Group | None, bool]] = {}

    def fewest(self, members: Members) -> tuple[Group | None, bool]:
        """Return the group on the fewest nodes for which a schedule was found, and whether fewer are refuted.

        None: no schedule was found on any number of nodes; then the flag says whether there is none.
        """
        members = tuple(sorted(members))
        if members not in self._known:
            strict = self._strict(members)
            found = self._search(members, strict)
            if found is None:
                return strict, False
            self._known[members] = found
        return self._known[members]

    def _strict(self, members: Members) -> Group | None:
        jobs = [self.problem.jobs[k] for k in members]
        if len(jobs) > 1 and any(job.delay_s > 0 or (job.gang and job.rollout_nodes > 1) for job in jobs):
            return self.round_robin(members)[0] if self.round_robin else None
        longest_s = min(job.tolerable_s for job in jobs)
        fits = at_most(max(job.solo_s for job in jobs), longest_s) and at_most(math.fsum(job.train_s for job in jobs), longest_s)
        return group_of(self.problem, list(members)) if fits else None

    def _search(self, members: Members, strict: Group | None) -> tuple[Group | None, bool] | None:
        """Return the answer of `fewest`, None if the limits struck."""
        search = _Search(self.problem, members, self.limits, self.seed)
        most = search.most if strict is None else strict.rollout_nodes - 1
        refuted = True
        for nodes in range(search.least, most + 1):
            pinned = list(search.pinned(nodes))
            group = search.by_edf(pinned)
            if group is None and self.decided:
                group = search.by_decision(pinned)
            search.open |= not self.decided
            if self.limits.stop():
                return None
            if group is not None:
                return group, refuted
            refuted = refuted and not search.open
        return strict, refuted


class _Search:
    """The search for a timetable of one group. open: whether some question about the last node count was left open."""

    def __init__(self, problem: ColocationProblem, members: Members, limits: Limits, seed: int) -> None:
        self.members, self.limits, self.seed = members, limits, seed
        self.jobs = [problem.jobs[k] for k in members]
        self.demand = tuple(job.rollout_nodes for job in self.jobs)
        self.chances = list(_chances(problem, members))
        self.most = sum(self.demand)
        self.least = min((len(cover(chance.sets, self.demand)) for chance in self.chances), default=self.most + 1)
        self.open = False
        self._questions = 0

    def pinned(self, nodes: int) -> Iterator[tuple[Chance, Pinning]]:
        """Yield what is to be tried on so many nodes."""
        self.open = False
        for chance in self.chances:
            some = list(islice(pinnings(chance.sets, self.demand, nodes), _PINNINGS + 1))
            self.open |= len(some) > _PINNINGS
            for hosted in some[:_PINNINGS]:
                yield chance, pin(hosted, len(self.jobs))

    def by_edf(self, pinned: list[tuple[Chance, Pinning]]) -> Group | None:
        """Return the first timetable that periodic EDF finds."""
        for chance, pinning in pinned:
            if self.limits.stop():
                return None
            table = timetable(self.jobs, pinning, chance.period_s, chance.runs, self.seed)
            if table is not None:
                return self._group(pinning, table)
        return None

    def by_decision(self, pinned: list[tuple[Chance, Pinning]]) -> Group | None:
        """Return the first timetable that CP-SAT finds; note what it leaves open, and drop rates that it refutes altogether."""
        for chance in dict.fromkeys(chance for chance, _ in pinned):
            # Nodes of one's own are the easiest pinning: without a timetable there, there is none anywhere.
            own = pin([1 << k for k, nodes in enumerate(self.demand) for _ in range(nodes)], len(self.jobs))
            if not chance.asked and self._decide(chance, own) == "refuted":
                self.chances.remove(chance)
            chance.asked = True
        for chance, pinning in pinned:
            if chance not in self.chances:
                continue
            answer = self._decide(chance, pinning)
            if isinstance(answer, Timetable):
                return self._group(pinning, answer)
            self.open |= answer == "unknown"
        return None

    def _decide(self, chance: Chance, pinning: Pinning) -> Timetable | Literal["refuted", "unknown"]:
        self._questions += 1
        if self._questions > _QUESTIONS or self.limits.stop():
            return "unknown"
        return decide(self.jobs, pinning, chance.period_s, chance.runs, self.limits, self.seed)

    def _group(self, pinning: Pinning, table: Timetable) -> Group:
        nodes = 1 + max(node for pinned in pinning for node in pinned)
        return Group(self.members, pinning, nodes, max(job.train_nodes for job in self.jobs), table)


@dataclass(eq=False, slots=True)
class Chance:
    """Rates that pass the necessary tests. sets: which jobs a node may host; asked: whether nodes of their own were asked for."""

    period_s: float
    runs: tuple[int, ...]
    sets: tuple[int, ...]
    asked: bool = False


def _chances(problem: ColocationProblem, members: Members) -> Iterator[Chance]:
    """Yield the periods, runs and fitting sets that the necessary tests leave to a group, fewest runs first.

    Of rates with equal runs the longest period is enough.
    """
    listed = list(rates(Groups.of(problem, [members]).tolerable_s, problem.max_rate))
    all_rates = Rates(np.concatenate([each.period_s for each in listed]), np.concatenate([each.runs for each in listed]))
    fits = node_sets(Groups.of(problem, [members] * len(listed)), all_rates, problem.max_rate)
    longest: dict[tuple[int, ...], tuple[float, tuple[int, ...]]] = {}
    for row in np.flatnonzero(fits[:, 0]):
        period_s, runs = float(all_rates.period_s[row]), tuple(int(times) for times in all_rates.runs[row])
        if runs not in longest or longest[runs][0] < period_s:
            longest[runs] = period_s, masks(fits[row])
    for runs in sorted(longest, key=lambda runs: (sum(runs), runs)):
        yield Chance(longest[runs][0], runs, longest[runs][1])


def timetable(jobs: list[JobData], pinning: Pinning, period_s: float, runs: tuple[int, ...], seed: int = 0) -> Timetable | None:
    """Return a timetable of this period and these runs, None if periodic EDF finds none. pinning[i]: nodes of jobs[i]."""
    scale = math.lcm(*runs)
    period = math.floor(period_s * TICKS_PER_S * (1 + REL_TOL / 10)) * scale
    rollout, train, delay = (
        np.array([math.ceil(seconds * TICKS_PER_S * (1 - 1e-12)) * scale for seconds in durations], dtype=np.int64)
        for durations in ([job.rollout_s for job in jobs], [job.train_s for job in jobs], [job.delay_s for job in jobs])
    )
    pinned = np.zeros((len(jobs), 1 + max(node for nodes in pinning for node in nodes)), dtype=bool)
    for k, nodes in enumerate(pinning):
        pinned[k, list(nodes)] = True
    gang = np.array([job.gang for job in jobs], dtype=bool)
    times = np.array(runs, dtype=np.int64)
    for offset, gap in _releases(period // times, rollout, train, seed):
        found = starts(period, times, rollout, train, delay, pinned, gang, offset, gap)
        if found is not None:
            return _table(found, pinning, runs, period, TICKS_PER_S * scale)
    return None


def _releases(slot: Ticks, rollout: Ticks, train: Ticks, seed: int) -> Iterator[tuple[Ticks, Ticks]]:
    """Yield offsets and gaps: all jobs at once, then such that the first trainings follow each other in some order, then drawn ones."""
    none = np.zeros(len(slot), dtype=np.int64)
    yield none, slot
    yield none, none
    for others in islice(permutations(range(1, len(slot))), _ORDERS):
        order = [0, *others]
        offset = np.zeros(len(slot), dtype=np.int64)
        offset[order] = np.concatenate([[0], np.cumsum(train[order])[:-1]]) - rollout[order]
        yield offset % slot, slot
        yield offset % slot, none
    random = np.random.default_rng(seed)
    for _ in range(_DRAWN):
        yield random.integers(0, slot), slot * random.integers(0, 2, len(slot))


def _table(found: tuple[Ticks, Ticks], pinning: Pinning, runs: tuple[int, ...], period: int, unit: int) -> Timetable:
    """Turn starts in ticks into a timetable: trainings in [0, period), in their order."""
    rollout_at, train_at = found
    jobs = []
    for k, nodes in enumerate(pinning):
        row = []
        for i in range(runs[k]):
            moved = train_at[k, i] // period * period
            row.append(Run(tuple(float(rollout_at[k, i, n] - moved) / unit for n in nodes), float(train_at[k, i] - moved) / unit))
        jobs.append(tuple(sorted(row, key=lambda run: run.train_at_s)))
    return Timetable(period / unit, tuple(jobs))
