"""What a tree of limits proves: the least of what its ends prove, each for the plans within its limits."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from rollplan.models.certified import Leaf, Witness
from rollplan.models.colocation.certificate.limits import Box, checked_branch
from rollplan.models.colocation.problem import ColocationProblem


def tree_bound(problem: ColocationProblem, witness: Witness, prove: Callable[[Box, Leaf], float]) -> float:
    """Return the least cost of a plan that the witness proves; infinite if no plan is within the pools' limits.

    prove: gives the bound of prices in a box. A side of a branch is worth at least what the prices at the branch prove,
    so that a proof that is cut short is not worth less than the prices at the root. Without recursion: trees may be deep.
    """
    least = inf
    pending: list[tuple[Witness, Box, float]] = [(witness, Box(problem), -inf)]
    while pending:
        node, box, floor = pending.pop()
        if box.empty:
            continue
        if isinstance(node, Leaf):
            least = min(least, max(floor, prove(box, node)))
            continue
        checked_branch(problem, node)
        if node.prices is not None:
            floor = max(floor, prove(box, node.prices))
        below, above = box.part(node)
        pending += [(node.above, above, floor), (node.below, below, floor)]
    return least


def prices_of(witness: Witness) -> int:
    """Return how many sets of prices a witness holds."""
    count, pending = 0, [witness]
    while pending:
        node = pending.pop()
        count += isinstance(node, Leaf) or node.prices is not None
        pending += [] if isinstance(node, Leaf) else [node.below, node.above]
    return count
