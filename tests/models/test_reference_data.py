"""The data files: small, attributed, the same bytes on every machine."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import rollplan
from rollplan.models.reference.tables import rows

DATA = Path(rollplan.__file__).parent / "models" / "reference" / "data"
FILES = sorted(path.name for path in DATA.iterdir())


def text_of(name: str) -> str:
    """Return the text of a data file."""
    data = (DATA / name).read_bytes()
    return (gzip.decompress(data) if name.endswith(".gz") else data).decode()


def test_all_data_together_is_smaller_than_400_kb() -> None:
    """The wheel stays small."""
    assert sum((DATA / name).stat().st_size for name in FILES) < 400_000


@pytest.mark.parametrize("name", FILES)
def test_every_file_says_what_it_holds(name: str) -> None:
    """A file that is opened alone explains itself."""
    assert text_of(name).startswith("# ")


@pytest.mark.parametrize("name", FILES)
def test_every_file_says_where_it_comes_from(name: str) -> None:
    """In its head, or in a column of every row; shapes of public models are facts of their config files."""
    head = "".join(line for line in text_of(name).splitlines(keepends=True) if line.startswith("#"))
    assert "aiconfigurator" in head or "config.json" in head or all(row["source"] for row in rows(name))


@pytest.mark.parametrize("name", FILES)
def test_every_row_has_all_columns(name: str) -> None:
    """A line cut short would be read as missing values."""
    assert all(None not in row and None not in row.values() for row in rows(name))


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".gz")])
def test_compressed_files_carry_no_time(name: str) -> None:
    """Bytes 4 to 7 of a gzip header are the time; 0 keeps builds reproducible."""
    assert (DATA / name).read_bytes()[4:8] == bytes(4)


def test_the_notice_names_every_file() -> None:
    """Each has an origin whose licence asks for attribution, or is a list of facts."""
    notice = (DATA.parents[3] / "NOTICE").read_text()
    assert [name for name in FILES if name not in notice] == []
