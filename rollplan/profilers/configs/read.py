"""`read_config`: a launch configuration or script of an RL framework as `LaunchSettings`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from rollplan.models.errors import Finding, InputError
from rollplan.models.files import read_text
from rollplan.models.launch import FrameworkName, LaunchSettings
from rollplan.profilers.configs.derive_files import areal, nemo_rl, prime_rl, roll, skyrl
from rollplan.profilers.configs.derive_flags import open_instruct, openrlhf, slime, trl
from rollplan.profilers.configs.derive_verl import verl
from rollplan.profilers.configs.detect import detect
from rollplan.profilers.configs.draft import Draft
from rollplan.profilers.configs.files import from_json, from_toml, from_yaml, printed
from rollplan.profilers.configs.flat import Flat
from rollplan.profilers.configs.shell import from_shell

MAX_CHARACTERS = 4_000_000
_DERIVE: Mapping[FrameworkName, Callable[[Draft], None]] = {
    "verl": verl,
    "OpenRLHF": openrlhf,
    "slime": slime,
    "AReaL": areal,
    "ROLL": roll,
    "NeMo-RL": nemo_rl,
    "prime-rl": prime_rl,
    "TRL": trl,
    "SkyRL": skyrl,
    "open-instruct": open_instruct,
}


def read_config(path: Path, framework: str | None = None) -> LaunchSettings:
    """Read YAML, TOML, JSON, a shell script, or a log into which verl printed its configuration.

    framework: its name, where keys and programs do not tell. Nothing is executed and no other file is opened. Raises
    `InputError` for files that cannot be read, and for keys of no framework or of several.
    """
    return parse_config(read_text(path, "launch configuration"), str(path), path.suffix.lower(), framework)


def parse_config(text: str, source: str, suffix: str = "", framework: str | None = None) -> LaunchSettings:
    """Read the text of a configuration; suffix: of its file, such as `.yaml`, `.toml`, `.json`; others are scripts."""
    if len(text) > MAX_CHARACTERS:
        problem = f"has more than {MAX_CHARACTERS // 10**6} million characters"
        raise InputError(source, [Finding(source, "", problem, "give the launch configuration itself")])
    flat = _flat(text, source, suffix)
    draft = Draft(flat, detect(flat, source, framework))
    _DERIVE[draft.table.framework](draft)
    return draft.finish()


def _flat(text: str, source: str, suffix: str) -> Flat:
    if suffix in (".yaml", ".yml"):
        return from_yaml(text, source)
    if suffix == ".toml":
        return from_toml(text, source)
    if suffix == ".json" or text.lstrip().startswith("{"):
        return from_json(text, source)
    if suffix == ".py":
        remedy = "give its arguments as YAML, or the command that starts it"
        raise InputError(source, [Finding(source, "", "is a Python program, which rollplan does not run", remedy)])
    dictionary = printed(text)
    return from_shell(text, source) if dictionary is None else from_json(dictionary, source)
