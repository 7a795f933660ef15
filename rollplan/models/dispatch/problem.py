"""P2 dispatch: n requests, N identical instances, and what a decode step costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rollplan.models.decode import Admission
from rollplan.models.latency import AffineLatency, IntArray, TableLatency

TAIL_SHARE = 0.2
"""StreamRL's alpha."""


@dataclass(frozen=True, slots=True, eq=False)
class DispatchProblem:
    """Requests to be spread over instances so that the last one ends as early as possible.

    prompt_tokens (n): at least 0. output_tokens (n): true lengths, at least 1; they score a plan. estimated_tokens (n):
    what the dispatcher knows (a ranker's guess); absent, the truth. admission: slots and KV-token budget of each
    instance. latency: seconds of decode steps. tail_share: StreamRL's alpha, the share of requests that counts as long
    tail. class_caps: largest batch of the tail's and of the other instances in Eq. 2; absent, from slots and budget.

    Raises `ValueError` for a value out of range, and for a request that no instance can hold.
    """

    prompt_tokens: IntArray
    output_tokens: IntArray
    instances: int
    admission: Admission
    latency: AffineLatency | TableLatency
    estimated_tokens: IntArray | None = None
    tail_share: float = TAIL_SHARE
    class_caps: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        shape = np.shape(self.output_tokens)
        for name, least in (("output_tokens", 1), ("prompt_tokens", 0), ("estimated_tokens", 1)):
            given = getattr(self, name)
            array = np.array(self.output_tokens if given is None else given, dtype=np.int64)
            if array.shape != shape or array.ndim != 1 or not array.size:
                raise ValueError(f"{name} must have one value per request, at least one, shape {shape}, got {array.shape}")
            if array.min() < least:
                raise ValueError(f"{name} must be at least {least}, got {array.min()} for request {array.argmin()}")
            object.__setattr__(self, name, array)
        if self.instances < 1:
            raise ValueError(f"instances must be at least 1, got {self.instances}")
        if not 0 <= self.tail_share <= 1:
            raise ValueError(f"tail_share must be in 0 to 1, got {self.tail_share}")
        if self.class_caps is not None and min(self.class_caps) < 0:
            raise ValueError(f"class_caps must be at least 0, got {self.class_caps}")
        budget = self.admission.kv_tokens
        if budget is not None and self.final_tokens.max() > budget:
            worst = int(self.final_tokens.argmax())
            needed = int(self.final_tokens[worst])
            longest = int((budget - self.prompt_tokens[self.final_tokens > budget]).min())
            shorter = f", or limit outputs to {longest} tokens" if longest >= 1 else ""
            raise ValueError(
                f"request {worst} needs {needed} tokens of KV cache, an instance has {budget}; "
                f"raise kv_tokens to {needed} (more GPUs per instance){shorter}"
            )

    def __len__(self) -> int:
        """Return the number of requests."""
        return int(self.output_tokens.size)

    @property
    def estimates(self) -> IntArray:
        """Estimated output tokens (n)."""
        assert self.estimated_tokens is not None, "filled in when built"
        return self.estimated_tokens

    @property
    def final_tokens(self) -> IntArray:
        """Tokens (n) in the KV cache when each request ends."""
        return self.prompt_tokens + self.output_tokens

    def as_estimated(self) -> DispatchProblem:
        """Return the problem that the dispatcher sees, in which the estimates are true.

        An estimate that no instance could hold is cut to what fits, since such a request cannot exist.
        """
        budget = self.admission.kv_tokens
        outputs = self.estimates if budget is None else np.minimum(self.estimates, budget - self.prompt_tokens)
        return replace(self, output_tokens=outputs, estimated_tokens=outputs)
