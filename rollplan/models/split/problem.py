"""The data of a split: tables of stage times, budgets, prices, and which ways of pipelining are allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from typing import Literal, get_args

REL_TOL = 1e-9
"""Two values that differ by less, relative to the best, are equal."""

Mode = Literal["separate", "colocated"]
Trim = Literal["paper", "safe"]
Objective = Literal["time", "cost"]
Way = Literal["serial", "mini-batch", "dynamic-batch", "one-step", "async-batch", "async-streamed"]
Tables = Mapping[str, Mapping[int, float]]

STALENESS: Mapping[Way, int] = {
    "serial": 0, "mini-batch": 0, "dynamic-batch": 0, "one-step": 1, "async-batch": 1, "async-streamed": 1,
}  # fmt: skip
"""By how many versions the weights that made a sample may be older than those it trains, without partial rollout."""


@dataclass(frozen=True, slots=True)
class SplitProblem:
    """One job. rollout, train: seconds per iteration of the stage, by pool and number of GPUs; only these counts are candidates.

    budgets: GPUs that may be used of each pool. price_per_gpu_h: dollars per GPU and hour; whole nodes of
    `gpus_per_node` are paid (absent: 1). sync_s: seconds of weight transfer that nothing hides; sync_between: the same
    between a rollout pool and a training pool, where it differs.
    pipelining: allowed ways of overlap of separate stages, in order of preference.
    steady: seconds per iteration of a rollout whose batches overlap (partial rollout), used by `async-*`; absent: rollout.
    finish: seconds after which equal shares of the samples are finished, ascending, as many shares as values; used by
    `mini-batch` (joined to `chunks` shares) and `dynamic-batch` (each share); absent: all at the end.
    chunk_s: seconds that every chunk adds to training. colocated: (rollout, train) seconds where the stages take turns;
    absent: those of both tables. switch_s: seconds per iteration to change between the stages on the same GPUs.
    interference: factors of rollout and training time while separate stages overlap.
    The mappings are copied and sorted by pool and count, so that their order says nothing.
    rollout or train may be empty where `colocated` is not: some jobs fit in turn only. Raises `ValueError` for a value out
    of range, and for a pool that has a table but no budget or price.
    """

    budgets: Mapping[str, int]
    rollout: Tables
    train: Tables
    price_per_gpu_h: Mapping[str, float]
    sync_s: float = 0.0
    trim: Trim = "safe"
    pipelining: tuple[Way, ...] = ("one-step",)
    objective: Objective = "time"
    steady: Tables = field(default_factory=dict)
    finish: Mapping[str, Mapping[int, tuple[float, ...]]] = field(default_factory=dict)
    chunks: int = 8
    chunk_s: float = 0.0
    colocated: Mapping[str, Mapping[int, tuple[float, float]]] | None = None
    switch_s: float = 0.0
    interference: tuple[float, float] = (1.0, 1.0)
    gpus_per_node: Mapping[str, int] = field(default_factory=dict)
    sync_between: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse values out of range; copy and sort the mappings."""
        for stage, tables in (("rollout", self.rollout), ("train", self.train), ("steady", self.steady)):
            if not tables and stage != "steady" and not self.colocated:
                raise ValueError(f"{stage} must hold the table of at least one pool, got none")
            for pool, table in tables.items():
                if not table:
                    raise ValueError(f"{stage} of {pool} must hold at least one GPU count, got none")
                for gpus, seconds in table.items():
                    _at_least(1, f"GPU counts in {stage} of {pool}", gpus)
                    _at_least(0, f"{stage} of {pool} on {gpus} GPUs", seconds)
            object.__setattr__(self, stage, {pool: dict(sorted(tables[pool].items())) for pool in sorted(tables)})
        for name, least, values in (
            ("budgets", 1, self.budgets),
            ("price_per_gpu_h", 0, self.price_per_gpu_h),
        ):
            if missing := sorted({*self.rollout, *self.train, *(self.colocated or {})} - values.keys()):
                raise ValueError(f"{name} must hold every pool that has a table, got none for {', '.join(missing)}")
            for pool, value in values.items():
                _at_least(least, f"{name} of {pool}", value)
            object.__setattr__(self, name, dict(sorted(values.items())))
        for pool, gpus in self.gpus_per_node.items():
            _at_least(1, f"gpus_per_node of {pool}", gpus)
        for pool, table_of_finish in self.finish.items():
            for gpus, times in table_of_finish.items():
                _ascending(f"finish of {pool} on {gpus} GPUs", times, self.rollout.get(pool, {}).get(gpus))
        if self.colocated is not None:
            pairs = {pool: dict(sorted(table.items())) for pool, table in sorted(self.colocated.items()) if table}
            for pool, table_of_pairs in pairs.items():
                for gpus, pair in table_of_pairs.items():
                    _at_least(1, f"GPU counts in colocated of {pool}", gpus)
                    for seconds in pair:
                        _at_least(0, f"colocated of {pool} on {gpus} GPUs", seconds)
            object.__setattr__(self, "colocated", pairs)
        for name, least_value in (("sync_s", 0), ("switch_s", 0), ("chunk_s", 0), ("chunks", 1)):
            _at_least(least_value, name, getattr(self, name))
        for ends, seconds in self.sync_between.items():
            _at_least(0, f"sync_between {' and '.join(ends)}", seconds)
        for factor in self.interference:
            _at_least(1, "interference", factor)
        object.__setattr__(self, "finish", {pool: dict(table) for pool, table in self.finish.items()})
        for name in ("gpus_per_node", "sync_between"):
            object.__setattr__(self, name, dict(getattr(self, name)))
        _choice("trim", self.trim, get_args(Trim))
        _choice("objective", self.objective, get_args(Objective))
        if not self.pipelining:
            raise ValueError("pipelining must name at least one way, got none")
        for way in self.pipelining:
            _choice("pipelining", way, get_args(Way))

    def sync(self, rollout_pool: str, train_pool: str) -> float:
        """Return the seconds of weight transfer between two pools."""
        return self.sync_between.get((rollout_pool, train_pool), self.sync_s)

    def turns(self) -> Mapping[str, Mapping[int, tuple[float, float]]]:
        """Return (rollout, train) seconds of stages that take turns, by pool and number of GPUs."""
        if self.colocated is not None:
            return self.colocated
        pairs = {
            pool: {gpus: (seconds, self.train[pool][gpus]) for gpus, seconds in table.items() if gpus in self.train[pool]}
            for pool, table in self.rollout.items()
            if pool in self.train
        }
        return {pool: table for pool, table in pairs.items() if table}


@dataclass(frozen=True, slots=True)
class SplitSolution:
    """A split and its seconds per iteration; when `mode` is colocated, both stages name the same GPUs of one pool.

    rollout_s, train_s: the stages as the iteration counts them: interference included, `steady` for `async-*`.
    """

    mode: Mode
    rollout_pool: str
    rollout_gpus: int
    train_pool: str
    train_gpus: int
    rollout_s: float
    train_s: float
    iteration_s: float
    pipelining: Way = "one-step"

    @property
    def gpus(self) -> int:
        """GPUs in use, each counted once."""
        return self.rollout_gpus if self.mode == "colocated" else self.rollout_gpus + self.train_gpus

    @property
    def staleness(self) -> int:
        """By how many versions the weights that made a sample may be older than those it trains."""
        return STALENESS[self.pipelining]


def colocated_evaluated(problem: SplitProblem) -> bool:
    """Return whether time-sharing could be compared: some pool has a count within its budget for both stages."""
    return any(gpus <= problem.budgets[pool] for pool, table in problem.turns().items() for gpus in table)


def nodes(problem: SplitProblem, rollout_pool: str, rollout_gpus: int, train_pool: str, train_gpus: int) -> dict[str, int]:
    """Return the whole nodes that GPUs of both stages take; stages of one pool may share a node."""
    gpus = {rollout_pool: rollout_gpus}
    gpus[train_pool] = gpus.get(train_pool, 0) + train_gpus
    return {pool: -(-count // problem.gpus_per_node.get(pool, 1)) for pool, count in gpus.items()}


def cost_per_h(problem: SplitProblem, solution: SplitSolution) -> float:
    """Return dollars per hour of the nodes in use, each paid once."""
    train_gpus = 0 if solution.mode == "colocated" else solution.train_gpus
    taken = nodes(problem, solution.rollout_pool, solution.rollout_gpus, solution.train_pool, train_gpus)
    return sum(count * problem.gpus_per_node.get(pool, 1) * problem.price_per_gpu_h[pool] for pool, count in taken.items())


def cost_per_iteration(problem: SplitProblem, solution: SplitSolution) -> float:
    """Return dollars per iteration."""
    return cost_per_h(problem, solution) * solution.iteration_s / 3600


def objective_value(problem: SplitProblem, solution: SplitSolution) -> float:
    """Return what the objective minimises: seconds or dollars per iteration."""
    return solution.iteration_s if problem.objective == "time" else cost_per_iteration(problem, solution)


def _at_least(least: int, name: str, number: float) -> None:
    if not (isfinite(number) and number >= least):
        raise ValueError(f"{name} must be finite and at least {least}, got {number}")


def _ascending(name: str, times: tuple[float, ...], last_s: float | None) -> None:
    if not times or any(later < earlier for earlier, later in pairwise(times)) or times[0] < 0:
        raise ValueError(f"{name} must be ascending seconds of at least one share, got {times[:3]}")
    if last_s is None or not abs(times[-1] - last_s) <= REL_TOL * max(1.0, last_s):
        raise ValueError(f"{name} must end with the seconds of the rollout, {last_s}, got {times[-1]}")


def _choice(name: str, given: str, choices: tuple[str, ...]) -> None:
    if given not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {given}")
