"""Does it fit? The bill of a job's layouts is the one that the plan shows, and what does not fit says what would."""

from __future__ import annotations

import pytest

from rollplan import InputError, Scenario, plan
from rollplan.models.layout import Layout
from rollplan.models.memory.bill import bill
from rollplan.models.plan_split import MemoryUse
from rollplan.models.reference.gpus import gpu
from rollplan.planner.fit import Fit, fit


def scenario(
    split: str = "", pools: str = "h100: {gpu: H100, nodes: 1, price: 3 $/h, memory: 1 TB}", model: str = "Qwen3-0.6B"
) -> Scenario:
    """Return one job with a model, and more lines of its split."""
    return Scenario.from_yaml(
        f"""\
name: memory
pools: {{{pools}}}
jobs:
  - name: grpo
    split:
      model: {model}
      workload: {{prompts: 16, samples_per_prompt: 4, prompt_tokens: 256, lengths: {{mean: 700, sigma: 0.8, limit: 4096}}}}
      {split}
"""
    )


TWO_POOLS = (
    "h20: {role: rollout, gpu: H20, nodes: 1, price: 2 $/h, memory: 1 TB}, "
    "h800: {role: train, gpu: H800, nodes: 1, price: 5 $/h, memory: 1 TB}"
)


def uses(found: Fit) -> dict[tuple[str, str], float]:
    """Return GiB of every peak, by who and where."""
    return {(" ".join(peak.roles), peak.where): peak.gib for peak in (*found.bill.peaks, *found.bill.host_peaks)}


def planned(memory: tuple[MemoryUse, ...]) -> dict[tuple[str, str], float]:
    """Return the same of a plan."""
    return {(" ".join(use.roles), use.where): use.gib for use in memory}


@pytest.mark.parametrize("pools", ["h100: {gpu: H100, nodes: 1, price: 3 $/h, memory: 1 TB}", TWO_POOLS])
@pytest.mark.parametrize("split", ["", "trainer: {critic: true}", "trainer: {lora_rank: 8}", "trainer: {optimizer_on_host: true}"])
def test_without_layouts_it_is_the_memory_of_the_plan(pools: str, split: str) -> None:
    """The verb explains what `plan` shows in one line, GPU by GPU."""
    asked = scenario(split, pools)
    (made,) = plan(asked).splits
    found = fit(asked)
    assert made.choice.mode == "separate"
    assert {key: gib for key, gib in uses(found).items() if key[1] == "gpu"} == pytest.approx(
        {key: gib for key, gib in planned(made.memory).items() if key[1] == "gpu"}
    )
    assert str(found.setup.roles["rollout"].layout) == made.choice.rollout_layout
    assert str(found.setup.roles["train"].layout) == made.choice.train_layout
    assert (found.pools["rollout"], found.pools["train"]) == (made.choice.rollout_pool, made.choice.train_pool)
    assert found.bill.fits
    assert (found.options, found.hopeless) == ((), ())


def test_colocated_is_the_best_plan_in_turn() -> None:
    """Both stages on the same GPUs, as the plan's colocated alternative has them."""
    asked = scenario()
    (made,) = plan(asked).splits
    assert made.colocated is not None
    found = fit(asked, colocated=True)
    layouts = {str(role.layout) for role in (found.setup.roles["rollout"], found.setup.roles["train"])}
    assert layouts == {made.colocated.rollout_layout, made.colocated.train_layout}
    assert len(found.bill.peaks) == 1


def test_asking_for_colocated_never_answers_for_separate() -> None:
    """Where nothing fits in turn, the bill of the simplest layouts in turn says why."""
    asked = scenario(pools="h100: {gpu: H100, nodes: 1, price: 3 $/h, memory: 40 GB}", model="Qwen3-8B")
    (made,) = plan(asked).splits
    assert (made.choice.mode, made.colocated) == ("separate", None)
    found = fit(asked, colocated=True)
    assert len(found.bill.peaks) == 1
    assert not found.bill.fits
    assert found.setup.roles["rollout"].layout.gpus == found.setup.roles["train"].layout.gpus


def test_given_layouts_are_billed_as_they_are() -> None:
    """Also on more GPUs than the pool has, and by the settings of the scenario."""
    found = fit(scenario("engine: {gpu_memory_utilization: 0.5}"), rollout=Layout(tp=2, dp=32), train=Layout(tp=4, pp=2, dp=8))
    assert str(found.setup.roles["rollout"].layout) == "tp2-dp32"
    assert str(found.setup.roles["train"].layout) == "tp4-pp2-dp8"
    assert found.bill.peak("rollout").gib == pytest.approx(40)


@pytest.mark.parametrize(("role", "roles"), [("rollout", {"rollout"}), ("train", {"train", "reference"})])
def test_one_layout_alone_is_one_side_alone(role: str, roles: set[str]) -> None:
    """Who asks about the trainer need not think of the engine."""
    found = fit(scenario(), rollout=Layout(tp=2) if role == "rollout" else None, train=Layout(dp=4) if role == "train" else None)
    assert set(found.setup.roles) == roles


def test_huge_layouts_take_no_time() -> None:
    """A bill is arithmetic, whatever the number of GPUs."""
    assert fit(scenario(), train=Layout(dp=9_999_999)).bill.fits


def test_what_does_not_fit_says_the_smallest_changes_and_each_fits() -> None:
    """An 8B model on one GPU: 16 bytes per parameter are more than it has."""
    found = fit(scenario(model="Qwen3-8B"), train=Layout(dp=1))
    assert not found.bill.fits
    assert "train" in found.sentence
    assert found.options
    assert found.hopeless == ()
    for option in found.options:
        assert option.bill.fits
        assert bill(option.setup, gpu("H100")).fits


def test_a_job_without_any_plan_gets_the_bill_that_excludes_it() -> None:
    """`plan` says infeasible; `fit` says which bytes."""
    found = fit(scenario(model="Qwen2.5-72B"))
    assert not found.bill.fits
    assert any("train" in reason for reason in found.bill.reasons)
    assert found.options


def test_the_fewest_gpus_fit_and_one_fewer_does_not() -> None:
    """By memory alone, on pools of their own and in turn."""
    found = fit(scenario(model="Qwen3-8B"))
    for minimum in (found.minimum.separate, found.minimum.shared):
        assert minimum is not None
        assert bill(minimum, gpu("H100")).fits
    assert found.minimum.separate is not None
    train = found.minimum.separate.roles["train"].layout.gpus
    assert train > 1
    assert not fit(scenario(model="Qwen3-8B"), train=Layout(dp=train - 1)).bill.fits


def test_a_measured_number_of_gpus_without_a_layout_gets_the_simplest_one() -> None:
    """The time of a count that no layout of ours has may be measured and win: there is no layout to bill."""
    asked = scenario("rollout: {h100: {4: 900 s, 6: 1 s}}\n      engine: {tp: [4]}")
    choice = plan(asked).splits[0].choice
    assert (choice.rollout_gpus, choice.rollout_layout) == (6, "")
    assert fit(asked).setup.roles["rollout"].layout == Layout(tp=8)


def test_each_role_lies_on_the_pool_of_its_stage() -> None:
    """Memory is judged against the GPU that is there: 96 GB of an H20, 80 GB of an H800."""
    found = fit(scenario("trainer: {critic: true}", TWO_POOLS))
    assert dict(found.pools) == {"rollout": "h20", "train": "h800", "reference": "h800", "critic": "h800"}
    assert [peak.memory_gib for peak in found.bill.peaks] == [96, 80]


REFUSED = {
    "a degree that does not divide": (
        {"rollout": Layout(tp=3)},
        "layout = `tp3-dp1`: cannot be: tp 3 does not divide the 16 attention heads",
    ),
    "experts of a dense model": ({"train": Layout(ep=2, dp=2)}, "layout = `ep2-dp2`: cannot be: ep 2 asks for experts"),
    "tp over nodes": ({"rollout": Layout(tp=16)}, "layout = `tp16-dp1`: cannot be: tp 16 spans nodes of 8 GPUs"),
    "stages that share unequal GPUs": (
        {"rollout": Layout(tp=2), "train": Layout(dp=4), "colocated": True},
        "--colocated: needs layouts of both stages on as many GPUs; give --rollout and --train, or none of the two",
    ),
    "one stage that shares": ({"rollout": Layout(tp=2), "colocated": True}, "--colocated: needs layouts of both stages on as many GPUs"),
    "a job that is not there": ({"job": "sft"}, "job = `sft`: has no `model` and `workload`; choose from grpo"),
}


@pytest.mark.parametrize(("asked", "message"), REFUSED.values(), ids=REFUSED)
def test_layouts_that_cannot_be_are_refused(asked: dict[str, object], message: str) -> None:
    """With the rule that they break."""
    with pytest.raises(InputError) as error:
        fit(scenario(), **asked)
    assert message in str(error.value)


def test_pools_of_one_role_cannot_be_shared() -> None:
    """The user has forbidden it."""
    with pytest.raises(InputError, match="--colocated: needs a pool that may roll out and train; give a pool the role `any`"):
        fit(scenario(pools=TWO_POOLS), colocated=True)


def test_a_scenario_without_a_model_says_what_to_add() -> None:
    """Tables say nothing of memory."""
    text = (
        "name: tables\npools: {a: {gpu: H100, nodes: 1, price: 1 $/h, memory: 1 TB}}\n"
        "jobs: [{name: x, split: {rollout: {a: {1: 9 s}}, train: {a: {1: 9 s}}}}]"
    )
    with pytest.raises(InputError, match="has 0 jobs with a `model`; give a job a `split` with `model` and `workload`"):
        fit(Scenario.from_yaml(text))
