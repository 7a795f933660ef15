"""Launch settings in the making: values taken from keys, each with the key that gave it."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, prod

from rollplan.models.launch import Dialect, LaunchSettings, broken_rules
from rollplan.models.launch.settings import SettingName
from rollplan.models.strict import show
from rollplan.profilers.configs.flat import Flat, normal

_TEXTS: tuple[SettingName, ...] = ("model", "rollout_engine", "sharding")
_FLAGS: tuple[SettingName, ...] = ("partial_rollout", "asynchronous")
_NUMBERS: tuple[SettingName, ...] = ("staleness", "gpu_memory_utilization")
_WORDS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}
_EXPECTED: tuple[SettingName, ...] = ("rollout_gpus", "train_gpus", "model", "prompts_per_step", "samples_per_prompt", "response_limit")
MOST = 10**9


class Draft:
    """Collects settings of one dialect; a value that cannot be one is warned of and left out."""

    def __init__(self, flat: Flat, table: Dialect) -> None:
        self.flat = flat
        self.table = table
        self.values: dict[SettingName, object] = {}
        self.read: dict[SettingName, str] = {}
        self._asked: set[str] = set()
        for name, keys in table.keys.items():
            self._take(name, keys)
        self._in_prompts()
        if table.rollout.kind != "own":
            self._product("rollout_gpus", table.rollout.keys)
        if table.train.kind != "own":
            self._product("train_gpus", table.train.keys)
        if table.train.kind == "nodes" and "gpus_per_node" not in self.values:
            self._node()

    def set(self, name: SettingName, value: object, reason: str) -> None:
        """Set a field, if there is a value that it can have; reason: the keys that it follows from."""
        if value is None:
            return
        if name not in (*_TEXTS, *_FLAGS, *_NUMBERS, "placement") and not (isinstance(value, int) and 1 <= value <= MOST):
            self.flat.warn(f"{reason} would make {name} {show(value)}, which it cannot be")
            return
        self.values[name], self.read[name] = value, reason[:900]

    def take(self, name: SettingName, key: str) -> None:
        """Read a field from this key, if something stands there."""
        if self.flat.get(key) is not None:
            self.drop(name)
            self._take(name, (key,))

    def drop(self, name: SettingName) -> None:
        """Forget a field whose key means something else here."""
        self.values.pop(name, None)
        self.read.pop(name, None)

    def whole(self, key: str, default: int | None = None) -> int | None:
        """Return the whole number of at least 0 at a key, `default` if nothing stands there; None if it cannot be read.

        -1, which leaves it to the framework, counts as nothing.
        """
        value = self.number(key)
        if value is None or value == -1:
            absent = value is not None or (self.flat.get(key) is None and not self.flat.partial)
            return default if absent else None
        if value != int(value) or not 0 <= value <= MOST:
            self.flat.warn(f"{key} is {show(value)}, not a whole number from 0 to {MOST}")
            return None
        return int(value)

    def number(self, key: str) -> float | None:
        """Return the number at a key, its default in the framework without; None if there is neither."""
        value = self._value(key)
        if isinstance(value, bool) or value is None:
            return None
        try:
            found = float(str(value).strip().replace("_", ""))
        except ValueError:
            self.flat.warn(f"{key} is {show(value)}, not a number")
            return None
        if not isfinite(found):
            self.flat.warn(f"{key} is {show(value)}, not a finite number")
            return None
        return found

    def flag(self, key: str) -> bool | None:
        """Return the truth value at a key, its default in the framework without."""
        value = self._value(key)
        if value is None or isinstance(value, bool):
            return value
        found = _WORDS.get(str(value).strip().lower())
        if found is None:
            self.flat.warn(f"{key} is {show(value)}, neither true nor false")
        return found

    def switch(self, key: str) -> bool | None:
        """Return the truth value at a key, false if nothing stands there; None if it cannot be known."""
        found = self.flag(key)
        return False if found is None and not self.flat.partial and self.flat.get(key) is None else found

    def text(self, key: str) -> str | None:
        """Return the text at a key."""
        value = self._value(key)
        return None if value is None or isinstance(value, (bool, list, dict)) else str(value).strip().strip("'\"")[:900] or None

    def degree(self, *names: SettingName) -> int:
        """Return the product of degrees of parallelism, 1 where one is not given."""
        return prod(self.of(name) or 1 for name in names)

    def of(self, name: SettingName) -> int | None:
        """Return a whole number that was set already."""
        value = self.values.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def finish(self) -> LaunchSettings:
        """Return the settings, with the rules that they break and what was looked for and not found."""
        settings = LaunchSettings.model_validate(
            {"framework": self.table.framework, "dialect": self.table.name, **self.values, "read": self.read, "missing": self._missing()}
        )
        twice = [text for key, text in self.flat.twice.items() if key in self._asked]
        return settings.model_copy(update={"warnings": (*self.flat.warnings, *twice, *broken_rules(settings))})

    def given(self, *keys: str) -> bool:
        """Return whether one of the keys stands in the configuration."""
        return any(key in self.flat for key in keys)

    def _value(self, key: str) -> object:
        self._asked.add(normal(key))
        given = self.flat.get(key)
        if given is not None and given.known:
            # `--num_processes 8 train.py`: what follows the value of a flag is no more of it.
            return given.value[0] if isinstance(given.value, list) and given.value and isinstance(given.value[0], str) else given.value
        if given is not None:
            self.flat.warn(f"{key} is {show(given.value)}, which the file does not tell")
            return None
        return None if self.flat.partial else self.table.defaults.get(key)

    def _take(self, name: SettingName, keys: tuple[str, ...]) -> None:
        """Read a field from the first of its keys that is there, else from a default."""
        key = next((key for key in keys if self.flat.get(key) is not None), None)
        if key is None and not self.flat.partial:
            key = next((key for key in keys if key in self.table.defaults), None)
        if key is None:
            return
        value: object
        if name == "model":
            value = self._model(key)
        elif name in _TEXTS:
            value = self.text(key)
        elif name in _FLAGS:
            value = self.flag(key)
        elif name in _NUMBERS:
            value = self._bounded(name, key)
        else:
            value = self.whole(key) or None
        self.set(name, value, key if self.flat.get(key) is not None else f"default of {key}")

    def _model(self, key: str) -> str | None:
        """Return a model's name or path; folders above it may be unknown."""
        given = self.flat.get(key)
        if given is None or given.known or "$" in str(given.value).rstrip("/").rpartition("/")[2]:
            return self.text(key)
        return str(given.value)[:900]

    def _bounded(self, name: SettingName, key: str) -> float | None:
        value = self.number(key)
        if value is None or (name == "staleness" and value == -1):
            return None
        low, high = (0.0, 1e6) if name == "staleness" else (1e-9, 1.0)
        if not low <= value <= high:
            self.flat.warn(f"{key} is {value:g}, outside {'0 to 1' if high == 1 else '0 to 1e6'}")
            return None
        return value

    def _in_prompts(self) -> None:
        """Turn batches that the framework counts in responses into prompts."""
        samples = self.of("samples_per_prompt")
        for name in self.table.in_samples:
            responses = self.of(name)
            if responses is None:
                continue
            reason = self.read[name]
            self.drop(name)
            if samples is None:
                continue
            if responses % samples:
                self.flat.warn(f"{reason} {responses} is not a multiple of the {samples} samples per prompt")
            else:
                self.values[name], self.read[name] = responses // samples, reason

    def _product(self, name: SettingName, keys: tuple[str, ...]) -> None:
        """Multiply the factors of a number of GPUs; engine degrees that nobody sets are 1."""
        engines = self.table.rollout.kind == "engines" and keys == self.table.rollout.keys
        factors = [self.whole(key, 1 if engines and key != keys[0] else None) for key in keys]
        known = [factor for factor in factors if factor is not None]
        if len(known) == len(keys) and prod(known) > 0:
            self.set(name, prod(known), " x ".join(keys))

    def _node(self) -> None:
        """Take GPUs per node from a side that spans several nodes: there they are a whole one's."""
        for count in (self.table.train, self.table.rollout):
            nodes, size = (self.whole(key) for key in count.keys[:2]) if count.kind == "nodes" else (None, None)
            if nodes is not None and nodes > 1 and size:
                self.set("gpus_per_node", size, count.keys[1])

    def _missing(self) -> tuple[str, ...]:
        counts: Mapping[str, tuple[str, ...]] = {"rollout_gpus": self.table.rollout.keys, "train_gpus": self.table.train.keys}
        absent = [name for name in _EXPECTED if name not in self.values]
        return tuple(f"{name}: {', '.join(self.table.keys.get(name) or counts.get(name, ()))}".rstrip(": ") for name in absent)
