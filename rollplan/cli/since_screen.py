"""What `rollplan plan --since` says of the jobs that came, left and moved."""

from __future__ import annotations

from rollplan.models.plan import Plan
from rollplan.models.scenario import Scenario
from rollplan.planner.since import since

_SHOWN = 12
"""Moved jobs that are named one by one."""


def since_lines(scenario: Scenario, source: str, before: Plan, after: Plan, price_per_h: float) -> list[str]:
    """Return the lines: who moved, what it saves, and what the gap of the plan means then."""
    changed = since(scenario, before, after)
    moves = [f"{name} ({old} before, {new} now)" for name, old, new in changed.moved[:_SHOWN]]
    if len(changed.moved) > _SHOWN:
        moves.append(f"{len(changed.moved) - _SHOWN} more")
    lines = [f"  since     {source}: {len(changed.came)} jobs came, {len(changed.left)} left, {len(changed.stayed)} stayed"]
    lines.append(f"  moved     {len(changed.moved)} of them" + (f": {', '.join(moves)}" if moves else ""))
    if changed.saves_per_h is None:
        lines.append("            without moves the new jobs find no room")
    else:
        paid = f", {price_per_h * len(changed.moved):.2f} $/h of it the price of the moves" if price_per_h and changed.moved else ""
        lines.append(f"            {round(changed.saves_per_h, 2) + 0.0:.2f} $/h less than placing the new jobs without moves{paid}")
    lines.append(
        "            the bound is that of planning anew, which may move every job: a plan that moves few can be best and far from it"
    )
    return lines
