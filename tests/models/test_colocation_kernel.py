"""The searches for groups of least reduced cost against the list of all feasible groups, with and without a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from random import Random

import numpy as np
import pytest

import rollplan
from rollplan.models.colocation.nodes import cover, fitting_sets
from rollplan.models.colocation.pricing.block import Block, Floats, blocks_of
from rollplan.models.colocation.pricing.columns import enumerate_groups
from rollplan.models.colocation.pricing.kernel import Found, Kernel, Rules, never
from rollplan.models.colocation.pricing.listing import Listing, list_all
from rollplan.models.colocation.pricing.node_count import fewest_nodes, memo_of_counts
from rollplan.models.colocation.problem import ColocationProblem, JobData, NodePool

SEEDS = range(60)
Group = tuple[int, ...]


def fleet(seed: int, size: int, max_group_size: int = 4) -> ColocationProblem:
    """Jobs of which many may share: ties, several nodes, memory that binds, wide jobs now and then."""
    random = Random(f"kernel {seed}")
    ties = random.random() < 0.5
    pools = (NodePool("rollout", 14.8, 1000.0), NodePool("train", 42.24, 1000.0))
    jobs = tuple(
        JobData(
            name=f"job{k}",
            slo=random.choice([1.2, 1.5, 2.0, 3.0]),
            rollout_s=float(random.choice([50, 100, 150])) if ties else round(random.uniform(20, 300), 3),
            train_s=float(random.choice([20, 50, 100])) if ties else round(random.uniform(10, 100), 3),
            rollout_nodes=random.choice([1, 1, 2, 3, 4]),
            train_nodes=random.choice([1, 1, 2, 4]),
            rollout_memory_gib=random.choice([0.0, 200.0, 500.0]),
            train_memory_gib=random.choice([0.0, 250.0, 500.0]),
        )
        for k in range(size)
    )
    return ColocationProblem(pools, jobs, max_group_size)


def all_groups(block: Block) -> dict[Group, tuple[int, int]]:
    """Return every feasible group of a block by brute force: its rollout nodes and the class of its training nodes."""
    found = {}
    for size in range(1, block.max_size + 1):
        for members in combinations(range(len(block)), size):
            chosen, limit = list(members), float(block.limit_s[members[0]])
            if (
                block.solo_s[chosen].max() <= limit
                and block.train_s[chosen].sum() <= limit
                and block.train_gib[chosen].sum() <= block.train_node_gib
            ):
                sets = fitting_sets(block.rollout_s[chosen].tolist(), block.rollout_gib[chosen].tolist(), limit, block.node_gib)
                nodes = len(cover(sets, tuple(block.demand[chosen].tolist())))
                found[members] = (nodes, int(block.train_class[chosen].max()))
    return found


def drawn(seed: int, block: Block) -> tuple[Floats, Floats, Rules]:
    """Return random prices of jobs, costs less random prices of measures, and rules; often without the latter two."""
    random = np.random.default_rng(seed)
    prices = random.uniform(0.5, random.choice([100, 400, 900]), len(block))
    base = block.base() + (random.uniform(-300, 300, block.base().shape) if seed % 2 else 0.0)
    if seed % 3:
        return prices, base, Rules()
    pair, other, third = random.permutation(len(block))[:6].reshape(3, 2)
    triples = np.array([[*pair, other[0]], [*other, third[0]]], dtype=np.int64)
    return prices, base, Rules(pair[None, :], other[None, :], triples, random.uniform(0, 300, 2))


def reduced_costs(groups: dict[Group, tuple[int, int]], prices: Floats, base: Floats, rules: Rules, size: int) -> dict[Group, float]:
    """Return the reduced costs of the groups that the rules allow."""
    found = {}
    for members, (nodes, train_class) in groups.items():
        row = np.array([[*members, *[-1] * (size - len(members))]])
        if rules.allow(row)[0]:
            found[members] = float(base[train_class, nodes] - prices[list(members)].sum() + rules.surcharges(row)[0])
    return found


def by_group(found: Found) -> dict[Group, tuple[int, int, float]]:
    """Return rollout nodes, class and reduced cost of every group found; each must be there once."""
    rows = zip(found.members.tolist(), found.rollout_nodes, found.train_class, found.reduced, strict=True)
    named = {tuple(k for k in row if k >= 0): (int(nodes), int(train), float(reduced)) for row, nodes, train, reduced in rows}
    assert len(named) == len(found)
    return named


def agrees(found: Found, expected: dict[Group, float]) -> bool:
    """Same groups, same reduced costs."""
    named = by_group(found)
    return named.keys() == expected.keys() and all(abs(named[members][2] - expected[members]) < 1e-6 for members in named)


@pytest.mark.parametrize("threshold", [-1e-6, 0.0, 300.0, 1e9])
def test_enumerate_returns_every_group_below_the_threshold(threshold: float) -> None:
    """The neighbourhood search rests on it: a group that is missing could be part of the best regrouping."""
    wrong = []
    for seed in SEEDS:
        block = blocks_of(fleet(seed, 9))[0]
        prices, base, rules = drawn(seed, block)
        found = Kernel(block).enumerate(np.arange(len(block)), prices, base, threshold, rules)
        costs = reduced_costs(all_groups(block), prices, base, rules, block.max_size)
        assert found is not None
        if not agrees(found, {members: cost for members, cost in costs.items() if cost < threshold}):
            wrong.append(seed)
    assert wrong == []


def test_enumerate_inside_a_subset_returns_the_groups_inside_it() -> None:
    """And names them by their places in the block."""
    wrong = []
    for seed in SEEDS:
        block = blocks_of(fleet(seed, 9))[0]
        prices, base, rules = drawn(seed, block)
        places = np.sort(np.random.default_rng(seed).permutation(9)[:6])
        found = Kernel(block).enumerate(places, prices, base, 200.0, rules)
        costs = reduced_costs(all_groups(block), prices, base, rules, block.max_size)
        inside = {members: cost for members, cost in costs.items() if cost < 200.0 and set(members) <= set(places.tolist())}
        assert found is not None
        if not rules.together.size and not agrees(found, inside):
            wrong.append(seed)
    assert wrong == []


@pytest.mark.parametrize("threads", [1, 2])
def test_price_returns_the_best_groups_of_every_leader(threads: int) -> None:
    """Least reduced costs prove bounds, so that one too high is a wrong proof."""
    wrong = []
    for seed in SEEDS:
        block = blocks_of(fleet(seed, 10))[0]
        prices, base, rules = drawn(seed, block)
        priced = Kernel(block, threads).price(prices, base, -1e-6, 3, rules)
        costs = reduced_costs(all_groups(block), prices, base, rules, block.max_size)
        for leader in range(len(block)):
            expected = sorted(cost for members, cost in costs.items() if members[0] == leader and cost < -1e-6)[:3]
            got = sorted(priced.found.reduced[priced.found.members[:, 0] == leader])
            if not np.allclose(expected, got) or abs(priced.least[leader] - min([0.0, *expected])) > 1e-6:
                wrong.append((seed, leader))
        assert priced.complete
    assert wrong == []


def test_corrected_groups_are_priced_with_their_true_nodes() -> None:
    """A timetable may need a node more than the closed form, or there may be none at all."""
    wrong = []
    for seed in SEEDS:
        block = blocks_of(fleet(seed, 8))[0]
        prices, base, rules = drawn(seed, block)
        groups, kernel = all_groups(block), Kernel(block)
        for number, members in enumerate([members for members in groups if len(members) > 1][::2]):
            nodes, train_class = groups.pop(members)
            if number % 3 and nodes + 1 <= block.most_nodes:
                groups[members] = (nodes + 1, train_class)
                kernel.correct(members, nodes + 1)
            else:
                kernel.correct(members, None)
        expected = reduced_costs(groups, prices, base, rules, block.max_size)
        found = kernel.enumerate(np.arange(len(block)), prices, base, 100.0, rules)
        assert found is not None
        if not agrees(found, {members: cost for members, cost in expected.items() if cost < 100.0}):
            wrong.append(seed)
    assert wrong == []


def test_listing_and_kernel_price_alike() -> None:
    """Which of the two a fleet gets is a matter of time, never of the answer."""
    wrong = []
    for seed in SEEDS:
        problem = fleet(seed, 10)
        block = blocks_of(problem)[0]
        prices, base, rules = drawn(seed, block)
        listing = Listing.of_columns(block, enumerate_groups(problem, lambda: None))
        one, other = listing.price(prices, base, -1e-6, 3, rules), Kernel(block).price(prices, base, -1e-6, 3, rules)
        if not np.allclose(one.least, other.least) or by_group(one.found).keys() != by_group(other.found).keys():
            wrong.append(seed)
    assert wrong == []


def test_the_compiled_list_is_the_list_of_all_groups() -> None:
    """And says when there are more than asked for."""
    for seed in range(20):
        block = blocks_of(fleet(seed, 10))[0]
        listing, groups = list_all(Kernel(block), 100_000, never()), all_groups(block)
        assert listing is not None
        named = {tuple(k for k in row if k >= 0): n for row, n in zip(listing.members.tolist(), listing.nodes.tolist(), strict=True)}
        assert named == {members: nodes for members, (nodes, _) in groups.items()}
        assert list_all(Kernel(block), len(block) // 2, never()) is None


def test_node_counts_equal_the_cover() -> None:
    """Groups of up to six jobs, wide ones included: exact, or a lower bound that says so."""
    wrong, bounded = [], 0
    memo = memo_of_counts()
    for seed in range(1500):
        random = Random(seed)
        size, widest = random.randint(1, 6), random.choice([3, 4, 9])
        rollout = [random.choice([30.0, 50.0, 80.0]) if random.random() < 0.5 else random.uniform(10, 100) for _ in range(size)]
        memory = [random.choice([0.0, 200.0, 400.0]) for _ in range(size)]
        demand, limit = [random.randint(1, widest) for _ in range(size)], random.choice([100.0, 150.0, 200.0])
        arrays = np.array(rollout), np.array(memory), np.array(demand)
        counted = fewest_nodes(size, *arrays, limit * (1 + 1e-9), 800 * (1 + 1e-9), *memo)
        needed = len(cover(fitting_sets(rollout, memory, limit, 800.0), tuple(demand)))
        bounded += counted < 0
        if counted != needed and not (counted < 0 and -counted <= needed):
            wrong.append((rollout, memory, demand, limit, counted, needed))
    assert wrong == []
    assert bounded < 50


def test_wide_groups_are_counted_exactly_in_the_end() -> None:
    """Lower bounds on nodes are replaced before a group is returned."""
    jobs = tuple(JobData(f"job{k}", 3.0, 100.0, 20.0, rollout_nodes=20 + 7 * k) for k in range(5))
    block = blocks_of(ColocationProblem((NodePool("rollout", 1.0, 0.0), NodePool("train", 30.0, 0.0)), jobs))[0]
    found = Kernel(block).enumerate(np.arange(5), np.zeros(5), block.base(), 1e9)
    groups = all_groups(block)
    assert found is not None
    assert {members: nodes for members, (nodes, _, _) in by_group(found).items()} == {m: nodes for m, (nodes, _) in groups.items()}


def test_a_search_that_is_stopped_or_has_no_work_left_is_not_complete() -> None:
    """Its least reduced costs prove nothing, and it says so."""
    block = blocks_of(fleet(3, 12))[0]
    stopped = never()
    stopped[0] = 1
    prices = np.full(len(block), 900.0)
    assert not Kernel(block).price(prices, block.base(), stop=stopped).complete
    assert not Kernel(block).price(prices, block.base(), budget=1).complete
    assert Kernel(block).price(prices, block.base()).complete


def test_the_same_answers_without_a_compiler() -> None:
    """The core install has none: the same functions run as they stand."""
    script = (
        "import numpy as np; from tests.models.test_colocation_kernel import *; from rollplan.models.compiled import HAVE_COMPILER\n"
        "for seed in range(6):\n"
        "    block = blocks_of(fleet(seed, 8))[0]; prices, base, rules = drawn(seed, block)\n"
        "    priced = Kernel(block).price(prices, base, -1e-6, 3, rules)\n"
        "    print(HAVE_COMPILER, priced.found.members.tolist(), priced.found.rollout_nodes.tolist(), priced.found.reduced.tolist())\n"
    )
    answers = []
    for blocked in ("", "import sys; sys.modules['numba'] = None\n"):
        root = Path(rollplan.__file__).parent.parent
        run = subprocess.run(
            [sys.executable, "-c", blocked + script], capture_output=True, text=True, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}
        )
        assert run.returncode == 0, run.stderr
        answers.append(run.stdout)
    assert "False" in answers[1]
    assert answers[1].replace("False", "True") == answers[0]
