"""Who may use a resource."""

from __future__ import annotations

from rollplan.executor.core.permits import Permit, join_all
from rollplan.executor.core.runbook import Policy


def permit(policy: Policy = "round-robin", iterations: int = 3) -> Permit:
    """One resource of three jobs, all in the ring."""
    made = Permit("ABC", policy)
    for job in "ABC":
        join_all([made], job, iterations)
    return made


def served(one: Permit, asking: str) -> str:
    """Let these jobs ask, serve everybody who can be, and say who was."""
    for job in asking:
        one.ask(job)
    order = ""
    while job := one.grant():
        order += job
        one.release(job)
    return order


def turns(one: Permit, count: int) -> str:
    """Let both jobs ask all the time and say who was served."""
    order = ""
    for _ in range(count):
        for job in "AB":
            one.ask(job)
        order += one.grant() or "-"
        one.release(order[-1])
    return order


def test_round_robin_waits_for_the_job_whose_turn_it_is() -> None:
    """The resource idles although B is ready: the order must be the same on all resources (docs/round_robin.md)."""
    one = permit()
    assert served(one, "B") == ""
    assert served(one, "A") == "AB"
    assert served(one, "A") == ""
    assert served(one, "C") == "CA"


def test_first_in_first_out_serves_whoever_asked_first() -> None:
    """A fast job may have several turns while a slow one is away."""
    one = permit("fifo")
    assert [served(one, "BA"), served(one, "B"), served(one, "CA")] == ["BA", "B", "CA"]


def test_nobody_gets_a_permit_that_another_one_holds() -> None:
    """Even if it is its turn."""
    one = permit()
    one.ask("A")
    assert one.grant() == "A"
    one.ask("B")
    assert one.grant() is None
    one.release("B")
    assert one.holder == "A"


def test_a_job_that_left_is_skipped_and_keeps_what_it_holds() -> None:
    """Its processes may still be there; the permit is free when somebody says so."""
    one = permit()
    one.ask("A")
    one.grant()
    one.leave("A")
    one.ask("B")
    assert one.grant() is None
    one.release("A")
    assert one.grant() == "B"


def test_a_job_without_further_iterations_is_not_waited_for() -> None:
    """Jobs of a group may run different numbers of iterations."""
    one = Permit("AB", "round-robin")
    join_all([one], "A", 1)
    join_all([one], "B", 3)
    assert served(one, "AB") == "AB"
    assert served(one, "B") == "B"


def test_a_job_that_comes_back_gets_the_same_turn_on_all_of_its_resources() -> None:
    """The node has begun round 1 and has passed B's place, so B joins in round 2 there, and so on the trainer."""
    node, trainer = Permit("ABC", "round-robin"), Permit("ABC", "round-robin")
    for job in "ABC":
        join_all([node, trainer], job, 9)
    assert served(node, "ABC") == "ABC"
    assert served(trainer, "A") == "A"
    for one in (node, trainer):
        one.leave("B")
    assert served(node, "A") == "A"
    node.ask("C")
    assert node.grant() == "C"
    join_all([node, trainer], "B", 8)
    node.release("C")
    assert served(node, "B") == "", "A of round 2 comes first"
    assert served(node, "A") == "AB"
    assert served(trainer, "CACA") == "CA"
    assert served(trainer, "C") == "C"
    assert served(trainer, "BA") == "AB"


def test_the_queue_is_in_the_order_of_service() -> None:
    """What a screen shows is what will happen."""
    assert [_asked(permit(policy), "CBA").queue() for policy in ("round-robin", "fifo")] == [("A", "B", "C"), ("C", "B", "A")]


def _asked(one: Permit, jobs: str) -> Permit:
    for job in jobs:
        one.ask(job)
    return one


def test_a_timetable_gives_short_jobs_more_turns() -> None:
    """A runs at 0 and 60 of every 100 s, B at 30; whoever is early waits, as in round robin."""
    one = Permit("AB", "round-robin", [(0.0, 60.0), (30.0,)], 100.0)
    join_all([one], "A", 6)
    join_all([one], "B", 3)
    assert served(one, "B") == ""
    assert turns(one, 6) == "ABAABA"


def test_a_turn_may_begin_before_the_period_that_it_belongs_to() -> None:
    """The rollout of an iteration may start a period before its training: B's first turn at -70 comes before A's at -10."""
    one = Permit("AB", "round-robin", [(-10.0,), (-70.0, 20.0)], 100.0)
    join_all([one], "A", 2)
    join_all([one], "B", 4)
    assert served(one, "A") == ""
    assert turns(one, 6) == "BABBAB"


def test_a_job_of_a_timetable_that_comes_back_gets_its_first_turn_not_passed() -> None:
    """A had its turns at 0 and 60 and at 100; its next is that at 160, also after many periods."""
    one = Permit("AB", "round-robin", [(0.0, 60.0), (30.0,)], 100.0)
    join_all([one], "A", 300)
    for _ in range(250):
        one.ask("A")
        assert one.grant() == "A"
        one.release("A")
    one.leave("A")
    assert one.first_turn("A") == 250
    assert one.first_turn("B") == 125
