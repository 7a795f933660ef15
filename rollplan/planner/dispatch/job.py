"""Dispatch for one job of a scenario: its prompts on the instances of its plan, by every method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rollplan.models.certified import Certified, Limits
from rollplan.models.decode import Admission
from rollplan.models.describe_split import options_of
from rollplan.models.dispatch.problem import DispatchProblem
from rollplan.models.dispatch.solution import DispatchSolution
from rollplan.models.errors import Finding, InputError
from rollplan.models.scenario import Scenario
from rollplan.models.stages.compile import compiled, work_of
from rollplan.planner.dispatch.solve import Candidate, Method, candidates, solve
from rollplan.planner.modelled import modelled_job
from rollplan.planner.split import decide


@dataclass(frozen=True, slots=True)
class JobDispatch:
    """One typical batch of a job. layout: of one instance. recall: of the ranker, None without one. found: with its bound."""

    job: str
    pool: str
    layout: str
    problem: DispatchProblem
    recall: float | None
    candidates: tuple[Candidate, ...]
    found: Certified[DispatchSolution]


def dispatch_job(
    scenario: Scenario,
    job: str | None = None,
    instances: int | None = None,
    recall: float | None = 1.0,
    method: Method = "best",
    limits: Limits | None = None,
    seed: int = 0,
) -> JobDispatch:
    """Return how to spread one iteration's samples over the instances of the job's plan.

    instances: instead of the plan's, at most one per sample. recall: of the length ranker; 1 knows all lengths,
    None is no ranker. Raises `InputError` for a job without a model, or whose plan has no layout of ours, and for an exact
    search without a ranker; `InfeasibleError` if it has no plan.
    """
    if recall is None and method == "exact":
        raise InputError(scenario.name, [Finding("method", "`exact`", "needs a ranker of lengths", "choose `best`, or give --recall")])
    asked = modelled_job(scenario, job)
    ready = compiled(asked.split, scenario.pools, scenario.links)
    decision, _ = decide(ready.problem)
    option, _ = options_of(ready, decision.choice)
    pool, gpus = decision.choice.rollout_pool, decision.choice.rollout_gpus
    if option is None:
        what = f"rolls out on {gpus} GPUs, for which a time was measured, but no layout is known"
        remedy = f"leave {gpus} out of `rollout.{pool}`, or allow a degree in `engine.tp` that divides it"
        raise InputError(scenario.name, [Finding(f"split {asked.name}", "", what, remedy)])
    work = work_of(asked.workload)
    if instances is not None and not 1 <= instances <= work.samples:
        what = f"is not a number of instances for {work.samples} samples"
        raise InputError(scenario.name, [Finding("instances", f"`{instances}`", what, f"choose 1 to {work.samples}")])
    engine = option.instance.engine
    problem = DispatchProblem(
        prompt_tokens=np.full(work.samples, work.prompt_tokens),
        output_tokens=work.outputs,
        instances=option.layout.dp if instances is None else instances,
        admission=Admission(engine.slots, engine.kv_tokens),
        latency=engine.latency,
    )
    limits = limits or Limits()
    tried = candidates(problem, seed, recall, limits.stop)
    found = solve(problem, method, limits, seed, recall, tried)
    return JobDispatch(asked.name, pool, str(option.instance.layout), problem, recall, tuple(tried), found)
