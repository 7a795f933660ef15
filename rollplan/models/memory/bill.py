"""The memory bill: one line per role, phase and term, the peaks, and whether they fit.

The GPUs of a pool hold, in each phase, what the active role needs and what the waiting roles left there; the peak is
the largest phase. Lines are per GPU (the fullest), host lines per node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rollplan.models.accelerator import Gpu
from rollplan.models.memory.amount import Amount, gib
from rollplan.models.memory.kv import kv_obstacle
from rollplan.models.memory.roles import ACTIVE, Phase, Term, Where, entries, phases
from rollplan.models.memory.setup import Role, Setup

TIGHT = 0.1
"""A margin below this share of the memory: fits by arithmetic, may fail in reality (NVIDIA-NeMo/RL 2319, verl 3364)."""
REL_TOL = 1e-9
"""Float noise that is neither an overflow nor a thin margin."""

Gpus = Gpu | Mapping[Role, Gpu]
"""One GPU for all roles, or one for each."""


@dataclass(frozen=True, slots=True)
class Line:
    """One term of a role in a phase. gib: per GPU, or per node on the host; the formula gives bytes."""

    role: Role
    phase: Phase
    term: Term
    gib: float
    where: Where
    formula: str


@dataclass(frozen=True, slots=True)
class Peak:
    """The fullest phase of some GPUs, or of a node's host; memory_gib None: not known."""

    roles: tuple[Role, ...]
    where: Where
    phase: Phase
    gib: float
    memory_gib: float | None

    @property
    def margin_gib(self) -> float | None:
        """What is left, negative if it does not fit."""
        return None if self.memory_gib is None else self.memory_gib - self.gib

    @property
    def fits(self) -> bool:
        """Whether it fits; true if the memory is not known."""
        return self.memory_gib is None or self.gib <= self.memory_gib * (1 + REL_TOL)

    @property
    def tight(self) -> bool:
        """Whether it fits with a margin below 10 % of the memory."""
        return self.memory_gib is not None and self.fits and self.memory_gib - self.gib < (TIGHT - REL_TOL) * self.memory_gib

    def __str__(self) -> str:
        """Return `train GPU: 113.6 GiB in update, has 74.5 GiB`."""
        has = "" if self.memory_gib is None else f", has {self.memory_gib:.1f} GiB"
        place = "GPU" if self.where == "gpu" else "node's host"
        return f"{' + '.join(self.roles)} {place}: {self.gib:.1f} GiB in {self.phase}{has}"


@dataclass(frozen=True, slots=True)
class MemoryBill:
    """All lines, the peak of each pool's GPUs and of its hosts, and why the engines hold no sequence, if so."""

    lines: tuple[Line, ...]
    peaks: tuple[Peak, ...]
    host_peaks: tuple[Peak, ...]
    kv_problem: str | None

    def peak(self, role: Role) -> Peak:
        """Return the peak of the GPUs that a role lies on, alone or with others."""
        return next(peak for peak in self.peaks if role in peak.roles)

    def at(self, peak: Peak) -> tuple[Line, ...]:
        """Return the lines that make up a peak, largest first."""
        chosen = (line for line in self.lines if (line.role in peak.roles, line.phase, line.where) == (True, peak.phase, peak.where))
        return tuple(sorted(chosen, key=lambda line: -line.gib))

    @property
    def margin_gib(self) -> float:
        """The thinnest margin of all GPUs, negative if something does not fit."""
        return min(peak.memory_gib - peak.gib for peak in self.peaks if peak.memory_gib is not None)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it does not fit; empty if it does."""
        found = [str(peak) for peak in (*self.peaks, *self.host_peaks) if not peak.fits]
        return (*found, self.kv_problem) if self.kv_problem else tuple(found)

    @property
    def fits(self) -> bool:
        """Whether every phase fits everywhere and the engines hold at least one sequence."""
        return not self.reasons

    @property
    def tight(self) -> bool:
        """Whether it fits, but some margin is below 10 % of the memory."""
        return self.fits and any(peak.tight for peak in (*self.peaks, *self.host_peaks))


def bill(setup: Setup, gpus: Gpus) -> MemoryBill:
    """Return the memory bill of a setup; raise `ValueError` if roles that share GPUs are given different ones."""
    lines: list[Line] = []
    for pool in setup.pools:
        lines += _pool_lines(setup, pool, gpus)
    peaks = tuple(_peak(lines, pool, "gpu", _gpu(pool, gpus).memory_gib) for pool in setup.pools)
    hosts = (tuple(setup.roles),) if setup.gpus <= setup.node.gpus else setup.pools
    host_peaks = tuple(_host_peak(setup, lines, roles) for roles in hosts)
    problem = kv_obstacle(setup.rollout, _gpu(("rollout",), gpus)) if setup.rollout else None
    return MemoryBill(tuple(lines), peaks, host_peaks, problem)


def _pool_lines(setup: Setup, pool: tuple[Role, ...], gpus: Gpus) -> list[Line]:
    per_node = min(setup.node.gpus, setup.roles[pool[0]].layout.gpus)
    lines: list[Line] = []

    def add(role: Role, phase: Phase, term: Term, where: Where, amount: Amount) -> None:
        total = amount.times(per_node, "GPUs of the node") if where == "host" else amount
        lines.append(Line(role, phase, term, total.gib, where, total.formula))

    for phase in phases(pool, setup):
        for role in pool:
            for term, where, amount in entries(setup, role, ACTIVE[phase].get(role, "rest"), _gpu(pool, gpus)):
                add(role, phase, term, where, amount)
        if setup.node.worker_gib:
            add(pool[0], phase, "workers", "host", gib(setup.node.worker_gib, "per worker"))
    return lines


def _gpu(pool: tuple[Role, ...], gpus: Gpus) -> Gpu:
    if isinstance(gpus, Gpu):
        return gpus
    given = {role: gpus[role] for role in pool if role in gpus}
    if len(given) < len(pool):
        raise ValueError(f"gpus must name every role, got none for {', '.join(role for role in pool if role not in given)}: add it")
    if len({gpu.name for gpu in given.values()}) > 1:
        kinds = ", ".join(f"{role} {gpu.name}" for role, gpu in given.items())
        raise ValueError(f"roles that share GPUs must be given the same, got {kinds}: correct `gpus` or `shared`")
    return given[pool[0]]


def _peak(lines: list[Line], roles: tuple[Role, ...], where: Where, memory_gib: float | None) -> Peak:
    """Return the fullest phase of a pool; of equals the first."""
    totals: dict[Phase, float] = {}
    for line in lines:
        if line.role in roles:
            totals[line.phase] = totals.get(line.phase, 0.0) + (line.gib if line.where == where else 0.0)
    phase = max(totals, key=lambda name: totals[name])
    return Peak(roles, where, phase, totals[phase], memory_gib)


def _host_peak(setup: Setup, lines: list[Line], roles: tuple[Role, ...]) -> Peak:
    """Return the peak of the node that these roles lie on: pools of one small node add up, whatever their phases."""
    pools = [_peak(lines, pool, "host", setup.node.memory_gib) for pool in setup.pools if set(pool) <= set(roles)]
    fullest = max(pools, key=lambda peak: peak.gib)
    return Peak(roles, "host", fullest.phase, sum(peak.gib for peak in pools), setup.node.memory_gib)
