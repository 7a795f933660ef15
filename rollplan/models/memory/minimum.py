"""The fewest GPUs on which a setup fits, with roles on GPUs of their own and with all taking turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from rollplan.models.accelerator import Gpu
from rollplan.models.layout import Layout, layouts
from rollplan.models.memory.bill import Gpus, bill
from rollplan.models.memory.roles import ACTIVE, Phase, Where
from rollplan.models.memory.setup import ModelSetup, Role, RolloutSetup, Setup, time_shared

_UTILIZATIONS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)


@dataclass(frozen=True, slots=True)
class Minimum:
    """The smallest setups that fit, None where none does within the limit.

    separate: pools as the setup has them, each as small as it can be. shared: all roles on the same GPUs, leaving them
    in the phases of the others.
    """

    separate: Setup | None
    shared: Setup | None


def minimum_gpus(setup: Setup, gpus: Gpus, limit: int = 64) -> Minimum:
    """Return the fewest GPUs, over all layouts that `layout.layouts` allows; limit: GPUs of one pool.

    Batches, sharding and offload stay as they are; on shared GPUs engines may claim less, by tenths. Engines have
    pipeline stages only beyond a node. Of equal counts the layouts with the widest margin are taken. Hosts are checked
    for each pool on nodes of its own. Roles on GPUs of different kinds are not shared.
    """
    pools = [_fewest(_part(setup, pool), gpus, limit) for pool in setup.pools]
    separate = None
    if all(pools):
        placed: dict[str, Any] = {role: model for pool in pools if pool for role, model in pool.roles.items()}
        separate = replace(setup, **placed)
    one_kind = isinstance(gpus, Gpu) or len({gpus[role].name for role in setup.roles}) == 1
    return Minimum(separate, _fewest_shared(setup, gpus, limit) if one_kind else None)


def _fewest_shared(setup: Setup, gpus: Gpus, limit: int) -> Setup | None:
    together = time_shared(_part(setup, tuple(setup.roles)))
    if together.rollout is None:
        return _fewest(together, gpus, limit)
    best: Setup | None = None
    claims = (together.rollout.gpu_memory_utilization, *_UTILIZATIONS)
    for claim in sorted({claim for claim in claims if claim <= claims[0]}, reverse=True):
        # Fewer GPUs justify a smaller claim, as many do not.
        found = _fewest(together.change("rollout", gpu_memory_utilization=claim), gpus, best.gpus - 1 if best else limit)
        best = found or best
    return best


def _part(setup: Setup, pool: tuple[Role, ...]) -> Setup:
    """Return the setup of one pool, the smallest layout of each role as a start."""
    roles: dict[str, Any] = {role: replace(setup.roles[role], layout=Layout()) if role in pool else None for role in setup.roles}
    return replace(setup, **roles, shared=(pool,))


def _fewest(setup: Setup, gpus: Gpus, limit: int) -> Setup | None:
    """Return the smallest fitting setup of one pool."""
    for count in range(1, limit + 1):
        choices = [_candidates(setup, role, gpus, count) for role in setup.roles]
        for chosen in sorted(product(*choices), key=_peak_gib):
            placed: dict[str, Any] = {role: candidate.model for role, candidate in zip(setup.roles, chosen, strict=True)}
            placed_setup = replace(setup, **placed)
            if bill(placed_setup, gpus).fits:
                return placed_setup
    return None


@dataclass(frozen=True, slots=True)
class _Candidate:
    """One role in one layout, and its totals in GiB by phase, on the GPU or the host."""

    model: ModelSetup | RolloutSetup
    totals: Mapping[tuple[Phase, Where], float]

    def dominates(self, other: _Candidate) -> bool:
        """Return whether no total is larger, so that it serves in every combination."""
        return all(total <= other.totals.get(key, 0.0) for key, total in self.totals.items())

    def gpu_gib(self, phase: Phase) -> float:
        """Return what it holds on the GPU in a phase, its own or one in which it rests."""
        return self.totals.get((phase, "gpu"), self.totals.get(("at rest", "gpu"), 0.0))


def _peak_gib(chosen: Sequence[_Candidate]) -> float:
    """Return the fullest phase on the GPU."""
    return max(sum(candidate.gpu_gib(phase) for candidate in chosen) for phase in ACTIVE)


def _candidates(setup: Setup, role: Role, gpus: Gpus, count: int) -> list[_Candidate]:
    """Return the layouts of one role that fit on `count` GPUs by themselves and that no other dominates."""
    others: dict[str, Any] = dict.fromkeys(other for other in setup.roles if other != role)
    alone = replace(setup, **others, shared=())
    kept: list[_Candidate] = []
    for layout in layouts(setup.roles[role].architecture, count, setup.node.gpus):
        if role == "rollout" and (layout.cp > 1 or (layout.pp > 1 and layout.tp < setup.node.gpus)):
            continue
        placed = alone.change(role, layout=layout)
        found = bill(placed, gpus)
        if not found.fits:
            continue
        totals: dict[tuple[Phase, Where], float] = {}
        for line in found.lines:
            totals[line.phase, line.where] = totals.get((line.phase, line.where), 0.0) + line.gib
        candidate = _Candidate(placed.roles[role], totals)
        if not any(other.dominates(candidate) for other in kept):
            kept = [other for other in kept if not candidate.dominates(other)] + [candidate]
    return kept
