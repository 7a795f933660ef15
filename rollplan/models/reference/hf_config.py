"""Hugging Face `config.json`: which models are understood, and every fault of one that is not.

Understood are decoder-only transformers with gated feed-forward networks and attention in every layer, as Llama, Mistral,
Qwen2 and Qwen3 have them: dense or with experts (Qwen-MoE, Mixtral, DeepSeek, GLM), with grouped heads or with
multi-head latent attention (DeepSeek), alone or as the text part of a vision-language model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import AliasChoices, ConfigDict, Field

from rollplan.models.errors import Finding, InputError
from rollplan.models.files import read_text
from rollplan.models.strict import Strict, show

Count = Annotated[int, Field(ge=1, le=10_000_000)]
CountOrZero = Annotated[int, Field(ge=0, le=10_000_000)]
Text = Annotated[str, Field(max_length=200)]

_UNDERSTOOD = re.compile(
    r"deepseek_v(2|3|32)|gemma[23]?(_text)?|glm4(_moe)?|gpt_oss|granite|kimi_k2|llama|mimo|minimax_m2|ministral|mistral|mixtral"
    r"|olmo[23]|phi3|qwen[23](_moe)?|qwen(2|2_5|3)_vl(_moe)?(_text)?|seed_oss"
)
"""Model types whose parameter count follows from the keys below. Others may use the same keys for another build."""


class HfConfig(Strict):
    """The keys that sizes depend on, under their names in the file; all others are ignored."""

    model_config = ConfigDict(extra="ignore")

    model_type: Text = ""
    num_hidden_layers: Count
    hidden_size: Count
    num_attention_heads: Count
    num_key_value_heads: Count | None = None
    head_dim: Count | None = None
    intermediate_size: Count | None = None
    vocab_size: Count
    tie_word_embeddings: bool | None = None
    attention_bias: bool = False

    num_experts: CountOrZero = Field(0, validation_alias=AliasChoices("num_experts", "num_local_experts", "n_routed_experts"))
    num_experts_per_tok: CountOrZero = Field(0, validation_alias=AliasChoices("num_experts_per_tok", "experts_per_token"))
    moe_intermediate_size: Count | None = None
    shared_expert_intermediate_size: CountOrZero = 0
    n_shared_experts: CountOrZero = 0
    decoder_sparse_step: Count = 1
    mlp_only_layers: Annotated[list[CountOrZero], Field(max_length=10_000)] = Field(default_factory=list)
    first_k_dense_replace: CountOrZero = 0

    kv_lora_rank: Count | None = None
    q_lora_rank: Count | None = None
    qk_nope_head_dim: Count | None = None
    qk_rope_head_dim: Count | None = None
    v_head_dim: Count | None = None

    is_encoder_decoder: bool = False
    layer_types: Annotated[list[Text], Field(max_length=10_000)] = Field(default_factory=list)
    linear_num_key_heads: CountOrZero = 0

    @property
    def tied(self) -> bool:
        """Whether the output head is the embedding matrix (only Gemma leaves this out of its files and ties)."""
        return self.model_type.startswith("gemma") if self.tie_word_embeddings is None else self.tie_word_embeddings

    @property
    def expert_layers(self) -> int:
        """Layers with routed experts instead of one feed-forward network."""
        sparse = self.num_hidden_layers // self.decoder_sparse_step
        dense = {layer for layer in self.mlp_only_layers if layer < self.num_hidden_layers}
        return max(0, sparse - len(dense) - self.first_k_dense_replace) if self.num_experts else 0


def read_config(source: str | Path | Mapping[str, object]) -> HfConfig:
    """Read a `config.json`, the directory that holds one, or its content; raise `InputError` with every fault at once."""
    raw, name = (source, "config") if isinstance(source, Mapping) else (_content(Path(source)), str(source))
    if not isinstance(raw, Mapping):
        raise InputError(name, [Finding(name, show(raw), "is not a mapping", "give the config.json of a model")])
    text = raw.get("text_config")
    nested = isinstance(text, Mapping)
    # Keys that a vision-language model has outside hold for its text part; an absent value and a null mean the same.
    merged = {**raw, **text} if isinstance(text, Mapping) else dict(raw)
    given = {key: value for key, value in merged.items() if isinstance(key, str) and value is not None}
    try:
        config = HfConfig.build(given, name)
        if faults := list(_senseless(config)):
            raise InputError(name, faults)
    except InputError as error:
        inside = [replace(f, path=f"text_config.{f.path}") if nested else f for f in error.findings]
        raise InputError(name, inside) from None
    return config


def _content(path: Path) -> object:
    """Return the JSON of a file, or of the config.json in a directory."""
    file = path / "config.json" if path.is_dir() else path
    try:
        return json.loads(read_text(file, "config.json"))
    except (ValueError, RecursionError):
        raise InputError(str(file), [Finding(str(file), "", "is not JSON", "give the config.json of a model")]) from None


def _senseless(c: HfConfig) -> Iterator[Finding]:
    """Yield the faults that need more than one key to see."""
    if c.is_encoder_decoder:
        yield Finding("is_encoder_decoder", "`true`", "is not a decoder-only model", "give a decoder-only model")
    if c.model_type and not _UNDERSTOOD.fullmatch(c.model_type):
        remedy = "write the architecture by hand, or the type of a model that is built like this one"
        yield Finding("model_type", show(c.model_type), "is not among the types that rollplan understands", remedy)
    if c.linear_num_key_heads or any("linear" in kind or "mamba" in kind for kind in c.layer_types):
        yield Finding("layer_types", "", "has layers without a KV cache", "write the architecture by hand")
    if c.head_dim is None and c.kv_lora_rank is None and c.hidden_size % c.num_attention_heads:
        problem = f"is no multiple of num_attention_heads = {c.num_attention_heads}"
        yield Finding("hidden_size", show(c.hidden_size), problem, "correct one of them, or add `head_dim`")
    if c.num_key_value_heads is not None and c.num_attention_heads % c.num_key_value_heads:
        problem = f"does not divide num_attention_heads = {c.num_attention_heads}"
        yield Finding("num_key_value_heads", show(c.num_key_value_heads), problem, "correct one of them")
    if c.kv_lora_rank is not None:
        for name in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"):
            if getattr(c, name) is None:
                yield Finding(name, "", "is missing beside kv_lora_rank", "add it")
    yield from _senseless_experts(c)


def _senseless_experts(c: HfConfig) -> Iterator[Finding]:
    if not c.num_experts:
        if c.intermediate_size is None:
            yield Finding("intermediate_size", "", "is missing", "add it")
        return
    if not 1 <= c.num_experts_per_tok <= c.num_experts:
        problem = f"is not within 1 and num_experts = {c.num_experts}"
        yield Finding("num_experts_per_tok", show(c.num_experts_per_tok), problem, "write how many experts a token visits")
    if c.num_experts > 100_000:
        yield Finding("num_experts", show(c.num_experts), "is more than 100000", "lower it")
    if c.moe_intermediate_size is None and c.intermediate_size is None:
        yield Finding("moe_intermediate_size", "", "is missing, and so is intermediate_size", "add the width of one expert")
    if c.expert_layers == 0:
        yield Finding("first_k_dense_replace", show(c.first_k_dense_replace), "leaves no layer with experts", "lower it")
    elif c.expert_layers < c.num_hidden_layers and c.intermediate_size is None:
        yield Finding("intermediate_size", "", "is missing, but some layers have no experts", "add it")
