"""What the statistics need of the samples: a few numbers for each, whatever the texts weigh."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rollplan.profilers.lengths.files import fault
from rollplan.profilers.lengths.samples import Sample

IntArray = npt.NDArray[np.int64]

MAX_SAMPLES = 5_000_000
MAX_PROMPTS = 30_000
"""Prompts whose texts are kept for the ranker."""
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Gathered:
    """All samples of a file. lengths, groups, steps, texts: one entry for each sample, in the order of the file.

    lengths: at least 1, cut off at `limit`. groups: number of the group; steps: as the file says; texts: place in
    `prompts`; -1 where unknown or, for texts, not kept. prompts: different texts. empty, silent: samples left out, of
    length 0 or without a count. over: cut off. truncated: samples that the engine cut off, of `judged` that it speaks of.
    """

    lengths: IntArray
    groups: IntArray
    steps: IntArray
    texts: IntArray
    prompts: tuple[str, ...]
    different_groups: int
    empty: int
    silent: int
    over: int
    truncated: int
    judged: int


def gather(samples: Iterable[Sample], source: Path, limit: int | None = None, keep_texts: bool = False) -> Gathered:
    """Return the samples as arrays; raise `InputError` if there are none, or more than `MAX_SAMPLES`.

    keep_texts: keep the first `MAX_PROMPTS` different prompts.
    """
    lengths, groups, steps, texts = array("i"), array("i"), array("i"), array("i")
    numbers: dict[bytes, int] = {}
    prompts: dict[str, int] = {}
    empty = silent = over = truncated = judged = 0
    for sample in samples:
        if sample.length is None or sample.length < 1:
            silent, empty = silent + (sample.length is None), empty + (sample.length is not None)
            continue
        if len(lengths) == MAX_SAMPLES:
            raise fault(source, "", f"has more than {MAX_SAMPLES:,} samples", "give fewer steps")
        over += limit is not None and sample.length > limit
        lengths.append(sample.length if limit is None else min(sample.length, limit))
        groups.append(UNKNOWN if sample.group is None else numbers.setdefault(_digest(sample.group), len(numbers)))
        steps.append(UNKNOWN if sample.step is None else sample.step)
        known = keep_texts and sample.prompt is not None and (sample.prompt in prompts or len(prompts) < MAX_PROMPTS)
        texts.append(prompts.setdefault(sample.prompt, len(prompts)) if known and sample.prompt is not None else UNKNOWN)
        judged += sample.truncated is not None
        truncated += sample.truncated is True
    if not lengths:
        left_out = f" ({empty} of length 0, {silent} without a count)" if empty or silent else ""
        raise fault(source, "", f"has no sample{left_out}", "give a file with at least one response")
    length_array, group_array, step_array, text_array = (np.array(column, dtype=np.int64) for column in (lengths, groups, steps, texts))
    return Gathered(
        length_array,
        group_array,
        step_array,
        text_array,
        tuple(prompts),
        different_groups=len(numbers),
        empty=empty,
        silent=silent,
        over=over,
        truncated=truncated,
        judged=judged,
    )


def _digest(key: str) -> bytes:
    """Return sixteen bytes that stand for a prompt, however long it is."""
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
