"""A profile of training as a screen: micro-batches, the law with its errors, moves, memory beside the bill."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rollplan.cli.tables import labelled, new_table, percent
from rollplan.models.profile.file import Profile
from rollplan.models.profile.origin import Spread
from rollplan.models.profile.training import Kind, MemoryCheck, PassLaw, TrainingPoint, TrainingProfile


def train_screen(made: Profile) -> RenderableType:
    """Return everything that was measured; the profile must have its training section."""
    training = made.training
    if training is None:
        raise ValueError("the profile has no training section: make one with `rollplan profile train`")
    device = f"{made.origin.device}, {training.threads} compute threads" if training.threads else str(made.origin.device)
    parts: list[RenderableType] = [
        Text(f"{training.model.name} ({training.model.params_b:.3g}B parameters) on {device}"),
        labelled("setting", f"{training.dtype}, checkpointing {training.checkpointing}, {training.optimizer}, random weights"),
        Text(),
        _points(training),
        labelled("update", "forward and backward of one micro-batch; +-: half the distance of the quartiles, by the median"),
        labelled("step", f"{_seconds(training.optimizer_s)} for one optimizer step"),
        *_laws(training),
    ]
    if training.moves:
        parts += [Text(), _moves(training)]
    for check in training.memory:
        parts += [Text(), Text(f"memory in {_WORDS[check.kind]} of {check.sequences} x {check.sequence_length} tokens"), _memory(check)]
    parts += [labelled("skipped", reason) for reason in training.skipped]
    parts += [labelled("warning", warning) for warning in made.warnings]
    return Group(*parts)


_WORDS: dict[Kind, str] = {"update": "forward and backward", "log-prob": "log-probs"}


def _points(training: TrainingProfile) -> Table:
    columns = ("tokens", "as", "update s", "+-", "by law", "tokens/s", "log-prob s", "+-", "by law", "peak GiB")
    table = new_table(*((title, "right") for title in columns))
    for point in training.points:
        update, log_prob = point.forward_backward_s, point.log_prob_s
        table.add_row(
            str(point.tokens),
            f"{point.sequences} x {point.sequence_length}",
            f"{update.median:.4g}",
            percent(update.relative, 0),
            _error(training.update, point, update),
            f"{point.tokens / update.median:.4g}" if update.median else "-",
            f"{log_prob.median:.4g}" if log_prob else "-",
            percent(log_prob.relative, 0) if log_prob else "-",
            _error(training.log_prob, point, log_prob),
            "-" if point.peak_gib is None else f"{point.peak_gib:.3g}",
        )
    return table


def _error(law: PassLaw | None, point: TrainingPoint, seen: Spread | None) -> str:
    if law is None or seen is None or not seen.median:
        return "-"
    return f"{100 * (law.seconds(point.tokens, point.sum_sq) / seen.median - 1):+.1f} %"


def _laws(training: TrainingProfile) -> list[RenderableType]:
    found = []
    for name, law in (("law", training.update), ("log-prob", training.log_prob)):
        if law is not None:
            text = f"{law.a_s:.3g} s + {law.b_s_per_token:.3g} s x tokens + {law.c_s_per_token2:.3g} s x sum of squared lengths"
            left_out = "too few points to leave one out" if law.worst_left_out is None else f"{percent(law.worst_left_out, 1)} left out"
            found.append(labelled(name, f"{text}; off by at most {percent(law.worst_error, 1)} fitted, {left_out}"))
    return found


def _moves(training: TrainingProfile) -> Table:
    table = new_table(("moved", "left"), ("GiB", "right"), ("seconds", "right"), ("GB/s", "right"), ("read from storage", "right"))
    for move in training.moves:
        stored = "-" if move.from_storage is None else percent(move.from_storage, 0)
        name = f"{move.temperature} {move.direction} of {move.what}"
        table.add_row(name, f"{move.gib:.3g}", _seconds(move.seconds), f"{move.gb_s.median:.3g}", stored)
    return table


def _memory(check: MemoryCheck) -> Table:
    table = new_table(("term", "left"), ("bill GiB", "right"), ("measured GiB", "right"), ("bill is off by", "right"))
    for term in check.terms:
        error = "-" if term.error is None else f"{100 * term.error:+.1f} %"
        table.add_row(term.term, f"{term.predicted_gib:.3g}", f"{term.measured_gib:.3g}", error)
    return table


def _seconds(spread: Spread) -> str:
    """Return `0.1234 s +-2 %`: four digits, because short passes are measured, too."""
    return f"{spread.median:.4g} s +-{percent(spread.relative, 0)}"
