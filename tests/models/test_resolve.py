"""What stands for absent numbers: measurements by size, profiles, laws of lengths, links; each with its origin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan import InputError, Scenario
from rollplan.models.resolve import Resolved, ResolvedJob, resolve

POOLS = "pools: {h20: {role: rollout, gpu: H20, price: 2 $/h, memory: 2 TB}, h800: {role: train, gpu: H800, price: 5 $/h, memory: 2 TB}}\n"


def resolved(job: str, head: str = "") -> tuple[ResolvedJob, Resolved]:
    """Resolve a scenario of one job, written as YAML."""
    found = resolve(Scenario.from_yaml(f"name: one\n{head}{POOLS}jobs:\n  - {{name: job, {job}}}\n"))
    return found.jobs[0], found


@pytest.mark.parametrize(
    ("size", "rollout_switch_s", "train_switch_s", "sync_s", "rollout_gb", "train_gb"),
    [("7B", 0.9, 4.1, 0.9, 275.7, 240.0), ("14B", 1.8, 4.7, 1.7, 445.4, 456.1), ("32B", 1.7, 5.9, 3.9, 490.3, 520.4)],
)
def test_absent_overheads_are_the_measured_ones_of_the_size(
    size: str, rollout_switch_s: float, train_switch_s: float, sync_s: float, rollout_gb: float, train_gb: float
) -> None:
    """RollMux Table 2, Fig. 4 and Fig. 12 (8 to 8 GPUs)."""
    job, found = resolved(f"size: {size}, rollout: 100 s, train: 50 s")
    assert job.worst.rollout_s == pytest.approx(100 + rollout_switch_s)
    assert job.worst.train_s == pytest.approx(50 + train_switch_s + sync_s)
    assert job.rollout_memory_gib == pytest.approx(rollout_gb * 1e9 / 2**30)
    assert job.train_memory_gib == pytest.approx(train_gb * 1e9 / 2**30)
    assert found.provenance == {"imported": 2, "reference": 5}


def test_a_size_between_measured_ones_is_interpolated_and_says_so() -> None:
    """Halfway between 7B and 14B; the sync follows the two-stage law of Fig. 12."""
    job, found = resolved("size: 10.5B, rollout: 100 s, train: 50 s")
    assert (job.rollout_switch_s, job.train_switch_s) == (pytest.approx(1.35), pytest.approx(4.4))
    assert job.sync_s == pytest.approx(21 / (8 * 2.5) * 1.05 + 21 / 250)
    assert found.provenance == {"estimated": 5, "imported": 2}


def test_zero_overheads_leave_times_alone_but_not_memory() -> None:
    """`overheads: zero` compares with papers that count none; residency stays."""
    job, _ = resolved("size: 7B, rollout: 100 s, train: 50 s", "overheads: zero\n")
    assert (job.worst.rollout_s, job.worst.train_s) == (100, 50)
    assert job.rollout_memory_gib > 0


def test_given_overheads_win_over_the_reference() -> None:
    """Measured values of the user are better than a table."""
    job, _ = resolved(
        "size: 7B, sync: 7 s, rollout: {time: 100 s, switch: 2 s, memory: 1 GiB}, train: {time: 50 s, switch: 3 s, memory: 2 GiB}"
    )
    assert (job.worst.rollout_s, job.worst.train_s) == (102, 60)
    assert (job.rollout_memory_gib, job.train_memory_gib) == (1, 2)


def test_sync_holds_the_side_the_scenario_names() -> None:
    """The other side receives into host memory."""
    text = "size: 7B, sync: 7 s, rollout: {time: 100 s, switch: 0 s}, train: {time: 50 s, switch: 0 s}"
    assert [resolved(text)[0].worst.rollout_s, resolved(text)[0].worst.train_s] == [100, 57]
    other, _ = resolved(text, "sync_holds: rollout\n")
    assert (other.worst.rollout_s, other.worst.train_s, other.worst.solo_s) == (107, 50, 157)


@given(gbps=st.integers(1, 400))
def test_the_link_sets_the_speed_of_the_sync(gbps: int) -> None:
    """From training to rollout; 15.2 GB over eight streams, then a broadcast in the node."""
    job, _ = resolved("size: 7B, rollout: 100 s, train: 50 s", f"links: [{{from: h800, to: h20, bandwidth: {gbps} Gbps}}]\n")
    assert job.sync_s == pytest.approx(15.2 / (8 * gbps / 8) * 1.05 + 15.2 / 250)


def test_a_link_the_other_way_says_nothing_about_the_sync() -> None:
    """Weights go from training to rollout."""
    job, _ = resolved("size: 7B, rollout: 100 s, train: 50 s", "links: [{from: h20, to: h800, bandwidth: 1 Gbps}]\n")
    assert job.sync_s == 0.9


def test_expected_times_come_from_the_law_of_lengths() -> None:
    """The longest of the responses ends the rollout, their mean sets the training; more responses, longer rollout."""
    few, _ = resolved(
        "size: 7B, sync: 0 s, lengths: 7B-8k, responses: 8, rollout: {time: 100 s, switch: 0 s}, train: {time: 50 s, switch: 0 s}"
    )
    many, _ = resolved(
        "size: 7B, sync: 0 s, lengths: 7B-8k, responses: 512, rollout: {time: 100 s, switch: 0 s}, train: {time: 50 s, switch: 0 s}"
    )
    assert few.expected_known
    assert few.expected.rollout_s < many.expected.rollout_s <= 100
    assert few.expected.train_s == many.expected.train_s == pytest.approx(50 * 0.152, rel=0.2)
    assert (few.worst.rollout_s, few.worst.train_s) == (100, 50)


def test_without_lengths_the_worst_case_stands_for_the_expected_time_with_a_warning() -> None:
    """A plan does not pretend to know."""
    job, found = resolved("size: 7B, rollout: 100 s, train: 50 s")
    assert (job.expected, job.expected_known) == (job.worst, False)
    assert found.warnings == ("expected times are unknown and taken as the worst case: job",)


def test_without_a_size_absent_overheads_are_zero_with_a_warning() -> None:
    """The number is there, but the reader knows."""
    job, found = resolved(
        "rollout: {time: {worst: 100 s, expected: 80 s}, memory: 1 GB}, train: {time: {worst: 50 s, expected: 9 s}, memory: 1 GB}"
    )
    assert (job.worst.rollout_s, job.worst.train_s, job.expected.rollout_s, job.expected.train_s) == (100, 50, 80, 9)
    assert [warning.partition(" (")[0] for warning in found.warnings] == ["sync and switch times are counted as 0 s where absent: job"]


PROFILE = (
    "profiles: {lab: {provenance: {kind: measured, source: our cluster}, "
    "rollout: {8: 100 s, 16: {worst: 60 s, expected: 40 s}}, train: {8: 50 s}}}"
)


@pytest.mark.parametrize(("nodes", "worst_s", "expected_s"), [(1, 100, 100), (2, 60, 40)])
def test_a_profile_gives_the_times_at_the_gpu_count_of_the_nodes(nodes: int, worst_s: float, expected_s: float) -> None:
    """Two nodes of eight GPUs are looked up under 16; the numbers count as measured."""
    job, found = resolved(f"size: 7B, profile: lab, rollout: {{nodes: {nodes}}}", f"overheads: zero\n{PROFILE}\n")
    assert (job.worst.rollout_s, job.expected.rollout_s, job.worst.train_s) == (worst_s, expected_s, 50)
    assert found.provenance["measured"] == 2


def test_a_gpu_count_outside_the_profile_is_refused_with_the_counts_it_has() -> None:
    """Nothing is interpolated between parallel layouts."""
    with pytest.raises(InputError, match=r"worst-case time on 24 GPUs, which profile `lab` does not have; .* counts: 8, 16"):
        resolved("size: 7B, profile: lab, rollout: {nodes: 3}", f"{PROFILE}\n")
