"""rollplan: plans for RL post-training on disaggregated GPUs, each with a proven gap to the optimum.

>>> from rollplan import Scenario, check, plan
>>> scenario = Scenario.load("examples/production_ten/paper_prices.yaml")  # doctest: +SKIP
>>> check(scenario, plan(scenario)).valid  # doctest: +SKIP
True

Names are imported when they are first used, so that `import rollplan` is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rollplan.models.certified import Limits
    from rollplan.models.check import CheckReport, check
    from rollplan.models.errors import Finding, InfeasibleError, InputError, NoSolutionError, RollplanError
    from rollplan.models.plan import Plan
    from rollplan.models.scenario import Scenario
    from rollplan.planner.compose import plan
    from rollplan.planner.diff import diff

__version__ = "0.1.0"

_HOME = {
    "CheckReport": "rollplan.models.check",
    "Finding": "rollplan.models.errors",
    "InfeasibleError": "rollplan.models.errors",
    "InputError": "rollplan.models.errors",
    "Limits": "rollplan.models.certified",
    "NoSolutionError": "rollplan.models.errors",
    "Plan": "rollplan.models.plan",
    "RollplanError": "rollplan.models.errors",
    "Scenario": "rollplan.models.scenario",
    "check": "rollplan.models.check",
    "diff": "rollplan.planner.diff",
    "plan": "rollplan.planner.compose",
}

__all__ = [
    "CheckReport",
    "Finding",
    "InfeasibleError",
    "InputError",
    "Limits",
    "NoSolutionError",
    "Plan",
    "RollplanError",
    "Scenario",
    "check",
    "diff",
    "plan",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'rollplan' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
