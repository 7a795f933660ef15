"""A language model as a policy: log-probs of responses, values if it has a critic, and its parameters spread over ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from rollplan.executor.api import Sample


class Policy(torch.nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A model of transformers; with `critic`, a linear layer on its last hidden states that begins at 0."""

    def __init__(self, model: Any, critic: bool) -> None:
        super().__init__()
        self.lm = model
        weight = next(model.parameters())
        width = model.config.get_text_config().hidden_size
        self.value = torch.nn.Linear(width, 1, dtype=weight.dtype, device=weight.device) if critic else None
        if self.value is not None:
            for one in self.value.parameters():
                torch.nn.init.zeros_(one)

    def forward(self, batch: Batch, temperature: float) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return log-probs and values of the responses, [samples, most response tokens], at least float32.

        Values are of the state before each token. What stands behind a response is arbitrary.
        """
        hidden = self.lm.base_model(input_ids=batch.tokens, use_cache=False).last_hidden_state
        before = hidden.gather(1, batch.before[:, :, None].expand(-1, -1, hidden.shape[-1]))
        logits = self.lm.get_output_embeddings()(before)
        exact = torch.promote_types(logits.dtype, torch.float32)
        log_probs = (logits.to(exact) / (temperature or 1.0)).log_softmax(-1)
        chosen = log_probs.gather(-1, batch.response[:, :, None])[:, :, 0]
        # Copies, because FSDP hangs its hooks on what is returned, and views may lose them.
        return chosen.clone(), None if self.value is None else self.value(before)[:, :, 0].to(exact, copy=True)


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples side by side, padded on the right: with causal attention nothing sees the padding, so no mask is needed.

    tokens [samples, most tokens]. response, inside, old [samples, most response tokens]: tokens of the responses, 1 where
    they are, and the log-probs that they were drawn with. before: where the hidden state stands that predicts them.
    lengths [samples]: of the responses.
    """

    tokens: torch.Tensor
    before: torch.Tensor
    response: torch.Tensor
    inside: torch.Tensor
    old: torch.Tensor
    lengths: torch.Tensor

    @classmethod
    def of(cls, samples: Sequence[Sample], device: torch.device) -> Batch:
        """Return the batch of some samples; prompts and responses have one token at least."""
        longest = max(len(one.tokens) for one in samples)
        whole = max(len(one.prompt) + len(one.tokens) for one in samples)
        padded = [[*one.prompt, *one.tokens] + [0] * (whole - len(one.prompt) - len(one.tokens)) for one in samples]
        places = [[min(len(one.prompt) - 1 + place, whole - 1) for place in range(longest)] for one in samples]
        response = [[*one.tokens] + [0] * (longest - len(one.tokens)) for one in samples]
        old = [[*one.log_probs] + [0.0] * (longest - len(one.tokens)) for one in samples]
        lengths = torch.tensor([len(one.tokens) for one in samples], device=device)
        inside = torch.arange(longest, device=device) < lengths[:, None]
        tokens, before, chosen = (torch.tensor(part, device=device) for part in (padded, places, response))
        return cls(tokens, before, chosen, inside, torch.tensor(old, dtype=torch.float64, device=device), lengths)


def shard(policy: Policy, world: int, device: torch.device, keep: bool) -> None:
    """Spread the parameters over the ranks of the default process group (FSDP2), layer by layer.

    keep: a backward pass follows every forward pass, so what stands outside of the layers may stay whole between them.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (world,))
    for layer in policy.lm.base_model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(policy, mesh=mesh, reshard_after_forward=not keep)


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return what this rank holds of a parameter, as a plain tensor in the same memory."""
    mine: torch.Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return mine.detach()


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return all of a parameter; every rank must ask at the same time."""
    full: torch.Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return full.detach()
