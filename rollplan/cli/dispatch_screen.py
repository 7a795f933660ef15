"""A dispatch as a screen and as plain data."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from rollplan.cli.tables import labelled, new_table, percent
from rollplan.planner.dispatch.job import JobDispatch


def dispatch_screen(found: JobDispatch) -> RenderableType:
    """Return the verdict, every method beside the others, and what the fullest and the emptiest instance get."""
    problem, best = found.problem, found.found
    budget = problem.admission.kv_tokens
    proof = f"{best.bound.proof}, gap {percent(best.gap)}"
    room = f"{problem.admission.slots} slots{'' if budget is None else f', {budget} tokens of KV cache'} each"
    instances = f"{problem.instances} instance{'' if problem.instances == 1 else 's'}"
    parts: list[RenderableType] = [
        Text(f"dispatch {found.job}   {len(problem)} samples on {instances} of {found.layout} on {found.pool}"),
        labelled("room", room),
        labelled(
            "time",
            f"{best.value:.2f} s, no dispatch takes less than {best.bound.value:.2f} s ({proof})",
        ),
    ]
    table = new_table(("method", "left"), ("makespan", "right"), ("to expect", "right"), ("against even", "right"))
    even = next(tried.expected_s for tried in found.candidates if tried.name == "even")
    for tried in found.candidates:
        if tried.planned is None or tried.expected_s is None:
            table.add_row(tried.name, "-", "-", tried.reason)
        else:
            against = "" if even is None else f"{100 * (tried.expected_s / even - 1):+.1f} %"
            table.add_row(tried.name, f"{tried.planned.makespan_s:.2f} s", f"{tried.expected_s:.2f} s", against)
    return Group(*parts, table)


def dispatch_data(found: JobDispatch) -> dict[str, Any]:
    """Return the same as plain data, with the order of every instance."""
    best = found.found
    return {
        "job": found.job,
        "pool": found.pool,
        "layout": found.layout,
        "instances": found.problem.instances,
        "slots": found.problem.admission.slots,
        "kv_tokens": found.problem.admission.kv_tokens,
        "output_tokens": found.problem.output_tokens.tolist(),
        "recall": found.recall,
        "makespan_s": best.value,
        "bound_s": best.bound.value,
        "proof": best.bound.proof,
        "gap": best.gap,
        "stopped": best.stopped,
        "orders": [list(order) for order in best.solution.orders],
        "methods": [
            {
                "name": tried.name,
                "makespan_s": None if tried.planned is None else tried.planned.makespan_s,
                "expected_s": tried.expected_s,
                "reason": tried.reason,
            }
            for tried in found.candidates
        ],
    }
