"""What `explain` says of periods: least or not, why, and whether repeating short jobs would use the nodes better."""

from __future__ import annotations

import pytest

from rollplan import Plan, Scenario, plan
from rollplan.models.errors import InputError
from rollplan.models.plan import PlannedGroup
from rollplan.planner.explain import explain_job, proof_texts
from rollplan.planner.proofs import better_text, period_text, searched_text

AGAINST_THEOREM_1 = """\
name: theorem
pools:
  h20: {role: rollout, gpu: H20, price: 1.85 $/h, memory: 900 GB}
  h800: {role: train, gpu: H800, price: 5.28 $/h, memory: 900 GB}
overheads: zero
jobs:
  - {name: j, slo: 1.5, rollout: {time: 100 s, memory: 10 GB}, train: {time: 100 s, memory: 10 GB}}
  - {name: k1, slo: 20, rollout: {time: 10 s, memory: 10 GB}, train: {time: 10 s, memory: 10 GB}}
  - {name: k2, slo: 20, rollout: {time: 10 s, memory: 10 GB}, train: {time: 10 s, memory: 10 GB}}
"""


@pytest.fixture(scope="module")
def planned() -> Plan:
    """All three jobs on one pair of nodes."""
    made = plan(Scenario.from_yaml(AGAINST_THEOREM_1))
    assert len(made.groups) == 1
    return made


def changed(planned: Plan, **values: object) -> PlannedGroup:
    """Return the group with other values."""
    return planned.groups[0].model_copy(update=values)


def test_strict_round_robin_is_said_to_attain_the_least_period(planned: Plan) -> None:
    """In the summary of all groups, and for one job, where CP-SAT may search."""
    sentence = "strict round robin attains the least period of 200.0 s: job j alone takes that long"
    assert proof_texts(planned) == {"g1": sentence}
    assert explain_job(planned, "k1").proof == sentence


def test_a_better_schedule_is_exhibited(planned: Plan) -> None:
    """RollMux's Theorem 1 says that there is none: k1 and k2 four times while j runs once."""
    assert explain_job(planned, "j").better == (
        "a better schedule exists: j x1, k1 x4, k2 x4 in 270.0 s keep all SLOs and the pools 1.333 busy in sum, strict round robin 1.200; "
        "it needs `max_rate: 4`, the plan has 1, and these nodes would cost the same"
    )
    assert str(better_text(planned.groups[0], (), 0, 4)).endswith("; `max_rate: 4` allows it, and these nodes would cost the same")


def test_a_longer_period_than_needed_is_not_called_the_least(planned: Plan) -> None:
    """With a search, and without one."""
    slow = changed(planned, period_s=210.0)
    assert period_text(slow, ()).startswith("no schedule takes less than 200.0 s (job j alone); `--job` searches")
    assert searched_text(slow, (), 0) == ("the least period is 200.0 s: job j alone takes that long; strict round robin takes 210.0 s")


def test_the_least_period_of_gangs_is_searched(planned: Plan) -> None:
    """B (20, 20), A (12, 4) on both nodes, C (26, 4): loads say 40 s, CP-SAT 41."""
    phases = {"j": (20.0, 20.0, (0,)), "k1": (12.0, 4.0, (0, 1)), "k2": (26.0, 4.0, (1,))}
    jobs = tuple(
        job.model_copy(update={"rollout_s": rollout_s, "train_s": train_s, "solo_s": rollout_s + train_s, "rollout_nodes": nodes})
        for job, (rollout_s, train_s, nodes) in ((job, phases[job.name]) for job in planned.groups[0].jobs)
    )
    group = changed(planned, jobs=jobs, rollout_nodes=2, period_s=41.0)
    assert period_text(group, {"k1"}).startswith("no schedule takes less than 40.0 s (job j alone)")
    assert searched_text(group, {"k1"}, 0) == "strict round robin attains the least period of 41.0 s: CP-SAT refutes shorter ones"


APART = """\
name: apart
max_rate: RATE
pools:
  h20: {role: rollout, gpu: H20, price: 1.85 $/h, memory: 900 GB}
  h800: {role: train, gpu: H800, price: 5.28 $/h, memory: 900 GB}
overheads: zero
jobs:
  - {name: long, slo: 1.1, rollout: {time: 140 s, memory: 10 GB}, train: {time: 40 s, memory: 10 GB}}
  - {name: short, slo: 1.5, rollout: {time: 40 s, memory: 10 GB}, train: {time: 25 s, memory: 10 GB}}
  - {name: tight, slo: 1, rollout: {time: 10 s, memory: 10 GB}, train: {time: 90 s, memory: 10 GB}}
"""


def places(rate: int, job: str = "long") -> list[tuple[str, bool, str]]:
    """Where a job could go if every job is alone: in a plan that allows so many runs per period."""
    apart = plan(Scenario.from_yaml(APART.replace("RATE", str(rate))), method="solo")
    names = {group.name: group.jobs[0].name for group in apart.groups}
    return [(names[other.group], other.possible, other.reason) for other in explain_job(apart, job).alternatives]


def test_a_job_is_not_refused_where_others_may_run_twice() -> None:
    """short (40 + 25 s) has time for two runs in the 198 s that long tolerates, on a node of its own; tight has none for anybody."""
    refusal = "long alone takes 180.0 s, short tolerates 97.5 s (SLO 1.5)"
    tight = "long alone takes 180.0 s, tight tolerates 100.0 s (SLO 1)"
    assert places(1) == [("short", False, refusal), ("tight", False, tight)]
    assert places(2) == [
        ("short", True, "it could join for 14.80 $/h more there (1 rollout, 0 training nodes), with short x2 per period"),
        ("tight", False, f"in strict round robin {tight}; nor with up to 2 runs of a job per period"),
    ]
    both = plan(Scenario.from_yaml(APART.replace("RATE", "2")))
    assert [[(job.name, job.iterations) for job in group.jobs] for group in both.groups] == [[("long", 1), ("short", 2)], [("tight", 1)]]


def test_what_was_not_searched_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of time, only strict round robin is answered for."""
    monkeypatch.setattr("rollplan.planner.explain.JOINING_S", 0.0)
    assert places(2)[0][1:] == (
        True,
        "it is not known whether it could join with up to 2 runs of a job per period; not in strict round robin, "
        "long alone takes 180.0 s, short tolerates 97.5 s (SLO 1.5)",
    )


def test_a_job_alone_has_nothing_to_be_better_than(planned: Plan) -> None:
    """One job runs at its solo time."""
    assert better_text(changed(planned, jobs=planned.groups[0].jobs[:1]), (), 0) is None


def test_impossible_numbers_in_a_plan_are_an_error_that_names_the_group(planned: Plan) -> None:
    """`explain` believes a plan's numbers, but not that time runs backwards."""
    broken = changed(planned, jobs=(planned.groups[0].jobs[0].model_copy(update={"train_s": -1.0}),))
    with pytest.raises(InputError, match=r"group g1: j: train_s must be finite and at least 0, got -1\.0; plan again"):
        period_text(broken, ())


def test_a_hundred_groups_are_explained_without_a_search(planned: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The screen of all groups asks CP-SAT nothing, whatever the groups are."""
    monkeypatch.setattr("rollplan.models.cyclic_shop.exact.starts_at", None)
    assert proof_texts(planned.model_copy(update={"groups": (changed(planned, period_s=210.0),) * 100})).keys() == {"g1"}
