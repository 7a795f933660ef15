"""Which framework wrote a log: evidence is counted over the whole file, and a mixed file is refused."""

from __future__ import annotations

from collections import Counter

from rollplan.models.errors import Finding, InputError
from rollplan.profilers.logs.areal import AREAL
from rollplan.profilers.logs.framework import Framework
from rollplan.profilers.logs.lines import LogFile
from rollplan.profilers.logs.nemo_rl import NEMO_RL
from rollplan.profilers.logs.open_instruct import OPEN_INSTRUCT
from rollplan.profilers.logs.openrlhf import OPENRLHF
from rollplan.profilers.logs.prime_rl import PRIME_RL
from rollplan.profilers.logs.roll import ROLL
from rollplan.profilers.logs.skyrl import SKYRL
from rollplan.profilers.logs.slime import SLIME
from rollplan.profilers.logs.trl import TRL
from rollplan.profilers.logs.verl import VERL

FRAMEWORKS = (VERL, OPENRLHF, SLIME, AREAL, ROLL, NEMO_RL, PRIME_RL, SKYRL, TRL, OPEN_INSTRUCT)
"""In this order; a line counts for the first that it matches."""


def detect(log: LogFile, chosen: str | None = None) -> Framework:
    """Return the framework of a log, or the chosen one; raise `InputError` that says what was looked for."""
    if chosen is not None:
        return by_name(chosen)
    found: Counter[str] = Counter()
    for line in log.lines(tuple({mark for framework in FRAMEWORKS for mark in framework.marks})):
        for framework in FRAMEWORKS:
            if framework.mark.search(line.text) is not None:
                found[framework.name] += 1
                break
    if not found:
        looked = "; ".join(f"{framework.name}: {framework.looked_for}" for framework in FRAMEWORKS)
        remedy = "give the console log of the trainer (or of the driver, under Ray), or the JSON lines of its file logger"
        raise InputError(log.name, [Finding(log.name, "", f"holds no step of a known framework; looked for {looked}", remedy)])
    if len(found) > 1:
        seen = ", ".join(f"{name} ({count} line{'s' if count != 1 else ''})" for name, count in found.most_common())
        raise InputError(log.name, [Finding(log.name, "", f"holds lines of several frameworks: {seen}", "choose one with --framework")])
    return by_name(next(iter(found)))


def by_name(name: str) -> Framework:
    """Return a framework by its name, in any case and with any of `-`, `_` and blanks."""
    plain = {_plain(framework.name): framework for framework in FRAMEWORKS} | {"nemo": NEMO_RL, "prime": PRIME_RL}
    if (found := plain.get(_plain(name))) is None:
        remedy = f"choose from {', '.join(framework.name for framework in FRAMEWORKS)}"
        raise InputError("command line", [Finding("--framework", f"`{name}`", "is not a framework that can be read", remedy)])
    return found


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
