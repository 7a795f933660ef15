"""How scenarios write a law of output lengths: a name, or one of four mappings.

lengths: 7B-8k
lengths: {mean: 2600, clip: 0.04, limit: 8192}
lengths: {histogram: {edges: [0, 1000, 4000], shares: [0.7, 0.3]}, limit: 4096}
lengths: {quantiles: {0.5: 800, 0.9: 3000}, limit: 8192}
lengths: {trace: [812, 4096, 300], limit: 4096}            or, read when the file is loaded,
lengths: {file: lengths.csv, column: tokens, limit: 4096}
lengths: {file: profile.json}                              what `rollplan profile lengths` measured
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from rollplan.models.errors import Finding, InputError
from rollplan.models.lengths.histogram import histogram_law
from rollplan.models.lengths.lognormal import lognormal_law
from rollplan.models.lengths.quantile import QuantileLaw
from rollplan.models.lengths.reference import REFERENCE_LENGTHS
from rollplan.models.lengths.trace import MAX_RESPONSES, MAX_TOKENS, read_trace, trace_law
from rollplan.models.strict import Strict, refusal, show

DEFAULT_COLUMN = "tokens"

_COMPANIONS = {
    "reference": set[str](),
    "mean": {"sigma", "clip", "limit"},
    "histogram": {"limit"},
    "quantiles": {"limit"},
    "trace": {"limit"},
}
"""The keys that say which form it is, and what may stand beside each."""


def _number_keys(raw: object) -> object:
    """Let JSON's text keys stand for shares."""
    if not isinstance(raw, dict):
        return raw
    numbers = {key: _number(key) if isinstance(key, str) and len(key) < 20 else key for key in raw}
    if len(set(numbers.values())) < len(numbers):
        raise refusal("gives one share twice, as a number and as text", "keep one of the two")
    return {numbers[key]: value for key, value in raw.items()}


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


Tokens = Annotated[float, Field(ge=1, le=MAX_TOKENS)]
Share = Annotated[float, Field(ge=0, le=1)]


class Histogram(Strict):
    """Bins of lengths: n + 1 edges in tokens, n shares of the responses."""

    edges: Annotated[tuple[Annotated[float, Field(ge=0, le=MAX_TOKENS)], ...], Field(min_length=2, max_length=10_001)]
    shares: Annotated[tuple[Share, ...], Field(min_length=1, max_length=10_000)]


class LengthsInput(Strict):
    """A law of output lengths, in one of its forms; `law()` builds it.

    reference: name of a published law; also written alone. mean, sigma, clip: lognormal, see `lognormal_law`.
    histogram: uniform inside each bin. quantiles: tokens at shares of the responses, linear in between. trace: token
    counts of responses. limit: tokens at which responses are cut off; may be absent for a histogram (its last edge)
    and for a trace (its longest).
    """

    reference: str | None = None
    mean_tokens: Tokens | None = Field(default=None, alias="mean")
    sigma: Annotated[float, Field(ge=0.01, le=5)] | None = None
    clip_share: Annotated[float, Field(ge=0, lt=1)] | None = Field(default=None, alias="clip")
    histogram: Histogram | None = None
    quantiles: Annotated[dict[Share, Tokens], Field(min_length=1, max_length=10_000), BeforeValidator(_number_keys)] | None = None
    trace: Annotated[tuple[Annotated[int, Field(ge=1, le=MAX_TOKENS)], ...], Field(min_length=1, max_length=MAX_RESPONSES)] | None = None
    limit_tokens: Tokens | None = Field(default=None, alias="limit")

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [handler(schema), {"type": "string", "enum": list(REFERENCE_LENGTHS)}]}

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, raw: object) -> object:
        return {"reference": raw} if isinstance(raw, str) else raw

    @model_validator(mode="after")
    def _is_one_law(self) -> Self:
        given = {type(self).model_fields[name].alias or name for name in self.model_fields_set if getattr(self, name) is not None}
        forms = sorted(given & _COMPANIONS.keys())
        if len(forms) != 1:
            problem = f"gives {' and '.join(f'`{form}`' for form in forms)}" if forms else "does not say which law"
            raise refusal(problem, f"give one of {', '.join(f'`{form}`' for form in _COMPANIONS)}")
        if extra := sorted(given - {forms[0]} - _COMPANIONS[forms[0]]):
            raise refusal(f"gives `{extra[0]}` beside `{forms[0]}`, where it has no effect", "leave it out")
        if self.limit_tokens is None and forms[0] in ("mean", "quantiles"):
            raise refusal("has no `limit`", "add it: the tokens at which a response is cut off")
        if self.reference is not None and self.reference not in REFERENCE_LENGTHS:
            raise refusal("is not a reference law of lengths", f"choose from {', '.join(REFERENCE_LENGTHS)}")
        try:
            self.law()
        except ValueError as error:
            raise refusal(f"is not a law of lengths: {error}", "correct these numbers") from None
        return self

    def law(self) -> QuantileLaw:
        """Return the law, built once."""
        return self._law

    @cached_property
    def _law(self) -> QuantileLaw:
        if self.reference is not None:
            return REFERENCE_LENGTHS[self.reference]
        if self.histogram is not None:
            return histogram_law(self.histogram.edges, self.histogram.shares, self.limit_tokens)
        if self.trace is not None:
            return trace_law(self.trace, self.limit_tokens)
        assert self.limit_tokens is not None, "checked when built"
        if self.quantiles is not None:
            return QuantileLaw(self.limit_tokens, tuple(sorted(self.quantiles.items())))
        assert self.mean_tokens is not None, "checked when built"
        return lognormal_law(self.mean_tokens, self.limit_tokens, self.sigma, self.clip_share)


def inline_trace(raw: object, folder: Path) -> object:
    """Return `raw` with `file` and `column` replaced by the `trace` they lead to, or a profile's `quantiles` and `limit`.

    Anything else is returned as it is. folder: where a relative path begins, that of the scenario. Raises `InputError` for
    a file that cannot be used.
    """
    if not isinstance(raw, Mapping) or "file" not in raw:
        return raw
    file, column = raw["file"], raw.get("column", DEFAULT_COLUMN)
    for key, value in (("file", file), ("column", column)):
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            remedy = "write the path of a CSV or JSONL file" if key == "file" else "write the name of a column"
            raise InputError("lengths", [Finding(f"lengths.{key}", show(value), "is not text", remedy)])
    for form in ("trace", "quantiles"):
        if form in raw:
            raise InputError("lengths", [Finding("lengths", "", f"gives `file` and `{form}`", "keep one of the two")])
    rest = {key: value for key, value in raw.items() if key not in ("file", "column")}
    if Path(file).suffix.lower() == ".json":
        if "column" in raw:
            raise InputError("lengths", [Finding("lengths.column", show(column), "has no effect on a profile", "leave it out")])
        return {**_of_profile(folder / file), **rest}
    return {**rest, "trace": read_trace(folder / file, column)}


def _of_profile(path: Path) -> dict[str, object]:
    """Return the quantiles and the limit of a profile's lengths."""
    # Only here: a scenario that brings no profile should not load what profiles rest on.
    from rollplan.models.profile.file import Profile

    section = Profile.load(path).lengths
    remedy = "give one that `rollplan profile lengths` wrote"
    if section is None:
        raise InputError(str(path), [Finding("lengths", "", "is missing: the profile holds no lengths", remedy)])
    if section.unit != "tokens":
        raise InputError(str(path), [Finding("lengths.unit", f"`{section.unit}`", "is not tokens", f"{remedy} from token counts")])
    return {"quantiles": dict(section.quantiles), "limit": section.limit}
