"""Real ranks with gloo: over loopback, and over links of a known speed and length."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from rollplan.models.profile.file import Profile
from rollplan.models.profile.link import LinkProfile

PYTHON = os.environ.get("ROLLPLAN_VLLM_PYTHON")
needs_torch = pytest.mark.skipif(PYTHON is None, reason="ROLLPLAN_VLLM_PYTHON must name a Python with torch (make test-vllm)")
pytestmark = [pytest.mark.vllm, pytest.mark.slow, needs_torch]

MBIT = 1e6 / 8 / 1e9
LIMIT = "tbf rate 200mbit burst 256kb latency 50ms"
PAYLOAD, FRAME, PACKET = 1448, 1514, 1500
"""Bytes of user data in a full segment of TCP with time stamps, in its Ethernet frame, and in its IP packet."""


def command(*options: object) -> list[str]:
    return [sys.executable, "-m", "rollplan", "profile", "link", "--python", str(PYTHON), *map(str, options)]


def measured(cable: Any, folder: Path, *options: object) -> tuple[LinkProfile, set[str]]:
    """Measure a cable with a rank at each end; return what came out, and the addresses on which anything listened meanwhile."""
    where = ("--address", f"{cable.addresses[0]}:29500")
    output = folder / "link.json"
    second = subprocess.Popen(cable.inside(1, *command("--rank", 1, *where)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        first = subprocess.Popen(
            cable.inside(0, *command("--rank", 0, *where, "-o", output, *options)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        listening = set(while_running(first, lambda: listeners(cable, 0) + listeners(cable, 1)))
        shown, said = first.communicate()
        assert first.returncode == 0, said
        print(shown)
        assert second.communicate(timeout=30)[0] == "rank 1 is done; rank 0 has the profile\n"
    finally:
        stop(second)
    link = Profile.load(output).link
    assert link is not None
    return link, listening


def stop(process: subprocess.Popen[str]) -> None:
    """Interrupt, as with Ctrl-C, so that the worker ends, too."""
    process.send_signal(signal.SIGINT)
    process.wait(timeout=30)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def while_running(process: subprocess.Popen[str], look: Callable[[], list[str]]) -> Iterator[str]:
    while process.poll() is None:
        yield from look()
        time.sleep(0.2)


def listeners(cable: Any, end: int) -> list[str]:
    """Return the local addresses of the listening TCP sockets in a namespace."""
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        lines = subprocess.run(cable.inside(end, "cat", table), capture_output=True, text=True, check=False).stdout.splitlines()
        for line in lines[1:]:
            _, local, _, state, *_ = line.split()
            if state == "0A":
                number = local.partition(":")[0]
                found.append(str(IPv4Address(bytes.fromhex(number)[::-1])) if len(number) == 8 else number)
    return found


def test_all_ranks_on_one_machine_measure_loopback_and_listen_nowhere_else(cable: Any, tmp_path: Path) -> None:
    """A machine with a network, on which nothing may listen but loopback."""
    alone = cable()
    output = tmp_path / "link.json"
    options = ("--ranks", 3, "--time-limit", 5, "--streams", "1,2", "-o", output)
    process = subprocess.Popen(alone.inside(0, *command(*options)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    listening = set(while_running(process, lambda: listeners(alone, 0)))
    _, said = process.communicate()
    assert process.returncode == 0, said
    assert listening == {"127.0.0.1"}
    link = Profile.load(output).link
    assert link is not None
    assert (link.loopback, link.interface, link.ranks, link.backend) == (True, "lo", 3, "gloo")
    assert link.law.latency_s < 0.05
    assert {sample.streams for sample in link.samples} == {1, 2}
    assert {sample.ranks for sample in link.samples if sample.kind == "broadcast"} == {3}


def test_a_link_of_200_mbit_is_recovered_within_five_per_cent(cable: Any, tmp_path: Path) -> None:
    """Bandwidth is goodput: of 1514 bytes in a frame, which tc counts, 1448 are user data. Two streams share the link."""
    link, listening = measured(cable(LIMIT), tmp_path, "--time-limit", 30, "--streams", "1,2")
    assert listening == {"10.77.0.1", "10.77.0.2"}
    assert link.loopback is False
    assert (link.law.limited, link.law.streams_to_fill) == ("shared", 1)
    assert link.law.total_gb_s == pytest.approx(200 * MBIT * PAYLOAD / FRAME, rel=0.05)
    assert link.broadcast is not None
    assert link.broadcast.gb_s == pytest.approx(200 * MBIT * PAYLOAD / FRAME, rel=0.05)


def test_a_link_of_200_mbit_and_50_ms_is_recovered_within_five_per_cent(cable: Any, tmp_path: Path) -> None:
    """25 ms each way. A TUN device has no Ethernet header, so tc counts 1500 bytes for 1448 of user data."""
    link, _ = measured(cable(LIMIT, delay_s=0.025), tmp_path, "--time-limit", 40, "--streams", "1,2")
    assert (link.law.limited, link.law.streams_to_fill) == ("shared", 1)
    assert link.law.total_gb_s == pytest.approx(200 * MBIT * PAYLOAD / PACKET, rel=0.05)
    assert link.law.latency_s == pytest.approx(0.025, rel=0.05)


def test_streams_that_wait_for_their_windows_are_recovered_as_per_stream(cable: Any, tmp_path: Path) -> None:
    """A long link and a small send buffer: every connection has at most so many bytes under way, whatever the others do."""
    long = cable(delay_s=0.025)
    limit = "echo 4096 65536 65536 > /proc/sys/net/ipv4/tcp_wmem"
    subprocess.run(long.inside(0, "sh", "-c", limit), check=True)
    link, _ = measured(long, tmp_path, "--time-limit", 30, "--streams", "1,2", "--megabytes", "1,3")
    assert (link.law.limited, link.law.total_gb_s) == ("per stream", None)
    assert link.transfer_s(100e6, 2) == pytest.approx(link.transfer_s(100e6) / 2, rel=0.01)
    assert link.law.latency_s == pytest.approx(0.025, rel=0.05)


def test_a_rank_that_disappears_is_an_error_for_the_other(cable: Any) -> None:
    """While they measure; exit code 2 and no traceback, after the connection has broken."""
    link = cable(LIMIT)
    where = ("--address", f"{link.addresses[0]}:29500")
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    second = subprocess.Popen(link.inside(1, *command("--rank", 1, *where)), **pipes)
    first = subprocess.Popen(link.inside(0, *command("--rank", 0, *where, "--time-limit", 60)), **pipes)
    try:
        for line in first.stderr:
            if line.startswith("transfers of"):
                break
        stop(second)
        _, said = first.communicate(timeout=60)
    finally:
        stop(first)
    assert first.returncode == 2
    assert "rank 0: the connection to the other ranks failed" in said
    assert "Traceback" not in said


def test_two_ranks_with_the_same_number_are_refused(cable: Any) -> None:
    """The second one says so; nobody waits for ever."""
    alone = cable()
    options = ("--rank", 0, "--address", f"{alone.addresses[0]}:29500")
    first = subprocess.Popen(alone.inside(0, *command(*options)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
    try:
        for _ in while_running(first, lambda: listeners(alone, 0)):
            break
        again = subprocess.run(alone.inside(0, *command(*options)), capture_output=True, text=True, check=False, timeout=60)
    finally:
        stop(first)
    assert again.returncode == 2
    assert "rank 0 cannot listen on 10.77.0.1:29500 (Address already in use" in again.stderr


def test_nccl_without_gpus_is_refused_by_every_rank() -> None:
    """Before they connect, and with what to do."""
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command("--backend", "nccl"), capture_output=True, text=True, check=False, timeout=120, env=hidden)
    assert done.returncode == 2
    assert "NCCL needs a GPU for every rank, and rank 0, 1 has none; use --backend gloo" in done.stderr


def test_an_address_that_is_not_here_or_is_everywhere_is_refused(cable: Any) -> None:
    """Rank 0 listens where it was told, or not at all."""
    alone = cable()
    for address, why in (("10.77.0.2:29500", "give an address of this machine"), ("0.0.0.0:29500", "would listen on every network")):
        done = subprocess.run(
            alone.inside(0, *command("--rank", 0, "--address", address)), capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, why in done.stderr) == (2, True), json.dumps(done.stderr)


TWO_RANKS = """
import multiprocessing, sys
from datetime import timedelta

def be(rank, port):
    import torch.distributed as dist
    from rollplan.profilers.link.wire import TorchWire

    wait = timedelta(seconds=20)
    store = dist.TCPStore("127.0.0.1", port, 2, rank == 0, timeout=wait)
    connected = set()

    def lazily(real):
        def transfer(tensor, other, group=None):
            if group is not None and group.group_name not in connected:
                connected.add(group.group_name)
                store.set(f"{group.group_name}/{rank}", "here")
                store.wait([f"{group.group_name}/{1 - rank}"], wait)
            return real(tensor, other, group=group)
        return transfer

    dist.isend, dist.irecv = lazily(dist.isend), lazily(dist.irecv)
    wire = TorchWire(store, rank, 2, "gloo", "cpu", 3, 20.0)
    if rank == 1:
        return wire.obey()
    print(wire.send(1000, 3) > 0, wire.broadcast(1000) > 0, flush=True)
    wire.stop()

if __name__ == "__main__":
    ranks = [multiprocessing.get_context("spawn").Process(target=be, args=(rank, int(sys.argv[1]))) for rank in (0, 1)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    sys.exit(max(abs(rank.exitcode) for rank in ranks))
"""


def test_streams_that_connect_inside_of_their_first_transfer_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """So does NCCL: it blocks a receiver until its sender comes, and here the sender waits until the receiver is ready. Here gloo
    is made to behave like that."""
    program = tmp_path / "two_ranks.py"
    program.write_text(TWO_RANKS)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run([str(PYTHON), str(program), str(port)], capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr


def test_ranks_on_this_machine_end_with_a_caller_that_is_killed() -> None:
    """They would wait for each other otherwise, and hold their GPUs."""
    first = subprocess.Popen(command("--time-limit", 60), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert first.stderr is not None
    for line in first.stderr:
        if line.startswith("transfers of"):
            break
    below = descendants(first.pid)
    assert len(below) >= 3, "the worker and two ranks"
    first.kill()
    first.wait()
    first.stderr.close()
    for _ in range(100):
        if not any(Path(f"/proc/{process}/cmdline").exists() and Path(f"/proc/{process}/cmdline").read_bytes() for process in below):
            return
        time.sleep(0.1)
    raise AssertionError("a rank is still there")


def descendants(process: int) -> list[int]:
    """Return all processes below one."""
    table = {int(path.name): parent(path) for path in Path("/proc").iterdir() if path.name.isdigit()}
    found, new = list[int](), [process]
    while new := [child for child, above in table.items() if above in new]:
        found += new
    return found


def parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
