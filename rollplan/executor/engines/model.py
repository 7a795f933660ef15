"""A causal language model of transformers: read from a folder, or a tiny one that needs no file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

TINY = "tiny"
_HEAD = 32
"""The narrowest that vLLM knows on a CPU."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the built-in model, a Qwen2; heads are as wide as `hidden / heads`, for which vLLM on a CPU takes 32 at least."""

    hidden: int = 64
    layers: int = 2
    heads: int = 2
    vocabulary: int = 32
    positions: int = 4096

    def config(self) -> dict[str, Any]:
        """Return the entries of a Hugging Face config.json."""
        heads, rest = divmod(self.hidden, _HEAD)
        if rest or not heads:
            raise ValueError(f"hidden must be a multiple of {_HEAD}, the width of a head, got {self.hidden}")
        return {
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "hidden_size": self.hidden,
            "intermediate_size": 2 * self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": heads,
            "num_key_value_heads": heads // 2 if heads % 2 == 0 else heads,
            "vocab_size": self.vocabulary,
            "max_position_embeddings": self.positions,
            "tie_word_embeddings": False,
            "initializer_range": 0.1,
        }


def build(model: str, shape: Shape, dtype: torch.dtype, device: torch.device, seed: int) -> Any:
    """Return a model without dropout, the same for the same arguments in every process.

    model: `tiny` for the built-in shape, or a folder with the config.json of a Hugging Face model; without weights beside
    it they are random. They are drawn in float32 on the CPU, so that every type and device begins with the same ones.
    Raises `ValueError` for a folder that transformers cannot read.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import transformers

    auto = transformers.AutoModelForCausalLM
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if model == TINY:
            given = shape.config()
            config = transformers.AutoConfig.for_model(given.pop("model_type"), **given)
            made = _without_float32(auto.from_config(config, dtype=torch.float32, attn_implementation="sdpa"))
        else:
            made = _from_folder(auto, transformers.AutoConfig, Path(model).expanduser(), dtype)
    for weight in made.parameters():
        # Not `to(dtype)` of the model, which would round the frequencies of its positions, too.
        weight.data = weight.data.to(dtype)
    return made.to(device).eval()


def dtype_of(name: str, model: str, device: torch.device) -> torch.dtype:
    """Return the data type of a name; `auto`: bfloat16 on a GPU, else float64 for the tiny model and float32 for others.

    In float64 the order of additions, which differs from batch to batch, is too small to change a token.
    """
    known: Mapping[str, torch.dtype] = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
    if name in known:
        return known[name]
    if name != "auto":
        raise ValueError(f"dtype {name!r} is not one of auto, {', '.join(known)}")
    if device.type == "cuda":
        return torch.bfloat16
    return torch.float64 if model == TINY else torch.float32


def device_of(gpus: tuple[int, ...]) -> torch.device:
    """Return the device of a worker that was given these GPUs: the first that it can see, or the CPU."""
    if not gpus or not torch.cuda.is_available():
        return torch.device("cpu")
    # Where the GPUs of others are hidden, those that are left are counted from 0.
    return torch.device("cuda", gpus[0] if "CUDA_VISIBLE_DEVICES" not in os.environ else 0)


def _without_float32(model: Any) -> Any:
    """Return a Qwen2 whose norms compute in the type of the model; transformers' own round to float32 on their way."""
    for layer in (model.model, *model.model.layers):
        for name, norm in layer.named_children():
            if type(norm).__name__.endswith("RMSNorm"):
                exact = torch.nn.RMSNorm(norm.weight.shape, eps=norm.variance_epsilon)
                exact.weight = norm.weight
                setattr(layer, name, exact)
    return model


def _from_folder(auto: Any, configs: Any, folder: Path, dtype: torch.dtype) -> Any:
    if not (folder / "config.json").is_file():
        raise ValueError(f"model {str(folder)!r} has no config.json; give the folder of a Hugging Face model, or `{TINY}`")
    try:
        if [*folder.glob("*.safetensors")]:
            return auto.from_pretrained(folder, dtype=dtype, local_files_only=True, use_safetensors=True)
        return auto.from_config(configs.from_pretrained(folder, local_files_only=True), dtype=torch.float32)
    except (OSError, KeyError) as error:
        raise ValueError(f"transformers cannot build the model of {str(folder)!r}: {error}") from None
