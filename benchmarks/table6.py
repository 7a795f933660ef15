"""Jobs drawn from RollMux (arXiv 2512.11306) Table 6, Mixed, as co-location problems for the benchmarks."""

from __future__ import annotations

from random import Random

from rollplan.models.colocation.problem import ColocationProblem, JobData, NodePool
from rollplan.models.overheads import GB_PER_GIB, ROLLOUT_MEMORY_GB, TRAIN_MEMORY_GB

RANGES = [
    *[(50, 100, 50, 100), (100, 200, 100, 200), (200, 300, 200, 300)],
    *[(100, 200, 25, 50), (200, 400, 50, 100), (400, 600, 100, 200)],
    *[(25, 50, 100, 200), (50, 100, 200, 400), (100, 200, 400, 600)],
]
"""Seconds of BL, RH, TH, each small, medium, large: rollout from, to, training from, to."""
POOLS = (NodePool("h20", 14.80, 2000 / GB_PER_GIB), NodePool("h800", 42.24, 2000 / GB_PER_GIB))


def draw_job(random: Random, number: int) -> JobData:
    """Return one job: Mixed profile, SLO uniform in 1 to 2, model size 3B to 32B for memory, one node of each kind."""
    rollout_low, rollout_high, train_low, train_high = random.choice(RANGES)
    size = random.choice([3, 7, 14, 32])
    return JobData(
        name=f"j{number}",
        slo=round(random.uniform(1, 2), 2),
        rollout_s=round(random.uniform(rollout_low, rollout_high), 1),
        train_s=round(random.uniform(train_low, train_high), 1),
        rollout_memory_gib=ROLLOUT_MEMORY_GB[size] / GB_PER_GIB,
        train_memory_gib=TRAIN_MEMORY_GB[size] / GB_PER_GIB,
    )


def draw(jobs: int, seed: int) -> ColocationProblem:
    """Return a problem of so many jobs, groups of at most 5."""
    random = Random(seed)
    return ColocationProblem(POOLS, tuple(draw_job(random, number) for number in range(jobs)), max_group_size=5)
