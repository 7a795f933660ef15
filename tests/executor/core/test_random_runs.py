"""What holds in every run, whatever the order and time of events and whatever goes wrong.

`shell.Shell` watches, at every instruction: one job at a time on a resource, samples begun, finished and trained once,
versions within the staleness bound, finished iterations never again, no job stopped that did no wrong.
"""

from __future__ import annotations

from itertools import groupby
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.executor.core.decide import replay
from rollplan.executor.core.runbook import Dispatch, Runbook

from .books import book, job
from .shell import Shell

WAYS = ("serial", "serial", "mini-batch", "dynamic-batch", "one-step", "async-batch", "async-streamed")
SEEDS = st.integers(0, 2**32)


@st.composite
def runbooks(draw: st.DrawFn, policy: Any = None, busy: bool = False) -> Runbook:
    """Up to four jobs on up to four rollout nodes and one training resource, each in a way of its own.

    busy: every node of a job has samples in every iteration.
    """
    nodes = [f"n{node}" for node in range(draw(st.integers(1, 4)))]
    jobs = []
    for place in range(draw(st.integers(1, 4))):
        mine = draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=len(nodes), unique=True))
        samples = draw(st.integers(len(mine) if busy else 1, 7))
        dispatch = Dispatch(draw(st.sampled_from(["given", "lpt"])), 0.3, 0 if busy else draw(st.integers(0, len(mine) - 1)))
        jobs.append(
            job(
                "ABCD"[place],
                mine,
                iterations=draw(st.integers(1, 4)),
                samples=samples,
                way=draw(st.sampled_from(WAYS)),
                staleness=draw(st.integers(0, 3)),
                chunks=draw(st.integers(1, samples)),
                fill=draw(st.integers(1, 7)),
                dispatch=dispatch,
                migrate_at=draw(st.none() | st.floats(0.1, 0.9)),
                migrate_to=draw(st.integers(1, len(mine))),
                train_memory_gib=draw(st.sampled_from([None, 2.0])),
                hang_s=10_000.0,
                restarts=draw(st.integers(0, 3)),
            )
        )
    return book(*jobs, policy=policy or draw(st.sampled_from(["round-robin", "fifo"])))


@settings(max_examples=200)
@given(runbooks(), SEEDS, st.integers(0, 12), st.data())
def test_every_run_ends_and_keeps_its_promises(runbook: Runbook, seed: int, faults: int, data: st.DataObject) -> None:
    """With deaths, hangs, lost nodes, memory overruns, late and doubled events, stops; and from any state of an earlier run."""
    finished = {run.name: data.draw(st.integers(0, run.iterations)) for run in runbook.jobs if data.draw(st.booleans())}
    shell = Shell(runbook, Random(seed), finished)
    shell.play(faults)
    assert [answer for _, answer in replay(runbook, shell.events, finished)] == shell.answers


@settings(max_examples=100)
@given(runbooks(), SEEDS)
def test_without_faults_every_job_is_done(runbook: Runbook, seed: int) -> None:
    """No order of events makes jobs wait for each other for ever."""
    shell = Shell(runbook, Random(seed))
    shell.play(faults=0)
    assert {status["state"] for status in shell.core.status()["jobs"].values()} == {"done"}


@settings(max_examples=100)
@given(runbooks("round-robin", busy=True), SEEDS, st.integers(0, 8))
def test_resources_serve_their_jobs_in_strict_round_robin(runbook: Runbook, seed: int, faults: int) -> None:
    """Between two turns of a job, each other job that takes part has exactly one, in the order of the ring.

    Looked at between two moments at which somebody left or joined the ring. A job takes part from its first turn there, which
    may be later than that of others, as no resource of it may have passed that turn, until its iterations are over.
    """
    shell = Shell(runbook, Random(seed))
    shell.play(faults)
    for resource in runbook.resources:
        for part, turns in groupby(shell.turns[resource.name], key=lambda turn: turn is not None):
            if part:
                in_order([turn[0] for turn in turns if turn is not None], resource.jobs)


def in_order(served: list[str], ring: tuple[str, ...]) -> None:
    for first, name in enumerate(served):
        if name in served[first + 1 :]:
            again = served.index(name, first + 1)
            between, others = served[first + 1 : again], set(served[:first]) & set(served[again + 1 :]) - {name}
            ahead = [(ring.index(other) - ring.index(name)) % len(ring) for other in between]
            assert ahead == sorted(set(ahead)), served
            assert others <= set(between), served


@pytest.mark.parametrize("policy", ["round-robin", "fifo"])
@given(SEEDS)
def test_a_dying_job_takes_no_other_one_down(policy: Any, seed: int) -> None:
    """One job dies again and again until it is given up; the other is done, without a restart."""
    runbook = book(job("A", ["n"], iterations=4, restarts=2), job("B", ["n"], iterations=4), policy=policy)
    shell = Shell(runbook, Random(seed))
    shell._victim = lambda: shell.lives["A"] if shell._alive(shell.lives["A"]) else None  # type: ignore[method-assign]
    shell._harm = shell._kill  # type: ignore[method-assign]
    shell.play(faults=1000)
    status = shell.core.status()["jobs"]
    assert (status["B"]["state"], status["B"]["restarts"]) == ("done", 0)
    assert status["A"]["state"] in ("failed", "done")
