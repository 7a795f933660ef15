"""What prices prove where jobs may run several times per period: all groups that may be feasible are listed once.

The leader of such a group, its job that tolerates least (of equals the one with the lowest index), does not set its period. But
every job leads at most one group of a plan, so the least reduced costs of the groups of each leader add up to a bound here, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import fsum, inf

import numpy as np

from rollplan.models.certified import Leaf, TwoOfThree
from rollplan.models.colocation.certificate.groups import all_groups
from rollplan.models.colocation.certificate.limits import Box, class_price, ends, jobs_of
from rollplan.models.colocation.problem import ColocationProblem

_MOST_GROUPS = 1_000_000


class ListedProver:
    """Proves what prices prove, for one problem, from a list of all groups. `stopped`: `stop` answered before it was whole."""

    def __init__(self, problem: ColocationProblem, stop: Callable[[], object]) -> None:
        self.problem = problem
        self.stopped = False
        self._stop = stop

    def __call__(self, box: Box, prices: Leaf) -> float:
        """Return a bound on the cost of plans in the box, -infinite if there are too many groups to list."""
        known = ends(box, prices)
        if self._groups is None:
            return -inf
        members, leaders, kinds, kind = self._groups
        classes = np.array([class_price(box, prices, pools, trainers, nodes) for pools, trainers, nodes in kinds])
        price = np.array([*prices.jobs, 0.0])
        earned = price[members].sum(axis=1)
        # Less what rounding may have added.
        reduced = classes[kind] - 1e-12 * np.abs(np.nan_to_num(classes[kind], posinf=0.0)) - earned * (1 + 1e-12)
        for measure, paid in prices.measures:
            if isinstance(measure, TwoOfThree):
                reduced -= paid * (np.isin(members, jobs_of(measure)).sum(axis=1) >= 2)
        apart, together = box.pairs
        for one, other in apart:
            reduced[(members == one).any(axis=1) & (members == other).any(axis=1)] = inf
        for one, other in together:
            reduced[(members == one).any(axis=1) ^ (members == other).any(axis=1)] = inf
        least = np.zeros(len(self.problem.jobs))
        np.minimum.at(least, leaders, reduced)
        return fsum([*prices.jobs, known, *least])

    @cached_property
    def _groups(self) -> tuple[np.ndarray, np.ndarray, list[tuple[tuple[int, int], int, int]], np.ndarray] | None:
        """Return members (padded with the number of jobs), leaders, kinds of groups (pools, training, rollout nodes), each one's kind."""
        jobs = self.problem.jobs
        found: list[tuple[int, ...]] = []
        kind: list[int] = []
        kinds: dict[tuple[tuple[int, int], int, int], int] = {}
        for members, (rollout_nodes, train_nodes) in all_groups(self.problem, self._struck):
            found.append(members)
            pools = (jobs[members[0]].rollout_pool, jobs[members[0]].train_pool)
            kind.append(kinds.setdefault((pools, train_nodes, rollout_nodes), len(kinds)))
            if len(found) > _MOST_GROUPS:
                return None
        if self.stopped:
            return None
        tolerable_s = [job.tolerable_s for job in jobs]
        leaders = [min(members, key=lambda k: (tolerable_s[k], k)) for members in found]
        padded = np.full((len(found), self.problem.max_group_size), len(jobs))
        for row, members in zip(padded, found, strict=True):
            row[: len(members)] = members
        return padded, np.array(leaders), list(kinds), np.array(kind)

    def _struck(self) -> bool:
        self.stopped = self.stopped or bool(self._stop())
        return self.stopped
