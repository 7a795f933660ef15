"""`check`: is this plan right for this scenario, and how far can it be from the optimum?

Nothing is believed. Feasibility, periods and cost come from the verifier, the numbers of the plan are computed again
from its decisions, the bound is proven again from its witness, the comparison is run again with a plain transcription
of Algorithm 1. Nothing that searches for plans is imported; a test holds that. The stage times of a split are its
definition: `check` evaluates the same laws (docs/decisions/0009) and compares all candidates again. Not judged: whether
the plans that are shown beside the choice of a split are the best of their kind (each is a candidate with the right
numbers), whether trim `paper` took the plan that its rule says, and what the tool says of itself (version, method, seed,
limits).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from rollplan.models.certified import Witness, gap
from rollplan.models.colocation import algorithm1
from rollplan.models.colocation.certificate import CheckedBound, checked_bound, fluid_bound, partition_bound
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, Group, Run, Timetable
from rollplan.models.colocation.verify import group_period, verify
from rollplan.models.cyclic_shop.groups import unproven_periods
from rollplan.models.describe import describe_groups, describe_pools, plan_warnings
from rollplan.models.describe_split import SplitDecision, planned_split
from rollplan.models.errors import InputError
from rollplan.models.plan import Certificate, Comparison, Plan, PlannedGroup
from rollplan.models.plan_split import PlannedSplit, SplitChoice
from rollplan.models.plan_witness import with_indices
from rollplan.models.resolve import Resolved, resolve
from rollplan.models.scenario import Scenario
from rollplan.models.split.given import Split
from rollplan.models.split.problem import REL_TOL, SplitProblem, SplitSolution, objective_value
from rollplan.models.split.verify import least_value
from rollplan.models.split.verify import verify as verify_split
from rollplan.models.stages.compile import Compiled, compiled

_TOLERANCE = 1e-6
_MOST_NODES = 10**10
"""More than the jobs of any scenario can ask for; what lies beyond only overflows."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What `check` found.

    faults: what is wrong, in words; empty for a valid plan. value: $/h of the co-location part, None without one.
    checked: the bound proven here. claimed_bound: what the solver says, which may be higher.
    checked_gap: the largest of the co-location gap against the checked bound and the gaps of the splits.
    notes: what was not looked at, because `stop` answered.
    """

    faults: tuple[str, ...]
    value: float | None
    checked: CheckedBound | None
    claimed_bound: float | None
    checked_gap: float
    notes: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults


def check(scenario: Scenario, plan: Plan, stop: Callable[[], object] = lambda: None) -> CheckReport:
    """Verify a plan against its scenario and prove its bound again; `stop` ends the proof early (fluid bound only)."""
    faults: list[str] = []
    if plan.seal != plan.content_hash():
        faults.append("the seal does not match: the file was changed after it was written")
    if plan.scenario.sha256 != scenario.sha256() or plan.scenario.name != scenario.name:
        faults.append("the plan was made from another scenario, or the scenario was changed since")
    if not _is_inside(scenario, plan):
        faults.append("the scenario inside the plan is not the one that was given")
    if plan.settings.guarantee != scenario.guarantee:
        faults.append(f"the plan holds the guarantee {plan.settings.guarantee}, the scenario asks for {scenario.guarantee}")
    if plan.settings.max_rate != scenario.max_rate:
        faults.append(f"the plan allows {plan.settings.max_rate} runs per period, the scenario {scenario.max_rate}")
    if plan.settings.max_group_size != scenario.max_group_size:
        faults.append(f"the plan allows groups of {plan.settings.max_group_size}, the scenario of {scenario.max_group_size}")
    resolved = resolve(scenario)
    problem = resolved.problem(scenario)
    solution, misplaced = _decisions(problem, plan)
    faults += misplaced
    broken = verify(problem, solution) if problem.jobs and not misplaced else ()
    faults += broken
    split_faults, split_gap = _splits(scenario, plan.splits)
    faults += split_faults
    # The order of a timetable that does not hold may have no period.
    if not misplaced and not split_faults and not (broken and any(group.timetable for group in solution.groups)):
        faults += _numbers(scenario, resolved, problem, solution, plan)
    checked: CheckedBound | None = None
    if problem.jobs and plan.certificate is not None:
        checked, said = _certificate(problem, plan.certificate, solution.cost_per_h, stop)
        faults += said
    elif bool(problem.jobs) != (plan.certificate is not None):
        faults.append("certificate: missing" if problem.jobs else "certificate: there is no co-location to certify")
    notes: list[str] = []
    if not faults and (unproven := unproven_periods(problem, solution)):
        notes.append(unproven)
    try:
        faults += _comparison(problem, plan.comparison, stop)
    except algorithm1.StoppedError:
        notes.append("the comparison with RollMux admission was not run to its end: out of time")
    value = solution.cost_per_h if problem.jobs and not misplaced else None
    colocation_gap = gap(value, checked.value) if value is not None and checked is not None else 0.0
    return CheckReport(
        faults=tuple(dict.fromkeys(faults)),
        value=value,
        checked=checked,
        claimed_bound=plan.certificate.claimed_bound if plan.certificate else None,
        checked_gap=max(colocation_gap, split_gap),
        notes=tuple(notes),
    )


def _is_inside(scenario: Scenario, plan: Plan) -> bool:
    try:
        return Scenario.from_dict(plan.scenario.content).sha256() == scenario.sha256()
    except InputError:
        return False


def _decisions(problem: ColocationProblem, plan: Plan) -> tuple[ColocationSolution, list[str]]:
    """Return the plan's decisions in indices, and what keeps them from being read."""
    index = {job.name: k for k, job in enumerate(problem.jobs)}
    faults: list[str] = []
    groups: list[Group] = []
    used = [0] * len(problem.pools)
    for group in plan.groups:
        unknown = [job.name for job in group.jobs if job.name not in index]
        if unknown or not group.jobs:
            faults.append(f"group {group.name}: {f'job {unknown[0]} is not in the scenario' if unknown else 'has no job'}")
            continue
        if not (1 <= group.rollout_nodes <= _MOST_NODES and 1 <= group.train_nodes <= _MOST_NODES):
            faults.append(f"group {group.name}: has an impossible number of nodes")
            continue
        for job in group.jobs:
            if not job.rollout_nodes or len(set(job.rollout_nodes)) < len(job.rollout_nodes):
                faults.append(f"group {group.name}: job {job.name} is pinned to no node, or to one twice")
        if len({bool(job.runs) for job in group.jobs}) > 1:
            faults.append(f"group {group.name}: some of its jobs have runs and some have none")
        for job in group.jobs:
            if any(len(run.rollout_at_s) != len(job.rollout_nodes) for run in job.runs):
                faults.append(f"group {group.name}: a run of job {job.name} does not have one start for each of its rollout nodes")
        members = tuple(index[job.name] for job in group.jobs)
        pinning = tuple(job.rollout_nodes for job in group.jobs)
        groups.append(Group(members, pinning, group.rollout_nodes, group.train_nodes, _timetable(group)))
        used[problem.jobs[members[0]].rollout_pool] += group.rollout_nodes
        used[problem.jobs[members[0]].train_pool] += group.train_nodes
    return ColocationSolution(tuple(groups), problem.price(used)), faults


def _timetable(group: PlannedGroup) -> Timetable | None:
    if not any(job.runs for job in group.jobs):
        return None
    return Timetable(group.period_s, tuple(tuple(Run(run.rollout_at_s, run.train_at_s) for run in job.runs) for job in group.jobs))


def _numbers(scenario: Scenario, resolved: Resolved, problem: ColocationProblem, solution: ColocationSolution, plan: Plan) -> Iterator[str]:
    """Yield every number of the plan that differs from what its decisions give."""
    groups = describe_groups(problem, resolved, solution, group_period)
    pools = describe_pools(scenario, groups, plan.splits)
    right = {
        "groups": [group.model_dump(mode="json") for group in groups],
        "pools": {name: use.model_dump(mode="json") for name, use in pools.items()},
        "cost_per_h": round(sum(use.cost_per_h for use in pools.values()), 9),
        "provenance": resolved.provenance,
        "warnings": list(plan_warnings(resolved, groups, plan.splits, plan.certificate.stopped if plan.certificate else None)),
    }
    shown = plan.model_dump(mode="json")
    for key, value in right.items():
        yield from _differences(key, shown[key], value)


def _differences(path: str, shown: object, right: object) -> Iterator[str]:
    """Yield the paths at which two trees differ by more than rounding."""
    if isinstance(shown, Mapping) and isinstance(right, Mapping):
        for key in sorted(shown.keys() | right.keys()):
            yield from _differences(f"{path}.{key}", shown.get(key), right.get(key))
    elif isinstance(shown, list) and isinstance(right, list) and len(shown) == len(right):
        for position, (one, other) in enumerate(zip(shown, right, strict=True)):
            yield from _differences(f"{path}[{position}]", one, other)
    elif not _equal(shown, right):
        yield f"{path}: the plan says {shown}, its decisions give {right}"


def _equal(shown: object, right: object) -> bool:
    if isinstance(shown, float) and isinstance(right, (int, float)) and not isinstance(right, bool):
        return abs(shown - right) <= _TOLERANCE * max(1.0, abs(right))
    return shown == right and type(shown) is type(right)


def _certificate(
    problem: ColocationProblem, certificate: Certificate, cost: float, stop: Callable[[], object]
) -> tuple[CheckedBound, list[str]]:
    """Return the bound proven here, and what is wrong with the certificate."""
    faults: list[str] = []
    witness: Witness | None = None
    try:
        witness = None if certificate.witness is None else with_indices(problem, certificate.witness)
    except KeyError as error:
        faults.append(f"certificate: the witness speaks of {error.args[0]}, which is no job or pool of the scenario")
    by_witness = checked_bound(problem, witness, stop)
    by_search = partition_bound(problem)
    checked = by_search if by_search is not None and by_search.value >= by_witness.value else by_witness
    if by_witness.note and not by_witness.stopped:
        faults.append(f"certificate: {by_witness.note}")
    if not _equal(certificate.value, cost):
        faults.append(f"certificate: value is {certificate.value}, the plan costs {cost}")
    if certificate.claimed_bound > certificate.value + _TOLERANCE * max(1.0, certificate.value):
        faults.append(f"certificate: the claimed bound {certificate.claimed_bound} is above the value {certificate.value}")
    if not _equal(certificate.claimed_gap, gap(certificate.value, certificate.claimed_bound)):
        faults.append("certificate: the claimed gap does not follow from value and claimed bound")
    if (certificate.stopped == "optimal") != (gap(certificate.value, certificate.claimed_bound) <= 1e-9):
        faults.append(f"certificate: `{certificate.stopped}` does not fit a claimed gap of {certificate.claimed_gap:.3g}")
    faults += _claim(problem, certificate, by_witness)
    return checked, faults


def _claim(problem: ColocationProblem, certificate: Certificate, checked: CheckedBound) -> Iterator[str]:
    """Yield what the claimed bound cannot rest on."""
    proof, claimed = certificate.claimed_proof, certificate.claimed_bound
    if not checked.rough and not checked.stopped and not _equal(certificate.witness_bound, checked.value):
        yield f"certificate: its witness proves {checked.value}, the plan says {certificate.witness_bound}"
    tolerance = _TOLERANCE * max(1.0, abs(claimed))
    if proof not in ("fluid", "LP relaxation", "branch and bound"):
        yield f"certificate: {proof} is not a known proof"
    if proof == "fluid":
        right = problem.next_cost(fluid_bound(problem))
        if abs(claimed - right) > tolerance or certificate.witness is not None:
            yield f"certificate: the fluid bound is {right}, the plan claims {claimed}"
    elif not checked.stopped and not checked.rough:
        if proof == "LP relaxation" and abs(claimed - checked.value) > tolerance:
            yield f"certificate: its witness proves {checked.value}, the plan claims {claimed} from it"
        if proof == "branch and bound" and claimed < checked.value - tolerance:
            yield f"certificate: the plan claims {claimed}, less than the {checked.value} that its witness proves"


def _comparison(problem: ColocationProblem, comparison: Comparison | None, stop: Callable[[], object]) -> Iterator[str]:
    if (comparison is not None) != bool(problem.jobs):
        yield "comparison: missing" if problem.jobs else "comparison: there is nothing to compare"
        return
    if comparison is None:
        return
    admitted = algorithm1.run(problem, stop=stop)
    right = Comparison(
        solo=problem.solo_cost_per_h(), paper_admission=None if admitted is None else algorithm1.cost_per_h(problem, admitted)
    )
    yield from _differences("comparison", comparison.model_dump(mode="json"), right.model_dump(mode="json"))


def _splits(scenario: Scenario, planned: tuple[PlannedSplit, ...]) -> tuple[list[str], float]:
    """Return what is wrong with the splits, and the largest gap between a choice and the best candidate."""
    jobs = [(job.name, job.split) for job in scenario.jobs if job.split is not None]
    if [name for name, _ in jobs] != [split.name for split in planned]:
        return ["splits: not exactly the scenario's jobs that ask for one"], 0.0
    faults: list[str] = []
    largest = 0.0
    for (name, asked), split in zip(jobs, planned, strict=True):
        said, its_gap = _split(name, asked, compiled(asked, scenario.pools, scenario.links), split)
        faults += [f"split {name}: {fault}" for fault in said]
        largest = max(largest, its_gap)
    return faults, largest


def _split(name: str, asked: Split, ready: Compiled, split: PlannedSplit) -> tuple[list[str], float]:
    problem = ready.problem
    decision = _decision(split)
    said: list[str] = []
    for solution in decision.shown:
        said += [f"{solution.rollout_gpus}:{solution.train_gpus}: {fault}" for fault in verify_split(problem, solution)]
    if said:
        return said, 0.0
    best = least_value(problem)
    assert best is not None, "the choice is a candidate"
    right = planned_split(name, asked, ready, decision, best)
    said += _differences("plan", split.model_dump(mode="json"), right.model_dump(mode="json"))
    said += _order(problem, split, decision)
    if split.trim == "safe" and right.gap > 1e-9:
        said.append(f"trim `safe` takes {split.choice.iteration_s} s, which is not the best candidate")
    worth = [objective_value(problem, plan) for plan in (decision.choice, decision.thrifty)]
    if worth[1] > worth[0] * (1 + asked.noise + REL_TOL) or decision.thrifty.gpus > decision.choice.gpus:
        said.append("the thrifty plan is not within the noise of the choice, or takes more GPUs")
    if decision.colocated is not None and decision.colocated.mode != "colocated":
        said.append("the best colocated plan is not colocated")
    if (decision.fewest is not None) > (asked.target_s is not None) or (
        decision.fewest is not None and asked.target_s is not None and decision.fewest.iteration_s > asked.target_s * (1 + REL_TOL)
    ):
        said.append("the fewest GPUs do not keep the target")
    if asked.target_s is not None and decision.fewest is None:
        least_s = least_value(replace(problem, objective="time"))
        if least_s is not None and least_s <= asked.target_s * (1 - REL_TOL):
            said.append(f"names no plan that keeps the target, and the fastest takes {least_s:g} s per iteration")
    return said, right.gap


def _decision(split: PlannedSplit) -> SplitDecision:
    def maybe(choice: SplitChoice | None) -> SplitSolution | None:
        return None if choice is None else _solution(choice)

    return SplitDecision(
        choice=_solution(split.choice),
        next_best=tuple(map(_solution, split.next_best)),
        thrifty=_solution(split.thrifty),
        even=maybe(split.even),
        colocated=maybe(split.colocated),
        rules=tuple((rule.name, _solution(rule.choice)) for rule in split.rules),
        front=tuple(map(_solution, split.front)),
        fewest=maybe(split.fewest),
    )


def _order(problem: SplitProblem, split: PlannedSplit, decision: SplitDecision) -> Iterator[str]:
    """Yield what is wrong with the list of next best choices as a list."""
    shown = (split.choice, *split.next_best)
    if len(set(shown)) < len(shown):
        yield "names a choice twice"
    worth = [objective_value(problem, solution) for solution in decision.next_best]
    if any(later < earlier * (1 - REL_TOL) for earlier, later in pairwise(worth)):
        yield "the next best choices are not in order"


def _solution(choice: SplitChoice) -> SplitSolution:
    names = SplitSolution.__slots__
    return SplitSolution(**{name: getattr(choice, name) for name in names})
