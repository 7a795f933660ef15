"""Numbers that stand for a prompt: its words, weighted by how rare they are, and the look of its surface."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from math import log, log1p, sqrt
from types import MappingProxyType

_TERM = re.compile(r"\w+|[^\w\s]")
_NUMBER = re.compile(r"\d[\d.,]*")

SURFACE: Mapping[str, Callable[[str], float]] = MappingProxyType(
    {
        "characters": lambda text: log1p(len(text)),
        "words": lambda text: log1p(len(text.split())),
        "different_words": lambda text: log1p(len(set(text.lower().split()))),
        "word_length": lambda text: len(text) / max(1, len(text.split())),
        "numbers": lambda text: log1p(len(_NUMBER.findall(text))),
        "different_numbers": lambda text: log1p(len(set(_NUMBER.findall(text)))),
        "sentences": lambda text: log1p(text.count(".")),
        "commas": lambda text: log1p(text.count(",")),
        "questions": lambda text: log1p(text.count("?")),
        "lines": lambda text: log1p(text.count("\n")),
    }
)
"""Features of the surface by name: logarithms of counts, so that a prompt of ten times the size is not ten times as far."""


def term_counts(text: str) -> Counter[str]:
    """Return how often each word and each other sign occurs, whatever its case."""
    return Counter(_TERM.findall(text.lower()))


def weighted_terms(counts: Mapping[str, int], idf: Mapping[str, float]) -> dict[str, float]:
    """Return the tf-idf of the terms that have an idf: (1 + log count) * idf, scaled to a vector of length 1."""
    raw = {term: (1 + log(count)) * idf[term] for term, count in counts.items() if term in idf}
    norm = sqrt(sum(value * value for value in raw.values()))
    return {term: value / norm for term, value in raw.items()} if norm > 0 else {}
