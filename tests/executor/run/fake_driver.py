"""A driver without Ray: it speaks the protocol, pretends to run the jobs of the runbook, and misbehaves if the first job asks for it.

Settings of the first job: `fake`, one of
    dies, dies-always        after an iteration, the first time only; before any
    deaf                     goes on for ever, whatever it is asked
    orphan                   leaves a process with a session of its own, and dies once
    refuses                  says why the input cannot be run
    fails                    one job is never finished
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

PHASES = (
    ("load", 0.5),
    ("rollout", 6.0),
    ("offload", 0.5),
    ("load", 0.25),
    ("train", 3.0),
    ("save", 0.5),
    ("offload", 0.25),
    ("sync", 1.0),
)


def say(**line: object) -> None:
    print(json.dumps(line), flush=True)


def main() -> None:
    request = json.loads(sys.stdin.readline())
    folder, jobs = Path(request["folder"]), request["runbook"]["jobs"]
    fake = jobs[0]["settings"].get("fake", "")
    print("a library says hello")
    print("and writes to stderr", file=sys.stderr)
    if fake == "refuses":
        say(error="the pool r stands for 1 GPU, 2 are needed; give the cluster more nodes")
        sys.exit(2)
    if fake == "dies-always":
        print("something dreadful happened", file=sys.stderr)
        sys.exit(75)
    stop = threading.Event()

    def listen() -> None:
        for line in sys.stdin:
            if json.loads(line).get("stop"):
                stop.set()
        stop.set()

    threading.Thread(target=listen, daemon=True).start()
    finished = {job["name"]: saved(folder, job["name"]) for job in jobs}
    now = 0.0
    for job in jobs:
        for resource in (*job["rollout"], job["train"]):
            record(job["name"], resource, "start", finished[job["name"]], now, now + 2.0)
        say(event={"event": "MemoryMeasured", "at_s": now + 2.0, "job": job["name"], "resource": job["train"], "held_bytes": 2**30})
    state(jobs, finished, "running", now)
    now += 2.0
    while any(finished[job["name"]] < job["iterations"] for job in jobs) and not (stop.is_set() and fake != "deaf"):
        for job in jobs:
            name, number = job["name"], finished[job["name"]]
            if number == job["iterations"] or (fake == "fails" and name == jobs[0]["name"]):
                continue
            now = iteration(job, number, now)
            finished[name] += 1
            (folder / "jobs").mkdir(exist_ok=True)
            (folder / "jobs" / name).write_text(str(finished[name]))
        state(jobs, finished, "running", now)
        if fake in ("dies", "orphan") and not (folder / "jobs" / "died").exists():
            (folder / "jobs" / "died").touch()
            if fake == "orphan":
                subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True, stdout=subprocess.DEVNULL)
            os._exit(1)
        if fake == "fails":
            say(remark={"at_s": now, "job": jobs[0]["name"], "text": "failed: it used too much memory"})
            break
        time.sleep(0.02)
    state(jobs, finished, "stopped" if stop.is_set() else "done", now)
    say(done={"reason": "stopped" if stop.is_set() else "finished"})


def saved(folder: Path, name: str) -> int:
    path = folder / "jobs" / name
    return int(path.read_text()) if path.exists() else 0


def iteration(job: dict, number: int, now: float) -> float:  # type: ignore[type-arg]
    for place, (kind, seconds) in enumerate(PHASES):
        resources = job["rollout"] if place < 3 else [job["train"]]
        for resource in resources:
            values = {"samples": 4.0, "tokens": 400.0, "reward": 0.5} if kind == "rollout" else {}
            record(job["name"], resource, kind, number, now, now + seconds, values)
        now += seconds
    return now


def record(job: str, resource: str, kind: str, number: int, start: float, end: float, values: object = None) -> None:
    line = {"job": job, "resource": resource, "kind": kind, "iteration": number, "start_s": start, "end_s": end, "worker": 0}
    say(record={**line, "values": values or {}})


def state(jobs: list, finished: dict, word: str, now: float) -> None:  # type: ignore[type-arg]
    told = {
        job["name"]: {
            "state": word,
            "reason": "",
            "iteration": finished[job["name"]],
            "iterations": job["iterations"],
            "version": finished[job["name"]],
            "restarts": 0,
            "samples": job["samples"],
            "samples_done": 0,
        }
        for job in jobs
    }
    resources = {job["train"]: {"holder": job["name"], "does": "training 0", "queue": [], "lost": False} for job in jobs}
    say(state={"resources": resources, "jobs": told, "at_s": now, "memory": {jobs[0]["train"]: {jobs[0]["name"]: 2**30}}})


main()
