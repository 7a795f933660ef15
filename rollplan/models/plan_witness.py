"""The witness of a bound in a plan file: a tree in a flat list, which names pools and jobs and may be deep.

`tree` is in preorder: after a cut come all entries of its side below, then those of its side above. So one list, however
deep, is one tree. Prices of jobs are in the order of the scenario's co-location jobs.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from rollplan.models.certified import Branch, GroupCount, Leaf, Measure, PoolNodes, Together, TwoOfThree, Witness
from rollplan.models.colocation.problem import ColocationProblem
from rollplan.models.strict import Strict, refusal

MOST_PRICES = 1_500_000
"""A plan file with more prices of jobs than this is too large to be read."""


class NodesOfPool(Strict):
    """The nodes that all groups take of a pool in total."""

    kind: Literal["nodes of pool"] = "nodes of pool"
    pool: str


class GroupsOfSize(Strict):
    """The number of groups of a pair of pools that have so many training and rollout nodes; null is any number."""

    kind: Literal["groups of size"] = "groups of size"
    rollout_pool: str
    train_pool: str
    train_nodes: int | None
    rollout_nodes: int | None


class JobsTogether(Strict):
    """1 if two jobs share a group, else 0."""

    kind: Literal["jobs together"] = "jobs together"
    jobs: tuple[str, str]


class TwoOfThreeJobs(Strict):
    """1 if a group holds two or all of three jobs, else 0."""

    kind: Literal["two of three jobs"] = "two of three jobs"
    jobs: tuple[str, str, str]


PlannedMeasure: TypeAlias = NodesOfPool | GroupsOfSize | JobsTogether | TwoOfThreeJobs


class Prices(Strict):
    """Prices in $/h that prove an LP bound: one per job, and pairs of the place of a measure in `measures` and its price."""

    jobs: tuple[float, ...]
    measures: tuple[tuple[int, float], ...]


class Cut(Strict):
    """Parts the plans: at most `at` of a measure (its place in `measures`), or more. prices: prove a bound for both sides."""

    measure: int
    at: int
    prices: Prices | None


class PlannedWitness(Strict):
    """A tree of cuts with prices at its ends, in preorder; cuts and prices speak of measures by their place in `measures`."""

    measures: tuple[Annotated[PlannedMeasure, Field(discriminator="kind")], ...]
    tree: tuple[Cut | Prices, ...]

    @model_validator(mode="after")
    def _is_a_tree(self) -> Self:
        missing = 1
        for entry in self.tree:
            # Every cut is the first of two sides; nothing may follow once none is missing.
            missing = missing + (1 if isinstance(entry, Cut) else -1) if missing else -1
            if missing < 0:
                break
        if missing:
            raise refusal("has a `tree` that is not one whole tree", "plan again")
        for entry in self.tree:
            prices = entry.prices if isinstance(entry, Cut) else entry
            places = [entry.measure] if isinstance(entry, Cut) else []
            places += [place for place, _ in prices.measures] if prices else []
            if not all(0 <= place < len(self.measures) for place in places):
                raise refusal("speaks of a measure that it does not list", "plan again")
        return self


def prices_in(witness: Witness) -> int:
    """Return how many prices of jobs a witness holds."""
    count, pending = 0, [witness]
    while pending:
        node = pending.pop()
        prices = node.prices if isinstance(node, Branch) else node
        count += len(prices.jobs) if prices else 0
        pending += [node.below, node.above] if isinstance(node, Branch) else []
    return count


def with_names(problem: ColocationProblem, witness: Witness) -> PlannedWitness:
    """Return a witness as it stands in a plan file."""
    places: dict[Measure, int] = {}

    def named(leaf: Leaf) -> Prices:
        return Prices(jobs=leaf.jobs, measures=tuple((places.setdefault(measure, len(places)), price) for measure, price in leaf.measures))

    tree: list[Cut | Prices] = []
    pending = [witness]
    while pending:
        node = pending.pop()
        if isinstance(node, Leaf):
            tree.append(named(node))
        else:
            place = places.setdefault(node.measure, len(places))
            tree.append(Cut(measure=place, at=node.at, prices=None if node.prices is None else named(node.prices)))
            pending += [node.above, node.below]
    return PlannedWitness(measures=tuple(_named(problem, measure) for measure in places), tree=tuple(tree))


def with_indices(problem: ColocationProblem, planned: PlannedWitness) -> Witness:
    """Return the witness of a plan file in indices; raise `KeyError` with a name that the problem does not have."""
    pools = {pool.name: p for p, pool in enumerate(problem.pools)}
    jobs = {job.name: k for k, job in enumerate(problem.jobs)}
    measures = [_indexed(pools, jobs, measure) for measure in planned.measures]

    def indexed(prices: Prices) -> Leaf:
        return Leaf(prices.jobs, tuple((measures[place], price) for place, price in prices.measures))

    done: list[Witness] = []
    for entry in reversed(planned.tree):
        if isinstance(entry, Prices):
            done.append(indexed(entry))
        else:
            below, above = done.pop(), done.pop()
            done.append(Branch(measures[entry.measure], entry.at, below, above, None if entry.prices is None else indexed(entry.prices)))
    return done.pop()


def _named(problem: ColocationProblem, measure: Measure) -> PlannedMeasure:
    if isinstance(measure, PoolNodes):
        return NodesOfPool(pool=problem.pools[measure.pool].name)
    if isinstance(measure, Together):
        return JobsTogether(jobs=(problem.jobs[measure.first].name, problem.jobs[measure.second].name))
    if isinstance(measure, TwoOfThree):
        names = [problem.jobs[k].name for k in (measure.first, measure.second, measure.third)]
        return TwoOfThreeJobs(jobs=(names[0], names[1], names[2]))
    return GroupsOfSize(
        rollout_pool=problem.pools[measure.rollout_pool].name,
        train_pool=problem.pools[measure.train_pool].name,
        train_nodes=measure.train_nodes,
        rollout_nodes=measure.rollout_nodes,
    )


def _indexed(pools: dict[str, int], jobs: dict[str, int], measure: PlannedMeasure) -> Measure:
    if isinstance(measure, NodesOfPool):
        return PoolNodes(pools[measure.pool])
    if isinstance(measure, JobsTogether):
        return Together(jobs[measure.jobs[0]], jobs[measure.jobs[1]])
    if isinstance(measure, TwoOfThreeJobs):
        return TwoOfThree(*(jobs[name] for name in measure.jobs))
    return GroupCount(pools[measure.rollout_pool], pools[measure.train_pool], measure.train_nodes, measure.rollout_nodes)
