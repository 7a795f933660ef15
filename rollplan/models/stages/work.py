"""What one iteration has to generate and to train, in tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rollplan.models.latency import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """One iteration. outputs (n): response tokens of every sample, longest first. prompt_tokens: of each prompt.

    samples_per_prompt: samples that share one prompt. updates: optimizer steps that the samples are divided into.
    """

    outputs: IntArray
    prompt_tokens: int
    samples_per_prompt: int
    updates: int = 1

    def __post_init__(self) -> None:
        outputs = -np.sort(-np.asarray(self.outputs, dtype=np.int64))
        if not outputs.size or outputs[-1] < 1:
            raise ValueError(f"outputs must hold at least one response of at least one token, got {outputs[-3:].tolist()}")
        object.__setattr__(self, "outputs", outputs)
        for name, low in (("prompt_tokens", 0), ("samples_per_prompt", 1), ("updates", 1)):
            if getattr(self, name) < low:
                raise ValueError(f"{name} must be at least {low}, got {getattr(self, name)}")
        if self.samples % self.updates:
            raise ValueError(f"updates must divide the {self.samples} samples, got {self.updates}")

    @property
    def samples(self) -> int:
        """Samples of one iteration."""
        return int(self.outputs.size)

    @property
    def prefill_tokens(self) -> float:
        """Prompt tokens that an engine computes per sample: each prompt once, thanks to the prefix cache."""
        return self.prompt_tokens / self.samples_per_prompt

    @property
    def tokens(self) -> int:
        """Tokens that training sees: prompts, once per sample, and responses."""
        return int(self.outputs.sum()) + self.samples * self.prompt_tokens

    @property
    def token_pairs(self) -> float:
        """Sum over samples of sequence length squared, which attention grows with."""
        return float(((self.outputs + self.prompt_tokens).astype(float) ** 2).sum())

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence, prompt included."""
        return int(self.outputs[0]) + self.prompt_tokens

    @property
    def steady_context(self) -> float:
        """Mean tokens in the cache per running sequence when finished ones are replaced at once.

        A sequence of length L is met in proportion to L and at a uniform place of its life: prompt + E[L^2] / 2 E[L].
        """
        lengths = self.outputs.astype(float)
        return self.prompt_tokens + float((lengths**2).mean() / (2 * lengths.mean()))
