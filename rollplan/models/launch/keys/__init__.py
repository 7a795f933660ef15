"""Which key holds which setting, per framework and dialect: the one table that readers and writers share.

Key names are exact, with their dashes. Of several names of one setting the first is written; the others are older or
belong to another engine and are only read.
"""

from rollplan.models.launch.keys import files, flags, verl
from rollplan.models.launch.keys.dialect import Count, Dialect, Notation
from rollplan.models.launch.settings import FrameworkName

DIALECTS: tuple[Dialect, ...] = (
    verl.VERL_V1,
    verl.VERL_FULLY_ASYNC,
    verl.VERL_ONE_STEP_OFF,
    flags.OPENRLHF,
    flags.OPENRLHF_FLAT,
    flags.SLIME,
    files.AREAL,
    files.AREAL_ALLOCATION,
    files.ROLL,
    files.NEMO_RL,
    files.PRIME_RL,
    files.PRIME_RL_ASYNC_LEVEL,
    flags.TRL,
    flags.TRL_ASYNC,
    files.SKYRL,
    files.SKYRL_FLAT,
    flags.OPEN_INSTRUCT,
)
"""Of each framework the present dialect first."""


def dialect(framework: FrameworkName, name: str | None = None) -> Dialect:
    """Return a dialect by name, the present one without; raise `KeyError` for an unknown name."""
    for entry in DIALECTS:
        if entry.framework == framework and name in (None, entry.name):
            return entry
    known = ", ".join(entry.name for entry in DIALECTS if entry.framework == framework)
    raise KeyError(f"no dialect `{name}` of {framework}; known: {known}")


__all__ = ["DIALECTS", "Count", "Dialect", "Notation", "dialect"]
