"""What the case tests share: the scenarios of this folder, with changes where a test asks for them, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollplan import Plan, Scenario, plan
from rollplan.models.plan_split import PlannedSplit
from rollplan.models.split.exact import exact
from rollplan.models.split.problem import SplitSolution
from rollplan.models.stages.compile import Compiled, compiled
from rollplan.planner.fit import Fit, fit

FOLDER = Path(__file__).parent


@cache
def content(name: str) -> dict[str, Any]:
    """Return the plain data of `<name>.yaml`."""
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    return loaded


def changed(name: str, changes: Mapping[str, Any] | None = None) -> Scenario:
    """Return a scenario of this folder; `changes` maps paths below its split (or below `pools`) to other values, or None for none."""
    raw = deepcopy(content(name))
    for path, value in (changes or {}).items():
        *steps, last = path.split(".")
        place = raw if steps and steps[0] == "pools" else raw["jobs"][0]["split"]
        for step in steps:
            place = place.setdefault(step, {})
        place[last] = value
        if value is None:
            del place[last]
    return Scenario.from_dict(raw, name)


@pytest.fixture
def scenario() -> Callable[..., Scenario]:
    """`scenario("01_small_model_one_node", {"workload.prompts": 64})`."""
    return changed


@pytest.fixture
def made() -> Callable[..., Plan]:
    """The whole plan of such a scenario."""
    return lambda name, changes=None: plan(changed(name, changes))


@pytest.fixture
def split() -> Callable[..., PlannedSplit]:
    """The split in the plan of such a scenario."""
    return lambda name, changes=None: plan(changed(name, changes)).splits[0]


@pytest.fixture
def decided(ready: Callable[..., Compiled]) -> Callable[..., SplitSolution]:
    """The best split of such a scenario alone, without what a plan says beside it: for ranges of inputs."""
    return lambda name, changes=None: exact(ready(name, changes).problem).solution


@pytest.fixture
def ready() -> Callable[..., Compiled]:
    """The problem behind it: stage times of every number of GPUs, with the layouts."""

    def build(name: str, changes: Mapping[str, Any] | None = None) -> Compiled:
        found = changed(name, changes)
        asked = found.jobs[0].split
        assert asked is not None
        return compiled(asked, found.pools, found.links)

    return build


@pytest.fixture
def memory() -> Callable[..., Fit]:
    """What `rollplan fit` says of it; keywords are those of `fit`."""
    return lambda name, changes=None, **layouts: fit(changed(name, changes), **layouts)


@pytest.fixture
def screen(cli: Callable[..., Any]) -> Callable[[str], str]:
    """What `rollplan split` prints for a scenario of this folder, in one line."""
    return lambda name: " ".join(cli("split", FOLDER / f"{name}.yaml").out.split())
