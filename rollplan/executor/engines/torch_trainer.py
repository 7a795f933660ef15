"""A trainer of torch: GRPO or PPO with AdamW on one rank, or on several with FSDP2. See `api.Weights`.

One optimizer step per iteration. Chunks add gradients of sums over tokens, and the step divides them by the tokens of the
iteration, so that any division into chunks is one batch, up to rounding. GRPO needs the rewards of a whole group: samples
of a group that is not complete wait for the chunk that completes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any, Literal

import torch

from rollplan.executor.api import Sample, TrainTask
from rollplan.executor.engines import losses, tensor_file
from rollplan.executor.engines.groups import Groups, reward_of
from rollplan.executor.engines.policy import Batch, Policy, local, shard, whole
from rollplan.executor.engines.residency import Movable

_POLICY = "lm."


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to train. group: responses per prompt, numbered one after the other.

    clip: of the probability ratio. kl: weight of the KL divergence from the first weights; 0 keeps no copy of them.
    value: weight of the critic's loss. gamma, lam: of generalised advantages. max_norm: of the gradient.
    micro_tokens: most tokens, padding included, in one forward pass. repeat: how often it is done, to make work.
    """

    algorithm: Literal["grpo", "ppo"] = "grpo"
    group: int = 8
    lr: float = 1e-3
    temperature: float = 1.0
    clip: float = 0.2
    kl: float = 0.0
    value: float = 0.5
    gamma: float = 1.0
    lam: float = 0.95
    max_norm: float = 1.0
    micro_tokens: int = 8192
    repeat: int = 1


@dataclass(slots=True)
class _Sums:
    """What the chunks of one iteration have come to. rewards, tokens: of all ranks. sums: loss, KL, clipped tokens of this one."""

    iteration: int
    groups: Groups
    rewards: list[float]
    tokens: int
    sums: torch.Tensor


class TorchTrainer:
    """A policy and its optimizer.

    model: of transformers, on the device, in the type that weights are kept in. compute: type of the forward passes and of
    `weights()`. reference: a second copy of the model if `recipe.kl` > 0. rank, world: `torch.distributed` must be
    initialised if there are several.
    """

    def __init__(
        self, model: Any, recipe: Recipe, compute: torch.dtype, rank: int = 0, world: int = 1, reference: Any | None = None
    ) -> None:
        if (recipe.kl > 0) != (reference is not None):
            raise ValueError(f"kl {recipe.kl} {'needs' if recipe.kl > 0 else 'has no use for'} a reference model")
        first = next(model.parameters())
        self._recipe, self._rank, self._world = recipe, rank, world
        self._device, self._kept, self._compute = first.device, first.dtype, compute
        self._policy = Policy(model, recipe.algorithm == "ppo")
        self._reference = None if reference is None else Policy(reference, False).requires_grad_(False)
        if world > 1:
            shard(self._policy, world, self._device, keep=True)
            if self._reference is not None:
                shard(self._reference, world, self._device, keep=False)
        self._parameters: dict[str, Any] = dict(self._policy.named_parameters())
        self._optimizer = torch.optim.AdamW(self._parameters.values(), lr=recipe.lr, weight_decay=0.0)
        for one in self._parameters.values():
            # Made now, so that the state is as large before the first step as after it.
            moments = {"exp_avg": torch.zeros_like(one), "exp_avg_sq": torch.zeros_like(one)}
            self._optimizer.state[one] = {"step": torch.zeros(()), **moments}
        self._all = Movable(self._tensors, self._device)
        self._sums: _Sums | None = None
        self.version = 0

    def train(self, task: TrainTask, progress: Callable[[], None] = lambda: None) -> dict[str, float]:
        """Add the gradients of a chunk, and step after the last one; see `api.TrainTask`. Returns what to report.

        After the last chunk: `reward` (mean), `loss`, `kl`, `clipped` (share of tokens), `grad_norm`, `tokens` and
        `samples`, of the whole iteration and of all ranks; before it the `samples` and `tokens` that were trained.
        """
        if not self._all.loaded:
            raise RuntimeError("the trainer is off-loaded; load it before it trains")
        if self._sums is None or self._sums.iteration != task.iteration:
            self._optimizer.zero_grad()
            self._sums = _Sums(
                task.iteration, Groups(self._recipe.group, task.total), [], 0, torch.zeros(3, dtype=torch.float64, device=self._device)
            )
        sums = self._sums
        ready = self._ready(sums, task)
        sums.rewards += [reward_of(one) for one, _ in ready]
        tokens = sum(len(one.tokens) for one, _ in ready)
        sums.tokens += tokens
        for pairs, weight in self._batches(ready):
            self._accumulate(sums, pairs, weight)
            progress()
        if not task.last:
            return {"samples": float(len(ready)), "tokens": float(tokens)}
        self._sums = None
        return self._step(sums)

    def weights(self) -> dict[str, Any]:
        """Return the whole weights of the policy; every rank must ask at the same time if there are several.

        They may be the trainer's own tensors: copy them before it steps or moves.
        """
        away = not self._all.loaded and self._world > 1
        if away:
            self.load()
        found = {
            name.removeprefix(_POLICY): whole(self._all.where_it_is(one.detach()) if self._world == 1 else one).to(self._compute)
            for name, one in self._parameters.items()
            if name.startswith(_POLICY)
        }
        if away:
            self.offload()
        return found

    def load(self) -> None:
        """See `api.Resident.load`."""
        self._all.load()

    def offload(self) -> None:
        """See `api.Resident.offload`; weights, moments, the reference, and gradients between two chunks."""
        self._all.offload()

    def state_bytes(self) -> int:
        """See `api.Resident.state_bytes`."""
        return self._all.state_bytes()

    def save(self, folder: Path) -> None:
        """Write weights, moments and the state of random numbers; every rank writes its own file."""
        held = {name: self._all.where_it_is(one) for name, one in self._saved().items()}
        tensor_file.write(folder / f"trainer-{self._rank}.safetensors", {**held, "random": torch.get_rng_state()})
        facts = {"version": self.version, "ranks": self._world}
        (folder / f"trainer-{self._rank}.json").write_text(json.dumps(facts))

    def restore(self, folder: Path) -> None:
        """Read them; `ValueError` if they were written by another number of ranks."""
        facts = json.loads((folder / f"trainer-{self._rank}.json").read_text())
        if facts["ranks"] != self._world:
            raise ValueError(f"the state in {folder} was written by {facts['ranks']} ranks, there are {self._world} now; keep the number")
        stored = tensor_file.read(folder / f"trainer-{self._rank}.safetensors")
        for name, one in self._saved().items():
            self._all.where_it_is(one).copy_(stored[name])
        torch.set_rng_state(stored["random"])
        self.version = int(facts["version"])
        for state in self._optimizer.state.values():
            state["step"].fill_(self.version)

    def _saved(self) -> dict[str, torch.Tensor]:
        """Return the tensors of this rank that a fresh process needs."""
        moments = {
            f"{moment}.{name}": local(self._optimizer.state[one][moment])
            for name, one in self._parameters.items()
            for moment in ("exp_avg", "exp_avg_sq")
        }
        return {**{name: local(one) for name, one in self._parameters.items()}, **moments}

    def _tensors(self) -> dict[str, torch.Tensor]:
        """Return all tensors of this rank. The largest set is the one with gradients, which come and go; so they are last."""
        reference = {} if self._reference is None else {f"reference.{name}": local(one) for name, one in self._reference.named_parameters()}
        gradients = {f"grad.{name}": local(one.grad) for name, one in self._parameters.items() if one.grad is not None}
        return {**self._saved(), **reference, **gradients}

    def _ready(self, sums: _Sums, task: TrainTask) -> list[tuple[Sample, float]]:
        """Return samples that can be trained now, each with its advantage; with PPO the critic says it, and here it is 0."""
        if self._recipe.algorithm == "ppo":
            return [(one, 0.0) for one in task.samples]
        ready = sums.groups.add(task.samples)
        if task.last and sums.groups.waiting:
            raise ValueError(f"iteration {task.iteration} ends, but samples of {sums.groups.waiting} groups are missing")
        return ready

    def _batches(self, ready: Sequence[tuple[Sample, float]]) -> list[tuple[list[tuple[Sample, float]], float]]:
        """Return the forward passes of this rank with their weights: like lengths together, as many on every rank.

        A rank that has fewer of its own takes part with weight 0, because the passes of FSDP wait for each other.
        """
        ordered = sorted(ready, key=lambda pair: (len(pair[0].prompt) + len(pair[0].tokens), pair[0].number))
        shares = [_packed(ordered[rank :: self._world], self._recipe.micro_tokens) for rank in range(self._world)]
        mine, most = shares[self._rank], max(map(len, shares))
        return [(pairs, 1.0) for pairs in mine] + [(ordered[:1], 0.0)] * (most - len(mine))

    def _accumulate(self, sums: _Sums, pairs: Sequence[tuple[Sample, float]], weight: float) -> None:
        """Forward and backward over some samples."""
        batch = Batch.of([one for one, _ in pairs], self._device)
        for _ in range(self._recipe.repeat):
            with self._precision():
                log_probs, values = self._policy(batch, self._recipe.temperature)
            parts = self._per_token(batch, pairs, log_probs, values)
            loss, kl, held = (torch.where(batch.inside, part, 0).sum() for part in parts)
            (loss * (weight / self._recipe.repeat)).backward()
        sums.sums += weight * torch.stack([loss.detach(), kl.detach(), held]).double()

    def _per_token(
        self, batch: Batch, pairs: Sequence[tuple[Sample, float]], log_probs: torch.Tensor, values: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return loss, KL and whether the clip held, of every token [samples, most response tokens]."""
        recipe, exact = self._recipe, log_probs.dtype
        if values is None:
            advantages = torch.tensor([advantage for _, advantage in pairs], dtype=exact, device=self._device)[:, None]
        else:
            rewards = torch.tensor([reward_of(one) for one, _ in pairs], dtype=exact, device=self._device)
            # There is one step per iteration, so the values before it are those of this very pass.
            advantages = losses.gae(values.detach(), rewards, batch.lengths, recipe.gamma, recipe.lam)
        loss, held = losses.clipped(log_probs, batch.old.to(exact), advantages, recipe.clip)
        if values is not None:
            loss = loss + recipe.value * (values - (values.detach() + advantages)) ** 2 / 2
        if self._reference is None:
            return loss, torch.zeros_like(loss), held
        with torch.no_grad(), self._precision():
            reference, _ = self._reference(batch, recipe.temperature)
        kl = losses.k3(log_probs, reference)
        return loss + recipe.kl * kl, kl, held

    def _step(self, sums: _Sums) -> dict[str, float]:
        tokens = max(1, sums.tokens)
        for one in self._parameters.values():
            if one.grad is not None:
                # FSDP averages over ranks, but this is a sum over tokens.
                one.grad.mul_(self._world / tokens)
        norm = torch.nn.utils.clip_grad_norm_(self._parameters.values(), self._recipe.max_norm)
        self._optimizer.step()
        self._optimizer.zero_grad()
        self.version += 1
        if self._world > 1:
            torch.distributed.all_reduce(sums.sums)
        loss, kl, held = (sums.sums / tokens).tolist()
        return {
            "reward": fsum(sums.rewards) / max(1, len(sums.rewards)),
            "loss": loss,
            "kl": kl,
            "clipped": held,
            "grad_norm": float(whole(norm)),
            "tokens": float(sums.tokens),
            "samples": float(len(sums.rewards)),
        }

    def _precision(self) -> Any:
        return torch.autocast(self._device.type, dtype=self._compute, enabled=self._compute != self._kept)


def _packed(pairs: Sequence[tuple[Sample, float]], micro_tokens: int) -> list[list[tuple[Sample, float]]]:
    """Return pairs in batches of at most `micro_tokens` with padding, or of one pair; they come ascending by length."""
    packed: list[list[tuple[Sample, float]]] = []
    for pair in pairs:
        length = len(pair[0].prompt) + len(pair[0].tokens)
        if packed and length * (len(packed[-1]) + 1) <= micro_tokens:
            packed[-1].append(pair)
        else:
            packed.append([pair])
    return packed
