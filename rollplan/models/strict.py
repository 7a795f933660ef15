"""Strict data: frozen pydantic models whose refusals become findings with path, value, limit and remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from rollplan.models.errors import Finding, InputError


class Strict(BaseModel):
    """Base of every file's data: no unknown keys, no silent conversions, no changes after building."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @classmethod
    def build(cls, raw: object, source: str) -> Self:
        """Validate plain data; raise `InputError` with all faults at once."""
        if other := _other_format(raw, cls):
            raise InputError(source, [other])
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise InputError(source, findings_of(error, cls)) from None
        except RecursionError:
            raise InputError(source, [Finding(source, "", "is nested too deeply", "flatten it")]) from None


def refusal(problem: str, remedy: str) -> PydanticCustomError:
    """Return an error for use inside validators; `findings_of` takes problem and remedy apart again."""
    return PydanticCustomError("refusal", "{problem}; {remedy}", {"problem": problem, "remedy": remedy})


def findings_of(error: ValidationError, model: type[BaseModel]) -> Iterator[Finding]:
    """Translate pydantic's errors into findings."""
    for detail in error.errors(include_url=False):
        # A list whose items all have faults is called empty, too.
        if detail["type"] != "too_short" or not detail["input"]:
            yield _finding(detail, model)


def tuples(raw: object) -> object:
    """Turn the lists of plain data into tuples, which frozen models hold."""
    if isinstance(raw, dict):
        return {key: tuples(value) for key, value in raw.items()}
    return tuple(tuples(item) for item in raw) if isinstance(raw, (list, tuple)) else raw


def show(value: object, limit: int = 60) -> str:
    """Return `value` as text of at most `limit` characters."""
    if isinstance(value, (dict, list, tuple)):
        return f"{{{len(value)} keys}}" if isinstance(value, dict) else f"[{len(value)} items]"
    if value is None:
        return "null"
    text = value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    text = text.encode("unicode_escape").decode() if not text.isprintable() else text
    return f"`{text if len(text) <= limit else text[: limit - 3] + '...'}`"


def path_text(location: tuple[int | str, ...]) -> str:
    """Return `jobs[3].rollout.time` for a location."""
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else f"{'.' if text else ''}{step}"
    return text or "(top level)"


def _finding(detail: ErrorDetails, model: type[BaseModel]) -> Finding:
    location, context = detail["loc"], detail.get("ctx", {})
    path, value = path_text(location), show(detail["input"])
    kind = detail["type"]
    if kind == "refusal":
        return Finding(path, value, str(context["problem"]), str(context["remedy"]))
    if kind == "missing":
        return Finding(path, "", "is missing", "add it")
    if kind in ("extra_forbidden", "invalid_key"):
        known = _known_keys(model, location[:-1])
        near = get_close_matches(str(location[-1]), known, n=1)
        return Finding(path, value, "is an unknown key", f"did you mean `{near[0]}`?" if near else f"known keys: {', '.join(known)}")
    if kind == "model_type":
        return Finding(path, value, "is not a mapping", f"write keys and values: {', '.join(_known_keys(model, location))}")
    if kind == "literal_error":
        choices = [choice.strip("'") for choice in str(context["expected"]).replace(" or ", ", ").split(", ")]
        near = get_close_matches(str(detail["input"]), choices, n=1)
        hint = f"did you mean `{near[0]}`? " if near else ""
        return Finding(path, value, "is not one of the choices", f"{hint}choose from {', '.join(choices)}")
    problem, remedy = _WORDS.get(kind, (None, _REMEDIES.get(kind, "correct the value")))
    return Finding(path, value, problem or _sentence(detail["msg"]), remedy)


_WORDS: Mapping[str, tuple[str, str]] = {
    "int_type": ("is not a whole number", "write a whole number, without unit or quotes"),
    "float_type": ("is not a number", "write a number, without unit or quotes"),
    "bool_type": ("is neither true nor false", "write true or false"),
    "string_type": ("is not text", "put it in quotes"),
    "finite_number": ("is not finite", "write an ordinary number"),
    "list_type": ("is not a list", "write a list, one `- ` per item"),
    "tuple_type": ("is not a list", "write a list, one `- ` per item"),
    "dict_type": ("is not a mapping", "write keys and values"),
    "too_short": ("is empty", "add at least one"),
}
"""Problem and remedy where pydantic speaks of Python's types."""

_REMEDIES: Mapping[str, str] = {
    "greater_than_equal": "raise it to the limit",
    "less_than_equal": "lower it to the limit",
    "greater_than": "raise it above the limit",
    "string_pattern_mismatch": "use only what the pattern allows",
    "string_too_long": "shorten it",
    "string_too_short": "write at least one character",
}


def _other_format(raw: object, model: type[BaseModel]) -> Finding | None:
    """Return the one fault of a file that is something else: another kind of file, or another version of its format."""
    field = model.model_fields.get("format")
    given = raw.get("format") if isinstance(raw, dict) else None
    if field is None or not isinstance(given, str) or given in (choices := get_args(field.annotation)):
        return None
    kind, version = str(choices[0]).split("/")[1:]
    remedy = f"give a {kind} file" if given.split("/")[1:2] != [kind] else f"this version of rollplan reads version {version}"
    return Finding("format", show(given), f"is not {show(choices[0])}", remedy)


def _sentence(message: str) -> str:
    return message[0].lower() + message[1:].removesuffix(".")


def _known_keys(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Return the keys of the model found by walking `location` from `model`."""
    current: Any = model
    for step in location:
        if isinstance(current, type) and issubclass(current, BaseModel):
            fields = {field.alias or name: field.annotation for name, field in current.model_fields.items()}
            current = fields.get(str(step))
        else:
            current = (get_args(current) or (None,))[-1 if _is_mapping(current) else 0]
        current = _model_inside(current)
    if isinstance(current, type) and issubclass(current, BaseModel):
        return [field.alias or name for name, field in current.model_fields.items()]
    return []


def _is_mapping(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) is dict


def _model_inside(annotation: Any) -> Any:
    """Strip `| None` and `Annotated` so that the next step can be taken."""
    while hasattr(annotation, "__metadata__"):
        annotation = get_args(annotation)[0]
    if type(None) in get_args(annotation):
        annotation = next(arg for arg in get_args(annotation) if arg is not type(None))
        return _model_inside(annotation)
    return annotation
