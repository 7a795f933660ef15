"""Steps drawn at random, and logs that hold them."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from rollplan.models.profile.run import LoggedRun
from rollplan.profilers.logs.read import read_log

from .grammar import GRAMMARS, Grammar, Truth

SECONDS = st.integers(200, 20_000).map(lambda hundredths: hundredths / 100)


@st.composite
def truths(draw: st.DrawFn, grammar: Grammar, least: int = 3, most: int = 6) -> list[Truth]:
    """Return steps of a steady run: no step is far from the others."""
    base = {name: draw(SECONDS) for name in grammar.phases}
    whole = draw(st.integers(2000, 50_000)) / 100 if not base else 0.0
    steps = []
    for number in range(draw(st.integers(least, most))):
        factor = draw(st.integers(95, 105)) / 100
        phases = {name: round(time * factor, 2) for name, time in base.items()}
        gap = round(0.05 * sum(phases.values()) + whole * factor, 2) if grammar.gaps else 0.0
        steps.append(Truth(grammar.first + number, phases, gap, float(draw(st.integers(10, 5000)))))
    return steps


def read_text(folder: Path, text: str | bytes, framework: str | None = None) -> tuple[LoggedRun, ...]:
    """Return what is read of a log."""
    path = folder / "run.log"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_log(path, framework)


def steady(grammar: Grammar, count: int = 4, base: float = 20.0) -> list[Truth]:
    """Return steps that hardly differ; the whole of those without phases is their gap."""
    return [
        Truth(
            grammar.first + number,
            {name: round(base + place + 0.1 * number, 2) for place, name in enumerate(grammar.phases)},
            gap=round(base + 0.1 * number, 2) if grammar.gaps and not grammar.phases else 1.0 if grammar.gaps else 0.0,
        )
        for number in range(count)
    ]


def named(name: str) -> Grammar:
    """Return a grammar."""
    return next(grammar for grammar in GRAMMARS if grammar.name == name)
