"""Laws of whole plans with splits that are derived from a model: whatever the scenario, the plan is valid."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from rollplan import InfeasibleError, InputError, Plan, RollplanError, Scenario, check, plan
from rollplan.models.split.problem import Way
from rollplan.planner.fit import fit

Raw = dict[str, Any]

WAYS: tuple[Way, ...] = ("serial", "mini-batch", "dynamic-batch", "one-step", "async-batch", "async-streamed")
ODD_DENSE = {
    "name": "odd", "layers": 6, "hidden": 384, "heads": 6, "kv_heads": 3, "head_dim": 64, "intermediate": 1000, "vocab": 1000,
    "params_b": 0.05, "active_params_b": 0.04,
}  # fmt: skip
ODD_EXPERTS = {
    "name": "experts", "layers": 4, "hidden": 512, "heads": 8, "kv_heads": 2, "head_dim": 64, "intermediate": 1000, "vocab": 1000,
    "params_b": 3.0, "active_params_b": 0.4, "experts": 6, "experts_per_token": 2, "expert_params_b": 2.5,
}  # fmt: skip

seconds = st.floats(0.01, 500).map(lambda value: f"{value:.3g} s")
degrees = st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=3, unique=True)
tables = st.dictionaries(st.sampled_from("ab"), st.dictionaries(st.integers(1, 9), seconds, min_size=1, max_size=3), max_size=2)
ways = st.lists(st.sampled_from(WAYS), min_size=1, max_size=6, unique=True)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Raw]:
    """Return mappings with any of these keys."""
    return st.fixed_dictionaries({}, optional=fields)


def all_of(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Raw]:
    """Return mappings with all of these keys."""
    return st.fixed_dictionaries(fields)


pools = st.builds(
    lambda all_keys, role: all_keys | role,
    all_of(
        gpu=st.sampled_from(["H100", "H20", "A100"]),
        nodes=st.integers(1, 2),
        gpus_per_node=st.sampled_from([1, 2, 3, 4]),
        price=st.sampled_from(["0 $/h", "1.85 $/h", "3.2 $/h"]),
        memory=st.sampled_from(["60 GB", "1 TB"]),
    ),
    some(role=st.sampled_from(["rollout", "train", "any", "any"])),
)
lengths = st.sampled_from(
    [
        {"mean": 300, "sigma": 0.8, "limit": 2048},
        {"trace": [1]},
        {"trace": [5, 700, 9000], "limit": 4096},
        {"quantiles": {0.5: 800, 0.9: 3000}, "limit": 8192},
        {"mean": 9000, "clip": 0.05, "limit": 32768},
    ]
)
workloads = st.builds(
    lambda all_keys, others: all_keys | others,
    all_of(prompts=st.sampled_from([1, 2, 6]), samples_per_prompt=st.sampled_from([2, 4]), lengths=lengths),
    some(prompt_tokens=st.sampled_from([0, 1, 512]), updates=st.sampled_from([1, 2])),
)
engines = some(
    tp=degrees,
    gpu_memory_utilization=st.sampled_from([0.3, 1.0]),
    max_num_seqs=st.sampled_from([1, 3, 1024]),
    dispatch=st.sampled_from(["random", "lpt"]),
) | all_of(ptl=st.sampled_from([{1: "5 ms", 64: "30 ms"}, {8: "9 ms"}]))
trainers = some(
    tp=degrees,
    pp=degrees,
    sharding=st.sampled_from(["ddp", "zero1", "zero3"]),
    micro_batch=st.sampled_from([1, 2]),
    checkpointing=st.sampled_from(["full", "none"]),
    mfu=st.just(0.5),
    critic=st.booleans(),
    reference=st.booleans(),
    old_logprob=st.booleans(),
    optimizer_on_host=st.booleans(),
    lora_rank=st.just(8),
    overhead=st.just("2 s"),
)
choices = some(
    engine=engines,
    trainer=trainers,
    pipelining=ways,
    staleness=st.sampled_from([0, 0.5, 4]),
    chunks=st.sampled_from([1, 3, 64]),
    chunk_overhead=seconds,
    objective=st.sampled_from(["time", "cost"]),
    target=seconds,
    noise=st.sampled_from([0, 1]),
    trim=st.sampled_from(["safe", "paper"]),
    sync=seconds,
    switch=seconds,
    interference=st.just({"rollout": 1.3, "train": 1.1}),
    rollout=tables,
    train=tables,
)


@st.composite
def scenarios(draw: st.DrawFn) -> Raw:
    """Return one split on one or two small pools, with a few of its many keys, and co-located jobs beside it."""
    names = draw(st.sampled_from(["a", "ab"]))
    given_pools = {name: draw(pools) for name in names}
    if names == "a":
        given_pools["a"].pop("role", None)
    split: Raw = draw(choices)
    for stage in split.keys() & {"rollout", "train"}:
        split[stage] = {name: table for name, table in split[stage].items() if name in names}
    split["model"] = draw(st.sampled_from(["Qwen3-0.6B", "Qwen3-1.7B", ODD_DENSE, ODD_EXPERTS]))
    split["workload"] = draw(workloads)
    split["budget"] = {name: draw(st.integers(1, pool["nodes"] * pool["gpus_per_node"])) for name, pool in given_pools.items()}
    jobs: list[Raw] = [{"name": "split", "split": split}]
    if draw(st.booleans()):
        for pool in given_pools.values():
            pool["nodes"] += 4
            pool["role"] = "any"
        phase = {"time": "50 s", "memory": "9 GB"}
        jobs += [
            {"name": f"job{k}", "slo": 2, "sync": "1 s", "rollout": {"pool": names[0], **phase}, "train": {"pool": names[-1], **phase}}
            for k in range(2)
        ]
    links = [{"from": "b", "to": "a", "bandwidth": "20 Gbps"}] if names == "ab" and draw(st.booleans()) else []
    return {"name": "random", "overheads": "zero", "pools": given_pools, "links": links, "jobs": jobs}


def planned(raw: Raw) -> tuple[Scenario, Plan] | RollplanError:
    """Return the scenario with its plan, or why there is none."""
    try:
        scenario = Scenario.from_dict(raw)
        return scenario, plan(scenario)
    except RollplanError as error:
        return error


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(raw=scenarios())
def test_every_plan_is_valid_and_survives_its_file(tmp_path_factory: pytest.TempPathFactory, raw: Raw) -> None:
    """Promise 1 for derived splits; and promise 2: whatever has no plan says why."""
    found = planned(raw)
    event(type(found).__name__)
    if isinstance(found, RollplanError):
        reasons = found.reasons if isinstance(found, InfeasibleError) else str(found).splitlines()[1:]
        assert reasons
        assert all(len(reason) > 20 for reason in reasons)
        return
    scenario, made = found
    assert check(scenario, made).faults == ()
    path = tmp_path_factory.getbasetemp() / "random.json"
    made.save(path)
    again = Plan.load(path)
    assert again == made
    assert again.to_json() == path.read_text()
    assert plan(Scenario.from_dict(again.scenario.content)).to_json() == made.to_json()


def small(budget: int, **split: Any) -> Scenario:
    """Return one job on one pool of six GPUs."""
    return Scenario.from_dict(
        {
            "name": "small",
            "pools": {"a": {"gpu": "H100", "nodes": 2, "gpus_per_node": 3, "price": "3.2 $/h", "memory": "1 TB"}},
            "jobs": [
                {
                    "name": "split",
                    "split": {
                        "budget": {"a": budget},
                        "model": ODD_DENSE,
                        "workload": {"prompts": 6, "samples_per_prompt": 4, "lengths": {"mean": 300, "sigma": 0.8, "limit": 2048}},
                        **split,
                    },
                }
            ],
        }
    )


@settings(max_examples=5)
@given(given_ways=ways, staleness=st.sampled_from([0, 1, 4]))
def test_more_gpus_never_make_the_step_longer(given_ways: list[str], staleness: float) -> None:
    """Every split of a small budget is one of a larger budget, too."""
    steps = [plan(small(budget, pipelining=given_ways, staleness=staleness)).splits[0].choice.iteration_s for budget in range(1, 7)]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(steps))


@settings(max_examples=6)
@given(given_ways=ways, objective=st.sampled_from(["time", "cost"]))
def test_the_best_of_several_ways_is_the_best_way_alone(given_ways: list[str], objective: str) -> None:
    """Colocated is always a candidate, so it may win in every one of them."""
    together = plan(small(6, pipelining=given_ways, objective=objective)).splits[0]
    alone = [plan(small(6, pipelining=[way], objective=objective)).splits[0] for way in given_ways]
    assert together.bound == pytest.approx(min(split.bound for split in alone))
    assert together.choice.pipelining in {split.choice.pipelining for split in alone}


@settings(max_examples=10)
@given(target=st.floats(0.5, 60))
def test_the_fewest_gpus_for_a_target_keep_it_and_one_fewer_cannot(target: float) -> None:
    """Which is what a capacity planner asks."""
    fewest = plan(small(6, target=f"{target!r} s")).splits[0].fewest
    if fewest is None:
        assert plan(small(6)).splits[0].choice.iteration_s > target
        return
    gpus = fewest.rollout_gpus if fewest.mode == "colocated" else fewest.rollout_gpus + fewest.train_gpus
    assert fewest.iteration_s <= target * (1 + 1e-9)
    if gpus > 1:
        assert plan(small(gpus - 1)).splits[0].choice.iteration_s > target


@settings(max_examples=10)
@given(raw=scenarios(), colocated=st.booleans())
def test_the_memory_of_a_plan_is_what_fit_finds(raw: Raw, colocated: bool) -> None:
    """`fit` never stumbles, and calls what was planned by the law fitting."""
    found = planned(raw)
    if isinstance(found, InputError):
        return
    try:
        bill = fit(Scenario.from_dict(raw), "split", colocated=colocated)
    except InputError:
        # Two pools of one role each have nothing to share.
        if not colocated:
            raise
        return
    if isinstance(found, tuple):
        (split,) = found[1].splits
        shown = split.colocated if colocated else split.choice
        if shown is not None and shown.rollout_layout and shown.train_layout:
            assert bill.bill.fits
            assert str(bill.setup.roles["rollout"].layout) == shown.rollout_layout
            assert str(bill.setup.roles["train"].layout) == shown.train_layout
