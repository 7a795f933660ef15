"""One step of a split as rows of letters: which GPU works when, and when it waits."""

from __future__ import annotations

from collections.abc import Iterator

from rollplan.cli.tables import seconds_text
from rollplan.models.plan_split import SplitChoice

_COLUMNS = 64
_MOST_ROWS = 16

_Row = tuple[tuple[str, tuple[float, float]], ...]
"""Letters with the seconds from and to which they run."""


def split_timeline(choice: SplitChoice) -> Iterator[str]:
    """Yield the lines: R where rollout runs, T where training does, a dot where the GPU waits.

    In steady state: stages that overlap begin the step together, stages in turn follow each other. Beyond sixteen GPUs each
    stage is one row.
    """
    rollout = (0.0, choice.rollout_s)
    late = choice.mode == "colocated" or choice.staleness == 0
    train = (choice.iteration_s - choice.train_s, choice.iteration_s) if late else (0.0, choice.train_s)
    yield f"  one step of {seconds_text(choice.iteration_s)}: R rollout, T training"
    rows: list[tuple[str, _Row]]
    if choice.mode == "colocated":
        rows = [(f"GPU {gpu}", (("R", rollout), ("T", train))) for gpu in range(choice.rollout_gpus)]
    else:
        rows = [(f"GPU {gpu}", (("R", rollout),)) for gpu in range(choice.rollout_gpus)]
        rows += [(f"GPU {gpu}", (("T", train),)) for gpu in range(choice.rollout_gpus, choice.rollout_gpus + choice.train_gpus)]
    if len(rows) > _MOST_ROWS:
        kept = dict.fromkeys(row for _, row in rows)
        rows = [(f"{'+'.join(letter for letter, _ in row)} GPUs", row) for row in kept]
    for name, row in rows:
        yield f"  {name:<9}{''.join(_letter(row, (column + 0.5) * choice.iteration_s / _COLUMNS) for column in range(_COLUMNS))}"


def _letter(row: _Row, at_s: float) -> str:
    """Return who runs on a GPU, a dot if nobody does."""
    return next((letter for letter, (start_s, end_s) in reversed(row) if start_s <= at_s < end_s), ".")
