"""YAML read strictly: plain data comes through, everything clever is refused with its line."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollplan.models.errors import InputError
from rollplan.models.yaml_reader import MAX_DEPTH, parse_yaml, read_yaml

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=200)


def refused(text: str) -> str:
    """Return the refusal of a text that must be refused."""
    with pytest.raises(InputError) as caught:
        parse_yaml(text, "job.yaml")
    (finding,) = caught.value.findings
    return str(finding)


def refused_file(path: Path) -> str:
    """Return the refusal of a file that must be refused."""
    with pytest.raises(InputError) as caught:
        read_yaml(path)
    (finding,) = caught.value.findings
    return str(finding)


def test_plain_data_comes_through() -> None:
    """Mappings, lists, text and numbers: all that a scenario needs."""
    lines = ["pools:", "  - name: H20  # comment", "    nodes: 4", "    price: 14.8", "label: 'a: b'", "flow: {x: [1, -2.5e3], y: null}"]
    text = "\n".join([*lines, "folded: >", "  one", "  two", ""])
    expected = {
        "pools": [{"name": "H20", "nodes": 4, "price": 14.8}],
        "label": "a: b",
        "flow": {"x": [1, -2500.0], "y": None},
        "folded": "one two\n",
    }
    assert parse_yaml(text, "job.yaml") == expected


@pytest.mark.parametrize(
    "text",
    [
        "on",
        "off",
        "yes",
        "no",
        "y",
        "n",
        "On",
        "1:30",
        "12:30:45",
        "0x1F",
        "0o17",
        "1_000",
        "2026-01-31",
        "=",
        "<<",
        "7B",
        "32GiB",
        "1e",
        ".",
    ],
)
def test_words_that_yaml_1_1_would_convert_stay_text(text: str) -> None:
    """`on` is no boolean and 1:30 is not 90: the Norway problem, and sexagesimal times."""
    assert parse_yaml(f"a: {text}", "job.yaml") == {"a": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("+4", 4),
        ("007", 7),
        ("1.5", 1.5),
        (".5", 0.5),
        ("2.", 2.0),
        ("1e3", 1000.0),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        (".inf", float("inf")),
        ("-.inf", float("-inf")),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(text: str, value: object) -> None:
    """Numbers, booleans and null, each with its type."""
    found = parse_yaml(f"a: {text}", "job.yaml")
    assert (found, type(found["a"])) == ({"a": value}, type(value))


@pytest.mark.parametrize("quoted", ["'12'", '"12"', "|-\n  12", ">-\n  12"])
def test_quoted_and_block_scalars_stay_text(quoted: str) -> None:
    """Quotes are how a user says that 12 is a name."""
    assert parse_yaml(f"a: {quoted}", "job.yaml") == {"a": "12"}


def test_an_integer_of_many_digits_does_not_hang() -> None:
    """Converting a million digits to an integer is quadratic; as a float it is at once infinite, which fields refuse."""
    assert parse_yaml("a: " + "9" * 1_000_000, "job.yaml") == {"a": float("inf")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: *x", "line 2: uses the alias `*x`; write the value out; aliases are not read"),
        ("a: 1\n*x : 2", "line 2: uses the alias `*x`; write the value out; aliases are not read"),
        ("a: &x 1", "line 1: sets the anchor `&x`; remove it; aliases are not read"),
        ("a: &x [1]", "line 1: sets the anchor `&x`; remove it; aliases are not read"),
        ("\n\na: &x {b: 1}", "line 3: sets the anchor `&x`; remove it; aliases are not read"),
        ("a: !!int 3", "line 1: has the tag `tag:yaml.org,2002:int`; remove it; only plain values are read"),
        ("a: !mine {b: 1}", "line 1: has the tag `!mine`; remove it; only plain values are read"),
        ("a: !!python/object/apply:os.system [ls]", "line 1: has the tag `tag:yaml.org,2002:python/object/apply:os.system`; remove it; "),
        ("a: !!binary aGk=", "line 1: has the tag `tag:yaml.org,2002:binary`; remove it; only plain values are read"),
        ("a: 1\nb: 2\na: 3", "line 3: gives the key `a` a second time; keep one of the two"),
        ("a: {b: 1, b: 1}", "line 1: gives the key `b` a second time; keep one of the two"),
        ("? [1, 2]\n: 3", "line 1: is a key made of several values; use a plain word as the key"),
        ("? {a: 1}\n: 3", "line 1: is a key made of several values; use a plain word as the key"),
        ("a: 1\n---\nb: 2", "line 2: starts a second document; keep one document per file"),
    ],
)
def test_what_is_more_than_plain_data_is_refused_with_its_line(text: str, message: str) -> None:
    """The usual safe loader takes aliases, tags and the last of two equal keys without a word."""
    assert refused(text).startswith(message)


def test_merge_keys_do_not_merge() -> None:
    """`<<` is a key like any other, so the scenario refuses it as unknown."""
    assert parse_yaml("<<: {a: 1}\nb: 2", "job.yaml") == {"<<": {"a": 1}, "b": 2}


def test_a_merge_key_with_an_alias_is_refused() -> None:
    """Its usual form."""
    assert refused("base: &base {a: 1}\njob:\n  <<: *base\n").startswith("line 1: sets the anchor `&base`")


def test_a_billion_laughs_is_refused_at_its_first_anchor() -> None:
    """Nine lines that a loader with aliases unfolds to 10^9 strings."""
    lines = ["a0: &a0 [lol]"] + [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]" for k in range(1, 10)]
    assert refused("\n".join(lines)).startswith("line 1: sets the anchor `&a0`")


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}"), ("- ", "")], ids=["list", "mapping", "block list"])
def test_the_deepest_allowed_nesting_is_read(opening: str, closing: str) -> None:
    """No file of ours needs more than six levels."""
    value = parse_yaml(opening * MAX_DEPTH + "x" + closing * MAX_DEPTH, "job.yaml")
    for _ in range(MAX_DEPTH):
        (value,) = value.values() if isinstance(value, dict) else value
    assert value == "x"


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}"), ("- ", "")], ids=["list", "mapping", "block list"])
def test_one_level_more_is_refused(opening: str, closing: str) -> None:
    """The refusal says how many there may be."""
    levels = MAX_DEPTH + 1
    assert refused(opening * levels + "x" + closing * levels) == f"line 1: is nested too deeply; use at most {MAX_DEPTH} levels"


@pytest.mark.parametrize("opening", ["[", "{", "- ", "? "])
def test_absurd_nesting_is_refused_and_crashes_nothing(opening: str) -> None:
    """A hundred thousand brackets end many recursive parsers."""
    assert refused(opening * 100_000).startswith("line 1")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a:\n\tb: 1", "line 2, column 1"),
        ("a: 1\n b: 2", "line 2, column 3"),
        ("a: [1, 2\nb: 3", "line 2, column 2"),
        ("a: 'x", "line 1, column 6"),
        ("a: b: c", "line 1, column 5"),
    ],
)
def test_broken_yaml_is_refused_with_line_and_column(text: str, place: str) -> None:
    """Tabs, indentation, brackets, quotes, colons."""
    assert refused(text).startswith(f"{place}: is not YAML (")


def test_control_characters_are_refused() -> None:
    """They are invisible in an editor."""
    assert "is not YAML" in refused("a: \x07")


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n...\n", "null", "~"])
def test_an_empty_document_is_refused_with_what_to_write(text: str) -> None:
    """Also one that holds nothing but a comment."""
    assert refused(text) == "job.yaml: is empty; write a scenario; `rollplan schema scenario` describes it"


def test_a_file_is_read_with_its_utf_8_byte_order_mark(tmp_path: Path) -> None:
    """Windows editors write one."""
    path = tmp_path / "job.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: caf\xc3\xa9\r\nnodes: 4\r\n")
    assert read_yaml(path) == {"name": "café", "nodes": 4}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x7fELF\x02\x01\x01\x00\x00", "is a binary file"),
        (b"name: caf\xe9", "is not UTF-8 text"),
        (b"\xff\xfen\x00a\x00", "is not UTF-8 text"),
        (b"", "is empty"),
    ],
)
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, data: bytes, problem: str) -> None:
    """Binary, Latin-1, UTF-16, and nothing at all."""
    path = tmp_path / "job.yaml"
    path.write_bytes(data)
    assert refused_file(path).startswith(f"{path}: {problem}")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    """The usual slip of the tab key."""
    assert refused_file(tmp_path) == f"{tmp_path}: is a directory; give the scenario file inside it"


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """With the path as the user gave it."""
    path = tmp_path / "no.yaml"
    assert refused_file(path) == f"{path}: does not exist; give the path of a scenario file"


def test_a_refusal_names_the_kind_of_file_that_was_wanted(tmp_path: Path) -> None:
    """A profile is no scenario."""
    with pytest.raises(InputError, match="give the profile file inside it"):
        read_yaml(tmp_path, "profile")


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.text("abc xyz:#-?!&*'\"", min_size=1, max_size=8),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3) | st.dictionaries(st.text("abcdef", min_size=1, max_size=5), inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)


def written(value: object) -> str:
    """Return a value in YAML's flow style, text always quoted."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{written(key)}: {written(item)}" for key, item in value.items()) + "}"
    return {None: "null", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else str(value)


@REPEATABLE
@given(PLAIN.filter(lambda value: value is not None))
def test_plain_data_is_read_back_as_it_was_written(value: object) -> None:
    """Round trip through quoted flow style."""
    assert parse_yaml(written(value), "job.yaml") == value


@REPEATABLE
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Bad input never shows a traceback."""
    with suppress(InputError):
        assert parse_yaml(text, "job.yaml") is not None
