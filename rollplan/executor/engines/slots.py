"""A key-value cache with a row for every slot of a batch; rows are as long as their own samples."""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

_STEP = 64


class SlotCache:
    """What a model of transformers takes as `past_key_values`, for rows that begin and end at different times.

    `at` says which rows the next forward pass works on and where its tokens stand in them. To write a place again does no
    harm. Columns are added in blocks, so that a tensor's size seldom changes.
    """

    def __init__(self, layers: int, rows: int, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype, self._device = dtype, device
        self._layers = [_Rows(rows) for _ in range(layers)]
        self.cache = Cache(layers=self._layers)

    def at(self, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Aim at rows (n) and positions (n, tokens); return the mask (n, 1, tokens, columns) to be added to the scores."""
        columns = -(-(int(positions.max()) + 1) // _STEP) * _STEP
        for layer in self._layers:
            layer.aim(rows, positions, columns)
        hidden = torch.arange(columns, device=self._device) > positions[:, None, :, None]
        return torch.zeros(hidden.shape, dtype=self._dtype, device=self._device).masked_fill_(hidden, torch.finfo(self._dtype).min)


class _Rows(CacheLayerMixin):  # type: ignore[misc]  # transformers is not typed here
    """Keys and values (rows, heads, columns, width) of one layer."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self._count = rows
        self._rows = self._positions = torch.empty(0, dtype=torch.long)
        self._columns = 0

    def aim(self, rows: torch.Tensor, positions: torch.Tensor, columns: int) -> None:
        self._rows, self._positions, self._columns = rows, positions, columns

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.keys, self.values = (
            states.new_zeros((self._count, states.shape[1], self._columns, states.shape[3])) for states in (key_states, value_states)
        )
        self.is_initialized = True

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.keys, self.values = (self._written(kept, new) for kept, new in ((self.keys, key_states), (self.values, value_states)))
        return self.keys[self._rows, :, : self._columns], self.values[self._rows, :, : self._columns]

    def _written(self, kept: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        if (more := self._columns - kept.shape[2]) > 0:
            kept = torch.nn.functional.pad(kept, (0, 0, 0, more))
        # Indices around a slice come first in the result: (n, tokens, heads, width).
        kept[self._rows[:, None], :, self._positions] = new.transpose(1, 2)
        return kept

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._columns, 0

    def get_seq_length(self) -> int:
        return int(self._positions.max()) + 1 if self._positions.numel() else 0

    def get_max_length(self) -> int:
        return -1
