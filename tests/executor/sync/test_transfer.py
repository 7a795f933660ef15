"""Real ranks with gloo over loopback: what arrives, what is refused, and what happens when one is gone."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[3]
PYTHON = os.environ.get("ROLLPLAN_VLLM_PYTHON")
PROGRAM = Path(__file__).parent / "ranks.py"
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(PYTHON is None, reason="ROLLPLAN_VLLM_PYTHON must name a Python with torch (make test-vllm)"),
]
Found = dict[tuple[str, int], dict[str, Any]]


@pytest.fixture
def ranks(tmp_path: Path) -> Callable[..., Found]:
    """Return a function that runs all ranks of a request, and returns what those say that ended by themselves."""

    def run(**request: Any) -> Found:
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "OMP_NUM_THREADS": "1"}
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        command = [str(PYTHON), str(PROGRAM), json.dumps(request), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
        assert done.returncode == 0, done.stderr
        print(done.stdout, done.stderr)
        said = [json.loads(line) for line in done.stdout.splitlines()]
        return {(one["side"], one["rank"]): one for one in said}

    return run


def errors(found: Found) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the first error of each rank that had one."""
    return {
        rank: next(one for one in said["found"] if "error" in one)
        for rank, said in found.items()
        if any("error" in one for one in said["found"])
    }


@pytest.mark.parametrize(
    ("train", "rollout", "options"),
    [
        (2, 2, {}),
        (2, 3, {}),
        (3, 1, {}),
        (1, 4, {}),
        (2, 3, {"plan": "flat"}),
        (1, 3, {"same_site": True}),
        (3, 2, {"same_site": True, "backend": "gloo"}),
    ],
)
def test_every_worker_gets_every_version_bit_by_bit_and_in_order(
    ranks: Callable[..., Found], train: int, rollout: int, options: dict[str, Any]
) -> None:
    """Five times, of tensors of eight types; train ranks without a stream of their own included. One copy leaves the trainers."""
    found = ranks(train=train, rollout=rollout, versions=[1, 2, 3, 3, 7], options=options)
    assert errors(found) == {}
    assert set(found) == {("train", rank) for rank in range(train)} | {("rollout", rank) for rank in range(rollout)}
    workers = [found["rollout", rank]["found"] for rank in range(rollout)]
    assert [[(one["version"], one["same"]) for one in worker] for worker in workers] == [[(v, True) for v in (1, 2, 3, 3, 7)]] * rollout
    size = workers[0][0]["bytes"]
    sent = [sum(found["train", rank]["found"][number]["bytes"] for rank in range(train)) for number in range(5)]
    copies = rollout if options.get("plan") == "flat" else min(2, rollout) if options.get("same_site") else 1
    assert (sent, [one["bytes"] for worker in workers for one in worker]) == ([copies * size] * 5, [size] * 5 * rollout)
    for one in (number for said in found.values() for number in said["found"]):
        assert one["first_stage_s"] + one["second_stage_s"] == pytest.approx(one["seconds"], abs=1e-6)
        assert min(one["waited_s"], one["first_stage_s"], one["second_stage_s"]) >= 0


def test_torch_distributed_s_own_group_is_left_alone_and_nccl_without_gpus_falls_back_with_a_remark(ranks: Callable[..., Found]) -> None:
    """vLLM and FSDP need that group. All ranks agree on gloo, and say why; who asked for gloo has nothing to remark."""
    found = ranks(train=1, rollout=2, versions=[1])
    assert errors(found) == {}
    assert {(said["default_group"], said["backend"]) for said in found.values()} == {(False, "gloo")}
    (remark,) = {said["remark"] for said in found.values()}
    assert remark.startswith("weights go over TCP with gloo, not NCCL: train rank 0 has ")
    found = ranks(train=1, rollout=1, versions=[1], options={"backend": "gloo"})
    assert errors(found) == {}
    assert {said["remark"] for said in found.values()} == {None}


def test_a_flipped_bit_is_seen_by_all_who_got_it_and_the_same_version_can_be_sent_again(ranks: Callable[..., Found]) -> None:
    """In memory of the first worker, before it passes the shard on: the checksum is the trainer's. Nothing is closed."""
    found = ranks(train=2, rollout=3, versions=[1, 2, 3], mishap="one_bit_flips")
    everybody = [("rollout", 0), ("rollout", 1), ("rollout", 2), ("train", 0), ("train", 1)]
    assert {rank: one["error"] for rank, one in errors(found).items()} == dict.fromkeys(everybody, "DamagedError")
    says = {rank: one["says"] for rank, one in errors(found).items()}
    assert says["rollout", 0].startswith("rollout rank 0, version 2: bytes 0 to 363144 came damaged (checksum ")
    assert says["rollout", 0].endswith(", from train rank 0; send it again")
    assert "from rollout rank 0" in says["rollout", 1]
    assert says["train", 0].startswith("rollout rank 0 did not get version 2 as it was sent")
    third = [found["rollout", rank]["found"][2] for rank in range(3)]
    assert [(one["version"], one["same"]) for one in third] == [(3, True)] * 3


def test_a_worker_that_is_killed_is_missed_by_all_at_once(ranks: Callable[..., Found]) -> None:
    """Long before the timeout: those who wait for it see the connection break and break theirs. Later calls say why they cannot."""
    found = ranks(train=2, rollout=3, versions=[1, 2, 3], mishap="killed", timeout_s=60)
    assert set(found) == {("train", 0), ("train", 1), ("rollout", 0), ("rollout", 2)}
    assert {rank: one["error"] for rank, one in errors(found).items()} == dict.fromkeys(found, "SyncError")
    assert not any("in time" in one["says"] for one in errors(found).values())
    assert "train rank 1 has lost its connection to rollout rank 1" in errors(found)["train", 1]["says"]
    assert "look at that rank" in errors(found)["train", 1]["says"]
    assert all("make a new one, on every rank" in said["found"][2]["says"] for said in found.values())


@pytest.mark.parametrize("connect", [False, True], ids=["after a version", "before the first"])
def test_a_worker_that_died_while_nobody_waited_for_it_is_missed_by_the_next_call(ranks: Callable[..., Found], connect: bool) -> None:
    """All ranks are connected from the beginning, so that its end is seen by who sends to it or receives from it, at once."""
    found = ranks(train=2, rollout=2, versions=[1, 2], mishap="killed_between", timeout_s=60, connect=connect)
    assert set(found) == {("train", 0), ("train", 1), ("rollout", 0)}
    assert "train rank 1 has lost its connection to rollout rank 1" in errors(found)["train", 1]["says"]
    assert "rollout rank 0 has lost its connection to rollout rank 1" in errors(found)["rollout", 0]["says"]


def test_a_worker_that_hangs_is_an_error_for_the_others_after_the_timeout_and_not_later(ranks: Callable[..., Found]) -> None:
    """It neither comes nor goes."""
    found = ranks(train=2, rollout=2, versions=[1, 2], mishap="stops", timeout_s=3)
    assert {rank: one["error"] for rank, one in errors(found).items()} == dict.fromkeys(
        [("train", 0), ("train", 1), ("rollout", 1)], "SyncError"
    )
    assert 2.9 < errors(found)["train", 0]["after_s"] < 20
    assert "train rank 0 was not done in time with rollout rank 0" in errors(found)["train", 0]["says"]


def test_a_worker_that_never_comes_is_named(ranks: Callable[..., Found]) -> None:
    """By all the others, when their time is over."""
    found = ranks(train=1, rollout=2, versions=[1], mishap="lost", timeout_s=3)
    assert set(found) == {("train", 0), ("rollout", 0)}
    assert "rollout rank 1 did not say" in errors(found)["train", 0]["says"]
    assert errors(found)["train", 0]["after_s"] < 20


ONE_PROCESS = """
import socket, threading, time
import torch
from rollplan.executor.sync.errors import SyncError, WrongWeightsError
from rollplan.executor.sync.transfer import Transfer

def said(call, *given, **named):
    try:
        call(*given, **named)
    except SyncError as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("no error")

def pair(**options):
    host = Transfer("train", 0, 1, 1, "127.0.0.1:0", True, timeout_s=20, backend="gloo", **options)
    return host, Transfer("rollout", 0, 1, 1, host.store, False, timeout_s=20, backend="gloo", **options)

def both(host, worker, weights, version):
    sent = threading.Thread(target=host.send, args=(weights, version))
    sent.start()
    got = worker.receive()
    sent.join()
    return got
"""


def in_one_process(program: str) -> str:
    """Run a program whose ranks are threads; return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "OMP_NUM_THREADS": "1"}
    command = [str(PYTHON), "-c", ONE_PROCESS + program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wrong_weights_and_old_versions_are_refused_before_anything_is_sent() -> None:
    """And the transfer goes on."""
    shown = in_one_process("""
host, worker = pair()
both(host, worker, {"a": torch.ones(4)}, 5)
print(said(host.send, {"a": torch.ones(4)}, 4))
print(said(host.send, {"a": torch.ones(5)}, 6))
print(said(worker.send, {"a": torch.ones(5)}, 6))
version, got, _ = both(host, worker, {"a": torch.full((4,), 3.0)}, 6)
print(version, got["a"].tolist())
""").splitlines()
    assert shown[0] == "WrongWeightsError: version 4 cannot follow version 5; versions rise"
    assert shown[1].startswith("WrongWeightsError: the weights have changed (a: ('float32', [5]) after ('float32', [4]))")
    assert shown[2:] == ["SyncError: rollout rank 0 cannot do that: train ranks send, rollout ranks receive", "6 [3.0, 3.0, 3.0, 3.0]"]


def test_a_received_version_stays_as_it_is_when_the_next_one_comes() -> None:
    """An engine may take it later, or still be busy with it."""
    shown = in_one_process("""
host, worker = pair()
kept = [both(host, worker, {"a": torch.full((4,), float(version))}, version)[1]["a"] for version in (1, 2, 3)]
print([tensor.tolist()[0] for tensor in kept])
""")
    assert shown == "[1.0, 2.0, 3.0]\n"


def test_ranks_that_do_not_fit_together_say_so() -> None:
    """Another plan on one side, a rank that is none, an address on every network or without a port."""
    shown = in_one_process("""
host = Transfer("train", 0, 1, 1, "127.0.0.1:0", True, timeout_s=20, plan="flat")
worker = Transfer("rollout", 0, 1, 1, host.store, False, timeout_s=20)
other = []
thread = threading.Thread(target=lambda: other.append(said(host.connect)))
thread.start()
print(said(worker.receive))
thread.join()
print(*other)
print(said(Transfer, "rollout", 1, 1, 1, host.store, False))
print(said(Transfer, "train", 0, 1, 1, "0.0.0.0:0", True))
print(said(Transfer("rollout", 0, 1, 1, "no port", False).connect))
""").splitlines()
    assert shown[0] == shown[1] == "SyncError: rollout rank 0 has plan = two-stage, train rank 0 has flat; give all ranks the same"
    assert shown[2].startswith("SyncError: rollout rank 1 is not one of 1 train and 1 rollout ranks")
    assert "would listen on every network" in shown[3]
    assert shown[4] == "SyncError: store 'no port' is not host:port; give the address and the port of the store"


def test_train_ranks_that_send_different_versions_at_once_are_found_out() -> None:
    """Half of one and half of the other are no weights at all."""
    shown = in_one_process("""
host = Transfer("train", 0, 2, 2, "127.0.0.1:0", True, timeout_s=20, backend="gloo")
ranks = [("train", 1), ("rollout", 0), ("rollout", 1)]
other, *workers = (Transfer(side, rank, 2, 2, host.store, False, timeout_s=20, backend="gloo") for side, rank in ranks)
calls = [(host.send, {"a": torch.ones(4)}, 1), (other.send, {"a": torch.ones(4)}, 2), (workers[0].receive,), (workers[1].receive,)]
found = []
threads = [threading.Thread(target=lambda call=call: found.append(said(*call))) for call in calls]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*sorted(found), sep="\\n")
""").splitlines()
    why = "the train ranks sent different versions at once: 1, 2; send it again"
    assert shown[1::2] == [f"DamagedError: rollout rank {rank}, version 1: {why}" for rank in range(2)]
    assert shown[2] == "DamagedError: rollout rank 1 did not get version 2 as it was sent; see why there, send again"


def test_closing_ends_a_call_that_another_thread_is_waiting_in() -> None:
    """Of this rank, and of the other one."""
    shown = in_one_process("""
host, worker = pair()
both(host, worker, {"a": torch.ones(4)}, 1)
other = []
thread = threading.Thread(target=lambda: other.append(said(worker.receive)))
thread.start()
time.sleep(0.5)
host.close()
thread.join()
print(*other)
print(said(host.send, {"a": torch.ones(4)}, 2))
""").splitlines()
    assert shown[0].startswith("SyncError: rollout rank 0 has lost its connection to train rank 0")
    assert shown[1] == "SyncError: the transfer of train rank 0 is closed (it was closed); make a new one, on every rank"


def test_other_threads_work_while_a_rank_waits() -> None:
    """A worker generates while it waits for weights. Were the interpreter not left to others, nobody could send in this process."""
    shown = in_one_process("""
host, worker = pair()
both(host, worker, {"a": torch.ones(4)}, 1)
thread = threading.Thread(target=worker.receive)
thread.start()
for _ in range(50):
    time.sleep(0.01)
print(thread.is_alive())
host.send({"a": torch.ones(4)}, 2)
thread.join()
print("arrived")
""")
    assert shown == "True\narrived\n"
