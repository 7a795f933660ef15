"""What GRPO and PPO optimise, as sums over tokens; divided by the tokens of the iteration when the optimizer steps."""

from __future__ import annotations

import torch


def gae(values: torch.Tensor, rewards: torch.Tensor, lengths: torch.Tensor, gamma: float, lam: float) -> torch.Tensor:
    """Return the generalised advantages [samples, tokens] (Schulman et al. 2016, equation 16) of responses that end for good.

    values: of the state before each token, [samples, tokens]. rewards, lengths: one per sample; the reward comes with the
    last token. What lies behind a response is 0.
    """
    places = torch.arange(values.shape[1], device=values.device)
    inside = (places < lengths[:, None]).to(values.dtype)
    at_the_end = (places == lengths[:, None] - 1).to(values.dtype)
    following = torch.nn.functional.pad(values * inside, (0, 1))[:, 1:]
    deltas = (at_the_end * rewards[:, None] + gamma * following - values) * inside
    advantages, running = torch.zeros_like(values), torch.zeros_like(values[:, 0])
    for place in range(values.shape[1] - 1, -1, -1):
        running = deltas[:, place] + gamma * lam * running
        advantages[:, place] = running
    return advantages * inside


def clipped(log_probs: torch.Tensor, old: torch.Tensor, advantages: torch.Tensor, clip: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the clipped policy loss of each token (PPO, Schulman et al. 2017, equation 7), and where the clip held it back."""
    ratio = (log_probs - old).exp()
    free, held = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
    return -torch.minimum(free, held), held < free


def k3(log_probs: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Return the estimate of KL(policy || reference) of each token, never negative (Schulman 2020; GRPO equation 4)."""
    difference = reference - log_probs
    return difference.exp() - difference - 1
