"""Independent verifier of a dispatch: plays every instance event by event, in plain Python.

It shares the problem's data and the latency law with the solvers, and none of their code: neither the vectorised
simulation nor list scheduling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import fsum, isclose

import numpy as np

from rollplan.models.dispatch.problem import DispatchProblem
from rollplan.models.dispatch.solution import DispatchSolution


def verify(problem: DispatchProblem, solution: DispatchSolution) -> tuple[str, ...]:
    """Return what is wrong with a dispatch, in words; empty when it is feasible and its makespan right (1e-9 relative)."""
    found: list[str] = []
    if len(solution.orders) != problem.instances:
        found.append(f"{len(solution.orders)} instances have an order, the problem has {problem.instances}")
    placed = Counter(index for order in solution.orders for index in order)
    if strange := sorted(index for index in placed if not 0 <= index < len(problem)):
        return (*found, f"request index {strange[0]} does not exist")
    found += [f"request {index} is placed {placed[index]} times, must be once" for index in range(len(problem)) if placed[index] != 1]
    seconds = max((play(problem, order) for order in solution.orders), default=0.0)
    if not isclose(solution.makespan_s, seconds, rel_tol=1e-9):
        found.append(f"the last request ends after {seconds:.9g} s, the dispatch says {solution.makespan_s:.9g}")
    return tuple(found)


class _Sequence:
    """A request on its way: tokens still to come, and tokens kept in the cache."""

    def __init__(self, prompt: int, output: int) -> None:
        self.left, self.kept, self.final = output, prompt, prompt + output


def play(problem: DispatchProblem, order: Sequence[int]) -> float:
    """Return the seconds until one instance has finished the requests of `order`."""
    waiting = [_Sequence(int(problem.prompt_tokens[index]), int(problem.output_tokens[index])) for index in order]
    slots, budget = problem.admission.slots, problem.admission.kv_tokens
    reserving = problem.admission.policy == "reserve"
    running: list[_Sequence] = []
    stretches: list[tuple[int, int, int]] = []
    while waiting or running:
        while waiting and len(running) < slots and _enters(waiting[0], running, budget, reserving):
            running.append(waiting.pop(0))
        steps = min(sequence.left for sequence in running)
        held = sum(sequence.kept for sequence in running)
        if budget is not None and not reserving:
            steps = min(steps, (budget - held) // len(running))
        if steps == 0:
            waiting.insert(0, running.pop())
            continue
        stretches.append((len(running), held + len(running), steps))
        for sequence in running:
            sequence.left -= steps
            sequence.kept += steps
        running = [sequence for sequence in running if sequence.left]
    if not stretches:
        return 0.0
    batch, tokens, steps_each = (np.array(column) for column in zip(*stretches, strict=True))
    return fsum(problem.latency.seconds(batch, tokens.astype(float), steps_each))


def _enters(newcomer: _Sequence, running: list[_Sequence], budget: int | None, reserving: bool) -> bool:
    """Return whether the head of the queue may join: its final length fits, or, if nobody reserves, one more step of all does."""
    if budget is None:
        return True
    if reserving:
        return sum(sequence.final for sequence in running) + newcomer.final <= budget
    return sum(sequence.kept + 1 for sequence in running) + newcomer.kept + 1 <= budget
