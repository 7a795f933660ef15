"""What if one number were another: the plan made again with each change alone, and with all of them.

gpus=+8                     more GPUs in the only pool; gpus.h100=+8 names it
samples_per_prompt=16       any key of the job's split, its workload, lengths, engine or trainer by its own name
trainer.tp=[1, 2]           where a name is not unique, the path from `split`
pools.h100.price=2.5 $/h    anything else of the scenario, by its path from the top
max_rate=2                  what holds for all co-located jobs

A plan made since an earlier one (`plan --since`) does not hold that one, so moves cannot be counted again: its scenario is
planned anew, without a change first, so that what the changes do can be told from what free moves do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel

from rollplan.models.certified import Limits
from rollplan.models.errors import Finding, InfeasibleError, InputError, NoSolutionError
from rollplan.models.lengths.given import LengthsInput
from rollplan.models.plan import Plan
from rollplan.models.recipe import EngineSettings, TrainerSettings, Workload
from rollplan.models.scenario import Scenario
from rollplan.models.split.given import Split
from rollplan.models.strict import show
from rollplan.models.yaml_reader import parse_yaml
from rollplan.planner.colocation import METHODS, Method
from rollplan.planner.compose import SINCE, plan

_RELATIVE = re.compile(r"\s*([+*-])\s*([0-9]{1,20}\.?[0-9]{0,20}|\.[0-9]{1,20})\s*")
_SECTIONS: tuple[tuple[tuple[str, ...], type[BaseModel]], ...] = (
    ((), Split),
    (("workload",), Workload),
    (("workload", "lengths"), LengthsInput),
    (("engine",), EngineSettings),
    (("trainer",), TrainerSettings),
)
"""Where a key may stand in a split, in the order in which it is looked for."""

_OF_ALL_JOBS = ("max_group_size", "max_rate", "sync_holds", "overheads")
"""Keys at the top of a scenario that hold for all co-located jobs."""

PLANNED_ANEW = "planned anew"
"""Name of the scenario without a change, after a plan made since an earlier one."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One change, or several. plan: None if nothing fits then; reasons say why."""

    name: str
    plan: Plan | None
    reasons: tuple[str, ...] = ()


def what_if(made: Plan, changes: Sequence[str], job: str | None = None) -> tuple[Variant, ...]:
    """Return the plan again with each change alone, and with all together if there are several.

    made: a plan; the scenario inside it is planned again. changes: `key=value`; a value that begins with +, - or * is
    relative to the present one. job: which split the keys are of, if there are several.
    Method, seed, node limit and target gap are those of the plan. For a plan made since an earlier one the method is `exact`, and
    `PLANNED_ANEW`, its scenario without a change, comes first.
    Raises `InputError` for a change that cannot be read, for what the scenario refuses, for a plan without its scenario, and for one
    that names no known method.
    """
    method = _method(made)
    scenario = Scenario.from_dict(made.scenario.content, f"scenario in the plan of {made.scenario.name}")
    if [entry.name for entry in scenario.jobs if entry.split is not None] != [split.name for split in made.splits]:
        raise _refused("plan", "", "does not hold exactly the splits of its scenario", "plan again")
    parsed = [_parse(change) for change in changes]
    sets = [[change] for change in parsed] + ([parsed] if len(parsed) > 1 else [])
    # All are read before the first is planned.
    changed = [_changed(made, chosen, job) for chosen in sets]
    if changed and made_since(made):
        changed.insert(0, (PLANNED_ANEW, scenario))
    return tuple(_variant(made, method, name, scenario) for name, scenario in changed)


def made_since(made: Plan) -> bool:
    """Return whether a plan was made since an earlier one, so that it may have kept groups that planning anew would not make."""
    return made.settings.method == SINCE


def _method(made: Plan) -> Method:
    """Return by which method the scenario of a plan is planned again."""
    name = "exact" if made_since(made) else made.settings.method
    if name not in METHODS:
        raise _refused("plan", made.settings.method, "is no method by which it could be planned again", "plan again")
    return name


def _changed(made: Plan, changes: Sequence[tuple[str, str]], job: str | None) -> tuple[str, Scenario]:
    """Return a name for these changes, and the scenario with them."""
    name = "all of these" if len(changes) > 1 else "=".join(changes[0])
    content = deepcopy(made.scenario.content)
    for key, value in changes:
        _apply(content, key, value, job)
    return name, Scenario.from_dict(content, f"{made.scenario.name} with {show(name)}")


def _variant(made: Plan, method: Method, name: str, scenario: Scenario) -> Variant:
    asked = made.settings
    limits = Limits(node_limit=asked.node_limit, target_gap=asked.target_gap)
    try:
        return Variant(name, plan(scenario, method, limits, asked.seed))
    except InfeasibleError as error:
        return Variant(name, None, error.reasons)
    except NoSolutionError as error:
        return Variant(name, None, (str(error),))


def _parse(change: str) -> tuple[str, str]:
    key, equals, value = change.partition("=")
    if not (key.strip() and equals and value.strip()):
        raise _refused(change, "", "is not a change", "write key=value, such as gpus=+8")
    return key.strip(), value.strip()


def _apply(content: dict[str, Any], key: str, text: str, job: str | None) -> None:
    path = key.split(".")
    if (path[0] in content and len(path) > 1 and path[0] != "jobs") or key in _OF_ALL_JOBS:
        _put(content, path, key, text)
        return
    split = _split_of(content, key, job)
    if path[0] == "gpus":
        _gpus(content, split, path[1:], key, text)
        return
    place = [*_section(path[0], key), *path] if len(path) == 1 else path
    _put(split, place, key, text)


def _split_of(content: Mapping[str, Any], key: str, job: str | None) -> dict[str, Any]:
    splits = {entry["name"]: entry["split"] for entry in content["jobs"] if entry.get("split") is not None}
    if job is not None and job not in splits:
        raise _refused("--job", job, "is not a job that asks for a split", f"choose from {', '.join(splits) or 'none: there is none'}")
    if job is None and len(splits) != 1:
        several = f"choose one with --job: {', '.join(splits)}" if splits else "give a path from the top, such as pools.h100.price"
        raise _refused(key, "", f"belongs to a split, and the scenario has {len(splits)}", several)
    found: dict[str, Any] = splits[job] if job is not None else next(iter(splits.values()))
    return found


def _section(name: str, key: str) -> tuple[str, ...]:
    """Return where a key stands; refuse one that stands nowhere, or in several places."""
    known: dict[str, list[tuple[str, ...]]] = {}
    for section, model in _SECTIONS:
        for field_name, field in model.model_fields.items():
            known.setdefault(field.alias or field_name, []).append(section)
    places = known.get(name, [])
    if len(places) > 1:
        raise _refused(key, "", f"stands in {len(places)} places", f"write {' or '.join('.'.join((*place, name)) for place in places)}")
    if not places:
        near = get_close_matches(name, [*known, "gpus"], n=1)
        raise _refused(key, "", "is not a key of a split", f"did you mean `{near[0]}`?" if near else "see `rollplan schema scenario`")
    return places[0]


def _put(tree: dict[str, Any], path: Sequence[str], key: str, text: str) -> None:
    """Set the value at a path; a name that stands for a law of lengths makes way for its parts."""
    rest = list(path)
    while len(rest) > 1:
        # A pool's name may have dots.
        known = (size for size in range(len(rest) - 1, 0, -1) if ".".join(rest[:size]) in tree)
        size = next(known, 1)
        step, rest = ".".join(rest[:size]), rest[size:]
        child = tree.get(step)
        if not isinstance(child, dict):
            child = tree[step] = {}
        tree = child
    tree[rest[0]] = _value(key, text, tree.get(rest[0]), _default(path))


def _default(path: Sequence[str]) -> Any:
    """Return the default of a key that the scenario leaves out, None if it has none that could be changed."""
    for section, model in _SECTIONS:
        if tuple(path[:-1]) == section:
            for name, field in model.model_fields.items():
                if (field.alias or name) == path[-1] and not field.is_required():
                    return field.default
    return None


def _value(key: str, text: str, present: Any, default: Any) -> Any:
    """Return the new value: relative to the present one, or read as YAML."""
    relative = _RELATIVE.fullmatch(text)
    if relative is None:
        if text in ("null", "~"):
            raise _refused(key, text, "is no value", "write the value that is to stand there")
        return parse_yaml(text, f"{key}={text}", "value")
    base = default if present is None else present
    number, unit = _number(base)
    if number is None:
        raise _refused(key, text, "is relative, and there is no number to change", f"write the new value, such as {key}=4")
    operand = Decimal(relative[2])
    changed = {"+": number + operand, "-": number - operand, "*": number * operand}[relative[1]]
    whole = int(changed) if isinstance(base, int) and changed == changed.to_integral_value() else float(changed)
    return whole if unit is None else f"{whole!r} {unit}"


def _number(value: Any) -> tuple[Decimal | None, str | None]:
    """Return the number of a value, as it is written, and its unit, if it has one; None if it has no finite number."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Decimal(repr(value)), None
    if isinstance(value, str) and (found := re.fullmatch(r"([0-9.eE+-]+) (\S+)", value)):
        with suppress(InvalidOperation):
            return Decimal(found[1]), found[2]
    return None, None


def _gpus(content: dict[str, Any], split: dict[str, Any], pools: Sequence[str], key: str, text: str) -> None:
    """Change a budget, and let the pool have the nodes for it."""
    budget = split.get("budget") or {
        name: pool["nodes"] * pool.get("gpus_per_node", 8) for name, pool in content["pools"].items() if pool.get("nodes")
    }
    if not pools and len(budget) != 1:
        raise _refused(key, text, f"could mean {len(budget)} pools", f"write gpus.{next(iter(budget), 'POOL')}={text}")
    name = ".".join(pools) if pools else next(iter(budget))
    if name not in content["pools"]:
        raise _refused(key, text, "names no pool", f"choose from {', '.join(content['pools'])}")
    changed = _value(key, text, budget.get(name, 0), 0)
    if not isinstance(changed, int) or isinstance(changed, bool) or changed < 1:
        raise _refused(key, text, "does not leave a whole number of GPUs", "write gpus=16 or gpus=+8")
    split["budget"] = {**budget, name: changed}
    pool = content["pools"][name]
    if pool.get("nodes"):
        # Nodes are whole for each split.
        budgets = [entry["split"].get("budget", {}).get(name, 0) for entry in content["jobs"] if entry.get("split")]
        pool["nodes"] = max(pool["nodes"], sum(-(-gpus // pool.get("gpus_per_node", 8)) for gpus in budgets))


def _refused(place: str, value: str, problem: str, remedy: str) -> InputError:
    return InputError("what-if", [Finding(place, show(value) if value else "", problem, remedy)])
