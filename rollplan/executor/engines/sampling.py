"""Draws tokens such that a response depends on nothing but the model and its own number.

The random number of a position is a hash of (seed, iteration, sample, position), and the token is where it falls in the
cumulative distribution, in float64. So neither the batch that a sample sits in nor where it was interrupted matters, and
nobody has to carry a generator's state along.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from struct import pack

import torch


def uniform(seed: int, iteration: int, number: int, position: int) -> float:
    """Return the random number in [0, 1) of a position (from 0) in the response of a sample: 53 bits of a hash."""
    digest = blake2b(pack("<4q", seed, iteration, number, position), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) / 2**53


def draw(logits: torch.Tensor, uniforms: Sequence[float], temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a token for each row of `logits` [rows, vocabulary], and its natural log-probability, both [rows].

    uniforms: of `uniform`, one per row. temperature: tokens are drawn from the softmax of logits / temperature; at 0 the
    most probable one is taken, and its log-probability is that of the softmax of the logits.
    """
    log_probs = (logits.double() / (temperature or 1.0)).log_softmax(-1)
    if temperature:
        heights = log_probs.exp().cumsum(-1)
        marks = torch.tensor(uniforms, dtype=torch.float64, device=logits.device)[:, None] * heights[:, -1:]
        # A mark below the last height, whatever the rounding, so the token found has a probability above 0.
        tokens = torch.searchsorted(heights, torch.minimum(marks, heights[:, -1:].nextafter(marks.new_zeros(()))), right=True)
    else:
        tokens = log_probs.argmax(-1, keepdim=True)
    return tokens[:, 0], log_probs.gather(-1, tokens)[:, 0]
