"""Long-tail migration: when most samples are done, the rest moves to a few nodes and the others go to the next job.

Every node that still generates is interrupted, those that keep generating too: each of them gets one further rollout of
its own rest and what it takes over, so that both run side by side. Source: RollMux (arXiv 2512.11306) 4.3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from rollplan.executor.core.runbook import JobRun


@dataclass(slots=True)
class Migration:
    """One consolidation. keepers: nodes that take the rest; waiting: nodes that have not yet said what is left of theirs."""

    keepers: tuple[str, ...]
    waiting: set[str]
    rest: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def report(self, node: str, remaining: tuple[int, ...]) -> None:
        """Take what an interrupted node left unfinished."""
        self.waiting.remove(node)
        self.rest[node] = remaining

    def consolidated(self) -> dict[str, tuple[int, ...]]:
        """Return what each keeper generates now: its own rest, then of the others' so much that all have about as many.

        A keeper keeps what it began, because it holds the cache of it.
        """
        shares = {node: list(self.rest[node]) for node in self.keepers}
        for sample in sorted(sample for node, rest in self.rest.items() if node not in self.keepers for sample in rest):
            min(shares.values(), key=len).append(sample)
        return {node: tuple(share) for node, share in shares.items()}


def begin(run: JobRun, done: int, unfinished: Mapping[str, Collection[int]]) -> Migration | None:
    """Return the consolidation that is due, if one is.

    done: finished samples of the iteration. unfinished: of each node that rolls out; a node without any is about to end.
    Those with most left keep theirs.
    """
    busy = [node for node in run.rollout if unfinished.get(node)]
    if run.migrate_at is None or done < run.migrate_at * run.samples or len(busy) <= run.migrate_to:
        return None
    fullest = sorted(busy, key=lambda node: -len(unfinished[node]))
    return Migration(tuple(fullest[: run.migrate_to]), set(busy))
