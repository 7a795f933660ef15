"""P2 for affine laws by CP-SAT.

An instance takes a * S + sum of w_j, with S its steps (see `bounds`). So only the assignment and S matter. If all
requests fit into an instance at once, S is the longest of its requests. Else start steps are decided, too: at most
`slots` requests and the KV budget at any step. Admission in the order of the starts reaches them: by induction no
request enters later than its start, since those before it entered no later and so have left.

Coefficients are whole numbers of a decimal unit. Their rounding errors, computed in fractions, are taken off the bound.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from rollplan.models.certified import Bound, Certified, Limits, Stopped, gap
from rollplan.models.dispatch.bounds import lower_bound
from rollplan.models.dispatch.problem import DispatchProblem
from rollplan.models.dispatch.solution import DispatchSolution, scored
from rollplan.models.latency import AffineLatency

_REL_TOL = 1e-9
_NEGLIGIBLE = Fraction(1, 10**11)
_LARGEST = 2**50
"""Coefficients times the quantities they multiply stay below, far from the solver's 2^62."""

MOST_PLACES = 50_000
"""Requests times instances that a model may have."""


def applies(problem: DispatchProblem) -> bool:
    """Return whether the law is affine, admission is by reservation, or as good as, and the model is not too large."""
    reserves = problem.admission.policy == "reserve" or _cache_suffices(problem)
    return isinstance(problem.latency, AffineLatency) and reserves and len(problem) * problem.instances <= MOST_PLACES


def solve(problem: DispatchProblem, limits: Limits, start: DispatchSolution | None = None, seed: int = 0) -> Certified[DispatchSolution]:
    """Return the best dispatch found within `limits`, never worse than `start`, with a proven bound."""
    best = start or _dealt(problem)
    bound = lower_bound(problem)
    stopped: Stopped = "optimal"
    if gap(best.makespan_s, bound.value) > max(_REL_TOL, limits.target_gap):
        found, proven_s, stopped = _search(problem, limits, best, seed)
        best = min((best, *found), key=lambda dispatch: dispatch.makespan_s)
        bound = max(bound, Bound(proven_s, "CP-SAT"), key=lambda argument: argument.value)
    if gap(best.makespan_s, bound.value) <= _REL_TOL:
        stopped = "optimal"
    elif stopped == "optimal":
        stopped = "target gap"
    return Certified(best, best.makespan_s, bound, stopped, seed=seed)


def _cache_suffices(problem: DispatchProblem) -> bool:
    """Return whether the KV budget holds the largest requests of all slots together."""
    budget = problem.admission.kv_tokens
    return budget is None or int(np.sort(problem.final_tokens)[-problem.admission.slots :].sum()) <= budget


def _dealt(problem: DispatchProblem) -> DispatchSolution:
    """Return the sorted requests dealt to the instances in turn."""
    ranked = np.argsort(-problem.output_tokens, kind="stable")
    return scored(problem, [ranked[i :: problem.instances] for i in range(problem.instances)])


@dataclass(frozen=True, slots=True)
class _Whole:
    """Coefficients in whole numbers of `unit_ms`: of a step, and of each request; error_ms: rounding of all together."""

    unit_ms: Fraction
    step: int
    work: tuple[int, ...]
    error_ms: Fraction


def _whole(problem: DispatchProblem, makespan_s: float, steps: int) -> _Whole:
    """Return the coefficients in the coarsest decimal unit whose rounding is negligible, or the finest that the solver can take.

    steps: no instance of a plan better than `makespan_s` makes more.
    """
    law = problem.latency
    assert isinstance(law, AffineLatency), "see `applies`"
    per_sequence, per_token = Fraction(law.per_sequence_ms), Fraction(law.per_kilotoken_ms) / 1000
    pairs = zip(problem.prompt_tokens.tolist(), problem.output_tokens.tolist(), strict=True)
    exact = [per_sequence * length + per_token * (length * prompt + length * (length + 1) // 2) for prompt, length in pairs]
    fixed, total = Fraction(law.fixed_ms), Fraction(law.fixed_ms) * steps + sum(exact)
    unit = Fraction(1)
    while True:
        step, work = round(fixed / unit), tuple(round(each / unit) for each in exact)
        error = abs(fixed - step * unit) * steps + sum(abs(each - whole * unit) for each, whole in zip(exact, work, strict=True))
        if error <= _NEGLIGIBLE * Fraction(makespan_s) * 1000 or total / unit * 10 > _LARGEST:
            return _Whole(unit, step, work, error)
        unit /= 10


def _search(problem: DispatchProblem, limits: Limits, start: DispatchSolution, seed: int) -> tuple[list[DispatchSolution], float, Stopped]:
    """Return what CP-SAT found, the bound it proved in seconds, and why it stopped."""
    from ortools.sat.python import cp_model

    law = problem.latency
    assert isinstance(law, AffineLatency), "see `applies`"
    steps = int(problem.output_tokens.sum())
    if law.fixed_ms > 0:
        steps = min(steps, int(start.makespan_s * 1000 * (1 + _REL_TOL) / law.fixed_ms))
    whole = _whole(problem, start.makespan_s, steps)
    model = cp_model.CpModel()
    place, begin = _model(model, problem, start, steps, whole)

    solver = cp_model.CpSolver()
    solver.parameters.random_seed = seed
    solver.parameters.num_workers = 1  # several would find different optima from run to run
    solver.parameters.max_time_in_seconds = limits.left_s
    solver.parameters.relative_gap_limit = limits.target_gap
    with ThreadPoolExecutor(1) as pool:
        search = pool.submit(solver.solve, model)
        while not wait([search], timeout=0.05).done:
            if limits.interrupted():
                solver.stop_search()
    status = search.result()
    found = []
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        found.append(_read(problem, [[solver.value(v) for v in row] for row in place], {j: solver.value(v) for j, v in begin.items()}))
    proven_s = float((Fraction(solver.best_objective_bound) * whole.unit_ms - whole.error_ms) / 1000) * (1 - 1e-12)
    return found, proven_s, "optimal" if status == cp_model.OPTIMAL else limits.stop() or "time limit"


def _model(
    model: Any, problem: DispatchProblem, start: DispatchSolution, steps: int, whole: _Whole
) -> tuple[list[list[Any]], dict[int, Any]]:
    """Fill the model; return its decisions: whether request j is in instance i, and where requests may wait, when j starts."""
    lengths, final = problem.output_tokens.tolist(), problem.final_tokens.tolist()
    requests, instances = range(len(lengths)), range(min(problem.instances, len(lengths)))
    budget, slots = problem.admission.kv_tokens, problem.admission.slots
    place = [[model.new_bool_var("") for _ in instances] for _ in requests]
    most = int((Fraction(start.makespan_s) * 1000 * (1 + Fraction(1, 10**9)) + whole.error_ms) / whole.unit_ms) + 1
    makespan = model.new_int_var(0, most, "")
    made = [model.new_int_var(0, steps, "") for _ in instances]
    model.minimize(makespan)
    for j in requests:
        model.add_exactly_one(place[j])
    for i in instances:
        model.add(whole.step * made[i] + sum(whole.work[j] * place[j][i] for j in requests) <= makespan)
        for j in requests:
            model.add(made[i] >= lengths[j] * place[j][i])
    _number_instances(model, problem, start, place)
    begin: dict[int, Any] = {}
    if len(lengths) <= slots and (budget is None or sum(final) <= budget):
        return place, begin
    begin = {j: model.new_int_var(0, max(0, steps - lengths[j]), "") for j in requests}
    for i in instances:
        runs = [model.new_optional_fixed_size_interval_var(begin[j], lengths[j], place[j][i], "") for j in requests]
        model.add_cumulative(runs, [1] * len(runs), slots)
        if budget is not None:
            model.add_cumulative(runs, final, budget)
        for j in requests:
            model.add(made[i] >= begin[j] + lengths[j]).only_enforce_if(place[j][i])
    return place, begin


def _number_instances(model: Any, problem: DispatchProblem, start: DispatchSolution, place: list[list[Any]]) -> None:
    """Number the identical instances by their longest request, which breaks their symmetry; hint the start in these numbers.

    The longest few requests decide the numbers; constraints on all would grow with the square of the requests.
    """
    ranked = np.argsort(-problem.output_tokens, kind="stable").tolist()
    rank = {j: position for position, j in enumerate(ranked)}
    for position, j in enumerate(ranked[: 4 * problem.instances]):
        for i, here in enumerate(place[j][1:], start=1):
            model.add(here <= sum(place[k][i - 1] for k in ranked[:position]))
    taken = sorted((order for order in start.orders if order), key=lambda order: min(rank[j] for j in order))
    for i, order in enumerate(taken):
        for j in order:
            model.add_hint(place[j][i], 1)


def _read(problem: DispatchProblem, place: list[list[int]], begin: dict[int, int]) -> DispatchSolution:
    """Return the dispatch of a solved model, requests in the order of their starts, of equal ones the longest first."""
    ranked = sorted(range(len(problem)), key=lambda j: (begin.get(j, 0), -int(problem.output_tokens[j]), j))
    orders = [[j for j in ranked if i < len(place[j]) and place[j][i]] for i in range(problem.instances)]
    return scored(problem, [np.array(order, dtype=np.int64) for order in orders])
