"""Dispatch for a job of a scenario: the batch, the instances and the engine are those of its plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rollplan import InputError, Scenario, plan
from rollplan.models.certified import Limits
from rollplan.models.dispatch.verify import verify
from rollplan.models.errors import InfeasibleError
from rollplan.models.lengths.sampling import stratified
from rollplan.planner.dispatch.job import dispatch_job

POOL = "h100: {gpu: H100, nodes: 1, price: 3 $/h, memory: 1 TB}"


def scenario(split: str = "", workload: str = "prompts: 16, samples_per_prompt: 4") -> Scenario:
    """Return one job with a model whose plan rolls out on several instances."""
    return Scenario.from_yaml(
        f"""\
name: batch
pools: {{{POOL}}}
jobs:
  - name: grpo
    split:
      model: Qwen3-0.6B
      workload: {{{workload}, prompt_tokens: 256, lengths: {{mean: 700, sigma: 0.8, limit: 4096}}}}
      engine: {{tp: [1], max_num_seqs: 8}}
      {split}
"""
    )


@pytest.fixture(scope="module")
def made() -> Any:
    """The dispatch of the plain scenario."""
    return dispatch_job(scenario())


def test_it_dispatches_the_plans_batch_on_the_plans_instances(made: Any) -> None:
    """The same typical batch, in the layout and the engine that `split` chose."""
    asked = scenario()
    (split,) = plan(asked).splits
    workload = asked.jobs[0].split.workload
    assert workload is not None
    problem = made.problem
    assert f"dp{problem.instances}" == split.choice.rollout_layout
    assert problem.instances > 1
    assert (made.job, made.pool, made.layout) == ("grpo", split.choice.rollout_pool, "dp1")
    assert np.array_equal(np.sort(problem.output_tokens), np.sort(stratified(workload.law(), workload.samples)))
    assert set(problem.prompt_tokens.tolist()) == {256}
    assert problem.admission.slots == 8


def test_the_dispatch_is_verified_and_bounded(made: Any) -> None:
    """Every sample once, its makespan right, and no dispatch can be faster than the bound."""
    assert verify(made.problem, made.found.solution) == ()
    assert made.found.bound.value <= made.found.value
    assert made.found.value == pytest.approx(made.found.solution.makespan_s)


def test_no_candidate_is_expected_to_be_faster_than_the_one_taken(made: Any) -> None:
    """All methods stand beside it, the naive one among them."""
    expected = {tried.name: tried.expected_s for tried in made.candidates if tried.expected_s is not None}
    assert {"even", "improved"} <= expected.keys()
    assert made.found.value == pytest.approx(min(expected.values()))


def test_the_number_of_instances_can_be_chosen() -> None:
    """What if I had fewer, or one for each sample?"""
    found = {count: dispatch_job(scenario(), instances=count) for count in (1, 3, 64)}
    assert {count: dispatched.problem.instances for count, dispatched in found.items()} == {1: 1, 3: 3, 64: 64}
    assert found[1].found.value > found[3].found.value >= found[64].found.value


@pytest.mark.parametrize("instances", [0, -1, 65, 10**9])
def test_instances_that_would_have_nothing_to_do_are_refused(instances: int) -> None:
    """At once: a billion of them would not fit into this computer's memory either."""
    with pytest.raises(InputError, match=f"instances = `{instances}`: is not a number of instances for 64 samples; choose 1 to 64"):
        dispatch_job(scenario(), instances=instances)


def test_a_ranker_that_errs_is_expected_to_be_slower() -> None:
    """Recall below 1 exchanges long and short; the naive dispatch does not look at lengths, so it loses nothing of its own."""
    sure, unsure = dispatch_job(scenario(), recall=1.0), dispatch_job(scenario(), recall=0.0)
    best = [min(tried.expected_s for tried in found.candidates if tried.expected_s is not None) for found in (sure, unsure)]
    assert best[0] < best[1]


def test_the_same_seed_gives_the_same_dispatch() -> None:
    """Nothing depends on the clock."""
    first, second = (dispatch_job(scenario(), recall=0.5, seed=3) for _ in range(2))
    assert first.found.solution == second.found.solution
    assert first.candidates == second.candidates


def test_no_time_at_all_still_gives_a_dispatch() -> None:
    """The heuristics need none."""
    found = dispatch_job(scenario(), limits=Limits(0.0))
    assert verify(found.problem, found.found.solution) == ()


def test_exact_is_refused_where_it_cannot_be_had() -> None:
    """The latency of a real engine is a table, the exact search needs a line, or very few samples."""
    with pytest.raises(ValueError, match="exact dispatch of 64 requests"):
        dispatch_job(scenario(), method="exact")


def test_exact_proves_a_small_batch() -> None:
    """Eight samples can be enumerated."""
    found = dispatch_job(scenario(workload="prompts: 8"), instances=2, method="exact")
    assert found.found.stopped == "optimal"
    assert found.found.gap == pytest.approx(0)
    assert found.found.value <= dispatch_job(scenario(workload="prompts: 8"), instances=2).found.value * (1 + 1e-9)


def test_a_job_that_is_not_there_is_refused() -> None:
    """With the ones that are."""
    with pytest.raises(InputError, match="job = `sft`: has no `model` and `workload`; choose from grpo"):
        dispatch_job(scenario(), "sft")


def test_the_job_must_be_chosen_where_several_have_a_model() -> None:
    """Two jobs have two batches."""
    jobs = [
        f"  - {{name: {name}, split: {{budget: {{h100: 8}}, model: Qwen3-0.6B, workload: {{prompts: {prompts}, lengths: 7B-8k}}}}}}"
        for name, prompts in (("a", 8), ("b", 12))
    ]
    two = Scenario.from_yaml("\n".join(["name: two", f"pools: {{{POOL.replace('nodes: 1', 'nodes: 2')}}}", "jobs:", *jobs]))
    with pytest.raises(InputError, match="has 2 jobs with a `model`; choose one with --job: a, b"):
        dispatch_job(two)
    assert [len(dispatch_job(two, job).problem) for job in ("a", "b")] == [8, 12]


def test_a_scenario_without_a_model_has_no_batch() -> None:
    """Tables say how long a batch takes, not what is in it."""
    text = f"name: tables\npools: {{{POOL}}}\njobs: [{{name: x, split: {{rollout: {{h100: {{1: 9 s}}}}, train: {{h100: {{1: 9 s}}}}}}}}]"
    with pytest.raises(InputError, match="has 0 jobs with a `model`; give a job a `split` with `model` and `workload`"):
        dispatch_job(Scenario.from_yaml(text))


def test_a_measured_number_of_gpus_without_a_layout_is_refused_with_the_way_out() -> None:
    """Its time is known, its instances are not."""
    measured = scenario("rollout: {h100: {1: 90 s, 2: 90 s, 3: 1 s, 4: 90 s}}", workload="prompts: 2")
    with pytest.raises(InputError, match="rolls out on 3 GPUs, for which a time was measured, but no layout is known; leave 3 out of"):
        dispatch_job(measured)


def test_a_job_without_any_plan_says_why() -> None:
    """As `plan` does."""
    large = scenario().content()
    large["jobs"][0]["split"]["model"] = "Qwen2.5-72B"
    with pytest.raises(InfeasibleError, match="fit on no number of GPUs within the budget"):
        dispatch_job(Scenario.from_dict(large))


def test_without_a_ranker_requests_are_spread_at_random_in_equal_shares() -> None:
    """Nothing else can be done without lengths; the bound stands all the same."""
    found = dispatch_job(scenario(), recall=None)
    sizes = [len(order) for order in found.found.solution.orders]
    assert [tried.name for tried in found.candidates] == ["even"]
    assert max(sizes) - min(sizes) <= 1
    assert found.recall is None
    assert verify(found.problem, found.found.solution) == ()
    assert found.found.bound.value == pytest.approx(dispatch_job(scenario()).found.bound.value)


def test_an_exact_search_needs_lengths() -> None:
    """It would find the optimum of lengths that nobody knows."""
    with pytest.raises(InputError, match="needs a ranker of lengths"):
        dispatch_job(scenario(), recall=None, method="exact")
