"""The examples run as they stand and give what their heads say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from rollplan import Limits, Plan, Scenario, check, plan

EXAMPLES = Path(__file__).parent.parent / "examples"


def planned(name: str, **limits: float) -> tuple[Scenario, Plan]:
    scenario = Scenario.load(EXAMPLES / name)
    return scenario, plan(scenario, limits=Limits(**limits))


@pytest.mark.parametrize(
    ("name", "cost", "alone"),
    [
        ("fig10_microbenchmarks/a.yaml", 57.04, 114.08),
        ("fig10_microbenchmarks/b.yaml", 128.88, 171.12),
        ("fig10_microbenchmarks/c.yaml", 114.08, 228.16),
        ("production_ten/paper_prices.yaml", 371.84, 627.44),
        ("production_ten/cloud_prices.yaml", 365.60, 567.60),
    ],
)
def test_small_examples_are_proven_optimal_and_check_proves_it_too(name: str, cost: float, alone: float) -> None:
    """RollMux Fig. 10 (128.88 $/h for (b) is the strict round robin optimum) and Fig. 2."""
    scenario, made = planned(name)
    report = check(scenario, made)
    assert (report.faults, report.checked_gap, made.cost_per_h) == ((), 0.0, cost)
    assert made.comparison is not None
    assert made.comparison.solo == alone


def test_fig10a_lies_within_the_periods_that_the_testbed_measured() -> None:
    """RollMux Fig. 10a: 265 to 270 s; 266 s without switch time, 267.8 s with the warm start of Fig. 4."""
    _, made = planned("fig10_microbenchmarks/a.yaml")
    assert made.groups[0].period_s == pytest.approx(267.8)


def test_fig10a_without_overheads_is_the_model_of_the_paper() -> None:
    """Two rollouts of 133 s on one node: 266 s."""
    text = (EXAMPLES / "fig10_microbenchmarks/a.yaml").read_text()
    made = plan(Scenario.from_yaml(text + "overheads: zero\n"))
    assert made.groups[0].period_s == pytest.approx(266.0)


def test_the_long_job_of_fig10b_is_alone_under_strict_round_robin() -> None:
    """It would slow D twice; the paper's queues let D run twice per period instead."""
    _, made = planned("fig10_microbenchmarks/b.yaml")
    assert [[job.name for job in group.jobs] for group in made.groups] == [["D1", "D2"], ["E"]]


def test_the_split_example_shows_the_defect_of_the_printed_trim() -> None:
    """StreamRL Algorithm 1 across sites: 104 s on 24 GPUs as printed, 100 s on 32 with the safe rule."""
    scenario, made = planned("split_two_sites/scenario.yaml")
    assert [(s.choice.iteration_s, s.choice.rollout_gpus, s.choice.train_gpus) for s in made.splits] == [(100.0, 32, 16), (104.0, 24, 16)]
    report = check(scenario, made)
    assert (report.faults, report.checked_gap) == ((), pytest.approx(0.04))


@pytest.mark.parametrize("name", ["one_node", "two_sites", "measured"])
def test_examples_of_one_job_are_planned_and_checked(name: str) -> None:
    """Stage times are derived anew by `check`, and the choice is the least of all candidates."""
    scenario, made = planned(f"one_job/{name}.yaml")
    report = check(scenario, made)
    assert (report.faults, report.checked_gap, len(made.splits)) == ((), 0.0, 1)


def test_two_sites_rolls_out_where_bandwidth_is_cheap_and_has_a_front() -> None:
    """Its head: time, cost and staleness against each other; the objective is the cost of an iteration."""
    _, made = planned("one_job/two_sites.yaml")
    split = made.splits[0]
    assert (split.choice.rollout_pool, split.choice.train_pool) == ("h20", "h800")
    assert min(choice.cost_per_iteration for choice in split.front) >= split.choice.cost_per_iteration
    assert {choice.staleness for choice in split.front} == {0, 1}


def test_measured_times_stand_in_the_plan_as_they_were_measured() -> None:
    """Its head: measured stage times win, on the counts that were measured."""
    _, made = planned("one_job/measured.yaml")
    choice = made.splits[0].choice
    assert (choice.train_gpus, choice.train_s) == (8, 118.0)
    assert made.splits[0].range_s == pytest.approx((0.95 * choice.iteration_s, 1.05 * choice.iteration_s))


def test_a_fleet_needs_no_phase_times() -> None:
    """Worst case and expected times follow from models and lengths; both are in the plan."""
    scenario, made = planned("one_job/fleet_from_models.yaml")
    assert check(scenario, made).faults == ()
    jobs = [job for group in made.groups for job in group.jobs]
    assert [job.expected_known for job in jobs] == [True] * 4
    assert all(job.expected_train_s < job.train_s for job in jobs)


def test_the_fleet_is_what_its_generator_draws(capsys: pytest.CaptureFixture[str]) -> None:
    """Seed 2512, stated in the file."""
    runpy.run_path(str(EXAMPLES / "fleet_100" / "generate.py"), run_name="__main__")
    assert capsys.readouterr().out == (EXAMPLES / "fleet_100" / "fleet.yaml").read_text()


@pytest.mark.slow
def test_the_fleet_is_planned_within_one_per_cent_and_twice_the_same() -> None:
    """100 jobs; the node limit makes it repeatable, the time limit is far away."""
    scenario, made = planned("fleet_100/fleet.yaml", time_s=600.0, target_gap=0.01)
    assert made.certificate is not None
    assert made.certificate.claimed_gap <= 0.01
    assert check(scenario, made).faults == ()
    assert planned("fleet_100/fleet.yaml", time_s=600.0, target_gap=0.01)[1].to_json() == made.to_json()
