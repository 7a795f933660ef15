"""A task that a tiny model learns in some twenty iterations: the prompt repeats a digit, and the answer shall repeat it, too.

The reward is the share of right tokens. Responses end where a heavy-tailed law says, which depends on nothing but the
sample, so that the work of an iteration does not change as the model learns; or at the end-of-sequence token, which the
model then learns to use or to avoid. Only the standard library is imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from random import Random
from statistics import NormalDist
from typing import Literal

EOS = 10
LEAST_VOCABULARY = EOS + 1


@dataclass(frozen=True, slots=True)
class Task:
    """The task of one job. digits: that are asked for, 1 to 10. prompt_tokens: of every prompt. group: responses per prompt.

    lengths: `drawn` ends response after log-normal many tokens, median `median_tokens` and standard deviation `tail` of the
    logarithm, at most `max_tokens`; `eos` lets the model end them, at most after `max_tokens`.
    """

    digits: int = 8
    prompt_tokens: int = 4
    group: int = 8
    lengths: Literal["drawn", "eos"] = "drawn"
    median_tokens: int = 12
    tail: float = 0.8
    max_tokens: int = 64
    seed: int = 0

    @property
    def eos(self) -> int | None:
        """Return the token that ends a response, None if none does."""
        return EOS if self.lengths == "eos" else None

    def prompt(self, iteration: int, number: int) -> tuple[int, ...]:
        """Return the prompt of a sample; those of one group are the same, and the digits take turns."""
        return ((iteration + number // self.group) % self.digits,) * self.prompt_tokens

    def limit(self, iteration: int, number: int) -> int:
        """Return the most tokens of a response."""
        if self.lengths == "eos":
            return self.max_tokens
        chance = Random(f"{self.seed} {iteration} {number}").random()
        tokens = self.median_tokens * exp(self.tail * NormalDist().inv_cdf(min(max(chance, 1e-9), 1 - 1e-9)))
        return max(1, min(self.max_tokens, round(tokens)))

    @staticmethod
    def reward(prompt: Sequence[int], tokens: Sequence[int]) -> float:
        """Return the share of tokens that are the digit of the prompt; the end of the sequence is no token, no token is no reward."""
        said = tokens[:-1] if tokens and tokens[-1] == EOS else tokens
        return sum(token == prompt[0] for token in said) / len(said) if said else 0.0
