"""The one job with a model: found by name, or because there is no other."""

import pytest

from rollplan.models.errors import InputError
from rollplan.models.scenario import Scenario
from rollplan.planner.modelled import modelled_job

POOL = "{gpu: H100, nodes: 4, price: 1 $/h, memory: 1 TB}"
MODEL = "{budget: {a: 8}, model: Qwen3-0.6B, workload: {prompts: 8, lengths: 7B-8k}}"
TABLES = "{budget: {a: 1}, rollout: {a: {1: 9 s}}, train: {a: {1: 9 s}}}"


def scenario(**splits: str) -> Scenario:
    jobs = "".join(f"  - {{name: {name}, split: {split}}}\n" for name, split in splits.items())
    return Scenario.from_yaml(f"name: jobs\npools: {{a: {POOL}}}\njobs:\n{jobs}")


def test_the_only_job_with_a_model_needs_no_name() -> None:
    """Jobs that give tables have none to be asked about."""
    found = modelled_job(scenario(tables=TABLES, grpo=MODEL))
    assert (found.name, found.model.name, found.workload.prompts) == ("grpo", "Qwen3-0.6B", 8)
    assert found.split.model is found.model
    assert modelled_job(scenario(tables=TABLES, grpo=MODEL), "grpo") == found


def test_of_several_jobs_the_named_one_is_taken() -> None:
    """And not the first."""
    assert modelled_job(scenario(one=MODEL, two=MODEL), "two").name == "two"


@pytest.mark.parametrize(
    ("splits", "name", "problem"),
    [
        ({"tables": TABLES}, None, "jobs: has 0 jobs with a `model`; give a job a `split` with `model` and `workload`"),
        ({"tables": TABLES}, "tables", "job = `tables`: has no `model` and `workload`; give it a `split` with both"),
        ({"one": MODEL, "two": MODEL}, None, "jobs: has 2 jobs with a `model`; choose one with --job: one, two"),
        ({"tables": TABLES, "one": MODEL}, "tables", "job = `tables`: has no `model` and `workload`; choose from one"),
        ({"one": MODEL}, "sft", "job = `sft`: has no `model` and `workload`; choose from one"),
        ({"one": MODEL}, "", "job = ``: has no `model` and `workload`; choose from one"),
    ],
)
def test_without_one_job_that_is_meant_the_choice_is_told(splits: dict[str, str], name: str | None, problem: str) -> None:
    """Every verb says the same, with the names to choose from."""
    with pytest.raises(InputError) as refused:
        modelled_job(scenario(**splits), name)
    assert problem in str(refused.value)
