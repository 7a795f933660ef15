"""Exit codes, the same for every verb."""

from enum import IntEnum


class Exit(IntEnum):
    """What a script can rely on."""

    DONE = 0
    NO = 1
    INPUT = 2
    INFEASIBLE = 3
    NO_SOLUTION = 4
    INTERRUPTED = 130
