"""The profile file (JSON): everything that one measurement or one log gave, with its origin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from rollplan.models.errors import Finding, InputError
from rollplan.models.files import holds, read_text, write_whole
from rollplan.models.profile.calibration import Calibration
from rollplan.models.profile.decode import DecodeProfile
from rollplan.models.profile.lengths import LengthsProfile
from rollplan.models.profile.link import LinkProfile
from rollplan.models.profile.origin import Origin, Text
from rollplan.models.profile.run import LoggedRun
from rollplan.models.profile.training import TrainingProfile
from rollplan.models.strict import Strict, tuples


class Profile(Strict):
    """One measurement or one log. Sections that were not measured are absent."""

    format: Literal["rollplan/profile/1"] = "rollplan/profile/1"
    name: Text
    origin: Origin
    runs: Annotated[tuple[LoggedRun, ...], Field(max_length=1000)] = ()
    decode: DecodeProfile | None = None
    lengths: LengthsProfile | None = None
    training: TrainingProfile | None = None
    link: LinkProfile | None = None
    calibration: Calibration | None = None
    warnings: tuple[Text, ...] = ()

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a profile file; raise `InputError` that names every fault."""
        try:
            raw: Any = json.loads(read_text(path, "profile"))
        except (ValueError, RecursionError) as error:  # ValueError also for numbers of thousands of digits
            raise InputError(str(path), [Finding(str(path), "", f"is not JSON ({error})", "give a profile that rollplan wrote")]) from None
        return cls.build(tuples(raw), str(path))

    def to_json(self) -> str:
        """Return the file's text: sorted keys, absent sections left out."""
        return json.dumps(self.model_dump(mode="json", by_alias=True, exclude_none=True), sort_keys=True, indent=1) + "\n"

    def save(self, path: Path) -> None:
        """Write the file whole or not at all."""
        write_whole(path, self.to_json())


def is_profile(path: Path) -> bool:
    """Return whether a file is a profile, of this version or another one."""
    return holds(path, "profile")
