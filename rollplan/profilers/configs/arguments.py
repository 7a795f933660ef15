"""Arguments of a command as flat keys: `key=value` of hydra, `--flag value`, `--flag=value`, flags alone, several values.

A file of more settings (`--config x.yaml`, prime-rl's `@ x.toml`) is not opened, and leaves nothing to defaults.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rollplan.profilers.configs.expand import Expanded
from rollplan.profilers.configs.flat import Flat

_OVERRIDE = re.compile(r"\+{0,2}([A-Za-z_][\w-]*(?:[./][\w-]+)*)=(.*)", re.S)
_FLAG = re.compile(r"--([A-Za-z][\w.-]*)(?:=(.*))?", re.S)
_VARIABLE = re.compile(r"\$\{?[^\s{}/]+\}?(?: \(.*\))?")
_ARCHITECTURE = "MODEL_ARGS"
"""The array in which slime's scripts source the shape of a model; no setting of a launch is in there."""
_FILES = ("config", "config_name", "config_path", "config_file")


def put_arguments(words: Sequence[Expanded], flat: Flat, where: str) -> None:
    """Add the arguments of one command; several values of a flag become a list, a flag without any is true."""
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        flag, override = _FLAG.fullmatch(word.text), _OVERRIDE.fullmatch(word.text)
        if flag is not None and flag[2] is None:
            values: list[Expanded] = []
            while at < len(words) and _is_value(words[at]) and not (values and _is_variable(words[at])):
                values.append(words[at])
                at += 1
            _put_flag(flat, word, values, where)
        elif flag is not None:
            flat.put(f"--{flag[1]}", flag[2], where, word.known)
        elif override is not None:
            flat.put(override[1], override[2].strip("'\""), where, word.known)
        elif word.text == "@" and at < len(words):
            _warn_of_file(flat, words[at].text, where)
            at += 1
        elif _is_variable(word) and _ARCHITECTURE not in word.text:
            flat.warn(f"{where}: {word.text} is not told by the file; arguments in it were not read")
            flat.partial = flat.partial or any(_FLAG.match(before.text) or _OVERRIDE.match(before.text) for before in words[:at])
    _warn_of_files(flat, where)


def _put_flag(flat: Flat, flag: Expanded, values: Sequence[Expanded], where: str) -> None:
    if not values:
        flat.put(flag.text, True, where, flag.known)
    elif len(values) == 1:
        flat.put(flag.text, values[0].text, where, values[0].known)
    else:
        flat.put(flag.text, [value.text for value in values], where, all(value.known for value in values))


def _is_value(word: Expanded) -> bool:
    """Return whether a word belongs to the flag before it; `key=value` and further flags do not."""
    if word.text in ("${@}", "-m", "-c", "--", "@") or word.text.endswith(("[@]}", "[*]}")):
        return False
    return _FLAG.fullmatch(word.text) is None and _OVERRIDE.fullmatch(word.text) is None


def _is_variable(word: Expanded) -> bool:
    """Return whether a word is nothing but a variable that is not known, which may stand for several arguments."""
    return not word.known and _VARIABLE.fullmatch(word.text) is not None and word.text != "${@}"


def _warn_of_files(flat: Flat, where: str) -> None:
    for name in _FILES:
        given = flat.get(name)
        if given is not None and given.where == where and str(given.value).endswith((".yaml", ".yml", ".toml", ".json")):
            _warn_of_file(flat, str(given.value), where)


def _warn_of_file(flat: Flat, name: str, where: str) -> None:
    flat.warn(f"{where}: {name} was not read; give it as the configuration to have its settings")
    flat.partial = True
