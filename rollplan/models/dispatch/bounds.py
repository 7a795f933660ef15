"""Lower bounds on the makespan of every assignment and every order, for all sizes.

For an affine law with fixed part a, per-sequence part b and per-token part c, an instance that makes S steps for the
requests R takes exactly

    a * S + sum over R of w_j,     w_j = b * L_j + c * K_j,    K_j = L_j * prompt_j + L_j * (L_j + 1) / 2

since S counts the steps, L_j the tokens, and K_j the tokens that request j attends to. S is at least the longest L_j of
R and at least sum over R of o_j, where o_j is the share of the instance that j occupies, times L_j. Four arguments:

    alone        the longest request takes a * L_j + w_j wherever it is
    pigeonhole   some instance has M of the N (M - 1) + 1 longest requests
    fluid        requests may be cut in pieces: then contiguous pieces of the sorted requests are best (see `_fluid`)
    whole        they may not: work that is the same on every instance is P||Cmax (`models/pcmax`, bounds in closed form)

Tables are replaced by affine laws that no step undercuts (`minorants`).
"""

from __future__ import annotations

import numpy as np

from rollplan.models.certified import Bound, Proof
from rollplan.models.dispatch.minorants import minorants
from rollplan.models.dispatch.problem import DispatchProblem
from rollplan.models.latency import AffineLatency, FloatArray, IntArray
from rollplan.models.pcmax.bounds import lower_bound as pcmax_bound
from rollplan.models.pcmax.problem import PcmaxProblem
from rollplan.models.pcmax.solution import lpt

_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of the longest request, as against occupancy, in the bound on an instance's steps."""
_ROUNDING = 1e-12
_MOST_EACH = 16
"""Requests per instance up to which `whole` is tried; of more, the fluid bound is as good."""
_UNITS = 2**16
"""Whole numbers of work in an average instance."""


def lower_bound(problem: DispatchProblem) -> Bound:
    """Return the best bound on the makespan in seconds, lowered by 1e-12 of itself against rounding."""
    order = np.argsort(-problem.output_tokens, kind="stable")
    lengths, prompts = problem.output_tokens[order], problem.prompt_tokens[order]
    attended = attended_tokens(prompts, lengths)
    most = most_at_once(problem)
    occupied = _occupied(problem, lengths, prompts, attended, most)
    contexts = (float(prompts.min() + 1), float(problem.final_tokens.max()))
    best = 0.0
    proof: Proof = "closed form"
    for law in minorants(problem.latency, most, contexts, float(attended.sum() / lengths.sum())):
        fixed_s = law.fixed_ms / 1000
        work = (law.per_sequence_ms * lengths + law.per_kilotoken_ms * attended / 1000) / 1000
        closed = max(float((fixed_s * lengths + work).max()), _pigeonhole(law, lengths, int(prompts.min()), problem.instances, most))
        if closed > best:
            best, proof = closed, "closed form"
        for weight in _WEIGHTS:
            mass = work + fixed_s * (1 - weight) * occupied
            cut = _fluid(lengths, mass, weight * fixed_s, problem.instances, best)
            if cut > best:
                best, proof = cut, "fluid"
            if weight in (0.0, 1.0):
                steps_s = weight * fixed_s * float(lengths[-1])
                whole = steps_s + _whole(mass, problem.instances, best - steps_s)
                if whole > best:
                    best, proof = whole, "closed form"
    return Bound(best * (1 - _ROUNDING), proof)


def attended_tokens(prompts: IntArray, lengths: IntArray) -> FloatArray:
    """Return for each request the tokens it attends to in all its steps: the prompt each time, and 1, 2, ..., L of its own."""
    return lengths * prompts + lengths * (lengths + 1) / 2


def most_at_once(problem: DispatchProblem) -> int:
    """Return the largest batch that slots, KV budget and the number of requests admit."""
    most = min(problem.admission.slots, len(problem))
    if problem.admission.kv_tokens is None:
        return most
    least = problem.final_tokens.min() if problem.admission.policy == "reserve" else problem.prompt_tokens.min() + 1
    return max(1, min(most, problem.admission.kv_tokens // int(least)))


def _occupied(problem: DispatchProblem, lengths: IntArray, prompts: IntArray, attended: FloatArray, most: int) -> FloatArray:
    """Return for each request the steps of an instance that it uses up: by its place in the batch, or by its cache if that is more."""
    places = lengths / most
    budget = problem.admission.kv_tokens
    if budget is None:
        return places
    held = lengths * (prompts + lengths) if problem.admission.policy == "reserve" else attended
    cache = held / budget
    return cache if cache.sum() > places.sum() else places


def _pigeonhole(law: AffineLatency, lengths: IntArray, prompt: int, instances: int, most: int) -> float:
    """Return the bound from M requests of at least l = L[N (M - 1)] tokens in one instance, best over M.

    At most `most` of them run at once, so the instance makes at least l * ceil(M / most) steps.
    """
    least = lengths[::instances]
    count = np.arange(1, least.size + 1)
    steps = least * -(-count // most)
    attended = attended_tokens(np.full_like(least, prompt), least)
    ms = law.fixed_ms * steps + count * (law.per_sequence_ms * least + law.per_kilotoken_ms * attended / 1000)
    return float(ms.max() / 1000)


def _whole(mass: FloatArray, instances: int, known: float) -> float:
    """Return a bound on the largest sum of masses of an instance, 0 where it cannot be above `known` or hardly will."""
    unit = float(mass.sum()) / instances / _UNITS
    if mass.size > _MOST_EACH * instances or unit <= 0:
        return 0.0
    whole = PcmaxProblem.rounded_down(mass.tolist(), instances, unit)
    return pcmax_bound(whole).value * unit if lpt(whole).makespan * unit > known else 0.0


def _fluid(lengths: IntArray, mass: FloatArray, longest_s: float, instances: int, known: float) -> float:
    """Return the least T such that instances can share the mass with longest_s * (longest piece) + mass <= T, if above `known`.

    lengths: descending. Proof that contiguous pieces are best: take any sharing and sort the instances by their longest
    request. Give the first as much mass as before, but of the longest requests, and so on. All mass longer than the
    longest request of instance i was in the instances before i, and they keep their amounts, so that i's longest
    request does not grow. Hence filling one instance after the other up to T decides whether T suffices.
    """
    edges = np.cumsum(mass)
    total = float(edges[-1])

    def suffices(limit: float) -> bool:
        filled = 0.0
        for _ in range(instances):
            at = int(np.searchsorted(edges, filled, side="right"))
            if at >= lengths.size:
                return True
            filled += limit - longest_s * float(lengths[at])
        return filled >= total

    low = max(known, total / instances, longest_s * float(lengths[0]))
    if suffices(low):
        return low if low > known else 0.0
    high = longest_s * float(lengths[0]) + total
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return low
