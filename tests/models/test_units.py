"""Quantities with units: every unit is read, everything else is refused with what is accepted."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from rollplan.models.units import (
    BANDWIDTH,
    DURATION,
    MEMORY,
    PARAMETERS,
    PRICE,
    BillionParameters,
    DollarsPerHour,
    GBPerSecond,
    GiB,
    Seconds,
    Unit,
)

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=200)
UNITS = {"duration": DURATION, "memory": MEMORY, "price": PRICE, "bandwidth": BANDWIDTH, "parameters": PARAMETERS}
FIELDS = {"duration": Seconds, "memory": GiB, "price": DollarsPerHour, "bandwidth": GBPerSecond, "parameters": BillionParameters}


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [
        (DURATION, "133 s", 133.0),
        (DURATION, "250 ms", 0.25),
        (DURATION, "1.5 min", 90.0),
        (DURATION, "2 h", 7200.0),
        (MEMORY, "32 GiB", 32.0),
        (MEMORY, "275.7 GB", 256.7656338),
        (MEMORY, "512 MiB", 0.5),
        (MEMORY, "1024 MB", 0.95367431640625),
        (MEMORY, "2 TiB", 2048.0),
        (MEMORY, "1 TB", 931.3225746154785),
        (PRICE, "1.85 $/h", 1.85),
        (PRICE, "5.28 USD/h", 5.28),
        (PRICE, "5.28 usd/h", 5.28),
        (BANDWIDTH, "20 Gbps", 2.5),
        (BANDWIDTH, "20 Gbit/s", 2.5),
        (BANDWIDTH, "5.9 GB/s", 5.9),
        (BANDWIDTH, "800 MB/s", 0.8),
        (BANDWIDTH, "8000 Mbps", 1.0),
        (PARAMETERS, "7B", 7.0),
        (PARAMETERS, "7b", 7.0),
        (PARAMETERS, "350 M", 0.35),
    ],
)
def test_every_unit_is_converted_to_the_one_used_inside(unit: Unit, text: str, value: float) -> None:
    """Seconds, GiB (2^30 bytes), $/h, GB/s (10^9 bytes), 10^9 parameters."""
    assert unit.parse(text) == pytest.approx(value, rel=1e-6)


def test_the_list_above_holds_every_unit() -> None:
    """A new unit must come with its conversion."""
    accepted = [name for unit in UNITS.values() for name in unit.factors]
    assert " ".join(accepted) == "s ms min h GiB GB MiB MB TiB TB $/h USD/h usd/h GB/s Gbps Gbit/s MB/s Mbps B b M"


@pytest.mark.parametrize("text", ["90s", " 90 s ", "90\ts", "9e1 s", "+90 s", "90. s", "9.0E+1s"])
def test_spaces_and_number_formats_do_not_matter(text: str) -> None:
    """As people write them."""
    assert DURATION.parse(text) == 90.0


@pytest.mark.parametrize("raw", [133, 133.5, "133", " 1e3 ", 0])
def test_a_number_without_a_unit_is_refused_with_the_units(raw: object) -> None:
    """133 could be seconds or minutes."""
    with pytest.raises(PydanticCustomError, match=re.escape("has no unit") + r".*accepted: s, ms, min, h"):
        DURATION.parse(raw)


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        (DURATION, "133 GB"),
        (DURATION, "133 S"),
        (DURATION, "133 sec"),
        (DURATION, "2 h 30 min"),
        (MEMORY, "80 GIB"),
        (MEMORY, "80 Gb"),
        (MEMORY, "80 G"),
        (PRICE, "5.28 $"),
        (PRICE, "5.28 EUR/h"),
        (BANDWIDTH, "20 GBps"),
        (BANDWIDTH, "20 GB"),
        (PARAMETERS, "7 T"),
        (PARAMETERS, "7 GiB"),
    ],
)
def test_a_foreign_unit_is_refused_with_the_units(unit: Unit, text: str) -> None:
    """Never guessed: Gb and GB differ by eight, s and S by everything."""
    with pytest.raises(PydanticCustomError, match=f"which is not a {unit.kind}; accepted: {re.escape(unit.names)}"):
        unit.parse(text)


@pytest.mark.parametrize(
    "raw", ["", "s", "fast", "nan s", "NaN", "inf s", "-inf s", "1,5 s", "1_000 s", "0x10 s", "--1 s", "1 2 s", "s 1", "1e s1"]
)
def test_text_that_is_no_quantity_is_refused_with_an_example(raw: str) -> None:
    """Neither NaN nor infinity is a duration."""
    with pytest.raises(PydanticCustomError, match=r"is not a duration|which is not a duration"):
        DURATION.parse(raw)


@pytest.mark.parametrize("raw", [True, None, [1], {"s": 1}, b"1 s", float("nan"), float("inf")])
def test_what_is_neither_text_nor_number_is_refused(raw: object) -> None:
    """YAML gives lists, booleans, `.nan` and null as well."""
    with pytest.raises(PydanticCustomError, match="is not a duration"):
        DURATION.parse(raw)


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        (DURATION, "-1 s"),
        (DURATION, "1e9 h"),
        (DURATION, "1e999 s"),
        (DURATION, "9" * 400 + " s"),
        (MEMORY, "-0.001 GiB"),
        (MEMORY, "1e7 GiB"),
        (PRICE, "-5 $/h"),
        (PRICE, "1e7 $/h"),
        (BANDWIDTH, "0 GB/s"),
        (BANDWIDTH, "1e12 Gbps"),
        (PARAMETERS, "0 B"),
        (PARAMETERS, "1e6 B"),
    ],
)
def test_negative_and_huge_quantities_are_refused_with_the_range(unit: Unit, text: str) -> None:
    """Nobody has a node of an exabyte; a typing error does."""
    with pytest.raises(PydanticCustomError, match=re.escape(f"is outside {unit.low:g} to {unit.high:g}")):
        unit.parse(text)


@pytest.mark.parametrize("text", ["\u0661\u0663\u0663 s", "\uff11\uff13\uff13 s"], ids=["Arabic", "full width"])
def test_digits_of_other_scripts_are_refused(text: str) -> None:
    """The JSON schema that editors check with knows 0 to 9 only, and so must the parser."""
    with pytest.raises(PydanticCustomError, match="is not a duration"):
        DURATION.parse(text)


@REPEATABLE
@given(kind=st.sampled_from(sorted(UNITS)), share=st.floats(0, 1), data=st.data())
def test_what_is_printed_with_a_unit_is_read_back(kind: str, share: float, data: st.DataObject) -> None:
    """Round trip over every unit and its whole range."""
    unit = UNITS[kind]
    name = data.draw(st.sampled_from(sorted(unit.factors)))
    value = unit.low + share * (unit.high * (1 - 1e-12) - unit.low)
    text = f"{value / unit.factors[name]!r} {name}"
    assert unit.parse(text) == pytest.approx(value, rel=1e-12, abs=1e-300)


@REPEATABLE
@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Bad input never shows a traceback."""
    for unit in UNITS.values():
        try:
            assert unit.low <= unit.parse(text) <= unit.high
        except PydanticCustomError:
            continue


@pytest.mark.parametrize("kind", UNITS)
def test_fields_read_their_example_and_refuse_a_bare_number(kind: str) -> None:
    """The annotated types of scenario fields use the parser."""
    adapter: TypeAdapter[float] = TypeAdapter(FIELDS[kind])
    assert adapter.validate_python(UNITS[kind].example) == UNITS[kind].parse(UNITS[kind].example)
    with pytest.raises(ValidationError, match="has no unit"):
        adapter.validate_python(5)


@pytest.mark.parametrize("kind", UNITS)
def test_the_schemas_pattern_accepts_every_unit_and_no_bare_number(kind: str) -> None:
    """Editors check scenarios with the JSON schema before the parser sees them."""
    schema = TypeAdapter(FIELDS[kind]).json_schema()
    pattern = re.compile(schema["pattern"])
    assert [name for name in UNITS[kind].factors if not pattern.search(f"1.5 {name}")] == []
    assert pattern.search("1.5") is None
