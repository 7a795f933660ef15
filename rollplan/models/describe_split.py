"""From a decision about one job to the numbers of its plan; the planner and `check` both use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rollplan.models.certified import gap
from rollplan.models.memory.bill import MemoryBill, Peak, bill
from rollplan.models.pipelining.rules import in_flight_limit
from rollplan.models.plan_split import Binding, MemoryTerm, MemoryUse, Part, PartName, PlannedSplit, Rule, RuleOfThumb, SplitChoice, Step
from rollplan.models.split.given import Split
from rollplan.models.split.iteration import stages
from rollplan.models.split.problem import REL_TOL, SplitProblem, SplitSolution, cost_per_h, cost_per_iteration, objective_value
from rollplan.models.stages.compile import Compiled, work_of
from rollplan.models.stages.options import RolloutOption, colocated_setup
from rollplan.models.stages.range import stage_ranges
from rollplan.models.stages.rollout import rollout_times
from rollplan.models.stages.spread import MOST_SAMPLES, rollout_spread_s
from rollplan.models.stages.trainer import TrainOption

LEVELS = (0.1, 0.3, 0.5, 1.0, 2.0, 4.0)
"""Staleness that is tried in place of a higher one."""

WORTH_IT = 0.001
"""A smaller relative gain is none."""

TERMS = 4
"""Largest lines of a memory peak that a plan shows."""


@dataclass(frozen=True, slots=True)
class SplitDecision:
    """What was decided about one job, and what is shown beside it."""

    choice: SplitSolution
    next_best: tuple[SplitSolution, ...]
    thrifty: SplitSolution
    even: SplitSolution | None
    colocated: SplitSolution | None
    rules: tuple[tuple[Rule, SplitSolution], ...]
    front: tuple[SplitSolution, ...]
    fewest: SplitSolution | None

    @property
    def shown(self) -> tuple[SplitSolution, ...]:
        """Every solution, in the order of `PlannedSplit.shown`."""
        single = (self.even, self.colocated, self.fewest)
        rules = (solution for _, solution in self.rules)
        return (self.choice, *self.next_best, self.thrifty, *(plan for plan in single if plan is not None), *rules, *self.front)


def planned_split(name: str, split: Split, compiled: Compiled, decision: SplitDecision, bound: float) -> PlannedSplit:
    """Return the plan of one split. bound: the least value of the objective over all candidates."""
    problem, chosen = compiled.problem, decision.choice
    worth = objective_value(problem, chosen)

    def shown(solution: SplitSolution) -> SplitChoice:
        return split_choice(split, compiled, solution)

    def maybe(solution: SplitSolution | None) -> SplitChoice | None:
        return None if solution is None else shown(solution)

    return PlannedSplit(
        name=name,
        trim=split.trim,
        objective=split.objective,
        choice=shown(chosen),
        next_best=tuple(shown(other) for other in decision.next_best),
        thrifty=shown(decision.thrifty),
        even=maybe(decision.even),
        colocated=maybe(decision.colocated),
        rules=tuple(RuleOfThumb(name=rule, choice=shown(solution)) for rule, solution in decision.rules),
        front=tuple(shown(other) for other in decision.front),
        fewest=maybe(decision.fewest),
        bound=bound,
        gap=gap(worth, bound),
        binds=binding_stage(chosen),
        equal=_equal(problem, worth, decision.next_best, split.noise),
        noise=split.noise,
        steps=tuple(_steps(problem, chosen)),
        range_s=_range(split, compiled, chosen),
        sync_s=_sync_s(problem, chosen),
        switch_s=problem.switch_s if chosen.mode == "colocated" else 0.0,
        parts=tuple(_parts(split, compiled, chosen)),
        preempted=None if (option := options_of(compiled, chosen)[0]) is None else option.time.preempted,
        enough_staleness=_enough_staleness(split, compiled, chosen),
        limits=compiled.limits,
        target_s=split.target_s,
        rollout_spread_s=_spread(split, compiled, chosen),
        in_flight=None if split.workload is None else _in_flight(split, chosen, split.workload.samples),
        memory=tuple(_memory(compiled, chosen)),
        provenance={str(origin): count for origin, count in compiled.provenance.items()},
        notes=compiled.notes,
    )


def split_choice(split: Split, compiled: Compiled, solution: SplitSolution) -> SplitChoice:
    """Return a split with its layouts, busy shares and price: whole nodes, because nodes are rented whole."""
    problem = compiled.problem
    rollout, training = options_of(compiled, solution)
    return SplitChoice(
        mode=solution.mode,
        pipelining=solution.pipelining,
        rollout_pool=solution.rollout_pool,
        rollout_gpus=solution.rollout_gpus,
        rollout_layout="" if rollout is None else str(rollout.layout),
        train_pool=solution.train_pool,
        train_gpus=solution.train_gpus,
        train_layout="" if training is None else str(training.layout),
        rollout_s=solution.rollout_s,
        train_s=solution.train_s,
        iteration_s=solution.iteration_s,
        rollout_busy=solution.rollout_s / solution.iteration_s,
        train_busy=solution.train_s / solution.iteration_s,
        staleness=max(float(solution.staleness), split.staleness) if _overlaps_batches(compiled, solution) else float(solution.staleness),
        cost_per_h=round(cost_per_h(problem, solution), 9),
        cost_per_iteration=round(cost_per_iteration(problem, solution), 9),
    )


def binding_stage(choice: SplitSolution | SplitChoice) -> Binding:
    """Return the stage that sets the iteration time."""
    if choice.mode == "colocated" or choice.pipelining == "serial":
        return "both stages in turn"
    longest_s = max(choice.rollout_s, choice.train_s)
    if choice.pipelining.startswith("async") and longest_s < choice.iteration_s * (1 - REL_TOL):
        return "weight sync"
    return "rollout" if choice.rollout_s >= choice.train_s else "train"


def options_of(compiled: Compiled, solution: SplitSolution) -> tuple[RolloutOption | None, TrainOption | None]:
    """Return the options behind a solution, None where its stage times came from tables."""
    if solution.mode == "colocated":
        return compiled.colocated.get(solution.rollout_pool, {}).get(solution.rollout_gpus, (None, None))
    tables = compiled.steady if _overlaps_batches(compiled, solution) else compiled.rollout
    training = compiled.train.get(solution.train_pool, {}).get(solution.train_gpus)
    return tables.get(solution.rollout_pool, {}).get(solution.rollout_gpus), training


def _overlaps_batches(compiled: Compiled, solution: SplitSolution) -> bool:
    return bool(compiled.steady) and solution.pipelining.startswith("async")


def _equal(problem: SplitProblem, worth: float, others: Sequence[SplitSolution], noise: float) -> int:
    close = [objective_value(problem, other) <= worth * (1 + noise) for other in others]
    return close.index(False) if False in close else len(close)


def _steps(problem: SplitProblem, chosen: SplitSolution) -> list[Step]:
    """Return, for each stage, the next count that helps."""
    if chosen.mode == "colocated":
        return []
    pools, x, y = (chosen.rollout_pool, chosen.train_pool), chosen.rollout_gpus, chosen.train_gpus
    return [
        _step("rollout", problem, chosen, pools, [(count, y) for count in problem.rollout[pools[0]] if count > x]),
        _step("train", problem, chosen, pools, [(x, count) for count in problem.train[pools[1]] if count > y]),
    ]


def _step(
    stage: Literal["rollout", "train"],
    problem: SplitProblem,
    chosen: SplitSolution,
    pools: tuple[str, str],
    larger: list[tuple[int, int]],
) -> Step:
    for gpus in larger:
        iteration_s = stages(problem, chosen.pipelining, pools, gpus)[2]
        if iteration_s < chosen.iteration_s * (1 - WORTH_IT):
            return Step(stage=stage, gpus=gpus[0 if stage == "rollout" else 1], iteration_s=iteration_s)
    return Step(stage=stage, gpus=None, iteration_s=None)


def _range(split: Split, compiled: Compiled, chosen: SplitSolution) -> tuple[float, float]:
    """Return seconds of the iteration at the optimistic and at the pessimistic end of what was not measured, noise at least."""
    factors = stage_ranges(split, compiled, chosen)
    ends = [_scaled_iteration(compiled.problem, chosen, *ends) for ends in factors]
    reruns = chosen.iteration_s * (1 - split.noise), chosen.iteration_s * (1 + split.noise)
    return min(reruns[0], ends[0]), max(reruns[1], ends[1])


def _scaled_iteration(problem: SplitProblem, chosen: SplitSolution, rollout: float, train: float) -> float:
    """Return the iteration when both stages take these factors of their time."""
    p, q, x, y = chosen.rollout_pool, chosen.train_pool, chosen.rollout_gpus, chosen.train_gpus
    if chosen.mode == "colocated":
        pair = problem.turns()[p][x]
        return pair[0] * rollout + pair[1] * train + problem.switch_s + problem.sync_s
    finish = problem.finish.get(p, {}).get(x)
    steady = problem.steady.get(p, {}).get(x)
    scaled = replace(
        problem,
        rollout={p: {x: problem.rollout[p][x] * rollout}},
        train={q: {y: problem.train[q][y] * train}},
        finish={} if finish is None else {p: {x: tuple(share * rollout for share in finish)}},
        steady={} if steady is None else {p: {x: steady * rollout}},
        colocated={},
    )
    return stages(scaled, chosen.pipelining, (p, q), (x, y))[2]


def _sync_s(problem: SplitProblem, chosen: SplitSolution) -> float:
    return problem.sync_s if chosen.mode == "colocated" else problem.sync(chosen.rollout_pool, chosen.train_pool)


def _parts(split: Split, compiled: Compiled, chosen: SplitSolution) -> list[Part]:
    """Return the parts of training by the law; none where a measured time stands for all of it."""
    training = options_of(compiled, chosen)[1]
    trainer = compiled.trainers.get(chosen.train_pool)
    if training is None or trainer is None or split.train.get(chosen.train_pool):
        return []
    found = trainer.parts(training.layout)
    named: tuple[tuple[PartName, float], ...] = (
        ("update", found.update_s),
        ("critic update", found.critic_s),
        ("log-prob passes", found.forward_s),
        ("overhead", found.overhead_s),
    )
    return [Part(name=name, seconds=seconds) for name, seconds in named if seconds > 0]


def _enough_staleness(split: Split, compiled: Compiled, chosen: SplitSolution) -> float | None:
    """Return the least of a few levels whose iteration is within the noise of the staleness asked for."""
    option = options_of(compiled, chosen)[0]
    if split.workload is None or option is None or not _overlaps_batches(compiled, chosen):
        return None
    work, engine, count = work_of(split.workload), option.instance.engine, option.layout.dp
    for level in (level for level in LEVELS if level < split.staleness):
        (time,) = rollout_times(work, engine, [count], split.engine.dispatch, level)
        factor = time.steady_s / option.time.steady_s
        if _scaled_iteration(compiled.problem, chosen, factor, 1.0) <= chosen.iteration_s * (1 + split.noise):
            return level
    return split.staleness


def _spread(split: Split, compiled: Compiled, chosen: SplitSolution) -> tuple[float, float] | None:
    option, _ = options_of(compiled, chosen)
    if split.workload is None or option is None or split.workload.samples > MOST_SAMPLES:
        return None
    return rollout_spread_s(split.workload, option.instance.engine, option.layout.dp, split.engine.dispatch)


def _in_flight(split: Split, chosen: SplitSolution, samples: int) -> int:
    return in_flight_limit(samples, split.staleness if chosen.pipelining.startswith("async") else chosen.staleness)


def _memory(compiled: Compiled, chosen: SplitSolution) -> list[MemoryUse]:
    """Return the peaks on GPUs and hosts; none for splits from tables."""
    trainer = compiled.trainers.get(chosen.train_pool)
    rollout, training = options_of(compiled, chosen)
    if trainer is None or rollout is None or training is None:
        return []
    if chosen.mode == "colocated":
        found = bill(colocated_setup(trainer, rollout, training.layout), trainer.site.gpu)
        return [_use(chosen.rollout_pool, found, peak) for peak in (*found.peaks, *found.host_peaks)]
    engines = bill(rollout.setup, rollout.gpu)
    found = bill(trainer.setup(training.layout), trainer.site.gpu)
    uses = [_use(chosen.rollout_pool, engines, peak) for peak in engines.peaks]
    return uses + [_use(chosen.train_pool, found, peak) for peak in (*found.peaks, *found.host_peaks)]


def _use(pool: str, found: MemoryBill, peak: Peak) -> MemoryUse:
    terms = [MemoryTerm(role=line.role, term=line.term, gib=line.gib) for line in found.at(peak) if line.gib > 0]
    return MemoryUse(
        pool=pool,
        roles=peak.roles,
        where=peak.where,
        phase=peak.phase,
        gib=peak.gib,
        memory_gib=peak.memory_gib,
        tight=peak.tight,
        terms=tuple(terms[:TERMS]),
    )
