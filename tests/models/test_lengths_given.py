"""How scenarios write lengths: each form builds its law, every fault has a place, a problem and a remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rollplan.models.errors import InputError
from rollplan.models.lengths import REFERENCE_LENGTHS, QuantileLaw
from rollplan.models.lengths import trace as trace_module
from rollplan.models.lengths.given import LengthsInput, inline_trace
from rollplan.models.lengths.histogram import histogram_law
from rollplan.models.lengths.lognormal import lognormal_law
from rollplan.models.lengths.trace import read_trace, trace_law
from rollplan.models.strict import Strict, tuples


class Around(Strict):
    """A file that holds lengths, as a scenario does."""

    lengths: LengthsInput


def build(raw: object) -> LengthsInput:
    return Around.build(tuples({"lengths": raw}), "test").lengths


def faults(make: Callable[[], object]) -> list[str]:
    with pytest.raises(InputError) as refused:
        make()
    return [str(finding) for finding in refused.value.findings]


FORMS: list[tuple[Any, QuantileLaw]] = [
    ("7B-8k", REFERENCE_LENGTHS["7B-8k"]),
    ({"reference": "streamrl-20k"}, REFERENCE_LENGTHS["streamrl-20k"]),
    ({"mean": 3000, "sigma": 1, "limit": 8192}, lognormal_law(3000, 8192, 1)),
    ({"mean": 3000, "sigma": 0.8, "limit": 8192, "clip": 0.1}, lognormal_law(3000, 8192, 0.8, 0.1)),
    ({"mean": 2600, "limit": 8192, "clip": 0.04}, lognormal_law(2600, 8192, None, 0.04)),
    ({"histogram": {"edges": [0, 1000, 4000], "shares": [0.7, 0.3]}, "limit": 4096}, histogram_law([0, 1000, 4000], [0.7, 0.3], 4096)),
    ({"histogram": {"edges": [0, 1000, 4000], "shares": [0.7, 0.3]}}, histogram_law([0, 1000, 4000], [0.7, 0.3])),
    ({"quantiles": {0.5: 800, 0.9: 3000}, "limit": 8192}, QuantileLaw(8192, ((0.5, 800), (0.9, 3000)))),
    ({"quantiles": {"0.9": 3000, "0.5": 800}, "limit": 8192}, QuantileLaw(8192, ((0.5, 800), (0.9, 3000)))),
    ({"trace": [812, 4096, 300], "limit": 4096}, trace_law([812, 4096, 300], 4096)),
    ({"trace": [812, 4096, 300]}, trace_law([812, 4096, 300])),
]


@pytest.mark.parametrize(("raw", "law"), FORMS, ids=lambda value: str(value)[:40] if isinstance(value, (str, dict)) else "")
def test_each_form_builds_its_law(raw: object, law: QuantileLaw) -> None:
    """A name, what logs show, a histogram, quantiles, a trace."""
    assert build(raw).law() == law


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("7B-9k", "lengths = `7B-9k`: is not a reference law of lengths; choose from 7B-4k, 7B-8k, 14B-8k, streamrl-20k"),
        ({}, "lengths = {0 keys}: does not say which law; give one of `reference`, `mean`, `histogram`, `quantiles`, `trace`"),
        ({"limit": 8192, "sigma": 1}, "does not say which law"),
        ({"mean": 10, "trace": [1], "limit": 20}, "gives `mean` and `trace`; give one of"),
        ({"trace": [1], "sigma": 1}, "gives `sigma` beside `trace`, where it has no effect; leave it out"),
        ({"reference": "7B-4k", "limit": 4096}, "gives `limit` beside `reference`, where it has no effect; leave it out"),
        ({"mean": 10, "sigma": 1}, "has no `limit`; add it"),
        ({"quantiles": {0.5: 10}}, "has no `limit`; add it"),
        ({"mean": 10, "limit": 100}, "without sigma, the clip share must be above 0"),
        ({"mean": 200, "limit": 100, "sigma": 1}, "the mean must be between 1 and the limit 100, got 200; correct these numbers"),
        ({"quantiles": {0.5: 800, 0.9: 300}, "limit": 8192}, "got 800 tokens at 0.5 before 300 tokens at 0.9"),
        ({"quantiles": {0.5: 800, "0.5": 300}, "limit": 8192}, "lengths.quantiles = {2 keys}: gives one share twice"),
        ({"quantiles": {}, "limit": 8192}, "lengths.quantiles = {0 keys}: is empty"),
        ({"quantiles": {"half": 3}, "limit": 8192}, "lengths.quantiles"),
        ({"quantiles": {1.5: 3}, "limit": 8192}, "lengths.quantiles"),
        ({"histogram": {"edges": [0, 10], "shares": [0.5]}}, "sum up to 1 within 0.01"),
        ({"histogram": {"edges": [0, 10]}}, "lengths.histogram.shares: is missing"),
        ({"histogram": {"edges": [0, 10], "share": [1]}}, "lengths.histogram.share = [1 items]: is an unknown key; did you mean `shares`?"),
        ({"trace": []}, "lengths.trace = [0 items]: is empty"),
        ({"trace": [5, 0]}, "lengths.trace[1] = `0`"),
        ({"trace": [5, 1.5]}, "lengths.trace[1] = `1.5`"),
        ({"trace": [5, True]}, "lengths.trace[1] = `true`"),
        ({"mean": "10", "sigma": 1, "limit": 20}, "lengths.mean = `10`: is not a number"),
        ({"mean": 10, "sigma": 1, "limit": 20, "clip": 1}, "lengths.clip = `1`"),
        ({"means": 10}, "lengths.means = `10`: is an unknown key; did you mean `mean`?"),
        (7, "lengths = `7`: is not a mapping"),
        ([1, 2], "lengths = [2 items]: is not a mapping"),
        (None, "lengths = null: is not a mapping"),
    ],
)
def test_a_fault_says_where_what_and_what_to_do(raw: object, message: str) -> None:
    """One finding for one fault."""
    found = faults(lambda: build(raw))
    assert message in found[-1]


@pytest.mark.parametrize("raw", [raw for raw, _ in FORMS if not (isinstance(raw, dict) and "quantiles" in raw)], ids=str)
def test_the_schema_accepts_what_the_reader_accepts(raw: object) -> None:
    """Editors check with it while a scenario is written."""
    jsonschema.validate({"lengths": raw}, Around.model_json_schema())


@pytest.mark.parametrize("raw", ["7B-9k", {"means": 10}, {"trace": [0]}])
def test_the_schema_refuses_what_the_reader_refuses(raw: object) -> None:
    """Names, keys and ranges; which keys go together only the reader knows."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"lengths": raw}, Around.model_json_schema())


CSV = "id,tokens,reward\na,812,1\n\nb,4096.0,0\nc, 300 ,1\n"
JSONL = '{"tokens": 812, "x": [1]}\n\n{"tokens": 4096}\r\n{"tokens": 300}'


@pytest.mark.parametrize(("name", "text"), [("t.csv", CSV), ("t.txt", "\ufeff" + CSV), ("t.jsonl", JSONL), ("T.NDJSON", JSONL)])
def test_a_trace_is_read_from_a_column_or_a_key(tmp_path: Path, name: str, text: str) -> None:
    """Blank lines, spaces, a byte-order mark and `4096.0` are what other programs write."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_trace(tmp_path / name, "tokens") == (812, 4096, 300)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "token,x\n1,2\n", "tokens: is not in the header; did you mean `token`?"),
        ("t.csv", "a,b\n1,2\n", "tokens: is not in the header; choose from `a`, `b`"),
        ("t.csv", "", "tokens: is not in the header; choose from no names"),
        ("t.csv", "tokens,tokens\n1,2\n", "tokens: is in the header more than once"),
        ("t.csv", "tokens\n", "has no response; give a file with at least one row"),
        ("t.csv", "tokens,b\n5,1\n0,1\n", "line 3, tokens = `0`: is not a number of tokens; write a whole number from 1 to 10,000,000"),
        ("t.csv", "b,tokens\n1\n", "line 2, tokens = ``: is not a number of tokens"),
        ("t.csv", "tokens\n1.5\n", "line 2, tokens = `1.5`"),
        ("t.csv", "tokens\n-3\n", "line 2, tokens = `-3`"),
        ("t.csv", "tokens\n10000001\n", "line 2, tokens = `10000001`"),
        ("t.csv", "tokens\n" + "9" * 5000 + "\n", "is not a number of tokens"),
        ("t.csv", "tokens\n\u00b2\n", "is not a number of tokens"),
        ("t.csv", "tokens\n" + "9" * 200_000 + "\n", "line 2: is not CSV (field larger than field limit (131072))"),
        ("t.jsonl", "{", "line 1: is not JSON"),
        ("t.jsonl", "[" * 100_000, "line 1: is not JSON"),
        ("t.jsonl", '{"tokens": ' + "9" * 5000 + "}", "line 1: is not JSON"),
        ("t.jsonl", "[1]", "line 1: has no key `tokens`; choose from no names"),
        ("t.jsonl", '{"token": 1}', "line 1: has no key `tokens`; did you mean `token`?"),
        ("t.jsonl", '{"tokens": true}', "line 1, tokens = `true`: is not a number of tokens"),
        ("t.jsonl", '{"tokens": 1.5}', "line 1, tokens = `1.5`"),
        ("t.jsonl", '{"tokens": null}', "line 1, tokens = null"),
        ("t.jsonl", '{"tokens": NaN}', "line 1, tokens = `nan`"),
    ],
)
def test_a_trace_that_cannot_be_used_says_which_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    """No traceback, whatever the file holds."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert message in faults(lambda: read_trace(tmp_path / name, "tokens"))[0]


def test_bad_rows_are_listed_together_but_not_without_end(tmp_path: Path) -> None:
    """A wrong column has thousands."""
    (tmp_path / "t.csv").write_text("tokens\n" + "x\n" * 1000)
    assert [finding.split(",")[0] for finding in faults(lambda: read_trace(tmp_path / "t.csv", "tokens"))] == [
        f"line {n}" for n in range(2, 12)
    ]


def test_a_trace_has_a_limit_of_responses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One million; here five."""
    monkeypatch.setattr(trace_module, "MAX_RESPONSES", 5)
    path = tmp_path / "t.csv"
    path.write_text("tokens\n" + "7\n" * 5)
    assert len(read_trace(path, "tokens")) == 5
    path.write_text("tokens\n" + "7\n" * 6)
    assert "has more than 5 responses; draw some of them at random" in faults(lambda: read_trace(path, "tokens"))[0]


def test_a_trace_file_stands_for_its_counts(tmp_path: Path) -> None:
    """The path is relative to the scenario; the other keys stay."""
    (tmp_path / "t.csv").write_text(CSV)
    inlined = inline_trace({"file": "t.csv", "column": "tokens", "limit": 4096}, tmp_path)
    assert inlined == {"trace": (812, 4096, 300), "limit": 4096}
    assert inline_trace({"file": "t.csv"}, tmp_path) == {"trace": (812, 4096, 300)}
    assert build(inlined).law() == trace_law([812, 4096, 300], 4096)


@pytest.mark.parametrize("raw", ["7B-4k", {"trace": [1]}, {"mean": 3}, 7, None, [1]])
def test_what_names_no_file_stays_as_it_is(raw: object, tmp_path: Path) -> None:
    """Its faults are found when it is built."""
    assert inline_trace(raw, tmp_path) is raw


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"file": 7}, "lengths.file = `7`: is not text; write the path of a CSV or JSONL file"),
        ({"file": ""}, "lengths.file = ``: is not text"),
        ({"file": "a\0b"}, "is not text"),
        ({"file": "t.csv", "column": 3}, "lengths.column = `3`: is not text; write the name of a column"),
        ({"file": "t.csv", "trace": [1]}, "gives `file` and `trace`; keep one of the two"),
        ({"file": "none.csv"}, "none.csv: does not exist; give the path of a trace file"),
        ({"file": "."}, "is a directory"),
    ],
)
def test_a_file_that_cannot_be_inlined_is_refused(raw: object, message: str, tmp_path: Path) -> None:
    """Before anything is planned."""
    assert message in faults(lambda: inline_trace(raw, tmp_path))[0]
