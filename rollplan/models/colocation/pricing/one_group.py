"""What the searches ask of one group, compiled: whether it is known, allowed, what it pays, and where its answer is kept."""

from __future__ import annotations

from rollplan.models.colocation.pricing.block import Floats, Ints
from rollplan.models.compiled import compiled


@compiled
def _mix(members: Ints, size: int) -> int:
    """Return a hash of a group."""
    value = 1
    for i in range(size):
        value = (value * 1000003 + members[i] + 1) % 2147483647
    return value


@compiled
def known_group(members: Ints, size: int, table: Ints, slots: Ints) -> int:
    """Return the row of a group (places in ascending order) in `table`, -1 if it is not there."""
    if len(table) == 0:
        return -1
    slot = _mix(members, size) % len(slots)
    while slots[slot] >= 0:
        row = slots[slot]
        same = True
        for i in range(table.shape[1]):
            if table[row, i] != (members[i] if i < size else -1):
                same = False
        if same:
            return int(row)
        slot = (slot + 1) % len(slots)
    return -1


@compiled
def fill_slots(table: Ints, slots: Ints) -> None:
    """Enter the groups of a table, padded with -1, into its hash slots (all -1 before, more than the groups)."""
    for row in range(len(table)):
        size = 0
        while size < table.shape[1] and table[row, size] >= 0:
            size += 1
        slot = _mix(table[row], size) % len(slots)
        while slots[slot] >= 0:
            slot = (slot + 1) % len(slots)
        slots[slot] = row


@compiled
def allowed(chosen: Ints, size: int, apart: Ints, together: Ints) -> bool:
    """Return whether a group obeys the rules on pairs of jobs."""
    for i in range(len(apart)):
        held = 0
        for j in range(size):
            held += chosen[j] == apart[i, 0] or chosen[j] == apart[i, 1]
        if held == 2:
            return False
    for i in range(len(together)):
        held = 0
        for j in range(size):
            held += chosen[j] == together[i, 0] or chosen[j] == together[i, 1]
        if held == 1:
            return False
    return True


@compiled
def widest_clash(chosen: Ints, size: int, job: int, numbers: Floats, demand: Ints, limit_s: float, node_gib: float) -> int:
    """Return the largest demand among chosen jobs that can share no node with `job`."""
    most = 0
    for i in range(size):
        k = chosen[i]
        if demand[k] > most and (numbers[k, 0] + numbers[job, 0] > limit_s or numbers[k, 4] + numbers[job, 4] > node_gib):
            most = demand[k]
    return most


@compiled
def surcharge(chosen: Ints, size: int, triples: Ints, extra: Floats) -> float:
    """Return what a group pays for the triples of which it holds at least two."""
    total = 0.0
    for i in range(len(triples)):
        held = 0
        for j in range(size):
            held += chosen[j] == triples[i, 0] or chosen[j] == triples[i, 1] or chosen[j] == triples[i, 2]
        if held >= 2:
            total += extra[i]
    return total


@compiled
def ascending(chosen: Ints, size: int, group: Ints) -> None:
    """Write the first `size` numbers in ascending order."""
    for i in range(size):
        value = chosen[i]
        j = i
        while j > 0 and group[j - 1] > value:
            group[j] = group[j - 1]
            j -= 1
        group[j] = value


@compiled
def record(
    group: Ints, size: int, nodes: int, reduced: float, count: int, ordered: bool, out_members: Ints, out_nodes: Ints, out_cost: Floats
) -> int:
    """Keep a group at the end, or, if `ordered`, in order of reduced costs, the last one falling out; return how many are kept."""
    room = len(out_cost)
    row = count if count < room else room - 1
    if ordered:
        while row > 0 and out_cost[row - 1] > reduced:
            out_cost[row] = out_cost[row - 1]
            out_nodes[row] = out_nodes[row - 1]
            out_members[row] = out_members[row - 1]
            row -= 1
    out_cost[row] = reduced
    out_nodes[row] = nodes
    for i in range(out_members.shape[1]):
        out_members[row, i] = group[i] if i < size else -1
    return min(room, count + 1)
