"""What if one number were another: every change is the scenario edited by hand, planned again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan import InfeasibleError, InputError, Plan, Scenario, check, plan
from rollplan.models.certified import Limits
from rollplan.planner.what_if import PLANNED_ANEW, Variant, what_if

ONE_POOL = """\
name: one
pools:
  h100: {gpu: H100, nodes: 1, gpus_per_node: 4, price: 3.2 $/h, memory: 1 TB}
jobs:
  - name: grpo
    split:
      model: Qwen3-0.6B
      workload: {prompts: 8, samples_per_prompt: 4, prompt_tokens: 256, lengths: {mean: 700, sigma: 0.8, limit: 4096}}
      engine: {tp: [1]}
      trainer: {tp: [1], pp: [1], cp: [1]}
      sync: 2 s
"""
SEVERAL = """\
name: several
pools:
  h20: {role: rollout, gpu: H20, nodes: 3, gpus_per_node: 2, price: 1.85 $/h, memory: 1 TB}
  h800.old: {role: train, gpu: H800, nodes: 2, gpus_per_node: 2, price: 5.28 $/h, memory: 1 TB}
jobs:
  - {name: chat, slo: 2, rollout: {time: 100 s, memory: 100 GB}, train: {time: 50 s, memory: 100 GB}, sync: 1 s, split: null}
  - name: tables
    split:
      budget: {h20: 2, h800.old: 2}
      rollout: {h20: {1: 90 s, 2: 50 s, 4: 30 s}}
      train: {h800.old: {1: 60 s, 2: 40 s}}
"""


@pytest.fixture(scope="module")
def one() -> Plan:
    """One job on one pool."""
    return plan(Scenario.from_yaml(ONE_POOL))


@pytest.fixture(scope="module")
def several() -> Plan:
    """A co-located job and a split, on two pools, one of which has a dot in its name."""
    return plan(Scenario.from_yaml(SEVERAL))


def edited(text: str, *replacements: tuple[str, str]) -> Scenario:
    """Return the scenario as a user would edit the file."""
    for old, new in replacements:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return Scenario.from_yaml(text)


def planned(variant: Variant) -> Plan:
    """Return the plan of a variant, which must have one."""
    assert variant.plan is not None, variant.reasons
    return variant.plan


def named_alike(found: Plan, wanted: Plan) -> Plan:
    """Return `found` under the name of `wanted`."""
    return found.model_copy(update={"scenario": wanted.scenario}).sealed()


# Every change, and the file edited by hand.

EDITS: dict[str, tuple[tuple[str, str], ...]] = {
    "prompts=16": (("prompts: 8", "prompts: 16"),),
    "prompts=+8": (("prompts: 8", "prompts: 16"),),
    "prompts=-4": (("prompts: 8", "prompts: 4"),),
    "prompts=*2": (("prompts: 8", "prompts: 16"),),
    "prompts = * 0.5": (("prompts: 8", "prompts: 4"),),
    "workload.prompts=16": (("prompts: 8", "prompts: 16"),),
    "mean=*1.1": (("mean: 700", "mean: 770"),),
    "limit=8192": (("limit: 4096", "limit: 8192"),),
    "workload.lengths.sigma=0.5": (("sigma: 0.8", "sigma: 0.5"),),
    "lengths=7B-8k": (("lengths: {mean: 700, sigma: 0.8, limit: 4096}", "lengths: 7B-8k"),),
    "model=Qwen3-1.7B": (("Qwen3-0.6B", "Qwen3-1.7B"),),
    "engine.tp=[1, 2]": (("engine: {tp: [1]}", "engine: {tp: [1, 2]}"),),
    "max_num_seqs=16": (("engine: {tp: [1]}", "engine: {tp: [1], max_num_seqs: 16}"),),
    "max_num_seqs=*0.5": (("engine: {tp: [1]}", "engine: {tp: [1], max_num_seqs: 128}"),),
    "critic=true": (("cp: [1]}", "cp: [1], critic: true}"),),
    "checkpointing=selective": (("cp: [1]}", "cp: [1], checkpointing: selective}"),),
    "noise=+0.1": (("sync: 2 s", "sync: 2 s\n      noise: 0.15"),),
    "staleness=0": (("sync: 2 s", "sync: 2 s\n      staleness: 0"),),
    "objective=cost": (("sync: 2 s", "sync: 2 s\n      objective: cost"),),
    "pipelining=[serial]": (("sync: 2 s", "sync: 2 s\n      pipelining: [serial]"),),
    "sync=300 ms": (("sync: 2 s", "sync: 0.3 s"),),
    "sync=*1.5": (("sync: 2 s", "sync: 3 s"),),
    "interference.rollout=1.2": (("sync: 2 s", "sync: 2 s\n      interference: {rollout: 1.2}"),),
    "gpus=2": (("sync: 2 s", "sync: 2 s\n      budget: {h100: 2}"),),
    "gpus=+4": (("nodes: 1", "nodes: 2"), ("sync: 2 s", "sync: 2 s\n      budget: {h100: 8}")),
    "gpus=+1": (("nodes: 1", "nodes: 2"), ("sync: 2 s", "sync: 2 s\n      budget: {h100: 5}")),
    "gpus.h100=*0.5": (("sync: 2 s", "sync: 2 s\n      budget: {h100: 2}"),),
    "pools.h100.price=+0.1": (("3.2 $/h", "3.3 $/h"),),
    "pools.h100.price=2.5 $/h": (("3.2 $/h", "2.5 $/h"),),
    "pools.h100.gpu=H200": (("gpu: H100", "gpu: H200"),),
    "pools.h100.nodes=+1": (("nodes: 1", "nodes: 2"),),
}


@pytest.mark.parametrize(("change", "replacements"), EDITS.items(), ids=EDITS)
def test_a_change_gives_the_bytes_of_the_file_edited_by_hand(one: Plan, change: str, replacements: tuple[tuple[str, str], ...]) -> None:
    """So what-if can be believed, and its answer can be had for good by editing the file."""
    wanted = plan(edited(ONE_POOL, *replacements))
    (variant,) = what_if(one, [change])
    assert named_alike(planned(variant), wanted).to_json() == wanted.to_json()
    assert Scenario.from_dict(planned(variant).scenario.content) == Scenario.from_dict(wanted.scenario.content)


def test_the_plan_of_a_variant_is_valid(one: Plan) -> None:
    """It belongs to the changed scenario, which is inside it."""
    (variant,) = what_if(one, ["prompts=16"])
    assert check(Scenario.from_dict(planned(variant).scenario.content), planned(variant)).faults == ()


def test_each_change_is_made_alone_and_then_all_together(one: Plan) -> None:
    """Two changes give three answers, one gives one; the changes do not leak into each other or into the plan."""
    before = one.to_json()
    found = what_if(one, ["prompts=16", "sync=5 s"])
    assert [variant.name for variant in found] == ["prompts=16", "sync=5 s", "all of these"]
    assert [len(what_if(one, [change])) for change in ("prompts=16", "sync=5 s")] == [1, 1]
    both = plan(edited(ONE_POOL, ("prompts: 8", "prompts: 16"), ("sync: 2 s", "sync: 5 s")))
    assert named_alike(planned(found[2]), both).to_json() == both.to_json()
    assert [planned(variant).splits[0].sync_s for variant in found] == [2, 5, 5]
    assert one.to_json() == before


def test_changes_of_one_number_add_up_when_made_together(one: Plan) -> None:
    """In the order in which they were given."""
    together = what_if(one, ["prompts=*2", "prompts=+8"])[-1]
    assert planned(together).scenario.content["jobs"][0]["split"]["workload"]["prompts"] == 24


def test_no_change_at_all_has_no_answer(one: Plan) -> None:
    """The command line asks for at least one."""
    assert what_if(one, []) == ()


def test_a_variant_that_fits_nowhere_says_why_and_the_others_are_planned(one: Plan) -> None:
    """Asking what-if is how people look for the border of what is possible."""
    found = what_if(one, ["model=Qwen2.5-72B", "prompts=16"])
    assert [variant.plan is None for variant in found] == [True, False, True]
    with pytest.raises(InfeasibleError) as error:
        plan(edited(ONE_POOL, ("Qwen3-0.6B", "Qwen2.5-72B")))
    assert found[0].reasons == error.value.reasons


def test_a_heuristic_that_finds_no_room_is_an_answer_as_well() -> None:
    """The plan is made again by the method that made it."""
    solo = plan(Scenario.from_yaml(SEVERAL), "solo")
    (variant,) = what_if(solo, ["pools.h20.nodes=1"])
    assert variant.plan is None
    assert variant.reasons


def test_the_settings_of_the_plan_are_kept() -> None:
    """Otherwise the comparison would show the method, not the change."""
    made = plan(Scenario.from_yaml(SEVERAL), "greedy", Limits(node_limit=3, target_gap=0.02), seed=7)
    (variant,) = what_if(made, ["pools.h20.price=+1"])
    assert planned(variant).settings == made.settings


ALONE_AND_TOGETHER = """\
name: grown
overheads: zero
pools:
  h20: {role: rollout, gpu: H20, price: 1.85 $/h, memory: 2 TB}
  h800: {role: train, gpu: H800, price: 5.28 $/h, memory: 2 TB}
jobs:
  - {name: a, size: 7B, slo: 2, rollout: 100 s, train: 60 s}
  - {name: b, size: 7B, slo: 2, rollout: 100 s, train: 60 s}
"""


@pytest.fixture(scope="module")
def kept_apart() -> Plan:
    """Two jobs that run on nodes of their own, and may not move although they would fit together."""
    scenario = Scenario.from_yaml(ALONE_AND_TOGETHER)
    return plan(scenario, since=plan(scenario, "solo"), max_moved=0)


@pytest.mark.parametrize("change", ["max_rate=2", "pools.h20.nodes=1"])
def test_a_plan_made_since_another_is_planned_anew_without_and_with_the_change(kept_apart: Plan, change: str) -> None:
    """It does not hold the other, so moves cannot be counted; both rows are the bytes of exact plans, and never those of a heuristic."""
    assert (kept_apart.settings.method, len(kept_apart.groups)) == ("since", 2)
    anew, changed = what_if(kept_apart, [change])
    assert (anew.name, changed.name) == (PLANNED_ANEW, change)
    unchanged = plan(Scenario.from_yaml(ALONE_AND_TOGETHER))
    assert len(unchanged.groups) == 1
    assert planned(anew).to_json() == unchanged.to_json()
    wanted = plan(Scenario.from_dict(planned(changed).scenario.content))
    assert planned(changed).to_json() == wanted.to_json()
    assert wanted.cost_per_h <= unchanged.cost_per_h < kept_apart.cost_per_h


def test_a_plan_made_since_another_without_any_change_has_no_answer(kept_apart: Plan) -> None:
    """As for every plan."""
    assert what_if(kept_apart, []) == ()


def test_a_plan_of_an_unknown_method_is_refused(one: Plan) -> None:
    """Of a file that was edited: no method is taken in its place."""
    made = one.model_copy(update={"settings": one.settings.model_copy(update={"method": "best"})})
    with pytest.raises(InputError, match="plan = `best`: is no method by which it could be planned again; plan again"):
        what_if(made, ["prompts=16"])


@settings(max_examples=20)
@given(factor=st.integers(1, 40).map(lambda quarter: quarter / 4))
def test_relative_changes_are_exact_in_decimals(factor: float) -> None:
    """3.2 + 0.1 is 3.3, not 3.3000000000000003, or the plan would not be that of the edited file."""
    made = plan(Scenario.from_yaml(SEVERAL))
    (variant,) = what_if(made, [f"pools.h20.price=*{factor}"])
    assert planned(variant).scenario.content["pools"]["h20"]["price"] == f"{round(1.85 * factor, 6)!r} $/h"


# Several jobs and pools.


def test_gpus_of_one_of_several_pools_are_named(several: Plan) -> None:
    """A pool's name may have dots; the pool grows by the nodes that are needed."""
    (variant,) = what_if(several, ["gpus.h20=+2"])
    content = planned(variant).scenario.content
    assert content["jobs"][1]["split"]["budget"] == {"h20": 4, "h800.old": 2}
    assert planned(variant).splits[0].choice.rollout_gpus == 4
    (dotted,) = what_if(several, ["gpus.h800.old=1"])
    assert planned(dotted).scenario.content["jobs"][1]["split"]["budget"] == {"h20": 2, "h800.old": 1}
    (price,) = what_if(several, ["pools.h800.old.price=4 $/h"])
    assert planned(price).pools["h800.old"].price_per_node_h == 8


def test_more_gpus_for_one_of_several_splits_leave_the_others_theirs() -> None:
    """A pool whose nodes are all taken grows by what is added."""
    text = """\
name: two
pools:
  h100: {gpu: H100, nodes: 2, gpus_per_node: 2, price: 3 $/h, memory: 1 TB}
jobs:
  - {name: a, split: {budget: {h100: 2}, rollout: {h100: {1: 9 s, 2: 5 s}}, train: {h100: {1: 8 s, 2: 5 s, 3: 3 s}}}}
  - {name: b, split: {budget: {h100: 2}, rollout: {h100: {1: 9 s, 2: 5 s}}, train: {h100: {1: 8 s, 2: 5 s, 3: 3 s}}}}
"""
    (variant,) = what_if(plan(Scenario.from_yaml(text)), ["gpus=+2"], job="b")
    content = planned(variant).scenario.content
    assert content["pools"]["h100"]["nodes"] == 3
    assert [entry["split"]["budget"] for entry in content["jobs"]] == [{"h100": 2}, {"h100": 4}]


def test_the_job_is_chosen_where_several_ask_for_a_split() -> None:
    """Without a choice the change is refused; only the chosen job changes."""
    more = SEVERAL[SEVERAL.index("  - name: tables") :].replace("name: tables", "name: more")
    text = (SEVERAL + more).replace("H800, nodes: 2", "H800, nodes: 3")
    made = plan(Scenario.from_yaml(text))
    with pytest.raises(InputError, match="noise: belongs to a split, and the scenario has 2; choose one with --job: tables, more"):
        what_if(made, ["noise=0.2"])
    (variant,) = what_if(made, ["noise=0.2"], job="more")
    assert [split.noise for split in planned(variant).splits] == [0.05, 0.2]


def test_keys_from_the_top_need_no_job(several: Plan) -> None:
    """`pools` and `links` belong to all jobs; co-located jobs are planned again as well."""
    (variant,) = what_if(several, ["pools.h20.price=+1"])
    assert planned(variant).cost_per_h == pytest.approx(several.cost_per_h + 2 * 2)


# What is refused: always before anything is planned, with the way out.

REFUSED = {
    "": "is not a change; write key=value, such as gpus=+8",
    "prompts": "is not a change; write key=value, such as gpus=+8",
    "prompts=": "is not a change; write key=value, such as gpus=+8",
    "=3": "is not a change; write key=value, such as gpus=+8",
    "prompt=3": "prompt: is not a key of a split; did you mean `prompts`?",
    "zzzzzz=3": "zzzzzz: is not a key of a split; see `rollplan schema scenario`",
    "tp=[1]": "tp: stands in 2 places; write engine.tp or trainer.tp",
    "overhead=1 s": "overhead: stands in 2 places; write engine.overhead or trainer.overhead",
    "gpus=0": "gpus = `0`: does not leave a whole number of GPUs; write gpus=16 or gpus=+8",
    "gpus=-4": "gpus = `-4`: does not leave a whole number of GPUs; write gpus=16 or gpus=+8",
    "gpus=*1.1": "gpus = `*1.1`: does not leave a whole number of GPUs; write gpus=16 or gpus=+8",
    "gpus=many": "gpus = `many`: does not leave a whole number of GPUs; write gpus=16 or gpus=+8",
    "gpus=true": "gpus = `true`: does not leave a whole number of GPUs; write gpus=16 or gpus=+8",
    "gpus.h200=4": "gpus.h200 = `4`: names no pool; choose from h100",
    "gpus.h100.x=4": "gpus.h100.x = `4`: names no pool; choose from h100",
    "target=+5": "target = `+5`: is relative, and there is no number to change; write the new value, such as target=4",
    "critic=+1": "critic = `+1`: is relative, and there is no number to change; write the new value, such as critic=4",
    "sync=null": "sync = `null`: is no value; write the value that is to stand there",
    "prompts=0": "jobs[0].split.workload.prompts = `0`: input should be greater than or equal to 1; raise it to the limit",
    "prompts=*0.3": "jobs[0].split.workload.prompts = `2.4`: is not a whole number",
    "prompts=+" + "9" * 5000: "jobs[0].split.workload.prompts = `inf`: is not a whole number",
    "sync=3": "jobs[0].split.sync = `3`: has no unit; write `3 s`",
    "pools.h100.price=-9": "pools.h100.price = `-5.8 $/h`: is outside 0 to",
    "pools.h200.price=3 $/h": "pools.h200.gpu: is missing; add it",
    "jobs.grpo.slo=3": "jobs[0].split.jobs = {1 keys}: is an unknown key",
    "prompts=[1": "is not YAML",
    "prompts=&a 3": "sets the anchor `&a`; remove it",
    "prompts=!!python/name:os.system 3": "has the tag",
}


@pytest.mark.parametrize(("change", "message"), REFUSED.items(), ids=[change[:40] for change in REFUSED])
def test_a_change_that_makes_no_sense_is_refused_with_the_way_out(one: Plan, change: str, message: str) -> None:
    """Key, value, problem and remedy, as in a scenario file; also if another change is fine."""
    with pytest.raises(InputError) as error:
        what_if(one, ["prompts=16", change])
    assert message in str(error.value)
    assert len(str(error.value)) < 1000


def test_gpus_of_several_pools_must_name_one(several: Plan) -> None:
    """More GPUs of which kind?"""
    with pytest.raises(InputError, match=r"gpus = `\+2`: could mean 2 pools; write gpus.h20=\+2"):
        what_if(several, ["gpus=+2"])


@pytest.mark.parametrize("job", ["chat", "nobody"])
def test_a_job_that_asks_for_no_split_is_refused(several: Plan, job: str) -> None:
    """The co-located job is in the scenario, and still has no split to change."""
    with pytest.raises(InputError, match=f"--job = `{job}`: is not a job that asks for a split; choose from tables"):
        what_if(several, ["noise=0.2"], job=job)


def test_a_scenario_without_any_split_says_where_its_keys_are() -> None:
    """Its pools can still be changed."""
    made = plan(Scenario.from_yaml(SEVERAL[: SEVERAL.index("  - name: tables")]))
    with pytest.raises(InputError, match=r"the scenario has 0; give a path from the top, such as pools\.h100\.price"):
        what_if(made, ["noise=0.2"])
    (variant,) = what_if(made, ["pools.h20.price=+1"])
    assert planned(variant).cost_per_h == pytest.approx(made.cost_per_h + 2)


BROKEN: dict[str, Callable[[dict[str, Any]], object]] = {
    "empty": lambda content: content.clear(),
    "no jobs": lambda content: content.update(jobs=None),
    "a job that is a number": lambda content: content.update(jobs=[3]),
    "a pool that is a list": lambda content: content["pools"].update(h100=[]),
    "a split that is text": lambda content: content["jobs"][0].update(split="x"),
}


@pytest.mark.parametrize("damage", BROKEN.values(), ids=BROKEN)
def test_a_plan_whose_scenario_was_damaged_is_refused(damage: Callable[[dict[str, Any]], object]) -> None:
    """A plan file is input like any other: wrong content is named, never a traceback."""
    made = plan(Scenario.from_yaml(ONE_POOL))
    damage(made.scenario.content)
    with pytest.raises(InputError, match="scenario in the plan of one"):
        what_if(made, ["prompts=16"])


@pytest.mark.parametrize("count", [0, 2])
def test_a_plan_without_its_splits_is_refused(one: Plan, count: int) -> None:
    """There would be nothing to compare with."""
    with pytest.raises(InputError, match="does not hold exactly the splits of its scenario; plan again"):
        what_if(one.model_copy(update={"splits": one.splits * count}), ["prompts=16"])


def test_a_rule_for_all_co_located_jobs_may_be_changed_by_its_name() -> None:
    """Fig. 10b of RollMux, one long and one short job: the short one may run twice, and both fit on one pair of nodes more."""
    scenario = Scenario.from_yaml(
        """
name: long_and_short
overheads: zero
pools:
  h20: {role: rollout, gpu: H20, price: 1.85 $/h, memory: 2 TB}
  h800: {role: train, gpu: H800, price: 5.28 $/h, memory: 2 TB}
jobs:
  - {name: E, slo: 1.1, sync: 0 s, rollout: {time: 746 s, memory: 100 GB}, train: {time: 124 s, memory: 100 GB}}
  - {name: D, slo: 1.1, sync: 0 s, rollout: {time: 314 s, memory: 100 GB}, train: {time: 118 s, memory: 100 GB}}
"""
    )
    (variant,) = what_if(plan(scenario), ["max_rate=2"])
    assert variant.plan is not None
    assert variant.plan.cost_per_h == 71.84
