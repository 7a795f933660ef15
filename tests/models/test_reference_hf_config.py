"""Hugging Face configs: what is read, and that every fault is said in the words of the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollplan.models.errors import InputError
from rollplan.models.reference.architectures import architecture, from_hf_config

QWEN3_8B: dict[str, object] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_hidden_layers": 36,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 12288,
    "vocab_size": 151936,
    "tie_word_embeddings": False,
    "rope_scaling": None,
    "torch_dtype": "bfloat16",
}
MOE = QWEN3_8B | {"model_type": "qwen3_moe", "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768}


def faults(config: object) -> list[str]:
    """Return the paths of the findings."""
    with pytest.raises(InputError) as refused:
        from_hf_config(config)
    assert all(f.path and f.problem and f.remedy for f in refused.value.findings)
    return [f.path for f in refused.value.findings]


def test_a_config_gives_the_architecture_of_the_table() -> None:
    """The file of the Hub and the row of the table are one model."""
    assert from_hf_config(QWEN3_8B, "Qwen3-8B") == architecture("Qwen3-8B")


@pytest.mark.parametrize("given_path", ["Qwen3-8B", "Qwen3-8B/config.json", "models--Qwen--Qwen3-8B/snapshots/0a1b/config.json"])
def test_a_directory_and_its_config_are_read_alike(tmp_path: Path, given_path: str) -> None:
    """The name is that of the directory, or of the model in the Hub's cache."""
    path = tmp_path / given_path
    folder = path.parent if path.suffix else path
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(QWEN3_8B))
    assert from_hf_config(path) == architecture("Qwen3-8B")


def test_the_text_part_of_a_vision_language_model_is_used() -> None:
    """`tie_word_embeddings` stands outside of the text part in such files."""
    outside = {"model_type": "qwen3_vl", "tie_word_embeddings": True, "vision_config": {"hidden_size": 1152}}
    inside = {key: value for key, value in QWEN3_8B.items() if key != "tie_word_embeddings"} | {"model_type": "qwen3_vl_text"}
    model = from_hf_config(outside | {"text_config": inside})
    assert model.tied_embeddings
    assert model.params_b == pytest.approx(8.191 - 0.622, abs=0.001)


def test_faults_of_the_text_part_name_it() -> None:
    """The path must be that of the file."""
    assert faults({"text_config": QWEN3_8B | {"hidden_size": -1}}) == ["text_config.hidden_size"]


def test_without_head_dim_the_width_is_divided_by_the_heads() -> None:
    """Llama and Qwen2 leave it out."""
    assert from_hf_config({key: value for key, value in QWEN3_8B.items() if key != "head_dim"}).head_dim == 128


def test_without_kv_heads_every_head_has_its_own() -> None:
    """Multi-head attention as it was before grouping."""
    assert from_hf_config({key: value for key, value in QWEN3_8B.items() if key != "num_key_value_heads"}).kv_heads == 32


def test_an_untied_head_is_assumed_except_for_gemma() -> None:
    """Gemma's files leave the key out and tie."""
    silent = {key: value for key, value in QWEN3_8B.items() if key != "tie_word_embeddings"}
    assert not from_hf_config(silent).tied_embeddings
    assert from_hf_config(silent | {"model_type": "gemma2"}).tied_embeddings


def test_every_second_layer_with_experts_has_half_of_them() -> None:
    """`decoder_sparse_step` 2, and one more dense layer by `mlp_only_layers`: 17 of 36 layers."""
    full, half = from_hf_config(MOE), from_hf_config(MOE | {"decoder_sparse_step": 2, "mlp_only_layers": [1]})
    assert half.expert_params_b == pytest.approx(full.expert_params_b * 17 / 36)


def test_an_empty_config_names_every_missing_key() -> None:
    """All at once, so that one edit is enough."""
    assert faults({}) == ["num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size"]


@pytest.mark.parametrize(
    "key", ["num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size"]
)
@pytest.mark.parametrize("value", [0, -1, 10**30, 1.5, float("nan"), float("inf"), "32", True, [1], {}], ids=str)
def test_senseless_sizes_are_findings(key: str, value: object) -> None:
    """Such files are downloaded from strangers: nothing in them may end in a traceback or a negative size."""
    assert faults(QWEN3_8B | {key: value}) == [key]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"num_attention_heads": 30}, "num_key_value_heads"),
        ({"num_key_value_heads": 3}, "num_key_value_heads"),
        ({"head_dim": None, "num_attention_heads": 24}, "hidden_size"),
        ({"intermediate_size": None}, "intermediate_size"),
        ({"kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128}, "qk_nope_head_dim"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder"),
        ({"model_type": "nemotron_h"}, "model_type"),
        ({"layer_types": ["linear_attention", "full_attention"]}, "layer_types"),
        ({"num_experts": 8}, "num_experts_per_tok"),
        ({"num_experts": 8, "num_experts_per_tok": 9}, "num_experts_per_tok"),
        ({"num_experts": 8, "num_experts_per_tok": 2, "first_k_dense_replace": 36}, "first_k_dense_replace"),
    ],
)
def test_keys_that_contradict_each_other_are_findings(changes: dict[str, object], path: str) -> None:
    """One finding, at the key to change."""
    assert faults(QWEN3_8B | changes) == [path]


def test_faults_are_told_all_at_once() -> None:
    """One run, one list."""
    assert faults(QWEN3_8B | {"hidden_size": "4096", "vocab_size": -5}) == ["hidden_size", "vocab_size"]


def test_a_model_larger_than_any_is_refused() -> None:
    """Every single size may be in range and the product senseless."""
    assert "params_b" in faults(QWEN3_8B | {"num_hidden_layers": 10**7, "hidden_size": 10**7})


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '"x"', "[" * 100_000, "1" * 10_000, '{"hidden_size": NaN}'], ids=lambda text: text[:12]
)
def test_files_that_are_no_config_are_refused(tmp_path: Path, text: str) -> None:
    """Empty, cut, deeply nested, or with numbers that JSON does not have."""
    (tmp_path / "config.json").write_text(text)
    faults(tmp_path)


def test_a_directory_without_config_is_refused(tmp_path: Path) -> None:
    """The finding names the file that was looked for."""
    assert faults(tmp_path) == [str(tmp_path / "config.json")]


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.integers(1, 200),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [
        *MOE,
        "text_config",
        "n_routed_experts",
        "n_shared_experts",
        "first_k_dense_replace",
        "decoder_sparse_step",
        "mlp_only_layers",
        "kv_lora_rank",
        "q_lora_rank",
        "qk_nope_head_dim",
        "qk_rope_head_dim",
        "v_head_dim",
        "layer_types",
    ]
)


@given(base=st.sampled_from([{}, QWEN3_8B, MOE]), changes=st.dictionaries(KEYS | st.text(max_size=5), JUNK, max_size=6))
def test_whatever_a_config_holds_the_answer_is_an_architecture_or_findings(base: dict[str, object], changes: dict[str, object]) -> None:
    """Any other exception fails this test."""
    try:
        model = from_hf_config(base | changes)
    except InputError:
        return
    assert 0 < model.active_params_b <= model.params_b * (1 + 1e-9)


SIZES = st.integers(1, 10_000)


@given(layers=SIZES, hidden=SIZES, groups=st.integers(1, 64), kv_heads=st.integers(1, 64), width=SIZES, vocab=SIZES, tied=st.booleans())
def test_one_more_layer_adds_the_parameters_of_one_layer(
    layers: int, hidden: int, groups: int, kv_heads: int, width: int, vocab: int, tied: bool
) -> None:
    """2 h (n_h + n_kv) d for attention, 3 h f for the gated network, 2 h for the norms; nothing else depends on layers."""
    config = {
        "model_type": "llama",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": groups * kv_heads,
        "num_key_value_heads": kv_heads,
        "head_dim": 64,
        "intermediate_size": width,
        "vocab_size": vocab,
        "tie_word_embeddings": tied,
    }
    one, other = from_hf_config(config), from_hf_config(config | {"num_hidden_layers": layers + 1})
    layer = 2 * hidden * 64 * (groups + 1) * kv_heads + 3 * hidden * width + 2 * hidden
    assert other.params_b - one.params_b == pytest.approx(layer / 1e9, rel=1e-6, abs=1e-9 * one.params_b)
