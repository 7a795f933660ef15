"""The part of a plan that speaks of one job: its split, what it needs, what comes next."""

from __future__ import annotations

from typing import Literal

from rollplan.models.split.problem import Mode, Objective, Trim, Way
from rollplan.models.strict import Strict

PartName = Literal["update", "critic update", "log-prob passes", "overhead"]
Binding = Literal["rollout", "train", "both stages in turn", "weight sync"]
Rule = Literal["7+1: one instance rolls out", "colocated on all GPUs"]


class SplitChoice(Strict):
    """One way to split a job's GPUs; `colocated` shares the same GPUs in time.

    Layouts are empty where stage times came from tables. rollout_s, train_s: seconds of each stage per iteration; busy:
    the same as shares of the iteration. staleness: by how many versions the weights that made a sample may be older than
    those it trains. Costs are in whole nodes.
    """

    mode: Mode
    pipelining: Way
    rollout_pool: str
    rollout_gpus: int
    rollout_layout: str
    train_pool: str
    train_gpus: int
    train_layout: str
    rollout_s: float
    train_s: float
    iteration_s: float
    rollout_busy: float
    train_busy: float
    staleness: float
    cost_per_h: float
    cost_per_iteration: float


class MemoryTerm(Strict):
    """One line of a memory peak, in GiB per GPU."""

    role: str
    term: str
    gib: float


class MemoryUse(Strict):
    """The fullest phase of the GPUs of some roles; host: GiB per node. tight: a margin below 10 %."""

    pool: str
    roles: tuple[str, ...]
    where: Literal["gpu", "host"]
    phase: str
    gib: float
    memory_gib: float | None
    tight: bool
    terms: tuple[MemoryTerm, ...]


class Step(Strict):
    """The next number of GPUs of one stage that makes an iteration shorter, whether or not the budget allows it.

    gpus, iteration_s: None if no number that was looked at does.
    """

    stage: Literal["rollout", "train"]
    gpus: int | None
    iteration_s: float | None


class Part(Strict):
    """A part of the training stage: seconds per iteration."""

    name: PartName
    seconds: float


class RuleOfThumb(Strict):
    """What people do without a planner, and what it costs them."""

    name: Rule
    choice: SplitChoice


class PlannedSplit(Strict):
    """The split of one job, what comes next, and rules of thumb beside it.

    bound: the least value of the objective over all candidates (seconds, or dollars per iteration); `gap` is above 0
    only for trim `paper`. next_best: in the order of the objective; equal: how many of them, from the first, are within
    the noise of the choice. thrifty: the fewest GPUs within the noise. even: the even split. colocated: the best plan
    that shares GPUs in time. rules: what people do without a planner. front: no candidate beats these in time, cost and
    staleness together. fewest: fewest GPUs that keep target_s, None if no plan does.
    binds: the stage that sets the step. steps: what more GPUs would change. range_s: the iteration at optimistic and at
    pessimistic calibration of what was not measured, and at least the noise of reruns around it. rollout_spread_s: 5 %
    and 95 % quantile of one batch's rollout over drawn lengths. sync_s: weight transfer, in the step or beside it;
    switch_s: between stages in turn. parts: what training consists of. preempted: how often a sample is thrown out of a
    full KV cache and computed again. enough_staleness: the least staleness within the noise of the one asked for.
    limits: rules that exclude numbers of GPUs. in_flight: samples that are being generated or wait. memory: the fullest
    phase of each stage. None or empty: does not apply, or stage times came from tables.
    """

    name: str
    trim: Trim
    objective: Objective
    choice: SplitChoice
    next_best: tuple[SplitChoice, ...]
    thrifty: SplitChoice
    even: SplitChoice | None
    colocated: SplitChoice | None
    rules: tuple[RuleOfThumb, ...]
    front: tuple[SplitChoice, ...]
    fewest: SplitChoice | None
    bound: float
    gap: float
    binds: Binding
    equal: int
    noise: float
    steps: tuple[Step, ...]
    range_s: tuple[float, float]
    sync_s: float
    switch_s: float
    parts: tuple[Part, ...]
    preempted: float | None
    enough_staleness: float | None
    limits: tuple[str, ...]
    target_s: float | None
    rollout_spread_s: tuple[float, float] | None
    in_flight: int | None
    memory: tuple[MemoryUse, ...]
    provenance: dict[str, int]
    notes: tuple[str, ...]

    @property
    def shown(self) -> tuple[SplitChoice, ...]:
        """Every choice that the plan speaks of."""
        single = (self.even, self.colocated, self.fewest)
        rules = (rule.choice for rule in self.rules)
        return (self.choice, *self.next_best, self.thrifty, *(choice for choice in single if choice is not None), *rules, *self.front)
