"""The round-robin proof check: does strict round robin attain a group's least period, and would repeating jobs do better?

RollMux (arXiv 2512.11306) 4.3 states as Theorem 1 that round robin maximises the sum of the two pools' utilisations in
every group that is not over-saturated. It is false as stated (docs/round_robin.md, section 6). Here a group is judged by
itself: its least period is certified, and schedules in which jobs run several times per period are searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from rollplan.models.certified import Limits
from rollplan.models.colocation.problem import REL_TOL, JobData, Timetable, at_most
from rollplan.models.cyclic_shop.bounds import lower_bound
from rollplan.models.cyclic_shop.exact import at_period, exact, one_after_another
from rollplan.models.cyclic_shop.groups import shop_of, timetable_of
from rollplan.models.cyclic_shop.parts import parts_of

_WORTH_IT = 1e-6
"""Smallest relative gain that makes a schedule better."""

Pinning = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class PeriodProof:
    """The period of strict round robin, and the least of all schedules with the same runs per period, in seconds.

    least_s: the shortest that was found. bound_s: none is shorter, because of `reason`. timetable: of `least_s`.
    """

    round_robin_s: float
    least_s: float
    bound_s: float
    reason: str
    timetable: Timetable

    @property
    def proven(self) -> bool:
        """Whether no schedule is shorter than `least_s`."""
        return at_most(self.least_s, self.bound_s)

    @property
    def attained(self) -> bool:
        """Whether strict round robin in the order of the list attains the least period."""
        return at_most(self.round_robin_s, self.bound_s)


def least_period(
    jobs: Sequence[JobData], pinning: Pinning, runs: Sequence[int] | None = None, limits: Limits | None = None, seed: int = 0
) -> PeriodProof:
    """Return what the least period of a group is, and whether strict round robin attains it.

    runs: iterations of each job per period, one each if not given; with more, `round_robin_s` lets each job make all its
    runs before the next job's turn.
    """
    shop = shop_of(jobs, pinning, runs)
    in_turn = one_after_another(shop, parts_of(shop))
    found = exact(shop, limits, seed, in_turn)
    reason = lower_bound(shop).reason if found.bound.proof == "closed form" else "CP-SAT refutes shorter ones"
    return PeriodProof(in_turn.period_s, found.value, found.bound.value, reason, timetable_of(found.solution))


@dataclass(frozen=True, slots=True)
class BetterSchedule:
    """A schedule with a larger sum of utilisations than strict round robin's: its runs per period, and both sums.

    A sum is that of the busy shares of the group's rollout nodes and of its training pool, between 0 and 2.
    """

    runs: tuple[int, ...]
    utilisation: float
    round_robin: float
    timetable: Timetable


def better_schedule(
    jobs: Sequence[JobData],
    pinning: Pinning,
    max_rate: int = 4,
    longest_slowdown: float | None = None,
    limits: Limits | None = None,
    seed: int = 0,
) -> tuple[BetterSchedule | None, bool]:
    """Return the schedule of most utilisation that keeps every SLO, and whether the search came to its end.

    None: strict round robin is as good. Job k runs 1 to `max_rate` times in a period P with P / m_k <= slo_k * solo_k.
    longest_slowdown: the longest job may besides take at most so many times its solo time.
    """
    limits = limits or Limits()
    work = _Work(jobs, pinning)
    allowed_s = [job.tolerable_s for job in jobs]
    if longest_slowdown is not None:
        longest = max(range(len(jobs)), key=lambda k: jobs[k].solo_s)
        allowed_s[longest] = min(allowed_s[longest], longest_slowdown * jobs[longest].solo_s)
    shop = shop_of(jobs, pinning)
    once_s = one_after_another(shop, parts_of(shop)).period_s
    round_robin = best = work.of([1] * len(jobs)) / once_s
    found: BetterSchedule | None = None
    complete = True
    for _, _, runs in sorted((-work.of(runs) / least_s, least_s, runs) for runs, least_s in _candidates(jobs, pinning, max_rate)):
        if limits.stop():
            return found, False
        shop = shop_of(jobs, pinning, runs)
        longest_s = min(times * seconds for times, seconds in zip(runs, allowed_s, strict=True))
        target_s = min(longest_s, work.of(runs) / (best * (1 + _WORTH_IT)))
        if target_s < lower_bound(shop).seconds * (1 - REL_TOL):
            continue
        schedule, refuted = at_period(shop, target_s, limits, seed)
        if schedule is None:
            complete = complete and refuted
            continue
        least = exact(shop, limits, seed, schedule)
        complete = complete and least.optimal
        best = work.of(runs) / least.value
        found = BetterSchedule(runs, best, round_robin, timetable_of(least.solution))
    return found, complete


def _candidates(jobs: Sequence[JobData], pinning: Pinning, max_rate: int) -> list[tuple[tuple[int, ...], float]]:
    """Return all runs per period, each with the least period that loads and blocking allow."""
    return [(runs, lower_bound(shop_of(jobs, pinning, runs)).seconds) for runs in product(range(1, max_rate + 1), repeat=len(jobs))]


class _Work:
    """The busy seconds of a group's two pools, as shares: of the average rollout node, and of the training pool."""

    def __init__(self, jobs: Sequence[JobData], pinning: Pinning) -> None:
        nodes = len({node for pinned in pinning for node in pinned})
        self.per_run_s = [job.rollout_s * len(pinned) / nodes + job.train_s for job, pinned in zip(jobs, pinning, strict=True)]

    def of(self, runs: Sequence[int]) -> float:
        """Return the seconds of so many runs; over the period they are the sum of the utilisations."""
        return sum(times * seconds for times, seconds in zip(runs, self.per_run_s, strict=True))
