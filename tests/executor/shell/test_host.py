"""What the process of a job does around its program; without Ray, in this process."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rollplan.executor.api import Pool, RolloutTask, Sample, TrainTask
from rollplan.executor.shell import host as module
from rollplan.executor.shell import memory, processes
from rollplan.executor.shell.host import Host
from rollplan.executor.shell.program import ProgramError
from rollplan.executor.shell.seat import Seat, address_of, stay_on

PROGRAM = """
from rollplan.executor.api import Sample, phase

class State:
    def __init__(self): self.did = []
    def load(self): self.did.append("load")
    def offload(self): self.did.append("offload")
    def state_bytes(self): return 1
    def save(self, folder): (folder / "state").write_text(str(self.did.count("train")))
    def restore(self, folder): self.did.append("restored " + (folder / "state").read_text())

@phase(pool="rollout")
def init(worker):
    worker.state["it"] = State()
    worker.keep(worker.state["it"])

@phase(pool="train", kind="init")
def init_train(worker): init(worker)

@phase(pool="rollout")
def rollout(worker, task):
    worker.state["it"].did.append("rollout")
    for number in task.samples:
        if worker.interrupted():
            break
        if number == worker.settings.get("foreign"):
            number = 99
        if number != worker.settings.get("forgotten"):
            yield Sample(number, task.iteration, task.version, (), (1, 2), (0.0, 0.0))

@phase(pool="train")
def train(worker, task):
    worker.state["it"].did.append("train")
    if worker.settings.get("fails"): raise RuntimeError("no\\nluck")
    return {"loss": 0.5, "samples": len(task.samples)}
"""


@pytest.fixture(autouse=True)
def _same_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "print_to", lambda log: None)
    monkeypatch.setattr(module, "see_only", lambda gpus: None)
    monkeypatch.setattr(module, "stay_on", lambda address, interface: address)


def begun(folder: Path, pool: Pool, restore: Path | None = None, version: int = 0, **settings: Any) -> Host:
    (folder / "given.py").write_text(PROGRAM, encoding="utf-8")
    host = Host(Seat("a", pool, 0, 1, (), settings, 4, 1, "given.py", str(folder), "127.0.0.1", None, "unused"))
    host.begin(None, None if restore is None else str(restore), version)
    return host


def rolled(host: Host, ticket: int = 0, keep: bool = False, version: int = 0) -> tuple[list[int], dict[str, Any]]:
    items = list(host.rollout(ticket, RolloutTask(0, version, (0, 1, 2), 2), keep))
    closing = items.pop()
    assert isinstance(closing, dict)
    return [one.number for one in items if isinstance(one, Sample)], closing


def test_state_is_loaded_before_a_phase_and_off_loaded_after_it(tmp_path: Path) -> None:
    host = begun(tmp_path, "rollout")
    rolled(host)
    assert host.state["it"].did == ["offload", "load", "rollout", "offload"]


def test_state_that_nobody_else_waits_for_stays_loaded(tmp_path: Path) -> None:
    host = begun(tmp_path, "rollout")
    rolled(host, 0, keep=True)
    rolled(host, 1, keep=True)
    assert host.state["it"].did == ["offload", "load", "rollout", "rollout"]
    assert host.held_bytes() is None, "device memory of a loaded state is no resident memory"


def test_a_trainer_off_loads_after_its_last_chunk_and_saves_before(tmp_path: Path) -> None:
    host = begun(tmp_path, "train")
    folder = tmp_path / "state"
    folder.mkdir()
    first = host.train(TrainTask(0, 0, (), 2, False), False, None)
    last = host.train(TrainTask(0, 1, (), 2, True), False, str(folder))
    assert host.state["it"].did == ["offload", "load", "train", "train", "offload"]
    assert first["values"] == last["values"] == {"loss": 0.5, "samples": 0.0}
    assert (folder / "state").read_text() == "2"
    assert begun(tmp_path, "train", restore=folder).state["it"].did == ["restored 2", "offload"]


def test_an_interrupted_rollout_names_what_is_left(tmp_path: Path) -> None:
    """Also if the interrupt overtakes the rollout; one meant for an earlier rollout does nothing."""
    host = begun(tmp_path, "rollout")
    host.interrupt(5)
    numbers, closing = rolled(host, ticket=5)
    assert numbers == []
    assert closing["remaining"] == (0, 1, 2)
    numbers, closing = rolled(host, ticket=6)
    assert numbers == [0, 1, 2]
    assert closing["remaining"] == ()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"forgotten": 1}, "rollout of iteration 0: it ended without samples [1] although nobody interrupted it"),
        ({"foreign": 1}, "it yields sample 99, which was not asked for or came before"),
    ],
)
def test_a_rollout_gives_exactly_what_was_asked_for(tmp_path: Path, settings: dict[str, Any], said: str) -> None:
    host = begun(tmp_path, "rollout", **settings)
    with pytest.raises(ProgramError) as caught:
        rolled(host)
    assert said in str(caught.value)


def test_an_error_of_a_program_becomes_one_line_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = begun(tmp_path, "train", fails=True)
    with pytest.raises(ProgramError, match=r"job a, train rank 0: train of iteration 0: RuntimeError: no luck \(given.py:\d+\)"):
        host.train(TrainTask(0, 0, (), 2, True), False, None)
    assert "Traceback" in capsys.readouterr().err, "the log has all of it"


def test_weights_of_another_version_are_never_used(tmp_path: Path) -> None:
    """A program without weights follows by number; a rollout of a version that never came is refused."""
    host = begun(tmp_path, "rollout", version=2)
    rolled(host, version=2)
    host.receive(3)
    rolled(host, 1, version=2)
    rolled(host, 2, version=3)
    for wrong in (2, 4):
        with pytest.raises(ProgramError, match=f"weights of version {wrong} are wanted, 3 are in use"):
            rolled(host, 3, version=wrong)


class _Tensor:
    def __init__(self, value: int) -> None:
        self.value = value

    def detach(self) -> _Tensor:
        return self

    def to(self, device: str, copy: bool) -> _Tensor:
        assert (device, copy) == ("cpu", True)
        return _Tensor(self.value)


def test_a_snapshot_of_weights_does_not_change_while_training_goes_on() -> None:
    from rollplan.executor.shell.carrier import Carrier

    class Trainer:
        tensor = _Tensor(1)

        def weights(self) -> dict[str, _Tensor]:
            return {"w": self.tensor}

    class Wire:
        sent: list[tuple[int, int]] = []  # noqa: RUF012

        def send(self, weights: Any, version: int) -> dict[str, float]:
            self.sent.append((version, weights["w"].value))
            return {"bytes": 1.0}

    trainer, carrier = Trainer(), Carrier()
    assert carrier.adopt("train", trainer, 0)
    trainer.tensor.value = 2
    carrier.snapshot(trainer, 1)
    trainer.tensor.value = 3
    carrier._transfer = Wire()
    carrier.send(0)
    carrier.send(1)
    assert Wire.sent == [(0, 1), (1, 2)]


def test_held_memory_is_what_the_kernel_counts_and_children_are_part_of_it() -> None:
    gc.collect()
    before = memory.held_bytes()
    block = bytearray(b"x" * (64 * 2**20))
    grown = memory.held_bytes() - before
    assert 63 * 2**20 < grown < 80 * 2**20
    del block
    child = subprocess.Popen(
        [sys.executable, "-c", "x = b'x' * (32 * 2**20); print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdout.readline()
        own, with_child = memory.held_bytes(child.pid), memory.held_bytes()
        assert own > 32 * 2**20
        assert with_child > own + 2**20
    finally:
        child.communicate()


def test_processes_of_a_run_are_found_by_their_mark_and_ended(tmp_path: Path) -> None:
    """Even those in a session of their own, whose parent is gone."""
    starts = "import subprocess, sys; print(subprocess.Popen(['sleep', '60'], start_new_session=True, stdout=-3, stderr=-3).pid)"
    mark = {processes.MARK: str(tmp_path), "PATH": "/usr/bin:/bin"}
    child = int(subprocess.run([sys.executable, "-c", starts], env=mark, capture_output=True, check=True, text=True).stdout)
    assert processes.program(child) == "sleep"
    assert processes.of_run(tmp_path) == [child]
    assert processes.of_run(tmp_path / "other") == []
    assert processes.end(tmp_path) == [child]
    assert not processes.alive(child)


def test_an_interface_without_an_address_is_refused() -> None:
    assert address_of("lo") == "127.0.0.1"
    with pytest.raises(ValueError, match="network interface nonesuch has no IPv4 address"):
        address_of("nonesuch")


def test_a_process_stays_on_the_network_of_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that make process groups get it by the variables of gloo and NCCL; what a user set stays."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "mine")
    monkeypatch.delenv("NCCL_SOCKET_IFNAME", raising=False)
    assert stay_on("127.0.0.1", None) == stay_on("10.0.0.1", "lo") == "127.0.0.1"
    assert (os.environ["GLOO_SOCKET_IFNAME"], os.environ["NCCL_SOCKET_IFNAME"]) == ("mine", "=lo")


def test_a_program_that_keeps_two_states_is_refused(tmp_path: Path) -> None:
    host = begun(tmp_path, "rollout")
    with pytest.raises(ProgramError, match="keeps two resident states; put them behind one object"):
        host.keep(object())


def test_a_state_that_cannot_be_saved_says_so(tmp_path: Path) -> None:
    """A full disk is no fault of the training function."""
    host = begun(tmp_path, "train")
    with pytest.raises(ProgramError, match=r"rank 0: saving iteration 0: FileNotFoundError: .*state"):
        host.train(TrainTask(0, 0, (), 2, True), False, str(tmp_path / "nowhere"))


def test_a_program_that_exits_is_named(tmp_path: Path) -> None:
    """Not a process that died for no reason."""
    host = begun(tmp_path, "rollout")
    host._program.functions["rollout", "rollout"] = lambda *_: sys.exit("had " + "enough " * 100)
    with pytest.raises(ProgramError, match=r"rollout of iteration 0: SystemExit: had enough .*\.\.\. \(test_host.py:\d+\)$") as told:
        rolled(host)
    assert len(str(told.value)) < 500
