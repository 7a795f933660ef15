"""Worker: seconds of one decode step by batch and context, in plain torch with a full KV cache and, on a GPU, a CUDA graph.

The cache is filled with random numbers instead of prompts, so a point costs a few steps and no prefill. It stands still: every
step computes the last of `context` tokens again. Attention takes the query heads of one KV head as rows of one problem, so the
cache is read once, as by the kernels of inference engines. There is no sampler, no scheduler and no paging: the numbers compare with
sums of kernel times, not with `generate` of an engine. Standard library and torch only.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from rollplan.profilers.repeat import steady
from rollplan.profilers.worker import WorkerError, serve

STEPS = 10
"""Steps of one measurement on a GPU."""
_CACHE_SHARE = 0.85
"""Of the memory that is free once the weights are there; the rest is for activations and logits."""


@dataclass(frozen=True)
class Shape:
    """A Qwen2-like model: grouped-query attention, gated feed-forward network, RMS norms, rotary positions."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool
    bias: bool
    theta: float
    eps: float

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Shape:
        """Return the shape of a Hugging Face config."""
        return cls(
            layers=config["num_hidden_layers"],
            hidden=config["hidden_size"],
            heads=config["num_attention_heads"],
            kv_heads=config["num_key_value_heads"],
            head_dim=config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"],
            intermediate=config["intermediate_size"],
            vocab=config["vocab_size"],
            tied=config["tie_word_embeddings"],
            bias=config["model_type"] == "qwen2",
            theta=config.get("rope_theta", 10_000.0),
            eps=config.get("rms_norm_eps", 1e-6),
        )

    def cache_elements(self, batch: int, context: int) -> int:
        """Return the numbers in the keys (and again in the values) of one layer."""
        return batch * self.kv_heads * context * self.head_dim


def random_weights(shape: Shape, dtype: torch.dtype, device: torch.device) -> dict[str, torch.Tensor]:
    """Return weights under the names that Hugging Face gives them."""
    query, key, width = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim, shape.hidden
    sizes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (shape.vocab, width), "model.norm.weight": (width,)}
    if not shape.tied:
        sizes["lm_head.weight"] = (shape.vocab, width)
    for index in range(shape.layers):
        layer = {
            "input_layernorm": (width,),
            "post_attention_layernorm": (width,),
            "self_attn.q_proj": (query, width),
            "self_attn.k_proj": (key, width),
            "self_attn.v_proj": (key, width),
            "self_attn.o_proj": (width, query),
            "mlp.gate_proj": (shape.intermediate, width),
            "mlp.up_proj": (shape.intermediate, width),
            "mlp.down_proj": (width, shape.intermediate),
        }
        sizes |= {f"model.layers.{index}.{name}.weight": size for name, size in layer.items()}
        if shape.bias:
            sizes |= {f"model.layers.{index}.self_attn.{name}_proj.bias": (rows,) for name, rows in (("q", query), ("k", key), ("v", key))}
    return {name: torch.empty(size, dtype=dtype, device=device).normal_(std=0.02) for name, size in sizes.items()}


class Decoder:
    """The weights of a model, matrices that one product can do put together, and one decode step."""

    def __init__(self, shape: Shape, weights: dict[str, torch.Tensor]) -> None:
        self.shape = shape
        self._embedding, self._norm = weights["model.embed_tokens.weight"], weights["model.norm.weight"]
        self._head = self._embedding if shape.tied else weights["lm_head.weight"]
        self._layers = []
        for index in range(shape.layers):
            at = f"model.layers.{index}."

            def joined(*names: str, kind: str = "weight", at: str = at) -> torch.Tensor:
                # Popped, so that a layer exists twice only while it is put together.
                return torch.cat([weights.pop(f"{at}{name}_proj.{kind}") for name in names])

            qkv = ("self_attn.q", "self_attn.k", "self_attn.v")
            self._layers.append(
                {
                    "norm1": weights.pop(f"{at}input_layernorm.weight"),
                    "qkv": joined(*qkv),
                    "bias": joined(*qkv, kind="bias") if shape.bias else None,
                    "out": weights.pop(f"{at}self_attn.o_proj.weight"),
                    "norm2": weights.pop(f"{at}post_attention_layernorm.weight"),
                    "gate_up": joined("mlp.gate", "mlp.up"),
                    "down": weights.pop(f"{at}mlp.down_proj.weight"),
                }
            )

    def step(self, tokens: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
        """Return the logits (batch, vocabulary) after one more token of each sequence.

        tokens (batch). keys, values (layers, batch, KV heads, context, head_dim): the last place takes this token.
        turn (2, head_dim): cosine and sine of its position, see `rotation`.
        """
        s = self.shape
        x = functional.embedding(tokens, self._embedding)
        for index, layer in enumerate(self._layers):
            y = functional.rms_norm(x, (s.hidden,), layer["norm1"], s.eps)
            widths = [s.heads * s.head_dim, s.kv_heads * s.head_dim, s.kv_heads * s.head_dim]
            query, key, value = functional.linear(y, layer["qkv"], layer["bias"]).split(widths, -1)
            query = _turned(query.view(-1, s.kv_heads, s.heads // s.kv_heads, s.head_dim), turn)
            keys[index, :, :, -1:] = _turned(key.view(-1, s.kv_heads, 1, s.head_dim), turn)
            values[index, :, :, -1:] = value.view(-1, s.kv_heads, 1, s.head_dim)
            seen = functional.scaled_dot_product_attention(query, keys[index], values[index])
            x = x + functional.linear(seen.reshape(-1, s.heads * s.head_dim), layer["out"])
            y = functional.rms_norm(x, (s.hidden,), layer["norm2"], s.eps)
            gate, up = functional.linear(y, layer["gate_up"]).chunk(2, -1)
            x = x + functional.linear(functional.silu(gate) * up, layer["down"])
        return functional.linear(functional.rms_norm(x, (s.hidden,), self._norm, s.eps), self._head)


def rotation(shape: Shape, position: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return cosine and sine (2, head_dim) of a position (Su et al. 2021, halves turned against each other as in Llama)."""
    powers = torch.arange(0, shape.head_dim, 2, device=device, dtype=torch.float32) / shape.head_dim
    angles = (position / shape.theta**powers).repeat(2)
    return torch.stack([angles.cos(), angles.sin()]).to(dtype)


def _turned(x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    left, right = x.chunk(2, -1)
    return x * turn[0] + torch.cat([-right, left], -1) * turn[1]


def work(request: dict[str, Any]) -> dict[str, Any]:
    """Measure every batch and context that fits. request: config, batches, contexts, spread, time_limit_s."""
    cuda = torch.cuda.is_available()
    device, dtype = (torch.device("cuda"), torch.bfloat16) if cuda else (torch.device("cpu"), torch.float32)
    torch.manual_seed(7)
    shape = Shape.of(request["config"])
    wanted = sorted(((b, c) for b in request["batches"] for c in request["contexts"]), key=lambda point: (point[0] * point[1], point))
    with torch.inference_mode():
        decoder = Decoder(shape, random_weights(shape, dtype, device))
        pool, room = _pool(shape, wanted, dtype, device)
        points, skipped = [], []
        began = time.perf_counter()
        for number, (batch, context) in enumerate(wanted):
            left_s = request["time_limit_s"] - (time.perf_counter() - began)
            name = f"batch {batch} at {context} tokens"
            if shape.cache_elements(batch, context) > room:
                need = 2 * shape.layers * shape.cache_elements(batch, context) * pool.element_size() / 2**30
                skipped.append(f"{name}: the KV cache would take {need:.0f} GiB")
            elif left_s <= 0:
                skipped.append(f"{name}: the time limit of {request['time_limit_s']:.0f} s is over")
            else:
                sample = _sampler(decoder, pool, batch, context)
                seconds = steady(sample, request["spread"], 3, 30, left_s / (len(wanted) - number))
                points.append({"batch": batch, "context": context, "ms": [1000 * value for value in seconds]})
    if not points:
        raise WorkerError("\n".join(["no point fits into memory and time", *skipped]))
    return {
        "points": points,
        "skipped": skipped,
        "dtype": str(dtype).removeprefix("torch."),
        "device": torch.cuda.get_device_name(device) if cuda else "CPU",
        "memory_gib": torch.cuda.get_device_properties(device).total_memory / 2**30 if cuda else None,
        "threads": None if cuda else torch.get_num_threads(),
        "host": f"{platform.system()} {platform.machine()}",
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
    }


def _pool(shape: Shape, wanted: list[tuple[int, int]], dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, int]:
    """Return keys and values (2, layers, room) for the largest point, or as much as there is memory for."""
    room = max(shape.cache_elements(batch, context) for batch, context in wanted)
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        room = min(room, int(_CACHE_SHARE * free) // (2 * shape.layers * dtype.itemsize))
    return torch.empty((2, shape.layers, room), dtype=dtype, device=device).normal_(), room


def _sampler(decoder: Decoder, pool: torch.Tensor, batch: int, context: int) -> Callable[[], float]:
    """Return what measures one step: `STEPS` replays of a graph by events, or one step by the clock."""
    shape, size = decoder.shape, decoder.shape.cache_elements(batch, context)
    keys, values = (half[:, :size].view(shape.layers, batch, shape.kv_heads, context, shape.head_dim) for half in pool)
    tokens = torch.randint(shape.vocab, (batch,), device=pool.device)
    turn = rotation(shape, context - 1, pool.dtype, pool.device)

    def step() -> torch.Tensor:
        return decoder.step(tokens, keys, values, turn).argmax(-1)

    if pool.device.type != "cuda":

        def by_clock() -> float:
            start = time.perf_counter()
            step()
            return time.perf_counter() - start

        by_clock()
        return by_clock
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def by_events() -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(STEPS):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) / 1000 / STEPS

    by_events()
    return by_events


def main() -> None:
    serve(work)


if __name__ == "__main__":
    main()
