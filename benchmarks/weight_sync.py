"""New weights over a slow link: flat pulls beside one copy in parallel streams and trees, measured in turn, beside the law.

    python benchmarks/weight_sync.py --python PATH [--repeats 3] [--cases 8,16]

Ranks are processes in two network namespaces of this machine; tc limits every stream, the link, or the network inside the
rollout site. Sizes and speeds of `8` and `16` are those of RollMux Fig. 12 (7B in bf16, 20 Gbps for each stream, 250 GB/s inside
a node and 5.9 GB/s between two) by 4000 and by 1000, so seconds are comparable; by 1000, this machine would be the limit of `8`.
Seconds: from when the first trainer has its bytes ready until the last worker has all, checked; median, least and most. Needs
root, and an interpreter with torch; without root there is no slow link, and loopback is measured, which says nothing of the
ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from sync.cable import FRAME, PAYLOAD, NotPermittedError, Shape, Sites, two_sites

from rollplan.executor.sync.law import Limits, flat_s, two_stage_s
from rollplan.models.process import kill_group

CHECKOUT = Path(__file__).resolve().parents[1]

SITE = Path(__file__).parent / "sync" / "site.py"
HEADERS = FRAME / PAYLOAD
PLANS = ("flat", "two-stage")
TIMEOUT_S = 900


@dataclass(frozen=True)
class Case:
    """So many trainers to so many workers. megabytes: of weights. Mbit/s, as tc counts; inside: of all workers together."""

    title: str
    ranks: int
    megabytes: float
    stream: float | None
    link: float | None
    inside: float
    published: str = ""

    def limits(self) -> Limits:
        """Return the law's limits: a copy spreads when every worker but one has had all its bytes from another."""
        stream, link = (inf if limit is None else limit / 8000 for limit in (self.stream, self.link))
        return Limits(stream, self.inside / 8000 / (self.ranks - 1), link, stream_overhead=HEADERS, flat_overhead=HEADERS)


def published(ranks: int, copy_gb_s: float, scale: int, title: str, ratio: str) -> Case:
    """Return a column of Fig. 12, sizes and speeds by `scale`; copy_gb_s: at which a copy spreads inside the rollout site."""
    return Case(title, ranks, 15_200 / scale, 20_000 / scale, None, (ranks - 1) * copy_gb_s * 8000 / scale, ratio)


CASES = {
    "2": Case("each stream 20 Mbit/s", 2, 15.2, 20, None, 2000),
    "4": Case("each stream 20 Mbit/s", 4, 15.2, 20, None, 4000),
    "4-link": Case("the link 60 Mbit/s", 4, 15.2, None, 60, 4000),
    "4-both": Case("streams 20, link 60 Mbit/s", 4, 15.2, 20, 60, 4000),
    "8": published(8, 250, 4000, "Fig. 12, 7B, one node", "7.9-8.3"),
    "16": published(16, 5.9, 1000, "Fig. 12, 7B, two nodes", "2.6-2.75"),
    "tiny": Case("each stream 8 Mbit/s", 2, 1.6, 8, None, 400),
}


def measured(case: Case, repeats: int, python: str, sites: Sites | None) -> list[dict[str, Any]]:
    """Run both sides; return what every rank says."""
    request = {"ranks": case.ranks, "bytes": int(case.megabytes * 1e6), "repeats": repeats}
    request |= {"host": sites.host if sites else "127.0.0.1", "ports": [29611, 29612] if sites else free_ports(2)}
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "OMP_NUM_THREADS": "1"}
    processes = []
    try:
        for number, side in enumerate(("train", "rollout")):
            interfaces = sites.interfaces(number, case.ranks) if sites else ["lo"] * case.ranks
            command = [python, str(SITE), json.dumps({**request, "side": side, "interfaces": interfaces})]
            command = sites.inside(number, *command) if sites else command
            processes.append(
                subprocess.Popen(
                    command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
                )
            )
        said = [process.communicate(timeout=TIMEOUT_S) for process in processes]
    finally:
        for process in processes:
            kill_group(process)
    if any(process.returncode for process in processes):
        sys.exit("".join(errors for _, errors in said))
    return [json.loads(line) for lines, _ in said for line in lines.splitlines()]


def free_ports(count: int) -> list[int]:
    """Return ports that nobody uses now."""
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports


def seconds(said: list[dict[str, Any]], plan: str) -> list[float]:
    """Return the time of each version, over all ranks."""
    began = zip(*([one["began"] for one in rank[plan]] for rank in said if rank["side"] == "train"), strict=True)
    ended = zip(*([one["ended"] for one in rank[plan]] for rank in said if rank["side"] == "rollout"), strict=True)
    return [max(last) - min(first) for first, last in zip(began, ended, strict=True)]


def row(name: str, case: Case, flat: list[float], two: list[float], shaped: bool) -> str:
    gb, limits = case.megabytes / 1000, case.limits()
    law = (flat_s(gb, case.ranks, limits), two_stage_s(gb, case.ranks, case.ranks, limits))
    cells = [f"{median(found):6.2f} ({min(found):.2f}-{max(found):.2f})" for found in (flat, two)]
    models = [f"{value:6.2f}" for value in (*law, law[0] / law[1])] if shaped else ["", "", ""]
    ratio = f"{median(flat) / median(two):6.2f}"
    title = case.title if shaped else "loopback, no limit"
    ranks = f"{case.ranks} -> {case.ranks}"
    return (
        f"{name:<7}{ranks:<10}{title:<28}{cells[0]:>19}{models[0]:>8}{cells[1]:>21}{models[1]:>8}"
        f"{ratio:>8}{models[2]:>8}  {case.published if shaped else ''}"
    ).rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=os.environ.get("ROLLPLAN_VLLM_PYTHON", sys.executable), help="interpreter that has torch")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cases", default="2,4,4-link,4-both,8,16", help=f"of {', '.join(CASES)}")
    options = parser.parse_args()
    version = subprocess.run([options.python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=False)
    if version.returncode:
        sys.exit(f"{options.python} cannot import torch; name an interpreter that has it with --python")
    print(
        f"{datetime.now(UTC).date()}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()},"
        f" torch {version.stdout.strip()}, gloo; {options.repeats} repeats; seconds\n"
    )
    head = f"{'':<7}{'ranks':<10}{'limit':<28}{'flat':>19}{'law':>8}{'two stages':>21}{'law':>8}{'ratio':>8}{'law':>8}  published"
    print(head, flush=True)
    for name in options.cases.split(","):
        case = CASES[name]
        try:
            with two_sites(case.ranks, Shape(case.stream, case.link, case.inside)) as sites:
                said, shaped = measured(case, options.repeats, options.python, sites), True
        except NotPermittedError as error:
            print(f"no slow link here ({error}); loopback instead", file=sys.stderr)
            said, shaped = measured(case, options.repeats, options.python, None), False
        print(row(name, case, seconds(said, "flat"), seconds(said, "two-stage"), shaped), flush=True)


if __name__ == "__main__":
    main()
