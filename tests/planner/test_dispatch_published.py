"""P2 dispatch: what StreamRL (arXiv 2504.15930) publishes, and what follows from its figures.

Lengths are the 30 bars of Fig. 7, latency is the curve of Fig. 6 right (7B on H800 by one account, 13B on A100 by
another); both are digitised, to 1-2 % and 0.15 ms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rollplan.models.decode import Admission, Requests, simulate
from rollplan.models.dispatch.problem import DispatchProblem
from rollplan.models.dispatch.recall import RANKER_RECALL, with_recall
from rollplan.models.dispatch.solution import scored
from rollplan.models.latency import AffineLatency, FloatArray, IntArray, TableLatency
from rollplan.models.rounds import rounds_seconds
from rollplan.planner.dispatch.deal import even, in_turn, longest_first
from rollplan.planner.dispatch.skewness import Objective, choose, classes, skewness_aware
from rollplan.planner.dispatch.solve import candidates, solve

FIG6 = TableLatency.of_batch({1: 8.40, 2: 8.75, 4: 8.95, 8: 9.05, 16: 9.45, 32: 10.3, 64: 11.7, 128: 15.25, 256: 21.4, 512: 36.85})
# fmt: off
FIG7 = [.1253, .1694, .1213, .1165, .0771, .0616, .0528, .0302, .0333, .0212, .0153, .0222, .0153, .0047, .0073,
        .0038, .0066, .0028, .0127, .0078, .0078, .0193, .0059, .0071, .0080, .0104, .0090, .0106, .0059, .0087]
# fmt: on


def quantiles(shares: FloatArray) -> IntArray:
    """Return lengths in tokens at these shares of Fig. 7, linear within its bars."""
    edges = np.linspace(818.5, 19928.8, len(FIG7) + 1)
    rising = np.concatenate([[0.0], np.cumsum(FIG7)])
    lengths: IntArray = np.interp(shares, rising / rising[-1], edges).round().astype(np.int64)
    return lengths


def fig7(n: int = 1024) -> IntArray:
    """Return n lengths of Fig. 7, one in the middle of each n-th of the distribution."""
    return quantiles((np.arange(n) + 0.5) / n)


def problem(lengths: Any, instances: int, slots: int = 512, latency: Any = FIG6, **rest: Any) -> DispatchProblem:
    """Return a problem without prompts and with nothing but slots to limit the batch."""
    return DispatchProblem(np.zeros(len(lengths), dtype=int), np.asarray(lengths), instances, Admission(slots), latency, **rest)


def seconds(given: DispatchProblem, orders: list[IntArray]) -> float:
    """Return the makespan of these orders."""
    return scored(given, orders).makespan_s


def test_fig7_has_its_published_quantiles() -> None:
    """P10 1327, P40 2645, P50 3189, P80 6925, P90 12963, P95 16314, P99 19152, mean 4920; the bars sum to 1."""
    assert sum(FIG7) == pytest.approx(1, abs=1e-3)
    published = [1327, 2645, 3189, 6925, 12963, 16314, 19152]
    assert quantiles(np.array([0.1, 0.4, 0.5, 0.8, 0.9, 0.95, 0.99])) == pytest.approx(published, rel=1e-3)
    assert fig7().mean() == pytest.approx(4920, rel=1e-3)


def test_one_request_above_the_cap_does_not_double_the_time() -> None:
    """Eq. 2 at M = 129, cap 128, L = 1000: two rounds of 65 take 23.51 s; as printed, rounds of 128 take 30.5 s."""
    assert rounds_seconds(FIG6, 1000, 129, 128) == pytest.approx(23.51, abs=5e-3)


# The printed objective is a sum, though the classes run side by side.

JOBS = {
    "20,20,4x8": ([20, 20] + [4] * 8, 3),
    "40,5x9": ([40] + [5] * 9, 2),
    "skewed": ([20, 15, 9, 6, 5, 4, 3, 3, 2, 2], 3),
    "10x10 on 2": ([10] * 10, 2),
    "10x10 on 3": ([10] * 10, 3),
    "20,18,...,2": (list(range(20, 0, -2)), 3),
}


@pytest.mark.parametrize(
    ("name", "best_s", "by_sum", "by_max", "dealt"),
    [
        ("20,20,4x8", 40, 1.0, 1.0, 1.300),
        ("40,5x9", 80, 1.0625, 1.0625, 1.250),
        ("skewed", 40, 1.375, 1.075, 1.275),
        ("10x10 on 2", 60, 1.5, 1.5, 1.0),
        ("10x10 on 3", 50, 1.0, 1.0, 1.0),
        ("20,18,...,2", 54, 1.074, 1.074, 1.185),
    ],
)
def test_small_cases_have_their_optimum_and_the_papers_ratios(name: str, best_s: float, by_sum: float, by_max: float, dealt: float) -> None:
    """One round, steps of 1 + B seconds, so that an instance takes max + sum. Computed by branch and bound elsewhere.

    The skewed case: the optimum is [20], [15, 9], [rest] with 40 s; the sum puts 20 and 15 together (55 s), the max apart
    (43 s). The best of all candidates is optimal in five cases of six.
    """
    jobs, instances = JOBS[name]
    given = problem(jobs, instances, latency=AffineLatency(1000.0, 1000.0))
    found = solve(given, "exact")
    assert found.optimal
    assert found.value == pytest.approx(best_s)
    assert seconds(given, skewness_aware(given, "sum")) / best_s == pytest.approx(by_sum, abs=5e-4)
    assert seconds(given, skewness_aware(given, "max")) / best_s == pytest.approx(by_max, abs=5e-4)
    assert seconds(given, in_turn(np.arange(len(jobs)), instances)) / best_s == pytest.approx(dealt, abs=5e-4)
    assert solve(given).value / best_s == pytest.approx(1.037 if name == "20,18,...,2" else 1.0, abs=5e-4)


@pytest.mark.parametrize(
    ("cap", "instances", "by_sum", "by_max", "ratio"),
    [
        (24, 4, 2, 2, 1.0),
        (48, 4, 2, 2, 1.0),
        (96, 4, 3, 2, 1.107),
        (96, 8, 3, 5, 1.115),
        (96, 16, 7, 11, 1.061),
        (128, 4, 2, 2, 1.0),
        (128, 8, 4, 4, 1.0),
        (128, 16, 8, 12, 1.050),
        (256, 8, 4, 6, 1.057),
        (512, 8, 4, 6, 1.072),
        (512, 16, 8, 14, 1.062),
    ],
)
def test_sum_and_max_choose_these_tail_instances(cap: int, instances: int, by_sum: int, by_max: int, ratio: float) -> None:
    """Fig. 7 lengths, Eq. 2 as printed: instances of the tail by either objective, and the makespan of sum over max by Eq. 2.

    The ratios were computed from 1,024 random lengths, ours are evenly spaced: they agree to 0.003.
    """
    given = problem(fig7(), instances, cap)
    chosen = {objective: choose(given, objective) for objective in ("sum", "max")}
    assert (chosen["sum"].tail_instances, chosen["max"].tail_instances) == (by_sum, by_max)
    slowest = {objective: max(split.tail_s, split.regular_s) for objective, split in chosen.items()}
    assert slowest["sum"] / slowest["max"] == pytest.approx(ratio, abs=3e-3)


# When separation loses.


@pytest.mark.parametrize(
    ("n", "instances", "by_sum", "by_max"),
    [
        (128, 2, 1.185, 1.185),
        (512, 2, 1.434, 1.434),
        (512, 4, 1.028, 1.028),
        (1024, 4, 1.051, 1.051),
        (1024, 8, 1.113, 1.028),
        (1024, 16, 1.052, 1.019),
    ],
)
def test_without_a_tail_separation_only_loses(n: int, instances: int, by_sum: float, by_max: float) -> None:
    """Equal lengths: Algorithm 2 has no candidate without separation, and 20 % rarely is N_l / N. `best` stays with even."""
    given = problem([1000] * n, instances)
    equal_s = seconds(given, even(given, 0))
    assert seconds(given, skewness_aware(given, "sum")) / equal_s == pytest.approx(by_sum, abs=5e-4)
    assert seconds(given, skewness_aware(given, "max")) / equal_s == pytest.approx(by_max, abs=5e-4)
    assert solve(given).value == pytest.approx(equal_s)


@pytest.mark.parametrize(("ratio", "saving"), [(1, -13.1), (1.25, 6.0), (1.5, 9.8), (2, 6.6), (3, 3.3), (4, 1.5), (8, -1.2)])
def test_the_gain_of_separation_is_not_monotone_in_skew(ratio: float, saving: float) -> None:
    """Fig. 6 (a) and (b): 64 requests of 1000 tokens and two longer ones on two instances, mixed or apart; per cent saved."""
    long = round(1000 * ratio)
    given = problem([1000] * 64 + [long, long], 2)
    short = np.arange(64)
    mixed = seconds(given, [np.append(short[:32], 64), np.append(short[32:], 65)])
    apart = seconds(given, [np.array([64, 65]), short])
    assert 100 * (1 - apart / mixed) == pytest.approx(saving, abs=0.05)
    assert solve(given).value <= min(mixed, apart) * (1 + 1e-9)
    if ratio == 2:
        assert (mixed, apart) == (pytest.approx(18.74, abs=5e-3), pytest.approx(17.5))


# With as many slots as the KV cache holds sequences of a class.


def with_class_slots(given: DispatchProblem, orders: list[IntArray], slots: list[int]) -> float:
    """Return the makespan where every instance has slots of its own."""
    parts = [Requests(given.prompt_tokens[order], given.output_tokens[order]) for order in orders]
    return simulate(parts, [Admission(count) for count in slots], FIG6).seconds


def separated(given: DispatchProblem, objective: Objective, caps: tuple[int, int]) -> float:
    """Return the makespan of Algorithm 2 with as many slots as each class has room for."""
    tail = choose(given, objective).tail_instances
    return with_class_slots(given, skewness_aware(given, objective), [caps[0]] * tail + [caps[1]] * (given.instances - tail))


@pytest.mark.parametrize(
    ("instances", "caps", "mixed", "lpt", "dealt", "by_sum", "by_max"),
    [
        (4, (37, 140), 94, 0.790, 0.780, 1.300, 0.926),
        (8, (37, 140), 94, 0.932, 0.925, 0.881, 0.881),
        (16, (37, 140), 94, 1.000, 0.990, 0.995, 0.960),
        (4, (74, 280), 188, 0.944, 0.933, 0.850, 0.850),
    ],
)
def test_longest_first_alone_gives_most_where_requests_wait_long(
    instances: int, caps: tuple[int, int], mixed: int, lpt: float, dealt: float, by_sum: float, by_max: float
) -> None:
    """Ratios to random order with 495K (991K) tokens of cache, the ranker right. Agreement to 0.015: those lengths were random.

    The paper has no ablation of LPT without separation; with 4 instances the printed sum makes things worse.
    """
    given = problem(fig7(), instances, mixed, class_caps=caps)
    slots = [mixed] * instances
    shares = [even(given, seed) for seed in range(4)]
    random_s = float(np.mean([with_class_slots(given, orders, slots) for orders in shares]))
    lpt_s = float(np.mean([with_class_slots(given, longest_first(given, orders), slots) for orders in shares]))
    assert lpt_s / random_s == pytest.approx(lpt, abs=0.015)
    assert with_class_slots(given, in_turn(np.arange(1024)[::-1], instances), slots) / random_s == pytest.approx(dealt, abs=0.015)
    assert separated(given, "sum", caps) / random_s == pytest.approx(by_sum, abs=0.015)
    assert separated(given, "max", caps) / random_s == pytest.approx(by_max, abs=0.015)


def test_the_tail_share_hardly_matters_between_10_and_30_per_cent() -> None:
    """StreamRL takes 20 %. 8 instances, 495K tokens: .87 to .92 of random order between 10 and 30 %, .97 at 5 %.

    Elsewhere .856 to .901 and .957 were found; how prompts and lengths were drawn there is not said, the shape is the same.
    """
    found = {}
    for share in (0.05, 0.10, 0.15, 0.20, 0.25, 0.30):
        cached = DispatchProblem(np.full(1024, 340), fig7(), 8, Admission(1024, 495_000), FIG6, tail_share=share)
        tail, regular = classes(cached)
        caps = (tail.cap, regular.cap)
        given = problem(fig7(), 8, 94, tail_share=share, class_caps=caps)
        random_s = float(np.mean([with_class_slots(given, even(given, seed), [94] * 8) for seed in range(4)]))
        found[share] = separated(given, "max", caps) / random_s
        if share == 0.20:
            assert caps == (37, 140)
    assert all(0.86 < found[share] < 0.92 for share in found if share != 0.05)
    assert found[0.05] > 0.96


# What the published figures do not have: the best of all, and errors of the ranker.


@pytest.mark.parametrize(("instances", "kv_tokens"), [(4, 495_000), (8, 495_000), (16, 495_000), (16, None)])
def test_the_best_of_all_candidates_is_near_the_bound(instances: int, kv_tokens: int | None) -> None:
    """1,024 requests: within 7 % of what no dispatch can undercut, and at least 9 % faster than random order."""
    lengths = np.random.default_rng(1).permutation(fig7())
    given = DispatchProblem(np.full(1024, 340), lengths, instances, Admission(512, kv_tokens), FIG6)
    found = solve(given)
    assert found.gap < 0.07
    assert found.value < 0.91 * seconds(given, even(given, 0))


def test_a_planner_that_knows_its_rankers_recall_does_not_trust_it_blindly() -> None:
    """Recall .87 (StreamRL Table 4, 7B) misses 27 of the 204 longest; found late in a full batch, one of them costs a lot.

    Trusting the estimates, the best plan looks 10 % faster than random order and is 30 % slower or more. Weighing each
    candidate over what the truth may be, the planner stays near random order. That separation keeps its gain at recall
    .87, as another computation of ours found, is not reproduced: which prompts it exchanged is not recorded.
    """
    exact = DispatchProblem(np.full(1024, 340), fig7(), 16, Admission(512, 495_000), FIG6)
    erring = with_recall(exact, RANKER_RECALL["7B"][0.20], np.random.default_rng(3))
    random_s = solve(erring, "even").value
    assert next(c for c in candidates(erring) if c.name == "improved").expected_s < 0.92 * random_s
    assert solve(erring).value > 1.3 * random_s
    assert solve(erring, recall=0.87).value < 1.03 * random_s
