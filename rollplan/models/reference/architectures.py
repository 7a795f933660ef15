"""Model architectures: public ones by name, any other from its Hugging Face `config.json`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from rollplan.models.architecture import Architecture
from rollplan.models.reference.hf_config import HfConfig, read_config
from rollplan.models.reference.tables import rows, unknown

_VARIANT = re.compile(r"instruct|base|chat|thinking|math|coder|meta|hf|2[45]\d\d")
"""Words in a model's name that do not change its shape; the number is the month of a release."""

_SAME_SHAPE = {
    "llama38b": "Llama-3.1-8B",
    "llama370b": "Llama-3.1-70B",
    "llama3.370b": "Llama-3.1-70B",
    "deepseekr1distillqwen7b": "Qwen2.5-7B",
    "deepseekr1distillqwen14b": "Qwen2.5-14B",
    "deepseekr1distillqwen32b": "Qwen2.5-32B",
    "deepseekr1distillllama8b": "Llama-3.1-8B",
    "deepseekr1distillllama70b": "Llama-3.1-70B",
}


def architecture_names() -> tuple[str, ...]:
    """Return the names of the models in the table."""
    return tuple(_models())


def architecture_name(text: str) -> str:
    """Return the table's name of the model that a user means; raise `InputError` for an unknown one.

    `Qwen/Qwen2.5-7B-Instruct`, `qwen2.5-math-7b` and `Qwen2.5-7B` are one shape. A quantised variant is another model.
    """
    words = re.split(r"[\s_\-]+", text.rpartition("/")[2].lower())
    key = "".join(word for word in words if not _VARIANT.fullmatch(word))
    for name in _models():
        if key == name.lower().replace("-", ""):
            return name
    if key in _SAME_SHAPE:
        return _SAME_SHAPE[key]
    raise unknown("model", text, _models(), "write `model: {config: <path of its config.json>}`")


def architecture(name: str) -> Architecture:
    """Return the architecture of a public model, see `architecture_name`."""
    return _models()[architecture_name(name)]


def table_name(model: Architecture) -> str | None:
    """Return the name of the model in the table that has the same shape, whatever its own name: time depends on shapes."""
    return next((name for name, known in _models().items() if _shape(known) == _shape(model)), None)


def from_hf_config(source: str | Path | Mapping[str, object], name: str | None = None) -> Architecture:
    """Return the architecture that a Hugging Face config describes; raise `InputError` with every fault at once.

    source: path of a `config.json` or of its directory, or its content. name: without it, that of the directory.
    """
    if name is None:
        name = "model" if isinstance(source, Mapping) else _directory_name(Path(source))
    return _architecture(read_config(source), name)


def _directory_name(path: Path) -> str:
    """Return the model's name from a path such as `Qwen3-8B/config.json`, or one in the Hub's cache."""
    folder = path.parent if path.suffix == ".json" else path
    cached = [part for part in folder.parts if part.startswith("models--")]
    return (cached[-1].split("--")[-1] if cached else folder.absolute().name)[:100] or "model"


@cache
def _models() -> Mapping[str, Architecture]:
    """Return the architectures of the table by name."""

    def typed(key: str, text: str) -> object:
        return text if key == "model_type" else text == "true" if key == "tie_word_embeddings" else int(text)

    found = {}
    for row in rows("models.csv"):
        config = {key: typed(key, text) for key, text in row.items() if text and key != "name"}
        found[row["name"]] = from_hf_config(config, row["name"])
    return found


def _shape(model: Architecture) -> tuple[int, ...]:
    attention = (model.layers, model.hidden, model.heads, model.kv_heads, model.head_dim, model.kv_bytes_per_token)
    return (*attention, model.intermediate, model.vocab, model.experts, model.experts_per_token)


def _architecture(c: HfConfig, name: str) -> Architecture:
    r"""Count parameters.

    .. math:: P = (1 + u) V h + L (A + 2h) + (L - L_e)\,3 h f + L_e (h E + 3 h f_s) + L_e E\,3 h f_e + h

    V vocabulary, h width, u 1 if the output head is a matrix of its own, L layers, L_e of them with E experts of width f_e
    and shared experts of width f_s, f width of the feed-forward network, A attention. One token is multiplied with all of
    it except the embedding and the experts that it does not visit.
    """
    expert_width = (c.moe_intermediate_size or c.intermediate_size or 0) if c.num_experts else 0
    shared_width = c.shared_expert_intermediate_size + c.n_shared_experts * expert_width
    dense = (c.num_hidden_layers - c.expert_layers) * 3 * c.hidden_size * (c.intermediate_size or 0)
    routers = c.expert_layers * c.hidden_size * (c.num_experts + 3 * shared_width)
    experts = c.expert_layers * c.num_experts * 3 * c.hidden_size * expert_width
    embedding = c.vocab_size * c.hidden_size
    body = c.num_hidden_layers * (_attention(c) + 2 * c.hidden_size) + dense + routers + c.hidden_size
    active = body + embedding + (experts * c.num_experts_per_tok // c.num_experts if c.num_experts else 0)
    width = c.num_experts_per_tok * expert_width + shared_width if c.num_experts else c.intermediate_size
    latent = c.kv_lora_rank is not None
    fields = {
        "name": name,
        "layers": c.num_hidden_layers,
        "hidden": c.hidden_size,
        "heads": c.num_attention_heads,
        # One latent vector serves all heads: it is neither divided nor repeated by tensor parallelism.
        "kv_heads": 1 if latent else c.num_key_value_heads or c.num_attention_heads,
        "head_dim": _head_dim(c),
        "intermediate": width,
        "vocab": c.vocab_size,
        "params_b": (body + embedding * (1 if c.tied else 2) + experts) / 1e9,
        "active_params_b": active / 1e9,
        "experts": c.num_experts,
        "experts_per_token": c.num_experts_per_tok if c.num_experts else 0,
        "expert_params_b": experts / 1e9,
        "tied_embeddings": c.tied,
        "kv_bytes_per_token_bf16": 2 * c.num_hidden_layers * (c.kv_lora_rank + (c.qk_rope_head_dim or 0)) if c.kv_lora_rank else None,
    }
    return Architecture.build(fields, name)


def _head_dim(c: HfConfig) -> int:
    """Return the width of a head; with latent attention the mean of keys and values, which keeps their operations."""
    if c.kv_lora_rank is None:
        return c.head_dim or c.hidden_size // c.num_attention_heads
    return max(1, ((c.qk_nope_head_dim or 0) + (c.qk_rope_head_dim or 0) + (c.v_head_dim or 0)) // 2)


def _attention(c: HfConfig) -> int:
    """Return the attention parameters of one layer: projections, their biases, norms of queries and keys."""
    heads = c.num_attention_heads
    if c.kv_lora_rank is not None:
        nope, rope, value = c.qk_nope_head_dim or 0, c.qk_rope_head_dim or 0, c.v_head_dim or 0
        query = heads * (nope + rope)
        rank = c.q_lora_rank
        queries = c.hidden_size * query if rank is None else c.hidden_size * rank + rank * query + rank
        keys = c.hidden_size * (c.kv_lora_rank + rope) + c.kv_lora_rank * heads * (nope + value) + c.kv_lora_rank
        return queries + keys + heads * value * c.hidden_size
    width = _head_dim(c)
    out, kv = heads * width, 2 * (c.num_key_value_heads or heads) * width
    bias = out + kv if c.model_type.startswith("qwen2") or c.attention_bias else 0
    norms = 2 * width if c.model_type.startswith("qwen3") else 0
    return c.hidden_size * (2 * out + kv) + bias + norms
