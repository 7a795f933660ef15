"""What changed between two plans, in the words of the plan."""

from __future__ import annotations

from dataclasses import dataclass

from rollplan.models.plan import Plan, PlannedGroup
from rollplan.models.plan_split import PlannedSplit


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: what kind, of what, and both sides (None: not there)."""

    kind: str
    name: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        if self.old is None:
            return f"{self.kind} {self.name}: + {self.new}"
        if self.new is None:
            return f"{self.kind} {self.name}: - {self.old}"
        return f"{self.kind} {self.name}: {self.old} -> {self.new}"


def diff(old: Plan, new: Plan) -> tuple[Change, ...]:
    """Return the changes from `old` to `new`; empty when every decision and its numbers are the same."""
    found: list[Change] = []
    if old.scenario.sha256 != new.scenario.sha256:
        found.append(Change("scenario", new.scenario.name, old.scenario.sha256[:12], new.scenario.sha256[:12]))
    found += _values("cost", {"total": f"{old.cost_per_h:.2f} $/h"}, {"total": f"{new.cost_per_h:.2f} $/h"})
    found += _values("bound", _bound(old), _bound(new))
    found += _values("pool", {n: f"{u.nodes} nodes" for n, u in old.pools.items()}, {n: f"{u.nodes} nodes" for n, u in new.pools.items()})
    found += _values("job", _places(old), _places(new))
    found += _values("split", _splits(old), _splits(new))
    return tuple(found)


def _values(kind: str, old: dict[str, str], new: dict[str, str]) -> list[Change]:
    names = [*old, *(name for name in new if name not in old)]
    return [Change(kind, name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]


def _bound(plan: Plan) -> dict[str, str]:
    certificate = plan.certificate
    if certificate is None:
        return {}
    return {"co-location": f"{certificate.claimed_bound:.2f} $/h ({certificate.claimed_proof}, gap {100 * certificate.claimed_gap:.2f} %)"}


def _places(plan: Plan) -> dict[str, str]:
    """Return, for each job, with whom it shares nodes, where, and how slow it gets; group names do not matter."""
    return {job.name: _place(group, job.name) for group in plan.groups for job in group.jobs}


def _place(group: PlannedGroup, name: str) -> str:
    others = [job.name for job in group.jobs if job.name != name]
    job = next(job for job in group.jobs if job.name == name)
    nodes = ",".join(map(str, job.rollout_nodes))
    company = f"with {', '.join(others)}" if others else "alone"
    return f"{company}, rollout node {nodes} of {group.rollout_nodes}, slowdown {job.slowdown:.3f}"


def _splits(plan: Plan) -> dict[str, str]:
    return {
        split.name: f"{split.choice.mode} {split.choice.rollout_pool} {split.choice.rollout_gpus} : "
        f"{split.choice.train_pool} {split.choice.train_gpus}, {split.choice.iteration_s:.3f} s{_target(split)}"
        for split in plan.splits
    }


def _target(split: PlannedSplit) -> str:
    """Return by which fewest GPUs a split's target is kept, if it has a target."""
    if split.target_s is None:
        return ""
    target, fewest = f"target {split.target_s:.12g} s", split.fewest
    if fewest is None:
        return f", {target} missed"
    return f", {target} kept from {fewest.mode} {fewest.rollout_pool} {fewest.rollout_gpus} : {fewest.train_pool} {fewest.train_gpus}"
