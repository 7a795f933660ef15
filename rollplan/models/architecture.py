"""What a model is made of, as far as time and memory depend on it."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from rollplan.models.strict import Strict, refusal

Count = Annotated[int, Field(ge=1, le=10_000_000)]


class Architecture(Strict):
    """A decoder-only transformer.

    params_b: all parameters, in 10^9. active_params_b: those that one token is multiplied with, output head included,
    embedding lookup excluded. expert_params_b: all routed experts together, the part that expert parallelism divides.
    intermediate: width of the feed-forward network of one token (for experts: of all the experts it visits).
    kv_bytes_per_token: of all layers, keys and values in bf16; absent, it follows from layers, heads and width.
    """

    name: Annotated[str, Field(min_length=1, max_length=100)]
    layers: Count
    hidden: Count
    heads: Count
    kv_heads: Count
    head_dim: Count
    intermediate: Count
    vocab: Count
    params_b: Annotated[float, Field(gt=0, le=1e5)]
    active_params_b: Annotated[float, Field(gt=0, le=1e5)]
    experts: Annotated[int, Field(ge=0, le=100_000)] = 0
    experts_per_token: Annotated[int, Field(ge=0, le=100_000)] = 0
    expert_params_b: Annotated[float, Field(ge=0, le=1e5)] = 0.0
    tied_embeddings: bool = False
    kv_bytes_per_token_bf16: Count | None = None

    @model_validator(mode="after")
    def _parts_fit_the_whole(self) -> Self:
        if self.active_params_b > self.params_b * (1 + 1e-9):
            raise refusal("has more active than total parameters", "`active_params_b` is at most `params_b`")
        if self.experts_per_token > self.experts:
            raise refusal("sends a token to more experts than there are", "`experts_per_token` is at most `experts`")
        if (self.experts == 0) != (self.expert_params_b == 0):
            raise refusal("gives experts without their parameters, or the reverse", "give both `experts` and `expert_params_b`")
        if self.expert_params_b >= self.params_b:
            raise refusal("has more parameters in experts than in total", "`expert_params_b` is less than `params_b`")
        return self

    @property
    def moe(self) -> bool:
        """Whether tokens visit only some of the experts."""
        return self.experts > 0

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of keys and values of one token over all layers, in bf16."""
        return self.kv_bytes_per_token_bf16 or 2 * 2 * self.layers * self.kv_heads * self.head_dim
