"""Public models by name: sizes as on their cards, KV cache as published, names as people write them."""

from __future__ import annotations

import pytest

from rollplan.models.architecture import Architecture
from rollplan.models.errors import InputError
from rollplan.models.reference.architectures import architecture, architecture_names, from_hf_config, table_name

CARDS = {
    "Qwen2.5-0.5B": (0.494, 0.494),
    "Qwen2.5-1.5B": (1.544, 1.543),
    "Qwen2.5-3B": (3.086, 3.086),
    "Qwen2.5-7B": (7.615, 7.070),
    "Qwen2.5-14B": (14.769, 13.991),
    "Qwen2.5-32B": (32.763, 31.985),
    "Qwen2.5-72B": (72.704, 71.459),
    "Qwen3-0.6B": (0.596, 0.596),
    "Qwen3-1.7B": (1.720, 1.720),
    "Qwen3-4B": (4.022, 4.022),
    "Qwen3-8B": (8.190, 7.568),
    "Qwen3-14B": (14.768, 13.990),
    "Qwen3-32B": (32.761, 31.984),
    "Llama-3.1-8B": (8.030, 7.504),
    "Llama-3.1-70B": (70.552, 69.502),
    "Qwen3-30B-A3B": (30.519, 3.041),
    "Qwen3-235B-A22B": (235.044, 21.567),
}
"""10^9 parameters in total (model cards), and those that one token is multiplied with, output head included."""


def test_the_table_holds_the_seventeen_models() -> None:
    """Those of the latency table, and two small ones."""
    assert set(architecture_names()) == set(CARDS)


@pytest.mark.parametrize("name", CARDS)
def test_parameters_counted_from_the_shape_are_those_of_the_card(name: str) -> None:
    """Within 0.1 %: the table holds shapes only, so a wrong width would show."""
    model = architecture(name)
    assert (model.params_b, model.active_params_b) == pytest.approx(CARDS[name], rel=1e-3)


@pytest.mark.parametrize(("name", "kib"), [("Qwen2.5-7B", 56), ("Qwen2.5-32B", 256), ("Qwen2.5-72B", 320), ("Qwen3-8B", 144)])
def test_kv_bytes_per_token_are_the_known_ones(name: str, kib: int) -> None:
    """StreamRL (arXiv 2504.15930) Table 2 with the public number of KV heads; Qwen3-8B: 2 * 36 * 8 * 128 * 2 bytes."""
    assert architecture(name).kv_bytes_per_token == kib * 1024


def test_streamrl_counts_twice_the_kv_heads_of_the_public_7b() -> None:
    """StreamRL Table 2 says 8 KV heads, 112 KiB; the public config has 4, 56 KiB."""
    public = architecture("Qwen2.5-7B")
    assert public.kv_heads == 4
    assert public.model_copy(update={"kv_heads": 8}).kv_bytes_per_token == 112 * 1024


def test_experts_are_those_of_the_public_configs() -> None:
    """128 experts, 8 per token, width 768 and 1536; together 29.0 and 227.1 * 10^9 parameters."""
    small, large = architecture("Qwen3-30B-A3B"), architecture("Qwen3-235B-A22B")
    assert [(m.experts, m.experts_per_token, m.intermediate) for m in (small, large)] == [(128, 8, 6144), (128, 8, 12288)]
    assert small.expert_params_b == 48 * 128 * 3 * 2048 * 768 / 1e9
    assert large.expert_params_b == 94 * 128 * 3 * 4096 * 1536 / 1e9


def test_small_models_tie_their_output_head() -> None:
    """Counting their embedding twice would make the 0.5B 28 % too large."""
    tied = {name for name in architecture_names() if architecture(name).tied_embeddings}
    assert tied == {"Qwen2.5-0.5B", "Qwen2.5-1.5B", "Qwen2.5-3B", "Qwen3-0.6B", "Qwen3-1.7B", "Qwen3-4B"}


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Qwen/Qwen3-8B", "Qwen3-8B"),
        ("qwen3_8b", "Qwen3-8B"),
        ("Qwen2.5-Math-7B", "Qwen2.5-7B"),
        ("Qwen/Qwen2.5-Coder-32B-Instruct", "Qwen2.5-32B"),
        ("Qwen3-4B-Instruct-2507", "Qwen3-4B"),
        ("Qwen3-235B-A22B-Thinking-2507", "Qwen3-235B-A22B"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "Llama-3.1-8B"),
        ("Llama-3.3-70B-Instruct", "Llama-3.1-70B"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "Qwen2.5-7B"),
    ],
)
def test_models_are_known_by_the_names_people_write(written: str, name: str) -> None:
    """Owner, case and fine-tuning do not change a shape."""
    assert architecture(written) == architecture(name)


@pytest.mark.parametrize("name", ["Qwen3-8B-FP8", "Qwen3-9B", "gpt2", "", "x" * 1000])
def test_other_models_are_refused_with_the_way_out(name: str) -> None:
    """A quantised variant has other weights, so it is another model."""
    with pytest.raises(InputError, match=r"config\.json"):
        architecture(name)


def test_near_names_are_proposed() -> None:
    """A variant that is refused is near the model it comes from."""
    with pytest.raises(InputError, match="did you mean `Qwen3-8B`"):
        architecture("Qwen3-8B-FP8")


def test_a_shape_is_found_in_the_table_whatever_its_name() -> None:
    """Fine-tuning keeps the shape; one more or less KV head does not."""
    known = architecture("Qwen3-8B")
    assert table_name(known.model_copy(update={"name": "our-finetune"})) == "Qwen3-8B"
    assert table_name(known.model_copy(update={"kv_heads": 4})) is None


MIXTRAL: dict[str, object] = {
    "model_type": "mixtral",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 32000,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
DEEPSEEK_V3: dict[str, object] = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 61,
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "intermediate_size": 18432,
    "vocab_size": 129280,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "first_k_dense_replace": 3,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}
DEEPSEEK_V2_LITE: dict[str, object] = DEEPSEEK_V3 | {
    "model_type": "deepseek_v2",
    "num_hidden_layers": 27,
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "intermediate_size": 10944,
    "vocab_size": 102400,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1408,
    "first_k_dense_replace": 1,
    "q_lora_rank": None,
}
GPT_OSS_120B: dict[str, object] = {
    "model_type": "gpt_oss",
    "num_hidden_layers": 36,
    "hidden_size": 2880,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "intermediate_size": 2880,
    "vocab_size": 201088,
    "num_local_experts": 128,
    "experts_per_token": 4,
    "attention_bias": True,
}


@pytest.mark.parametrize(
    ("config", "params_b", "active_params_b"),
    [(MIXTRAL, 46.70, 12.75), (DEEPSEEK_V3, 671.03, 36.63), (DEEPSEEK_V2_LITE, 15.71, 2.45), (GPT_OSS_120B, 116.83, 5.13)],
    ids=["Mixtral-8x7B", "DeepSeek-V3", "DeepSeek-V2-Lite", "gpt-oss-120b"],
)
def test_other_public_mixtures_of_experts_come_out_as_on_their_cards(
    config: dict[str, object], params_b: float, active_params_b: float
) -> None:
    """Model cards: 46.7, 671, 15.7 and 116.8 * 10^9. Cards of active parameters count the embedding as well: 37 and 2.4 (DeepSeek)."""
    model = from_hf_config(config)
    assert (model.params_b, model.active_params_b) == pytest.approx((params_b, active_params_b), rel=1e-3)


def test_latent_attention_caches_one_vector_for_all_heads() -> None:
    """DeepSeek-V3: (512 + 64) * 2 bytes in each of 61 layers = 70,272 bytes per token, 30 times less than full heads."""
    model = from_hf_config(DEEPSEEK_V3)
    assert (model.kv_bytes_per_token, model.kv_heads) == (70_272, 1)


def test_a_token_passes_its_routed_and_shared_experts() -> None:
    """DeepSeek-V3: 8 routed and 1 shared of 2048; 58 of its 61 layers have experts."""
    model = from_hf_config(DEEPSEEK_V3)
    assert model.intermediate == 9 * 2048
    assert model.expert_params_b == 58 * 256 * 3 * 7168 * 2048 / 1e9


def test_the_result_is_an_architecture_with_the_given_name() -> None:
    """A config does not hold its own name."""
    model = from_hf_config(MIXTRAL, "Mixtral-8x7B")
    assert isinstance(model, Architecture)
    assert model.name == "Mixtral-8x7B"
