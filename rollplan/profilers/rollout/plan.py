"""Which points of batch and context are measured, and with how many tokens each; part of the worker, standard library only.

Every point is one run of the engine: `batch` equal requests, whose prompts fill the KV cache and whose outputs are
decoded. Step j of a request, the prompt's being 1, attends to prompt + j tokens in the convention of the decode
simulation. Steps `WARM_UP + 1` to `LENGTH - 1` count, so a prompt that is `CENTRE` tokens shorter than the context makes
their mean context exactly what was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WARM_UP, LENGTH = 8, 56
"""The first steps after a prompt are slower than the others; the last one finishes the requests."""
CENTRE = (WARM_UP + LENGTH) // 2
LEAST_CONTEXT = CENTRE + 1
DEFAULT_LONGEST = 4096
_BLOCK = 16


@dataclass(frozen=True)
class Point:
    """One cell of the grid: sequences in the batch, and tokens that each attends to."""

    batch: int
    context: int


@dataclass(frozen=True)
class Limits:
    """What the engine can hold: sequences at once, tokens of one sequence, tokens of all (None: it does not say)."""

    slots: int
    max_model_len: int
    kv_tokens: int | None


@dataclass(frozen=True)
class Grid:
    """Points in the order in which they are measured; what was asked for but is left out, in words."""

    points: tuple[Point, ...]
    dropped: tuple[str, ...]


def room(context: int, length: int = LENGTH) -> int:
    """Return the tokens of one sequence at the end of a run of `length` output tokens around a context."""
    return context + length - (WARM_UP + length) // 2


def default_batches(slots: int) -> list[int]:
    """Return 1, 2, 4, ... and the number of slots."""
    return sorted({*(2**power for power in range(slots.bit_length())), slots})


def default_contexts(max_model_len: int) -> list[int]:
    """Return 48, 192, 768, ... and the longest that the model takes, at most `DEFAULT_LONGEST`."""
    longest = min(max_model_len - (room(0)), DEFAULT_LONGEST)
    steps = [48 * 4**power for power in range(10)]
    return sorted({*(context for context in steps if context < longest), longest})


def model_length(contexts: Sequence[int] | None, max_positions: int) -> int:
    """Return for how many tokens the engine is started: the longest context, and room for outputs and late prompts."""
    longest = DEFAULT_LONGEST if contexts is None else max(contexts)
    return min(max_positions, longest + 512)


def grid(batches: Sequence[int], contexts: Sequence[int], limits: Limits) -> Grid:
    """Return the points that fit: no more sequences than slots, no longer than the model takes, within the KV cache.

    A point that does not fit takes everything with it that is larger in both directions, so the rest has no holes.
    """
    points: list[Point] = []
    dropped: list[str] = []
    for context in sorted(set(contexts)):
        for batch in sorted(set(batches)):
            reason = refusal(Point(batch, context), limits)
            if reason is None:
                points.append(Point(batch, context))
            else:
                dropped.append(f"batch {batch} at context {context}: {reason}")
    return Grid(tuple(points), tuple(dropped))


def refusal(point: Point, limits: Limits) -> str | None:
    """Return why a point cannot be measured; None if it can."""
    tokens = room(point.context)
    blocks = -(-tokens // _BLOCK) * _BLOCK
    if point.context < LEAST_CONTEXT:
        return f"the shortest context that can be measured is {LEAST_CONTEXT} tokens"
    if point.batch > limits.slots:
        return f"the engine has {limits.slots} slots"
    if tokens > limits.max_model_len:
        return f"a sequence grows to {tokens} tokens, the engine takes {limits.max_model_len}"
    if limits.kv_tokens is not None and point.batch * blocks > limits.kv_tokens:
        return f"needs {point.batch * blocks} tokens of KV cache, the engine has {limits.kv_tokens}"
    return None
