"""Skewness-aware dispatch: StreamRL (Zhong et al. 2025, arXiv 2504.15930) Algorithm 2.

The longest alpha of the requests get instances of their own. Every split of N into N_l >= 1 and N_r >= 1 is tried; the
time of a class is Eq. 2 of its longest instance: M = ceil(requests / instances) of the class's typical length, P90 and
P50 of all estimated lengths. Then each class is spread evenly over its instances.

The printed objective is the SUM of the two times, although the classes run side by side and the makespan is their
MAX. Both are here. What the paper leaves open: the tail has floor(alpha * n) requests; of equal times the least N_l wins
(as the printed `<` does when N_l rises); for other alpha than 20 % the tail's length is P(1 - alpha / 2). Eq. 2 takes the
largest batch, BS = min(M, cap), as printed, or `equalised` rounds (`models.rounds`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rollplan.models.dispatch.problem import DispatchProblem
from rollplan.models.dispatch.recall import tail_size
from rollplan.models.errors import InfeasibleError
from rollplan.models.latency import IntArray, ptl_ms
from rollplan.models.rounds import rounds_seconds
from rollplan.planner.dispatch.deal import in_turn, ranked

Objective = Literal["sum", "max"]
Rounds = Literal["equalised", "printed"]


@dataclass(frozen=True, slots=True)
class RequestClass:
    """One class: requests, longest first; typical output and prompt in tokens; largest batch of an instance."""

    requests: IntArray
    tokens: float
    prompt_tokens: float
    cap: int


@dataclass(frozen=True, slots=True)
class ClassSplit:
    """Instances of the tail, and what Eq. 2 says that both classes take."""

    tail_instances: int
    tail_s: float
    regular_s: float


def classes(problem: DispatchProblem) -> tuple[RequestClass, RequestClass]:
    """Return the tail and the rest; raise `InfeasibleError` if one of them is empty or its KV cache holds no request."""
    size = tail_size(problem)
    tail, regular = np.split(ranked(problem), [size])
    if not tail.size or not regular.size:
        share = f"a tail of {problem.tail_share:g} of {len(problem)} requests"
        raise InfeasibleError([f"{share} leaves {tail.size} in the tail and {regular.size} outside; both need at least one"])
    levels = np.quantile(problem.estimates, [1 - problem.tail_share / 2, 0.5])
    found = []
    for k, (name, requests) in enumerate((("tail", tail), ("regular", regular))):
        tokens, prompt = float(levels[k]), float(problem.prompt_tokens[requests].mean())
        cap = problem.class_caps[k] if problem.class_caps else _cap(problem, prompt + tokens)
        if cap < 1:
            need = f"a {name} request of {prompt + tokens:.0f} tokens"
            raise InfeasibleError([f"{need} does not fit into the KV cache of an instance; raise kv_tokens or the class cap"])
        found.append(RequestClass(requests, tokens, prompt, cap))
    return found[0], found[1]


def choose(problem: DispatchProblem, objective: Objective, rounds: Rounds = "printed") -> ClassSplit:
    """Return the best split of the instances; raise `InfeasibleError` where there is none (one instance, an empty class)."""
    tail, regular = classes(problem)
    if problem.instances < 2:
        raise InfeasibleError(["one instance cannot be split between the tail and the rest"])
    splits = [
        ClassSplit(count, class_seconds(problem, tail, count, rounds), class_seconds(problem, regular, problem.instances - count, rounds))
        for count in range(1, problem.instances)
    ]
    join = sum if objective == "sum" else max
    return min(splits, key=lambda split: join((split.tail_s, split.regular_s)))


def class_seconds(problem: DispatchProblem, part: RequestClass, instances: int, rounds: Rounds = "printed") -> float:
    """Return the seconds of a class on so many instances by Eq. 2."""
    most = -(-part.requests.size // instances)
    if rounds == "equalised":
        return rounds_seconds(problem.latency, part.tokens, most, part.cap, part.prompt_tokens)
    batch = min(most, part.cap)
    step_ms = ptl_ms(problem.latency, batch, batch * (part.prompt_tokens + part.tokens / 2))
    return step_ms * part.tokens * -(-most // batch) / 1000


def skewness_aware(problem: DispatchProblem, objective: Objective, rounds: Rounds = "printed") -> list[IntArray]:
    """Return the orders of Algorithm 2, longest first in every instance; raise `InfeasibleError` as `choose` does."""
    split = choose(problem, objective, rounds)
    tail, regular = np.split(ranked(problem), [tail_size(problem)])
    return [*in_turn(tail, split.tail_instances), *in_turn(regular, problem.instances - split.tail_instances)]


def _cap(problem: DispatchProblem, context: float) -> int:
    slots, budget = problem.admission.slots, problem.admission.kv_tokens
    return slots if budget is None else min(slots, int(budget // context))
