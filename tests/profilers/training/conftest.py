"""A worker's answer that tests make up: one law for the passes, and moves of a model of 1 GiB."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

GIB = 2**30
TINY: dict[str, Any] = {
    "model_type": "qwen2",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
}


@pytest.fixture
def tiny() -> dict[str, Any]:
    """The config.json of a tiny Qwen2."""
    return dict(TINY)


@pytest.fixture
def answer() -> Callable[..., dict[str, Any]]:
    """Make answers: device, dtype, and entries to be replaced."""
    return make_answer


def seconds(sequences: int, length: int) -> float:
    """Seconds of forward and backward: 0.1 + 1 ms per token + 1 us per square."""
    return 0.1 + 0.001 * sequences * length + 1e-6 * sequences * length**2


def make_answer(device: str = "CPU", dtype: str = "float32", **changes: Any) -> dict[str, Any]:
    """Return what a worker says of six micro-batches, with a log-prob pass of a third of the time."""
    points = [
        {
            "sequences": sequences,
            "length": length,
            "update_s": [seconds(sequences, length)] * 3,
            "log_prob_s": [seconds(sequences, length) / 3] * 3,
            "peak_bytes": 5 * GIB + 1000 * sequences * length,
            "log_prob_peak_bytes": 4 * GIB + 1000 * sequences * length,
        }
        for sequences, length in ((1, 100), (2, 100), (4, 100), (1, 400), (2, 400), (4, 400))
    ]
    moves = [
        {"what": "weights", "direction": direction, "temperature": temperature, "bytes": GIB, "seconds": taken, **more}
        for temperature, direction, taken, more in (
            ("warm", "offload", [0.1, 0.1, 0.2], {}),
            ("warm", "load", [0.1, 0.1, 0.1], {}),
            ("cold", "offload", [2.0], {}),
            ("cold", "load", [1.0], {"from_storage": 1.0}),
        )
    ]
    return {
        "points": points,
        "optimizer_s": [0.01, 0.02, 0.03],
        "state_bytes": {"weights": GIB, "gradients": GIB, "optimizer": 2 * GIB},
        "moves": moves,
        "skipped": [],
        "dtype": dtype,
        "device": device,
        "memory_gib": None,
        "threads": 1 if device == "CPU" else None,
        "host": "Linux x86_64",
        "versions": {"torch": "2.0"},
        **changes,
    }
