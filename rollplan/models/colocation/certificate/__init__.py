"""Independent proof of a co-location bound from its witness; nothing of the solver is imported.

The witness is a tree. A branch parts the plans by a measure: the nodes that they use of a pool in total, how many groups
of some size they have, or whether two jobs share a group. A leaf holds prices u_k per job and d_m per measure. No plan
with measures in the leaf's limits [l, h], groups counted with their fewest nodes, costs less than

    sum_k u_k + sum_m (d_m l_m if d_m >= 0 else d_m h_m) + sum over leaders of min(0, least reduced cost they lead),

where a group's reduced cost is its cost less the prices of what it adds to measures and of its jobs. The bound of the
tree is the least of its leaves (`tree.py`); plans with nodes to spare cost more than their twins without. All feasible
groups are searched here (`leaf.py`, `search.py`), or listed where jobs may run several times per period (`rates.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from rollplan.models.certified import Witness
from rollplan.models.colocation.certificate.fluid import fluid_bound
from rollplan.models.colocation.certificate.hosts import is_searched
from rollplan.models.colocation.certificate.leaf import Prover
from rollplan.models.colocation.certificate.limits import BadWitnessError
from rollplan.models.colocation.certificate.partition import MAX_EXHAUSTIVE_JOBS, partition_cost
from rollplan.models.colocation.certificate.plain import wide
from rollplan.models.colocation.certificate.rates import ListedProver
from rollplan.models.colocation.certificate.tree import prices_of, tree_bound
from rollplan.models.colocation.problem import ColocationProblem

__all__ = ["MAX_EXHAUSTIVE_JOBS", "CheckedBound", "checked_bound", "counts_less", "fluid_bound", "partition_bound"]


@dataclass(frozen=True, slots=True)
class CheckedBound:
    """A bound proven here: dollars per hour, the argument, and what was said against the witness.

    rough: groups were counted with fewer nodes than they may need (docs/bounds.md), so the witness may prove more. stopped:
    the proof was cut short, and the bound is what had been proven until then.
    """

    value: float
    proof: str
    note: str = ""
    rough: bool = False
    stopped: bool = False


def checked_bound(problem: ColocationProblem, witness: Witness | None, stop: Callable[[], object] = lambda: None) -> CheckedBound:
    """Return the best bound that can be proven from the witness; without a usable witness, the fluid bound.

    stop: when it answers, the search ends; what was proven until then stands: at least the fluid bound, and what the
    prices at the root of the witness prove, if there was time for them.
    """
    fluid = CheckedBound(problem.next_cost(fluid_bound(problem)), "fluid", rough=_rough(problem))
    if witness is None:
        return fluid
    prove = Prover(problem, stop, prices_of(witness)) if problem.max_rate == 1 else ListedProver(problem, stop)
    try:
        value = problem.next_cost(tree_bound(problem, witness, prove))
    except BadWitnessError as error:
        return replace(fluid, note=f"the witness {error}")
    best = replace(fluid, value=value, proof=_PROOF_AT_LEAST if fluid.rough else _PROOF) if fluid.value < value < inf else fluid
    return replace(best, stopped=True, note="the search for violated groups was stopped") if prove.stopped else best


_PROOF = "LP prices, every feasible group searched"
_PROOF_AT_LEAST = "LP prices, every group that may be feasible searched"


def partition_bound(problem: ColocationProblem) -> CheckedBound | None:
    """Return the least cost over every partition into feasible groups, None for more than 13 jobs or if there is none.

    Limits on a pool's nodes are left out, which can only make it lower. It is the optimum otherwise, unless it is rough.
    """
    cost = partition_cost(problem)
    if cost is None:
        return None
    if _rough(problem):
        return CheckedBound(cost, "every partition searched, with the nodes that groups need at least", rough=True)
    return CheckedBound(cost, "every partition searched")


def counts_less(problem: ColocationProblem) -> bool:
    """Return whether, with several runs per period, fewer nodes may be counted here than the solver's own tests leave.

    Jobs too wide to be searched, or phases of no length, which keep nothing apart here.
    """
    widest = sorted((job.rollout_nodes for job in problem.jobs), reverse=True)[: problem.max_group_size]
    return problem.max_rate > 1 and (not is_searched(widest) or any(min(job.rollout_s, job.train_s) == 0 for job in problem.jobs))


def _rough(problem: ColocationProblem) -> bool:
    """Return whether groups may need more nodes than are counted here: wide jobs, gangs, delays, several runs per period."""
    return wide(problem) or problem.max_rate > 1 or any(job.gang or job.delay_s > 0 for job in problem.jobs)
