"""Damaged logs are read or refused in words; nothing else ever comes out."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan import InputError

from .grammar import GRAMMARS, Grammar
from .truths import read_text, steady


def damaged(text: str, seed: int) -> bytes:
    """Return a log with lines cut, shuffled, doubled, lost, and bits turned over."""
    random = Random(seed)
    lines = [line + b"\n" for line in text.encode().split(b"\n")]
    for _ in range(random.randint(1, 12)):
        place = random.randrange(len(lines))
        match random.randrange(6):
            case 0:
                lines[place] = lines[place][: random.randrange(len(lines[place]) + 1)] + b"\n"
            case 1:
                other = random.randrange(len(lines))
                lines[place], lines[other] = lines[other], lines[place]
            case 2:
                lines.insert(random.randrange(len(lines)), lines[place])
            case 3:
                lines[place] = b""
            case 4 if lines[place]:
                broken = bytearray(lines[place])
                broken[random.randrange(len(broken))] ^= 1 << random.randrange(8)
                lines[place] = bytes(broken)
            case _:
                lines[place] = lines[place].replace(str(random.randrange(10)).encode(), b"9" * random.randint(0, 30))
    if random.random() < 0.2:
        random.shuffle(lines)
    return b"".join(lines)


@pytest.mark.parametrize("grammar", GRAMMARS, ids=lambda grammar: grammar.name)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_no_damage_makes_anything_but_runs_or_a_refusal(tmp_path_factory: pytest.TempPathFactory, grammar: Grammar, seed: int) -> None:
    """A reader that trips over one line loses the other million."""
    folder = tmp_path_factory.getbasetemp() / "damaged"
    folder.mkdir(exist_ok=True)
    try:
        runs = read_text(folder, damaged(grammar.write(steady(grammar, count=6)), seed))
    except InputError:
        return
    assert all(run.kept for run in runs)


@given(st.binary(max_size=2000))
def test_bytes_of_any_kind_are_refused_in_words(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """A core dump, a picture, a model."""
    folder: Path = tmp_path_factory.getbasetemp()
    with pytest.raises(InputError, match="fault"):
        read_text(folder, data)
