"""An inference engine of torch and transformers: continuous batching with a cache row per slot. See `generation.Generator`."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rollplan.executor.engines import tensor_file
from rollplan.executor.engines.generation import Generated, Request, Sampling
from rollplan.executor.engines.residency import Movable, give_back
from rollplan.executor.engines.sampling import draw, uniform
from rollplan.executor.engines.slots import SlotCache


@dataclass(slots=True)
class _Row:
    """A response on its way; its last token is not in the cache yet."""

    request: Request
    tokens: list[int]
    log_probs: list[float]

    def next_input(self) -> tuple[int, int]:
        """Return the token to feed, and its position."""
        return self.tokens[-1], len(self.request.prompt) + len(self.tokens) - 1


class TorchEngine:
    """A causal language model on one device. See `api.Engine` and `generation.Generator`.

    model: of transformers, on the device, without dropout. repeat: how often every forward pass is done, to make work; the
    results are the same.
    """

    def __init__(self, model: Any, repeat: int = 1) -> None:
        self.version = 0
        self._model, self._repeat = model, repeat
        first = next(model.parameters())
        self._device, self._dtype = first.device, first.dtype
        self._weights: dict[str, torch.Tensor] = {name: one.detach() for name, one in model.named_parameters()}
        self._all = Movable(lambda: self._weights, self._device)

    def generate(self, requests: Sequence[Request], sampling: Sampling, slots: int, interrupted: Callable[[], bool]) -> Iterator[Generated]:
        """See `generation.Generator.generate`. Resumed responses are computed again up to where they were, then go on."""
        if not self._all.loaded:
            raise RuntimeError("the engine is off-loaded; load it before it generates")
        waiting = deque(_Row(one, list(one.tokens), list(one.log_probs)) for one in requests)
        rows: dict[int, _Row] = {}
        config = self._model.config.get_text_config()
        cache = SlotCache(config.num_hidden_layers, min(slots, len(requests)), self._dtype, self._device)
        try:
            while waiting or rows:
                if interrupted():
                    yield from (self._generated(row, False) for row in (*rows.values(), *waiting))
                    return
                while waiting and (free := [slot for slot in range(min(slots, len(requests))) if slot not in rows]):
                    begun = {slot: waiting.popleft() for slot in free[: len(waiting)]}
                    self._begin(cache, {slot: row for slot, row in begun.items() if not _over(row, sampling)}, sampling)
                    rows |= {slot: row for slot, row in begun.items() if not _over(row, sampling)}
                    yield from (self._generated(row, True) for row in begun.values() if _over(row, sampling))
                if rows:
                    self._step(cache, rows, sampling)
                for slot in [slot for slot, row in rows.items() if _over(row, sampling)]:
                    yield self._generated(rows.pop(slot), True)
        finally:
            del cache
            give_back(self._device.type == "cuda")

    def update(self, weights: Mapping[str, Any], version: int) -> None:
        """See `api.Engine.update`; works where the weights are, loaded or not. Raises `ValueError` for other names or shapes."""
        shapes = {name: tuple(one.shape) for name, one in weights.items()}
        if wrong := {name for name, one in self._weights.items() if shapes.get(name) != tuple(one.shape)} | (shapes.keys() - self._weights):
            raise ValueError(f"new weights are not of this model: {', '.join(sorted(wrong)[:3])} ({len(wrong)} names or shapes differ)")
        for name, one in self._weights.items():
            self._all.where_it_is(one).copy_(weights[name])
        self.version = version

    def load(self) -> None:
        """See `api.Resident.load`."""
        self._all.load()

    def offload(self) -> None:
        """See `api.Resident.offload`."""
        self._all.offload()

    def state_bytes(self) -> int:
        """See `api.Resident.state_bytes`."""
        return self._all.state_bytes()

    def save(self, folder: Path) -> None:
        """Write weights and version."""
        tensor_file.write(folder / "engine.safetensors", {name: self._all.where_it_is(one) for name, one in self._weights.items()})
        (folder / "engine.json").write_text(json.dumps({"version": self.version}))

    def restore(self, folder: Path) -> None:
        """Read them."""
        version = int(json.loads((folder / "engine.json").read_text())["version"])
        self.update(tensor_file.read(folder / "engine.safetensors"), version)

    def _begin(self, cache: SlotCache, rows: Mapping[int, _Row], sampling: Sampling) -> None:
        """Put prompts into the cache, with what was generated for them, those of one length together, and draw the next tokens."""
        known = {slot: [*row.request.prompt, *row.tokens] for slot, row in rows.items()}
        for length in sorted({len(tokens) for tokens in known.values()}):
            slots = [slot for slot, tokens in known.items() if len(tokens) == length]
            places = [[*range(length)]] * len(slots)
            self._forward(cache, slots, [known[slot] for slot in slots], places, [rows[slot] for slot in slots], sampling)

    def _step(self, cache: SlotCache, rows: Mapping[int, _Row], sampling: Sampling) -> None:
        """Draw one token for every row."""
        slots = sorted(rows)
        inputs = [rows[slot].next_input() for slot in slots]
        self._forward(cache, slots, [[token] for token, _ in inputs], [[at] for _, at in inputs], [rows[slot] for slot in slots], sampling)

    def _forward(
        self, cache: SlotCache, slots: list[int], tokens: list[list[int]], positions: list[list[int]], rows: list[_Row], sampling: Sampling
    ) -> None:
        places = torch.tensor(positions, device=self._device)
        mask = cache.at(torch.tensor(slots, device=self._device), places)
        given = torch.tensor(tokens, device=self._device)
        with torch.inference_mode():
            for _ in range(self._repeat):
                logits = self._model(
                    input_ids=given, position_ids=places, attention_mask=mask, past_key_values=cache.cache, use_cache=True, logits_to_keep=1
                ).logits[:, -1]
        chances = [uniform(sampling.seed, sampling.iteration, row.request.number, len(row.tokens)) for row in rows]
        drawn = [part.tolist() for part in draw(logits, chances, sampling.temperature)]
        for row, token, log_prob in zip(rows, *drawn, strict=True):
            row.tokens.append(token)
            row.log_probs.append(log_prob)

    @staticmethod
    def _generated(row: _Row, finished: bool) -> Generated:
        return Generated(row.request.number, tuple(row.tokens), tuple(row.log_probs), finished)


def _over(row: _Row, sampling: Sampling) -> bool:
    return len(row.tokens) >= row.request.max_tokens or bool(row.tokens and row.tokens[-1] == sampling.eos)
