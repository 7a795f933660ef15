"""What the library raises: one class per exit code of the command line.

RollplanError
├── InputError        exit code 2: the input is wrong, every fault listed
├── InfeasibleError   exit code 3: the input is right, but nothing fits
└── NoSolutionError   exit code 4: the limit came before any solution
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of an input: where it is, what stands there, what is allowed, what to do."""

    path: str
    value: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        shown = f" = {self.value}" if self.value else ""
        return f"{self.path}{shown}: {self.problem}; {self.remedy}"


class RollplanError(Exception):
    """Base of everything that a user can act on."""


class InputError(RollplanError):
    """The input cannot be used; `findings` lists every fault at once."""

    def __init__(self, source: str, findings: Iterable[Finding]) -> None:
        self.source = source
        self.findings = tuple(findings)
        count = len(self.findings)
        head = f"{source}: {count} fault{'s' if count != 1 else ''}"
        super().__init__("\n".join([head, *(f"  {finding}" for finding in self.findings)]))


class InfeasibleError(RollplanError):
    """No plan exists; `reasons` say which requirement of the input excludes it."""

    def __init__(self, reasons: Iterable[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__("\n".join(["no plan fits", *(f"  because {reason}" for reason in self.reasons)]))


class NoSolutionError(RollplanError):
    """The limit was reached before any solution was found."""
