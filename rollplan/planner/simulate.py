r"""Event simulation of strict round robin without a barrier: when every phase starts and ends.

Every resource (each rollout node, the training pool) serves its jobs in list order, once per iteration. With
R[j, n] and T[j] for the ends of job j's rollout on node n and of its training, before(j, x) for the job that resource
x serves before j (for the first of a list: the last one, an iteration earlier), and r_j, t_j for the seconds:

.. math::

    R_{j,n}(i) &= \max\bigl(R_{before(j,n),\,n},\ T_j(i-1)\bigr) + r_j \\
    T_j(i) &= \max\bigl(T_{before(j,train)},\ \max_n R_{j,n}(i)\bigr) + t_j

A gang job takes its first maximum over all its nodes at once. Source: RollMux (arXiv 2512.11306) 4.3 for the policy;
the recursion is max-plus linear (Baccelli et al. 1992), so with independent starts the distance of two iterations
tends to the closed form of `rollplan.models.round_robin`, and with gang starts never below it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of one iteration (0, 1, ...): `node` is the rollout node, None for training; times in seconds."""

    job: int
    iteration: int
    kind: Literal["rollout", "train"]
    node: int | None
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Timetable:
    """Start and end of every phase, in the order of iteration, job, rollout nodes, training; time 0 is the first start."""

    jobs: int
    iterations: int
    phases: tuple[Phase, ...]

    @property
    def steady_period_s(self) -> float:
        """Mean seconds between the training ends of the last job, over the second half of the iterations.

        It is the period once the start-up is over; start-up fades in the first half if that is long enough.
        """
        ends = [phase.end_s for phase in self.phases if phase.kind == "train" and phase.job == self.jobs - 1]
        half = (self.iterations - 1) // 2
        return (ends[-1] - ends[half]) / (self.iterations - 1 - half)

    def window(self, from_s: float, to_s: float) -> tuple[Phase, ...]:
        """Return the phases that run at some moment after `from_s` and before `to_s`, uncut, in order of their start.

        Phases of no length never run.
        """
        running = (phase for phase in self.phases if max(phase.start_s, from_s) < min(phase.end_s, to_s))
        return tuple(sorted(running, key=lambda phase: phase.start_s))


def simulate(
    rollout_s: Sequence[float], train_s: Sequence[float], pinning: Sequence[Sequence[int]], iterations: int, gang: Collection[int] = ()
) -> Timetable:
    """Run a group for a number of iterations, everything free at time 0; all times in seconds.

    rollout_s[j], train_s[j]: how long job j occupies each of its rollout nodes, and the training pool, per iteration.
    pinning[j]: rollout nodes of job j, at least one. gang: positions of the jobs that start on all nodes together.
    """
    jobs = len(pinning)
    if not jobs == len(rollout_s) == len(train_s) or not jobs:
        raise ValueError(f"rollout_s, train_s and pinning must hold the same jobs, got {len(rollout_s)}, {len(train_s)} and {jobs}")
    if iterations < 2:
        raise ValueError(f"iterations must be at least 2, got {iterations}")
    for position, nodes in enumerate(pinning):
        if not nodes or len(set(nodes)) != len(nodes):
            raise ValueError(f"pinning[{position}] must list at least one node, each once, got {tuple(nodes)}")
    if strangers := set(gang) - set(range(jobs)):
        raise ValueError(f"gang must hold positions in 0..{jobs - 1}, got {min(strangers)}")
    node_free_s = {node: 0.0 for nodes in pinning for node in nodes}
    trained_s = [0.0] * jobs
    trainer_free_s = 0.0
    phases: list[Phase] = []
    for iteration in range(iterations):
        for job, nodes in enumerate(pinning):
            starts = [max(node_free_s[node], trained_s[job]) for node in nodes]
            if job in gang:
                starts = [max(starts)] * len(nodes)
            for node, start_s in zip(nodes, starts, strict=True):
                node_free_s[node] = start_s + rollout_s[job]
                phases.append(Phase(job, iteration, "rollout", node, start_s, node_free_s[node]))
            start_s = max(trainer_free_s, *(node_free_s[node] for node in nodes))
            trained_s[job] = trainer_free_s = start_s + train_s[job]
            phases.append(Phase(job, iteration, "train", None, start_s, trainer_free_s))
    return Timetable(jobs, iterations, tuple(phases))
