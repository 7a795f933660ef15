"""From a plan to a runbook: nothing is decided anew, and what cannot be run is refused with the way out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rollplan.executor.core.decide import Core
from rollplan.executor.core.runbook import Dispatch, Runbook
from rollplan.executor.runbook_of_plan import Overrides, runbook
from rollplan.models.errors import InputError

from .made import SCENARIO, planned


def test_a_group_becomes_its_nodes_and_its_jobs_in_the_plans_order() -> None:
    """Every rollout node is a resource, all training nodes together are one; the core accepts it, before and after JSON."""
    plan = planned()
    book = runbook(plan)
    assert [(one.name, one.kind, one.jobs, one.nodes, one.gpus) for one in book.resources] == [
        ("g1/rollout-0", "rollout", ("a", "b"), 1, 1),
        ("g1/train", "train", ("a", "b"), 1, 1),
    ]
    assert [resource.memory_gib for resource in book.resources] == [4.0, 4.0]
    a, b = book.jobs
    assert (a.rollout, a.train, a.way, a.staleness, a.group) == (("g1/rollout-0",), "g1/train", "serial", 0, "g1")
    assert (a.rollout_memory_gib, a.train_memory_gib) == (1.0, 1.5)
    assert (a.samples, a.fill, b.samples, b.fill) == (64, 8, 10, 5), "responses, an eighth of them; what the program says"
    assert (b.train_ranks, b.hang_s, b.iterations) == (2, 120.0, 4)
    assert book.seal == plan.seal
    assert Runbook.from_dict(json.loads(json.dumps(book.to_dict()))) == book
    Core(book)


def test_predicted_seconds_are_the_plans_taken_apart() -> None:
    """Busy seconds of a plan hold switch and sync; together with them they are the plan's again."""
    plan = planned()
    for job, promised in zip(plan.groups[0].jobs, (job.predicted for job in runbook(plan).jobs), strict=True):
        assert (promised.rollout_s, promised.train_s) == (6.0, 3.0)
        assert promised.rollout_s + promised.rollout_switch_s == job.expected_rollout_s
        assert promised.train_s + promised.train_switch_s + promised.sync_s == job.expected_train_s
        assert (promised.iteration_s, promised.solo_s) == (plan.groups[0].expected_period_s, job.expected_solo_s)


def test_a_sync_that_holds_the_rollout_nodes_is_refused() -> None:
    """The executor holds the training nodes meanwhile, so periods would be others than the plan's; without a sync they are not."""
    text = "sync_holds: rollout\n" + SCENARIO
    with pytest.raises(InputError, match=r"sync_holds = `rollout`: is planned, but .*; plan with `sync_holds: train`"):
        runbook(planned(text))
    assert len(runbook(planned(text.replace("sync: 1 s", "sync: 0 s"))).jobs) == 2
    assert runbook(planned("sync_holds: rollout\n" + SPLIT.replace("WAY", "serial"))).jobs[0].predicted.sync_s == 2.0


def test_fewer_jobs_of_a_group_have_the_period_of_their_own() -> None:
    """The plan's period holds for all of them; a job alone takes its solo time."""
    book = runbook(planned(), overrides=Overrides(jobs=("b",), iterations=7))
    assert [job.name for job in book.jobs] == ["b"]
    assert [resource.jobs for resource in book.resources] == [("b",), ("b",)]
    assert book.jobs[0].iterations == 7
    assert book.jobs[0].predicted.iteration_s == book.jobs[0].predicted.solo_s == 11.5


def test_how_weights_travel_is_said_by_the_program() -> None:
    book = runbook(planned(SCENARIO.replace("samples: 10, ", "samples: 10, sync: flat, ")))
    assert [job.sync for job in book.jobs] == ["two-stage", "flat"]


SPLIT = """\
name: split
pools:
  gen: {gpu: H800, gpus_per_node: 8, price: 1 $/h, memory: 800 GiB, nodes: 4}
jobs:
  - name: g1
    split:
      budget: {gen: 16}
      rollout: {gen: {4: 40 s, 12: 20 s}}
      train: {gen: {4: 18 s, 12: 30 s}}
      pipelining: [WAY]
      sync: 2 s
    program: {module: m, samples: 32}
"""


@pytest.mark.parametrize("way", ["serial", "one-step", "async-batch", "async-streamed"])
def test_a_split_becomes_its_instances_and_its_trainer(way: str) -> None:
    """From tables there is an instance per node, the last one on what is left; a job's name never collides with that of a group."""
    plan = planned(SPLIT.replace("WAY", way))
    choice = plan.splits[0].choice
    assert (choice.mode, choice.rollout_gpus, choice.train_gpus) == ("separate", 12, 4)
    book = runbook(plan)
    job = book.jobs[0]
    assert (job.way, job.staleness, job.group) == (way, 0 if way == "serial" else 1, "split-g1")
    assert job.rollout == ("split-g1/rollout-0", "split-g1/rollout-1")
    assert [(one.nodes, one.gpus, one.memory_gib) for one in book.resources] == [(1, 8, 800.0), (1, 4, 400.0), (1, 4, 400.0)]
    assert sum(one.nodes * one.gpus for one in book.resources) == choice.rollout_gpus + choice.train_gpus
    assert (job.predicted.rollout_s, job.predicted.train_s, job.predicted.iteration_s) == (20.0, 18.0, choice.iteration_s)
    Core(book)


def test_a_split_from_a_model_has_an_instance_per_copy() -> None:
    """GPUs by those of one copy of the layout; slots, chunks and the order of the longest first are the scenario's."""
    plan = planned("""\
name: model
pools:
  p: {gpu: H100, gpus_per_node: 8, price: 1 $/h, memory: 2 TB, nodes: 2}
jobs:
  - name: m
    split:
      model: Qwen2.5-7B
      workload: {prompts: 64, samples_per_prompt: 4, lengths: 7B-8k}
      engine: {tp: [2], max_num_seqs: 32, dispatch: lpt}
      pipelining: [mini-batch]
      chunks: 4
    program: {module: m}
""")
    choice = plan.splits[0].choice
    assert choice.mode == "separate"
    assert choice.rollout_layout.startswith("tp2")
    job = runbook(plan).jobs[0]
    assert len(job.rollout) == choice.rollout_gpus // 2
    assert (job.samples, job.chunks, job.fill, job.way) == (256, 4, 32, "mini-batch")
    assert job.dispatch == Dispatch("lpt", slots=32, tail_slots=32)
    assert all(resource.gpus == 2 for resource in runbook(plan).resources[:-1])


def test_stages_that_take_turns_lie_on_the_same_gpus() -> None:
    """A colocated split runs serially, and its rollout says on whose nodes it is."""
    plan = planned("""\
name: turns
pools:
  p: {gpu: H800, gpus_per_node: 8, price: 1 $/h, memory: 800 GiB, nodes: 1}
jobs:
  - name: t
    split:
      rollout: {p: {8: 10 s}}
      train: {p: {8: 10 s}}
      switch: 2 s
    program: {module: m}
""")
    assert plan.splits[0].choice.mode == "colocated"
    book = runbook(plan)
    assert [(one.name, one.on) for one in book.resources] == [("split-t/rollout-0", "split-t/train"), ("split-t/train", None)]
    job = book.jobs[0]
    assert (job.way, job.staleness) == ("serial", 0)
    assert job.predicted.rollout_switch_s + job.predicted.train_switch_s == 2.0


def test_every_job_without_a_program_is_named() -> None:
    """All at once, with the way out."""
    text = "\n".join(line for line in SCENARIO.splitlines() if "program" not in line)
    with pytest.raises(InputError) as refused:
        runbook(planned(text))
    assert [finding.path for finding in refused.value.findings] == ["job a", "job b"]
    assert "leave it out with --job" in str(refused.value)


def test_a_job_without_a_program_may_be_left_out() -> None:
    """`--job` runs the others."""
    text = "\n".join(line for line in SCENARIO.splitlines() if "samples: 10" not in line)
    assert [job.name for job in runbook(planned(text), overrides=Overrides(jobs=("a",))).jobs] == ["a"]


def test_an_unknown_job_is_refused_with_the_known_ones() -> None:
    """As every option of the command line."""
    with pytest.raises(InputError, match=r"--job = `c`: is not a job of the plan; choose from a, b"):
        runbook(planned(), overrides=Overrides(jobs=("c",)))


def test_a_dispatch_of_a_job_that_is_not_run_is_refused() -> None:
    """It would change nothing, unseen."""
    with pytest.raises(InputError, match=r"--dispatch = `b`: is not a job that is run; choose from a"):
        runbook(planned(), overrides=Overrides(jobs=("a",), dispatch={"b": Dispatch()}))


def test_a_program_file_that_is_not_there_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """Relative to the folder of the plan."""
    plan = planned(SCENARIO.replace("rollplan.executor.programs.sleep", "mine.py"))
    with pytest.raises(InputError, match=r"job a = `mine.py`: is not a file"):
        runbook(plan, folder=tmp_path)
    (tmp_path / "mine.py").touch()
    assert runbook(plan, folder=tmp_path).folder == str(tmp_path)


def test_a_plan_that_was_changed_is_refused() -> None:
    """A run executes what was planned."""
    plan = planned()
    with pytest.raises(InputError, match="was changed after it was made"):
        runbook(plan.model_copy(update={"cost_per_h": 1.0}))
