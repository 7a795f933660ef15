"""The jobs of one pair of pools as arrays, in the order in which exact co-location looks at them.

Jobs are sorted by the period they tolerate, then by index. The first job of a group in this order, its leader, sets the
limit of all (leader decomposition), and every job leads at most one group of a plan.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rollplan.models.colocation.problem import REL_TOL, ColocationProblem

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Block:
    """Jobs of one pair of pools, n of them, sorted by tolerable period, then index.

    index: their places in the problem, (n,). rollout_s, train_s, solo_s, limit_s, rollout_gib, train_gib: (n,), limits with the
    tolerance of `at_most` in them. demand: rollout nodes, (n,). train_class: place of the job's training nodes in `train_nodes`, (n,).
    train_nodes: the different numbers of training nodes, ascending, (c,). rollout_price, train_price: of a node, in `unit` dollars per
    hour (whole numbers where the problem has a cost unit). most_nodes: most rollout nodes that a group can have.
    """

    rollout_pool: int
    train_pool: int
    index: Ints
    rollout_s: Floats
    train_s: Floats
    solo_s: Floats
    limit_s: Floats
    rollout_gib: Floats
    train_gib: Floats
    demand: Ints
    train_class: Ints
    train_nodes: Ints
    node_gib: float
    train_node_gib: float
    rollout_price: float
    train_price: float
    max_size: int
    most_nodes: int

    def __len__(self) -> int:
        return len(self.index)

    def base(self) -> Floats:
        """Return the cost of a group by class of training nodes and rollout nodes, (c, most_nodes + 1), in units."""
        return np.asarray(self.train_nodes[:, None] * self.train_price + np.arange(self.most_nodes + 1)[None, :] * self.rollout_price)

    def take(self, places: Ints) -> Block:
        """Return the block of some of the jobs; `places` ascends, so that the order stays."""
        return Block(
            self.rollout_pool,
            self.train_pool,
            self.index[places],
            self.rollout_s[places],
            self.train_s[places],
            self.solo_s[places],
            self.limit_s[places],
            self.rollout_gib[places],
            self.train_gib[places],
            self.demand[places],
            self.train_class[places],
            self.train_nodes,
            self.node_gib,
            self.train_node_gib,
            self.rollout_price,
            self.train_price,
            self.max_size,
            self.most_nodes,
        )


def cost_unit(problem: ColocationProblem) -> float:
    """Return dollars per hour of one unit of the blocks' prices: the problem's cost unit, or the dearest node's 1000th part."""
    return problem.cost_unit() or max(pool.price_per_node_h for pool in problem.pools) / 1000 or 1.0


def blocks_of(problem: ColocationProblem) -> tuple[Block, ...]:
    """Return a block for each pair of pools that has jobs, in the order of the pools."""
    pairs = sorted({(job.rollout_pool, job.train_pool) for job in problem.jobs})
    return tuple(_block(problem, rollout_pool, train_pool) for rollout_pool, train_pool in pairs)


def _block(problem: ColocationProblem, rollout_pool: int, train_pool: int) -> Block:
    chosen = [(k, job) for k, job in enumerate(problem.jobs) if (job.rollout_pool, job.train_pool) == (rollout_pool, train_pool)]
    chosen.sort(key=lambda item: (item[1].tolerable_s, item[0]))
    jobs = [job for _, job in chosen]
    rollout, train = problem.pools[rollout_pool], problem.pools[train_pool]
    unit, whole = cost_unit(problem), problem.cost_unit() is not None
    prices = [pool.price_per_node_h / unit for pool in (rollout, train)]
    rollout_price, train_price = (float(round(price)) if whole else price for price in prices)
    demand = np.array([job.rollout_nodes for job in jobs], dtype=np.int32)
    train_nodes, train_class = np.unique(np.array([job.train_nodes for job in jobs], dtype=np.int32), return_inverse=True)
    widest = int(np.sort(demand)[::-1][: problem.max_group_size].sum())
    most = widest if rollout.nodes is None else min(widest, rollout.nodes)
    return Block(
        rollout_pool,
        train_pool,
        np.array([k for k, _ in chosen], dtype=np.int32),
        np.array([job.rollout_s for job in jobs]),
        np.array([job.train_s for job in jobs]),
        np.array([job.solo_s for job in jobs]),
        np.array([job.tolerable_s for job in jobs]) * (1 + REL_TOL),
        np.array([job.rollout_memory_gib for job in jobs]),
        np.array([job.train_memory_gib for job in jobs]),
        demand,
        train_class.astype(np.int32),
        train_nodes,
        rollout.memory_gib * (1 + REL_TOL),
        train.memory_gib * (1 + REL_TOL),
        rollout_price,
        train_price,
        problem.max_group_size,
        max(most, int(demand.max())),
    )
