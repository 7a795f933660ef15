"""All ranks of one side, as processes that share a loaded torch; one line of JSON for each rank. Needs torch.

Both ends read the same clock of the machine, so that the moments of both sites can be compared.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import torch

from rollplan.executor.sync.transfer import Transfer

PLANS = ("flat", "two-stage")
READY_S = 0.5
"""What receivers are given to be ready before the next version is sent."""


def rank_of(request: dict[str, Any], rank: int) -> dict[str, Any]:
    """Be one rank: move every version with both plans in turn; return when each began and ended."""
    side, ranks = request["side"], request["ranks"]
    where = {"interface": request["interfaces"][rank], "backend": "gloo", "timeout_s": 300.0}
    transfers = {
        plan: Transfer(side, rank, ranks, ranks, f"{request['host']}:{port}", side == "train" and rank == 0, plan=plan, **where)
        for plan, port in zip(PLANS, request["ports"], strict=True)
    }
    weights = {"weights": torch.arange(request["bytes"] // 8, dtype=torch.int64)}
    moments: dict[str, list[dict[str, float]]] = {plan: [] for plan in PLANS}
    for version in range(request["repeats"] + 1):
        for plan, transfer in transfers.items():
            if side == "train":
                time.sleep(READY_S)
                weights["weights"] += 1
                began = time.monotonic()
                numbers = transfer.send(weights, version)
                began += numbers["flatten_s"]
            else:
                began = time.monotonic()
                _, got, numbers = transfer.receive()
                assert int(got["weights"][-1]) == request["bytes"] // 8 + version * len(PLANS) + PLANS.index(plan)
            moments[plan].append({**numbers, "began": began, "ended": time.monotonic()})
    # The first version also connects, and tells what the weights are.
    return {"side": side, "rank": rank, **{plan: found[1:] for plan, found in moments.items()}}


def main() -> None:
    """Start the ranks and wait for them; end with an error if one did."""
    request = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    children = []
    for rank in range(request["ranks"]):
        child = os.fork()
        if child == 0:
            try:
                os.write(1, json.dumps(rank_of(request, rank)).encode() + b"\n")
            except BaseException as error:
                os.write(2, f"{request['side']} rank {rank}: {type(error).__name__}: {error}\n".encode())
                os._exit(1)
            os._exit(0)
        children.append(child)
    sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0 for child in children))


if __name__ == "__main__":
    main()
