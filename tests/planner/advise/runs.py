"""Runs as logs would give them."""

from __future__ import annotations

from collections.abc import Mapping

from rollplan.models.profile.run import AmountName, BesideName, LoggedRun, LoggedStep, Mode, PhaseName

VERL_LENGTHS: dict[AmountName, float] = {"response_mean": 9000.0, "response_max": 28_672.0}
"""The limit of the published runs is 28 k; their mean is not published, so this one is an assumption."""


def run(
    mode: Mode,
    step_s: float,
    phases: Mapping[PhaseName, float],
    amounts: Mapping[AmountName, float] | None = None,
    beside: Mapping[BesideName, float] | None = None,
    framework: str = "verl",
    dialect: str = "a dialect",
    steps: int = 5,
) -> LoggedRun:
    """Return a run whose steps differ by a per cent or two around the given medians."""
    scales = [1 + 0.01 * (index - steps // 2) for index in range(steps)]
    return LoggedRun(
        framework=framework,
        dialect=dialect,
        mode=mode,
        mode_reason="the test says so",
        source="test.log",
        steps=tuple(
            LoggedStep(
                step=index + 2,
                step_s=step_s * scale,
                total="stated",
                phases={name: seconds * scale for name, seconds in phases.items()},
                beside={name: seconds * scale for name, seconds in (beside or {}).items()},
                amounts=dict(amounts or {}),
            )
            for index, scale in enumerate(scales)
        ),
    )
