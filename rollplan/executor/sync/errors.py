"""What can go wrong while weights move."""

from __future__ import annotations


class SyncError(Exception):
    """Weights did not arrive, or may not be sent. After one, other than the two below, the transfer is closed."""


class WrongWeightsError(SyncError):
    """These weights or this version may not follow the last ones; nothing was sent, and the transfer is open."""


class DamagedError(SyncError):
    """A shard arrived, but not as it was sent. All bytes of this version have moved: it may be sent again."""
