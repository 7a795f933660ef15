"""What a job has finished, on disk: one folder per state, and only whole ones count.

Ranks write into `<count>.part`; when all have, it is renamed to `<count>`, the number of finished iterations, and older
folders go. So a kill at any moment leaves one whole state, and the newest folder says how far the job is. All nodes of a
cluster must see the folder of the run at the same path.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from urllib.parse import quote

_PART = ".part"
_LONGEST = 150
"""Letters of a job's name in a file's name, which may have 255."""


def file_name(name: str) -> str:
    """Return a name of a job as one that can be a file's."""
    quoted = quote(name, safe=" ")
    if len(quoted) > _LONGEST:
        quoted = f"{quoted[:_LONGEST]}~{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


class SavedStates:
    """The states of one job below `run/jobs`."""

    def __init__(self, run: Path, job: str) -> None:
        self.folder = run / "jobs" / file_name(job)

    def finished(self) -> int:
        """Return how many iterations are finished: 0 if nothing was saved."""
        return max(self._counts(), default=0)

    def of(self, finished: int) -> Path:
        """Return the folder of a whole state."""
        return self.folder / str(finished)

    def begin(self, finished: int) -> Path:
        """Return an empty folder for all ranks to write to; what an interrupted save left there goes."""
        part = self.folder / f"{finished}{_PART}"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        return part

    def finish(self, finished: int) -> None:
        """Make a state count that all ranks have written, then delete all others."""
        whole = self.of(finished)
        (self.folder / f"{finished}{_PART}").rename(whole)
        for other in self.folder.iterdir():
            if other != whole:
                shutil.rmtree(other, ignore_errors=True)

    def _counts(self) -> list[int]:
        if not self.folder.is_dir():
            return []
        return [int(one.name) for one in self.folder.iterdir() if one.name.isdecimal() and one.is_dir()]
