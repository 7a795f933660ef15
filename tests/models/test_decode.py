"""Continuous batching: the events against an engine that takes one step after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.models.decode import Admission, Policy, Requests, longest_first, segments, simulate
from rollplan.models.latency import AffineLatency, DecodeLatency, TableLatency

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=200)
Rows = list[tuple[int, int, int]]
"""Prompt, output and prefill tokens of each request."""

TABLE = TableLatency(np.array([1, 2, 4]), np.array([0, 8, 32]), np.array([[4.0, 5.0, 7.0], [4.5, 6.5, 8.0], [9.0, 11.0, 20.0]]))


def affine_ms(batch: int, tokens: int) -> float:
    return 4 + 0.75 * batch + 125 * tokens / 1000


def table_ms(batch: int, tokens: int) -> float:
    """The same table, by numpy's interpolation; beyond batch 4 and context 32 the engine below is not asked."""
    rows = [np.interp(tokens / batch, TABLE.contexts, row) for row in TABLE.ms]
    return float(np.interp(batch, TABLE.batches, rows))


LAWS: list[tuple[DecodeLatency, Callable[[int, int], float]]] = [(AffineLatency(4, 0.75, 125), affine_ms), (TABLE, table_ms)]


@dataclass
class Decoding:
    """One request as the engine sees it."""

    index: int
    tokens: int
    left: int
    prefill: int


def engine(
    rows: Rows, admission: Admission, step_ms: Callable[[int, int], float], prefill_s: float
) -> tuple[list[float], int, int, list[int]]:
    """Return seconds at which requests finish, preemptions, most tokens in the cache, and tokens decoded by each request."""
    queue = deque(Decoding(index, prompt, output, prefill) for index, (prompt, output, prefill) in enumerate(rows))
    running: list[Decoding] = []
    finish, decoded = [0.0] * len(rows), [0] * len(rows)
    clock, preempted, peak = 0.0, 0, 0
    budget = admission.kv_tokens or 10**9
    while queue or running:
        while sum(one.tokens + 1 for one in running) > budget:
            victim = running.pop()
            victim.prefill = victim.tokens
            queue.appendleft(victim)
            preempted += 1
        while queue and len(running) < admission.slots:
            ahead = 1 if admission.policy == "preempt" else None
            need = sum(one.tokens + (ahead or one.left) for one in [*running, queue[0]])
            if need > budget:
                break
            clock += prefill_s * queue[0].prefill
            running.append(queue.popleft())
        for one in running:
            one.tokens += 1
            one.left -= 1
            decoded[one.index] += 1
        tokens = sum(one.tokens for one in running)
        peak = max(peak, tokens)
        clock += step_ms(len(running), tokens) / 1000
        for one in running:
            if one.left == 0:
                finish[one.index] = clock
        running = [one for one in running if one.left]
    return finish, preempted, peak, decoded


def requests_of(rows: Rows) -> Requests:
    prompts, outputs, prefills = (np.array([row[column] for row in rows], dtype=np.int64) for column in range(3))
    return Requests(prompts, outputs, prefills)


@st.composite
def instances(draw: st.DrawFn, most: int = 12) -> Rows:
    """Requests of at most 8 + 24 tokens, with part of their prompt in the prefix cache."""
    rows = draw(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 24), st.floats(0, 1)), max_size=most))
    return [(prompt, output, round(share * prompt)) for prompt, output, share in rows]


def budgets(draw: st.DrawFn, rows: Rows) -> int:
    least = max((prompt + output for prompt, output, _ in rows), default=1)
    return draw(st.integers(least, 3 * least + 10))


POLICIES: list[Policy] = ["reserve", "preempt"]


@pytest.mark.parametrize("law", LAWS, ids=["affine", "table"])
@REPEATABLE
@given(st.data())
def test_with_slots_alone_every_request_finishes_when_the_engine_finishes_it(
    law: tuple[DecodeLatency, Callable[[int, int], float]], data: st.DataObject
) -> None:
    """Seconds of stretches are closed forms; the engine adds up steps."""
    rows = data.draw(instances())
    admission = Admission(data.draw(st.integers(1, 4)))
    latency, step_ms = law
    finish, _, _, _ = engine(rows, admission, step_ms, 0.003)
    assert simulate([requests_of(rows)], admission, latency, 0.003).finish_s == pytest.approx(np.array(finish), rel=1e-9)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("law", LAWS, ids=["affine", "table"])
@REPEATABLE
@given(st.data())
def test_with_a_token_budget_every_request_finishes_when_the_engine_finishes_it(
    law: tuple[DecodeLatency, Callable[[int, int], float]], policy: Policy, data: st.DataObject
) -> None:
    """Both rules of admission, with prefill, recomputed prefill after preemption, and the same number of preemptions."""
    rows = data.draw(instances())
    admission = Admission(data.draw(st.integers(1, 4)), budgets(data.draw, rows), policy)
    latency, step_ms = law
    finish, preempted, _, _ = engine(rows, admission, step_ms, 0.003)
    found = simulate([requests_of(rows)], admission, latency, 0.003)
    assert found.finish_s == pytest.approx(np.array(finish), rel=1e-9)
    assert found.preempted == preempted


@REPEATABLE
@given(st.data())
def test_preemption_decodes_every_token_once_and_never_fills_more_than_the_cache(data: st.DataObject) -> None:
    """From the segments alone: tokens kept over a preemption come back as prefill, at every step the budget holds."""
    rows = data.draw(instances(most=16))
    admission = Admission(data.draw(st.integers(1, 6)), budgets(data.draw, rows), "preempt")
    found = segments(requests_of(rows), admission)
    kept, entries = [prompt for prompt, _, _ in rows], [0] * len(rows)
    in_use, batch = np.zeros(found.steps, dtype=np.int64), np.zeros(found.steps, dtype=np.int64)
    for index, start, end, kv_start, prefill in zip(found.request, found.start, found.end, found.kv_start, found.prefill, strict=True):
        assert start < end
        assert (kv_start, prefill) == (kept[index], rows[index][2] if entries[index] == 0 else kept[index])
        kept[index] += end - start
        entries[index] += 1
        in_use[start:end] += kv_start + np.arange(1, end - start + 1)
        batch[start:end] += 1
    assert kept == [prompt + output for prompt, output, _ in rows]
    assert sum(entries) == len(rows) + found.preempted
    assert in_use.max(initial=0) <= (admission.kv_tokens or 0)
    assert batch.max(initial=0) <= admission.slots
    assert batch.min(initial=1) >= 1


@pytest.mark.parametrize("policy", POLICIES)
@REPEATABLE
@given(st.data())
def test_a_budget_for_the_largest_requests_of_all_slots_changes_nothing(policy: Policy, data: st.DataObject) -> None:
    """Neither rule may hold anybody back then; checked with the engine, because the events take a short cut there."""
    rows = data.draw(instances())
    slots = data.draw(st.integers(1, 4))
    largest = sum(sorted((prompt + output for prompt, output, _ in rows), reverse=True)[:slots])
    free, bound = Admission(slots), Admission(slots, max(largest, 1), policy)
    found = simulate([requests_of(rows)], bound, LAWS[0][0])
    assert np.array_equal(found.finish_s, simulate([requests_of(rows)], free, LAWS[0][0]).finish_s)
    assert engine(rows, bound, affine_ms, 0.0)[:2] == engine(rows, free, affine_ms, 0.0)[:2]
    assert found.preempted == 0


def test_the_engine_rule_in_a_case_by_hand() -> None:
    """Cache of 6, two prompts of 1: after 2 steps it is full, the second is thrown out and comes back when the first is done."""
    found = segments(Requests(np.array([1, 1]), np.array([4, 4])), Admission(2, 6, "preempt"))
    rows = zip(found.request, found.start, found.end, found.kv_start, found.prefill, strict=True)
    assert [tuple(map(int, row)) for row in rows] == [(1, 0, 2, 1, 1), (0, 0, 4, 1, 1), (1, 4, 6, 3, 3)]
    assert found.preempted == 1


def test_reserving_waits_where_engines_start_and_throw_out() -> None:
    """The same two requests need 5 tokens each at the end; 6 are enough for one."""
    found = segments(Requests(np.array([1, 1]), np.array([4, 4])), Admission(2, 6, "reserve"))
    assert (found.start.tolist(), found.end.tolist(), found.preempted) == ([0, 4], [4, 8], 0)


@REPEATABLE
@given(st.data())
def test_several_instances_at_once_are_each_alone(data: st.DataObject) -> None:
    """One time axis holds them all; nothing of one may leak into the next, also not out of an empty one."""
    parts = data.draw(st.lists(instances(most=6), min_size=1, max_size=5))
    rules = [Admission(data.draw(st.integers(1, 4)), budgets(data.draw, rows), data.draw(st.sampled_from(POLICIES))) for rows in parts]
    latency = data.draw(st.sampled_from([law for law, _ in LAWS]))
    together = simulate([requests_of(rows) for rows in parts], rules, latency, 0.003)
    alone = [simulate([requests_of(rows)], rule, latency, 0.003) for rows, rule in zip(parts, rules, strict=True)]
    assert together.finish_s == pytest.approx(np.concatenate([one.finish_s for one in alone]), rel=1e-9)
    assert together.instance_s == pytest.approx(np.array([one.seconds for one in alone]), rel=1e-9)
    assert together.seconds == pytest.approx(max(one.seconds for one in alone), rel=1e-9)
    assert together.preempted == sum(one.preempted for one in alone)


@REPEATABLE
@given(instances(), st.integers(1, 5), st.integers(1, 20), st.integers(0, 8))
def test_an_affine_latency_without_context_takes_a_times_makespan_plus_c_times_all_tokens(
    rows: Rows, slots: int, fixed_ms: int, per_sequence_ms: int
) -> None:
    """Every step costs a, every token c; so the order matters through the last step alone."""
    requests, admission = requests_of(rows), Admission(slots)
    tokens = sum(output for _, output, _ in rows)
    expected_ms = fixed_ms * segments(requests, admission).steps + per_sequence_ms * tokens
    found = simulate([requests], admission, AffineLatency(fixed_ms, per_sequence_ms))
    assert found.seconds == pytest.approx(expected_ms / 1000)


def test_nothing_to_generate_takes_no_time() -> None:
    """No instance, an instance without requests, and one between two others."""
    none, one = requests_of([]), requests_of([(3, 5, 3)])
    for policy in POLICIES:
        assert simulate([], Admission(2, 9, policy), LAWS[0][0]).seconds == 0
        assert simulate([none], Admission(2, 9, policy), LAWS[0][0]).instance_s.tolist() == [0]
        found = simulate([one, none, one], Admission(2, 9, policy), LAWS[0][0], 0.1)
        assert found.instance_s.tolist() == pytest.approx([found.seconds, 0, found.seconds])
        assert found.finish_s.shape == (2,)


def test_one_request_takes_its_prefill_and_its_steps() -> None:
    """3 * 0.1 s, then 5 steps of 4.75 ms and 0.125 ms for each of 4, 5, 6, 7, 8 tokens."""
    found = simulate([requests_of([(3, 5, 3)])], Admission(1), LAWS[0][0], 0.1)
    assert found.seconds == pytest.approx(0.3 + (5 * 4.75 + 0.125 * 30) / 1000)


@pytest.mark.parametrize(("slots", "budget"), [(1, None), (256, None), (256, 2**20)])
def test_a_hundred_thousand_long_requests_do_not_overflow(slots: int, budget: int | None) -> None:
    """32,768 tokens each, 3.3 * 10^9 in all: compared with whole numbers of any size."""
    count, length, width = 100_000, 32_768, min(slots, (budget or 2**60) // 32_768)
    rounds, rest = divmod(count, width)
    requests = Requests(np.zeros(count, dtype=np.int64), np.full(count, length))
    found = simulate([requests, requests], Admission(slots, budget), AffineLatency(4, 2, 1))
    context_ns = 1000 * count * length * (length + 1) // 2
    expected_ns = 4 * 10**6 * (rounds + (rest > 0)) * length + 2 * 10**6 * count * length + context_ns
    assert found.instance_s == pytest.approx(np.full(2, expected_ns / 10**9), rel=1e-9)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_request_that_can_never_fit_is_refused(policy: Policy) -> None:
    """Otherwise it would wait for ever."""
    with pytest.raises(ValueError, match="request 1 needs 11 tokens of KV cache, the instance has 10"):
        segments(requests_of([(1, 2, 1), (8, 3, 8)]), Admission(4, 10, policy))


@REPEATABLE
@given(instances(), st.integers(0, 99))
def test_longest_first_sorts_and_keeps_the_order_of_equals(rows: Rows, seed: int) -> None:
    """By the predictor's estimate if there is one, also an unsigned one."""
    estimates = np.random.default_rng(seed).integers(0, 4, len(rows))
    order = sorted(range(len(rows)), key=lambda index: (-estimates[index], index))
    for given_as in (np.int64, np.uint32):
        found = longest_first(requests_of(rows), estimates.astype(given_as))
        assert list(zip(found.prompt_tokens, found.output_tokens, found.prefill_tokens, strict=True)) == [rows[index] for index in order]
    oracle = longest_first(requests_of(rows))
    assert oracle.output_tokens.tolist() == sorted((output for _, output, _ in rows), reverse=True)


def test_a_request_without_prefill_tokens_computes_its_prompt() -> None:
    """No prefix cache."""
    assert segments(Requests(np.array([7]), np.array([2])), Admission(1)).prefill.tolist() == [7]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Requests(np.array([1]), np.array([0])), "output_tokens must be at least 1, got 0"),
        (lambda: Requests(np.array([-1]), np.array([1])), "prompt_tokens must be at least 0, got -1"),
        (lambda: Requests(np.array([1, 2]), np.array([1])), "prompt_tokens must have one value per request"),
        (lambda: Requests(np.array([1]), np.array([1]), np.array([-3])), "prefill_tokens must be at least 0, got -3"),
        (lambda: Requests(np.array([1]), np.array([1.5])), "output_tokens must be whole numbers, got float64"),
        (lambda: Admission(0), "slots must be at least 1, got 0"),
        (lambda: Admission(1, 0), "kv_tokens must be at least 1, got 0"),
        (lambda: Admission(1, 9, "evict"), "policy must be one of reserve, preempt, got evict"),
        (lambda: simulate([], Admission(1), LAWS[0][0], -0.1), "prefill_s_per_token must be finite and at least 0"),
        (lambda: longest_first(requests_of([(1, 1, 1)]), np.array([1, 2])), "estimated_tokens must have one value per request"),
        (lambda: simulate([requests_of([])], [Admission(1)] * 2, LAWS[0][0]), "shorter|longer"),
    ],
)
def test_what_cannot_be_is_refused(build: Callable[[], object], message: str) -> None:
    """With the field, its limit and what was given."""
    with pytest.raises(ValueError, match=message):
        build()


def test_instances_may_have_rules_of_their_own() -> None:
    """Instances on GPUs of different memory."""
    rows: Sequence[Requests] = [requests_of([(0, 4, 0)] * 4)] * 2
    found = simulate(rows, [Admission(4), Admission(1)], AffineLatency(1000))
    assert found.instance_s.tolist() == [4, 16]
