"""Load a job's program: a Python module with functions that `api.phase` marked."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from rollplan.executor.api import MARK, Kind, Pool

_LONGEST = 300
"""Letters of an error that go into a message; the log has all of it."""
NEEDED: tuple[tuple[Pool, Kind], ...] = (("rollout", "rollout"), ("train", "train"))


class ProgramError(Exception):
    """A program cannot be used, or failed; the message is for people and says where."""


@dataclass(frozen=True, slots=True)
class Program:
    """The phase functions of a module by pool and kind."""

    name: str
    functions: dict[tuple[Pool, Kind], Callable[..., Any]]

    def function(self, pool: Pool, kind: Kind) -> Callable[..., Any] | None:
        """Return the function of a phase, None if the program has none."""
        return self.functions.get((pool, kind))


def load_program(module: str, folder: Path) -> Program:
    """Import a dotted module, or a file that ends with `.py` relative to `folder`, and find its phases.

    Raises `ProgramError` if it cannot be imported, lacks the rollout or the train function, or has two for one phase.
    """
    loaded = _import_file(module, folder) if module.endswith(".py") else _import_dotted(module, folder)
    functions: dict[tuple[Pool, Kind], Callable[..., Any]] = {}
    for name, value in vars(loaded).items():
        mark = getattr(value, MARK, None) if callable(value) else None
        if mark is None or value in functions.values():
            continue
        if mark in functions:
            pool, kind = mark
            both = f"{functions[mark].__name__} and {name}"
            raise ProgramError(f'program {module}: {both} are both @phase(pool="{pool}", kind="{kind}"); keep one')
        functions[mark] = value
    for pool, kind in NEEDED:
        if (pool, kind) not in functions:
            have = ", ".join(f"{one[1]} of pool {one[0]}" for one in functions) or "none"
            raise ProgramError(f'program {module}: no function is marked @phase(pool="{pool}") as `{kind}` (marked: {have}); add one')
    return Program(module, functions)


def _import_file(module: str, folder: Path) -> ModuleType:
    path = (folder / module).resolve()
    if not path.is_file():
        raise ProgramError(f"program {module}: {path} is not a file; relative paths start at the folder of the plan")
    # Files beside a program can be imported by it, as if it were started as a script.
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None, "a name that ends with .py has a loader"
    assert spec.loader is not None, "so has its spec"
    loaded = importlib.util.module_from_spec(spec)
    # Dataclasses and pickles look modules up by name.
    sys.modules[path.stem] = loaded
    try:
        spec.loader.exec_module(loaded)
    except BaseException as error:
        del sys.modules[path.stem]
        raise ProgramError(f"program {module} cannot be imported: {where_it_failed(error)}") from error
    return loaded


def _import_dotted(module: str, folder: Path) -> ModuleType:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        return importlib.import_module(module)
    except BaseException as error:
        raise ProgramError(f"program {module} cannot be imported: {where_it_failed(error)}") from error


def where_it_failed(error: BaseException) -> str:
    """Return an error in one line, with the file and line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return f"{type(error).__name__}: {text}{place}" if text else f"{type(error).__name__}{place}"
