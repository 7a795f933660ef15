"""Online admission: RollMux Algorithm 1 as printed and without its losses, and what holds after every event."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from rollplan.models.colocation import algorithm1
from rollplan.models.colocation.problem import ColocationProblem, ColocationSolution, JobData, NodePool
from rollplan.models.colocation.verify import verify
from rollplan.planner.admission import Admission, Fleet, Mode
from rollplan.planner.colocation import admit_all

PAIR = (NodePool("H20", 14.8, 1000.0), NodePool("H800", 42.24, 1000.0))
MODES: tuple[Mode, ...] = ("paper", "lossless")
PAIR_COST = 57.04
"""8 H20 at 1.85 $/h and 8 H800 at 5.28 $/h (RollMux Table 1)."""

E1 = (JobData("A", 1.0, 150.0, 50.0), JobData("B", 2.0, 50.0, 50.0), JobData("C", 1.0, 100.0, 100.0))
E2 = tuple(JobData(name, 1.5, 100.0, 100.0) for name in "ABC")


def random_jobs(seed: int, count: int, pools: int = 2) -> list[JobData]:
    """Jobs of one to four nodes with many ties in seconds and footprints, exact fits included."""
    random = Random(seed)
    widest = random.choice([1, 2, 4])
    return [
        JobData(
            name=f"job{k}",
            slo=random.choice([1.0, 1.2, 1.5, 2.0, 3.0]),
            rollout_s=random.choice([50.0, 75.0, 100.0, 150.0, random.uniform(20, 200)]),
            train_s=random.choice([25.0, 50.0, 100.0, random.uniform(20, 200)]),
            rollout_pool=random.choice([0, 0, 2]) if pools > 2 else 0,
            train_pool=random.choice([1, 1, 3]) if pools > 2 else 1,
            rollout_nodes=random.randint(1, widest),
            train_nodes=random.randint(1, min(2, widest)),
            rollout_memory_gib=random.choice([1.0, 250.0, 500.0, 700.0, 1000.0]),
            train_memory_gib=random.choice([1.0, 200.0, 250.0, 500.0]),
        )
        for k in range(count)
    ]


def random_problem(seed: int, count: int = 12, limited: bool = False) -> ColocationProblem:
    """Random jobs on one pair of pools, on limited nodes if wanted."""
    random, jobs = Random(seed), random_jobs(seed, count)
    pools = PAIR
    if limited:
        pools = (replace(PAIR[0], nodes=random.randint(4, 3 * count)), replace(PAIR[1], nodes=random.randint(2, 2 * count)))
    return ColocationProblem(pools, tuple(jobs), random.randint(1, 5))


def extra_cost(jobs: tuple[JobData, ...], mode: Mode, skip_saturated: bool | None = None) -> float:
    """Return the dollars per hour that the last of some jobs adds."""
    fleet = Fleet(PAIR, 5, mode, skip_saturated)
    admissions = [fleet.admit(job) for job in jobs]
    assert admissions[-1] is not None
    return admissions[-1].extra_cost_per_h


@pytest.mark.parametrize(
    ("jobs", "mode", "dollars"),
    [(E1, "paper", PAIR_COST), (E1, "lossless", 14.8), (E2, "paper", PAIR_COST), (E2, "lossless", 0.0)],
    ids=["E1 paper", "E1 lossless", "E2 paper", "E2 lossless"],
)
def test_lossless_admission_finds_the_packing_that_line_4_prunes(jobs: tuple[JobData, ...], mode: Mode, dollars: float) -> None:
    """E1: a full rollout node, but one more node keeps the period. E2: SLO 1.5 has room for a third job, at no cost.

    Both groups are saturated (T_load = T_cycle = 200 s), so Algorithm 1, line 4, opens a new pair for the third job.
    """
    assert extra_cost(jobs, mode) == pytest.approx(dollars)


@pytest.mark.parametrize("jobs", [E1, E2], ids=["E1", "E2"])
def test_paper_pruning_changes_the_result_of_algorithm_1(jobs: tuple[JobData, ...]) -> None:
    """RollMux 4.2 calls the pruning a shortcut; here it costs money."""
    problem = ColocationProblem(PAIR, jobs)
    pruned, unpruned = algorithm1.run(problem, prune=True), algorithm1.run(problem, prune=False)
    assert pruned is not None
    assert unpruned is not None
    assert algorithm1.cost_per_h(problem, pruned) > algorithm1.cost_per_h(problem, unpruned) + 14


Step = tuple[int, tuple[int, ...]] | None
"""Group (in order of opening) and rollout nodes of one admission; None if there was no room."""


def steps_of_algorithm1(problem: ColocationProblem, prune: bool) -> list[Step]:
    """Admit one job after the other with the plain transcription; jobs without room are turned away."""
    groups: list[algorithm1.PlainGroup] = []
    steps: list[Step] = []
    for job in problem.jobs:
        found = algorithm1.admit(problem, groups, job, prune)
        if found is None:
            steps.append(None)
            continue
        group, nodes = found
        if not group.jobs:
            groups.append(group)
        group.jobs.append(job)
        group.pinning.append(nodes)
        steps.append((next(i for i, other in enumerate(groups) if other is group), nodes))
    return steps


def steps_of_fleet(problem: ColocationProblem, prune: bool) -> list[Step]:
    """Admit one job after the other with the array version."""
    fleet = Fleet(problem.pools, problem.max_group_size, "paper", prune)
    return [None if (placed := fleet.admit(job)) is None else (placed.group, placed.nodes) for job in problem.jobs]


@pytest.mark.parametrize("limited", [False, True], ids=["unlimited", "limited"])
def test_arrays_place_every_job_where_algorithm_1_does(limited: bool) -> None:
    """Two writings of Algorithm 1, placement by placement: several nodes, exact memory fits, full pools."""
    problems = [random_problem(seed, limited=limited) for seed in range(150)]
    assert [p for p in problems if steps_of_fleet(p, prune=True) != steps_of_algorithm1(p, prune=True)] == []


@pytest.mark.parametrize("limited", [False, True], ids=["unlimited", "limited"])
def test_lossless_pruning_never_changes_the_result_of_algorithm_1(limited: bool) -> None:
    """Without line 4 the plain version tries every group; the array version skips what cannot be feasible."""
    problems = [random_problem(seed, limited=limited) for seed in range(150)]
    assert [p for p in problems if steps_of_fleet(p, prune=False) != steps_of_algorithm1(p, prune=False)] == []


def test_the_random_problems_reach_what_they_should() -> None:
    """Jobs turned away, packed on existing nodes, and placed differently by the paper's pruning."""
    pruned = [steps_of_fleet(random_problem(seed, limited=True), prune=True) for seed in range(150)]
    unpruned = [steps_of_fleet(random_problem(seed, limited=True), prune=False) for seed in range(150)]
    assert sum(None in steps for steps in pruned) > 30
    assert sum(a != b for a, b in zip(pruned, unpruned, strict=True)) > 20


def test_wide_jobs_share_their_ninth_node_like_any_other() -> None:
    """The arrays start with eight nodes a group and grow; the nodes beyond must have their memory too."""
    wide = JobData("wide", 2.0, 100.0, 10.0, rollout_nodes=9, rollout_memory_gib=300.0)
    fleet = Fleet(PAIR, 5)
    assert [placed and placed.nodes for placed in (fleet.admit(wide), fleet.admit(wide))] == [tuple(range(9))] * 2


def test_a_wide_job_elsewhere_takes_no_memory_from_other_groups() -> None:
    """Nodes 0 to 7 are full; when the group adds a ninth, that has room for two although the arrays grew in between."""
    full = JobData("full", 3.0, 100.0, 10.0, rollout_nodes=8, rollout_memory_gib=900.0)
    elsewhere = JobData("elsewhere", 1.0, 1.0, 1.0, rollout_nodes=12)
    half = JobData("half", 3.0, 100.0, 10.0, rollout_memory_gib=500.0)
    fleet = Fleet(PAIR, 5)
    admissions = [fleet.admit(job) for job in (full, elsewhere, half, half)]
    assert [placed and placed.nodes for placed in admissions[2:]] == [(8,), (8,)]


class Replay:
    """A fleet under random arrivals and departures, and its live jobs by ticket."""

    def __init__(self, seed: int, mode: Mode, skip_saturated: bool | None = None, limited: bool = False) -> None:
        self.random = Random(seed)
        self.waiting = random_jobs(seed, 40, pools=4)
        nodes = (12, 10, 6, 6) if limited else (None,) * 4
        self.pools = tuple(NodePool(f"pool{p}", price, 1000.0, nodes[p]) for p, price in enumerate((14.8, 42.24, 9.6, 30.0)))
        self.fleet = Fleet(self.pools, self.random.randint(1, 5), mode, skip_saturated)
        self.live: dict[int, JobData] = {}
        self.admissions: list[Admission] = []
        self.costs = [0.0]

    def step(self) -> None:
        """Let one job arrive or leave."""
        if self.live and (not self.waiting or self.random.random() < 0.4):
            ticket = self.random.choice(sorted(self.live))
            self.fleet.remove(ticket)
            del self.live[ticket]
        else:
            job = self.waiting.pop()
            if (placed := self.fleet.admit(job)) is not None:
                self.live[placed.ticket] = job
                self.admissions.append(placed)
        self.costs.append(self.fleet.cost_per_h)

    def plan(self) -> tuple[ColocationProblem, ColocationSolution]:
        """Return the live jobs as a problem and the fleet as its plan."""
        tickets = sorted(self.live)
        problem = ColocationProblem(self.pools, tuple(self.live[ticket] for ticket in tickets), self.fleet.max_group_size)
        return problem, self.fleet.solution(problem, tickets)


@pytest.fixture(params=[("paper", None), ("paper", False), ("lossless", None)], ids=["paper", "paper unpruned", "lossless"])
def replays(request: pytest.FixtureRequest) -> list[Replay]:
    """Twenty histories of one policy, half of them on limited pools."""
    mode, skip_saturated = request.param
    return [Replay(seed, mode, skip_saturated, limited=bool(seed % 2)) for seed in range(20)]


def test_every_guarantee_holds_after_every_event(replays: list[Replay]) -> None:
    """Memory, SLO, node counts and cost of all members, by the independent verifier, after arrivals and departures."""
    found: list[str] = []
    for replay in replays:
        for _ in range(60):
            replay.step()
            found += verify(*replay.plan())
    assert found == []


def test_the_fleets_cost_is_its_plans_cost(replays: list[Replay]) -> None:
    """Running totals must not drift from the nodes in use."""
    wrong = []
    for replay in replays:
        for _ in range(60):
            replay.step()
            problem, plan = replay.plan()
            if plan.cost_per_h != pytest.approx(replay.fleet.cost_per_h, abs=1e-9) or len(replay.fleet) != len(problem.jobs):
                wrong.append((problem, plan, replay.fleet.cost_per_h))
    assert wrong == []


def test_marginal_costs_are_what_the_fleet_grows_by_and_never_negative(replays: list[Replay]) -> None:
    """Delta = Cost(G') - Cost(G) >= 0 (RollMux 4.2); direct packing, which adds no node, has Delta 0 exactly."""
    wrong = []
    for replay in replays:
        for _ in range(60):
            known = len(replay.admissions)
            replay.step()
            for placed in replay.admissions[known:]:
                grown = replay.costs[-1] - replay.costs[-2]
                packed = placed.new_rollout_nodes == placed.new_train_nodes == 0
                if (
                    placed.extra_cost_per_h != pytest.approx(grown, abs=1e-6)
                    or placed.extra_cost_per_h < 0
                    or (packed and placed.extra_cost_per_h != 0)
                ):
                    wrong.append((placed, grown))
    assert wrong == []


def test_a_departure_never_raises_the_cost(replays: list[Replay]) -> None:
    """Nodes that hold nobody are given back at once."""
    wrong = []
    for replay in replays:
        for _ in range(60):
            live = len(replay.live)
            replay.step()
            if len(replay.live) < live and replay.costs[-1] > replay.costs[-2]:
                wrong.append(replay.costs[-2:])
    assert wrong == []


def test_no_group_outgrows_the_limit(replays: list[Replay]) -> None:
    """Group size bounds what is resident on a node."""
    wrong = []
    for replay in replays:
        for _ in range(60):
            replay.step()
            wrong += [group for group in replay.plan()[1].groups if len(group.jobs) > replay.fleet.max_group_size]
    assert wrong == []


def test_admitting_and_removing_a_job_leaves_the_fleet_as_it_was(replays: list[Replay]) -> None:
    """A visitor must leave no trace in loads, free memory or node counts: the next job pays what it would have paid."""
    wrong = []
    for replay in replays:
        for _ in range(30):
            replay.step()
        for visitor, job in pairwise(random_jobs(99, 12, pools=4)):
            cost, before = replay.fleet.cost_per_h, dollars(replay.fleet, job)
            dollars(replay.fleet, visitor)
            if (cost, before) != (replay.fleet.cost_per_h, dollars(replay.fleet, job)):
                wrong.append((visitor, job, cost, before))
    assert wrong == []


def dollars(fleet: Fleet, job: JobData) -> float | None:
    """Return what a job would cost, without keeping it; None if there is no room."""
    placed = fleet.admit(job)
    if placed is None:
        return None
    fleet.remove(placed.ticket)
    return placed.extra_cost_per_h


@pytest.mark.parametrize("mode", MODES)
def test_an_emptied_fleet_costs_nothing(mode: Mode) -> None:
    """After the last departure every node is given back."""
    fleet = Fleet(PAIR, 5, mode)
    for placed in [fleet.admit(job) for job in random_jobs(3, 30)]:
        assert placed is not None
        fleet.remove(placed.ticket)
    assert (fleet.cost_per_h, fleet.used, len(fleet)) == (0.0, [0, 0], 0)


@pytest.mark.parametrize("mode", MODES)
def test_a_job_of_slo_1_always_finds_room_in_unlimited_pools(mode: Mode) -> None:
    """An isolated group is always feasible, because alone the period is the solo time."""
    fleet = Fleet(PAIR, 5, mode)
    assert [job for job in random_jobs(5, 60) if fleet.admit(replace(job, slo=1.0)) is None] == []


@pytest.mark.parametrize("mode", MODES)
def test_a_job_without_room_is_turned_away_and_changes_nothing(mode: Mode) -> None:
    """One pair of nodes and two jobs that cannot share."""
    fleet = Fleet((replace(PAIR[0], nodes=1), replace(PAIR[1], nodes=1)), 5, mode)
    fleet.admit(JobData("long", 1.0, 100.0, 100.0))
    assert (fleet.admit(JobData("short", 1.0, 10.0, 10.0)), fleet.cost_per_h, len(fleet)) == (None, PAIR_COST, 1)


def test_an_exact_memory_fit_is_refused_by_the_paper_and_taken_by_lossless() -> None:
    """Algorithm 1, line 8: mem_req >= free is rejected, so 500 + 500 GiB do not share 1000 GiB."""
    jobs = tuple(JobData(name, 2.0, 100.0, 50.0, rollout_memory_gib=500.0) for name in "AB")
    assert [extra_cost(jobs, mode, skip_saturated=False) for mode in MODES] == pytest.approx([14.8, 0.0])


def test_training_nodes_are_added_by_lossless_only() -> None:
    """RollMux 4.2, footnote 2: the training pool is never scaled; a job of two training nodes opens its own group."""
    jobs = (JobData("A", 2.0, 100.0, 50.0), JobData("B", 2.0, 100.0, 50.0, train_nodes=2))
    assert [extra_cost(jobs, mode, skip_saturated=False) for mode in MODES] == pytest.approx([14.8 + 2 * 42.24, 42.24])


def test_of_equal_costs_lossless_fills_the_tightest_training_pool() -> None:
    """Room in the others stays for longer jobs; the paper's strict comparison takes the first group it met."""
    loose, tight = JobData("loose", 3.0, 50.0, 50.0, train_memory_gib=600.0), JobData("tight", 1.2, 50.0, 200.0, train_memory_gib=600.0)
    jobs = (loose, tight, JobData("short", 3.0, 40.0, 60.0))
    fleets = [Fleet(PAIR, 5, mode, skip_saturated=False) for mode in MODES]
    assert [[placed.group for job in jobs if (placed := fleet.admit(job))] for fleet in fleets] == [[0, 1, 0], [0, 1, 1]]


def test_of_equal_nodes_lossless_fills_the_fullest() -> None:
    """Node 1 is busy for 90 s, node 0 for 50 s; the paper's order takes the first with room."""
    jobs = (
        JobData("a", 3.0, 50.0, 10.0, rollout_memory_gib=600.0),
        JobData("b", 3.0, 90.0, 10.0, rollout_memory_gib=600.0),
        JobData("c", 3.0, 60.0, 10.0),
    )
    fleets = [Fleet(PAIR, 5, mode, skip_saturated=False) for mode in MODES]
    assert [[placed.nodes for job in jobs if (placed := fleet.admit(job))] for fleet in fleets] == [[(0,), (1,), (0,)], [(0,), (1,), (1,)]]


def test_prices_may_be_whole_numbers() -> None:
    """NodePool(name, 10, ...) is what a library user writes first."""
    fleet = Fleet((NodePool("H20", 10, 1000), NodePool("H800", 40, 1000)), 5)
    admissions = [fleet.admit(JobData(name, 2.0, 100.0, 50.0)) for name in "ab"]
    assert [placed and placed.extra_cost_per_h for placed in admissions] == [50, 0]


@pytest.mark.parametrize("mode", MODES)
def test_admitting_a_whole_problem_gives_a_plan_that_verifies(mode: Mode) -> None:
    """The planner's view of admission: all jobs in order, one plan."""
    problems = [random_problem(seed) for seed in range(50)]
    plans = [(problem, admit_all(problem, mode)) for problem in problems]
    assert [faults for problem, plan in plans if plan is None or (faults := verify(problem, plan))] == []
