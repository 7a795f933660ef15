"""The worker of the link profiler: one rank, or all ranks as processes on this machine. Needs torch."""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import signal
from multiprocessing.connection import Connection, wait
from typing import Any

from rollplan.models.process import end_with_the_caller
from rollplan.profilers.link.measure import measure
from rollplan.profilers.worker import PROGRESS, WorkerError, serve

_HERE = "127.0.0.1"


def work(request: dict[str, Any]) -> dict[str, Any]:
    """Measure. Request: as `LinkRequest`, with `host` and `port`. Answer of rank 0: what was measured and with what."""
    return _all_here(request) if request["rank"] is None else _one(request, alone=True)


def _one(request: dict[str, Any], alone: bool) -> dict[str, Any]:
    """Be one rank. alone: the only one that was started on this machine; otherwise the store is there already."""
    import torch
    import torch.distributed as dist

    from rollplan.profilers.link.rendezvous import interface_to, join, listen, meet
    from rollplan.profilers.link.wire import TorchWire

    rank, ranks, host, port, wait_s = (request[key] for key in ("rank", "ranks", "host", "port", "wait_s"))
    torch.set_num_threads(1)
    interface = request["interface"] or interface_to(host, port)
    # NCCL takes a bare name as a prefix: eth1 would be eth10, too.
    os.environ |= {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": f"={interface}"}
    if alone:
        _say(f"rank {rank} of {ranks} at {host}:{port}, interface {interface}: waiting for the others")
    store = listen(host, port, wait_s)[0] if alone and rank == 0 else join(host, port, wait_s)
    # The only rank on a machine takes its first GPU; CUDA_VISIBLE_DEVICES says which that is.
    gpu = 0 if alone else rank
    able = torch.cuda.is_available() and dist.is_nccl_available() and gpu < torch.cuda.device_count()
    told = meet(store, rank, ranks, {"nccl": able, "streams": request["streams"], "backend": request["backend"]}, wait_s)
    unable = [str(other) for other, said in enumerate(told) if not said["nccl"]]
    # Rank 0 decides for all.
    backend = told[0]["backend"] or ("gloo" if unable else "nccl")
    if backend == "nccl" and unable:
        raise WorkerError(f"NCCL needs a GPU for every rank, and rank {', '.join(unable)} has none; use --backend gloo")
    device = f"cuda:{gpu}" if backend == "nccl" else "cpu"
    wait_transfer_s = max(600.0, 2 * request["time_limit_s"])
    try:
        wire = TorchWire(store, rank, ranks, backend, device, max(told[0]["streams"]), wait_transfer_s)
        if rank != 0:
            wire.obey()
            return {"rank": rank, "backend": backend, "interface": interface}
        _say(f"{ranks} ranks, {backend} over {interface}")
        samples = measure(wire, request["streams"], request["sizes"], request["time_limit_s"], say=_flushed)
        wire.stop()
    except (RuntimeError, ValueError) as error:
        raise WorkerError(f"rank {rank}: the connection to the other ranks failed ({_first_line(error)}); see what they say") from None
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    if backend == "nccl":
        versions["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    name = torch.cuda.get_device_name(gpu) if backend == "nccl" else "CPU"
    return {"rank": 0, "backend": backend, "interface": interface, "device": name, "versions": versions, "samples": samples}


def _all_here(request: dict[str, Any]) -> dict[str, Any]:
    """Start all ranks on this machine, over loopback, and return the answer of rank 0."""
    from rollplan.profilers.link.rendezvous import listen

    store, port = listen(_HERE, 0, request["wait_s"])
    spawn = multiprocessing.get_context("spawn")
    answers, told = spawn.Pipe(duplex=False)
    processes = [
        spawn.Process(target=_child, args=({**request, "rank": rank, "host": _HERE, "port": port}, told))
        for rank in range(request["ranks"])
    ]
    try:
        for process in processes:
            process.start()
        waiting: list[Any] = [answers, *(process.sentinel for process in processes)]
        while True:
            ready = wait(waiting)
            if answers in ready:
                said = json.loads(answers.recv_bytes())
                if "error" in said:
                    raise WorkerError(said["error"])
                return dict(said["answer"])
            waiting = [one for one in waiting if one not in ready]
            for rank, process in enumerate(processes):
                if process.exitcode:
                    raise WorkerError(f"rank {rank} ended with exit code {process.exitcode}; look at its last lines above")
    finally:
        for process in processes:
            if process.is_alive():
                os.kill(process.pid or 0, signal.SIGKILL)
        del store


def _child(request: dict[str, Any], told: Connection) -> None:
    """Be one of the local ranks; rank 0 tells its answer, every rank its error."""
    end_with_the_caller()
    said: dict[str, Any] | None = None
    try:
        answer = _one(request, alone=False)
        said = {"answer": answer} if request["rank"] == 0 else None
    except WorkerError as error:
        said = {"error": str(error)}
    except Exception as error:
        said = {"error": f"{type(error).__name__}: {error}"}
    if said is not None:
        told.send_bytes(json.dumps(said).encode())
    # Threads of torch would keep the process alive.
    os._exit(0)


def _say(text: str) -> None:
    _flushed(f"{PROGRESS}{text}")


def _flushed(line: str) -> None:
    print(line, flush=True)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:300]


def main() -> None:
    """Answer one request."""
    serve(work)


if __name__ == "__main__":
    main()
