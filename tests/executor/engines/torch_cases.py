"""Runs the torch engine and trainer in an interpreter that has torch; prints what it saw as JSON. Called by `test_torch.py`."""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rollplan.executor.api import Sample, TrainTask
from rollplan.executor.engines.generation import Generated, Request, Sampling
from rollplan.executor.engines.losses import clipped, gae
from rollplan.executor.engines.model import Shape, build
from rollplan.executor.engines.policy import Policy
from rollplan.executor.engines.residency import Movable
from rollplan.executor.engines.torch_engine import TorchEngine
from rollplan.executor.engines.torch_trainer import Recipe, TorchTrainer

CPU = torch.device("cpu")
SAMPLING = Sampling(temperature=0.8, eos=5, seed=3, iteration=2)
Outputs = dict[int, Generated]


def model(seed: int = 1) -> Any:
    return build("tiny", Shape(), torch.float64, CPU, seed)


def requests() -> list[Request]:
    """Forty prompts of 3 to 7 tokens with limits of 1 to 90; tokens seldom are the end of the sequence."""
    return [Request(one, tuple((one * 7 + place) % 16 for place in range(3 + one % 5)), 1 + (one * 13) % 90) for one in range(40)]


def generate(engine: TorchEngine, asked: list[Request], slots: int, steps: int = 10**9) -> Outputs:
    left = [steps]

    def interrupted() -> bool:
        left[0] -= 1
        return left[0] < 0

    made = list(engine.generate(asked, SAMPLING, slots, interrupted))
    assert len({one.number for one in made}) == len(made) == len(asked)
    return {one.number: one for one in made}


def tokens(outputs: Outputs) -> dict[int, tuple[int, ...]]:
    return {number: one.tokens for number, one in outputs.items()}


def engine(folder: Path) -> dict[str, Any]:
    mine, asked = TorchEngine(model()), requests()
    whole = generate(mine, asked, 16)
    alone: Outputs = {}
    for one in asked:
        alone |= generate(mine, [one], 1)
    judge = mine._model
    worst = 0.0
    for one in asked:
        made = whole[one.number]
        ids = torch.tensor([one.prompt + made.tokens])
        expected = (
            (judge(ids).logits[0, len(one.prompt) - 1 : -1] / 0.8).log_softmax(-1).gather(-1, torch.tensor(made.tokens)[:, None])[:, 0]
        )
        worst = max(worst, (expected - torch.tensor(made.log_probs, dtype=torch.float64)).abs().max().item())
    parts = generate(mine, asked, 16, steps=20)
    rest = [
        replace(one, tokens=parts[one.number].tokens, log_probs=parts[one.number].log_probs)
        for one in asked
        if not parts[one.number].finished
    ]
    begun = sum(bool(one.tokens) for one in rest)
    mine.offload()
    mine.load()
    resumed = parts | generate(mine, rest, 5)
    repeated = generate(TorchEngine(model(), repeat=3), asked, 16)
    other = TorchEngine(model(seed=2))
    different = generate(other, asked, 16)
    mine.save(folder)
    other.offload()
    other.restore(folder)
    try:
        list(other.generate(asked, SAMPLING, 4, lambda: False))
        refused = ""
    except RuntimeError as error:
        refused = str(error)
    other.load()
    restored = generate(other, asked, 16)
    try:
        other.update({"lm_head.weight": torch.zeros(3)}, 9)
        wrong = ""
    except ValueError as error:
        wrong = str(error)
    finished = list(mine.generate(asked, SAMPLING, 16, lambda: False))
    return {
        "alone": tokens(alone) == tokens(whole),
        "worst": worst,
        "ended": sum(one.tokens[-1] == 5 for one in whole.values()),
        "full": sum(len(whole[one.number].tokens) == one.max_tokens for one in asked),
        "too_long": sum(len(whole[one.number].tokens) > one.max_tokens or 5 in whole[one.number].tokens[:-1] for one in asked),
        "interrupted": {"finished": sum(one.finished for one in parts.values()), "begun": begun, "waiting": len(rest) - begun},
        "resumed": tokens(resumed) == tokens(whole),
        "resumed_log_probs": max(
            abs(a - b) for one in asked for a, b in zip(resumed[one.number].log_probs, whole[one.number].log_probs, strict=True)
        ),
        "repeated": tokens(repeated) == tokens(whole),
        "other_weights": tokens(different) == tokens(whole),
        "restored": tokens(restored) == tokens(whole),
        "refused": refused,
        "wrong": wrong,
        "streams": [one.number for one in finished] != sorted(one.number for one in finished),
    }


def samples(number: int, seed: int = 0) -> tuple[Sample, ...]:
    """Responses of the tiny model's vocabulary; old log-probs are a little off, so that ratios differ from 1."""
    draw = random.Random(seed)
    made = []
    for one in range(number):
        prompt = tuple(draw.randrange(16) for _ in range(1 + one % 4))
        response = tuple(draw.randrange(16) for _ in range(draw.choice((1, 3, 8, 30))))
        made.append(Sample(one, 0, 0, prompt, response, tuple(draw.gauss(-2.8, 0.3) for _ in response), draw.random()))
    return tuple(made)


def trainer(algorithm: str, kl: float = 0.0, rank: int = 0, world: int = 1, **more: Any) -> TorchTrainer:
    recipe = Recipe(algorithm=algorithm, group=4, kl=kl, temperature=0.9, micro_tokens=100, **more)  # type: ignore[arg-type]
    return TorchTrainer(model(), recipe, torch.float64, rank, world, model(seed=2) if kl else None)


def trained(one: TorchTrainer, given: tuple[Sample, ...], chunks: list[tuple[Sample, ...]], iteration: int = 0) -> dict[str, float]:
    values: dict[str, float] = {}
    for chunk, part in enumerate(chunks):
        values = one.train(TrainTask(iteration, chunk, tuple(sorted(part, key=lambda x: x.number)), len(given), chunk == len(chunks) - 1))
        if chunk < len(chunks) - 1:
            # Gradients of the chunks so far must survive.
            one.offload()
            one.load()
    return values


def distance(one: dict[str, Any], other: dict[str, Any]) -> float:
    assert one.keys() == other.keys()
    return max((one[name] - other[name]).abs().max().item() for name in one)


def naive(algorithm: str, given: tuple[Sample, ...], kl: float) -> tuple[float, dict[str, Any]]:
    """The loss of a batch and its gradients, sample by sample and token by token, from the definitions."""
    policy, reference = Policy(model(), algorithm == "ppo"), Policy(model(seed=2), False)
    total = torch.zeros((), dtype=torch.float64)
    for one in given:
        group = [other.reward for other in given if other.number // 4 == one.number // 4]
        mean = sum(group) / len(group)
        spread = (sum((reward - mean) ** 2 for reward in group) / len(group)) ** 0.5
        ids = torch.tensor([one.prompt + one.tokens])
        hidden = policy.lm.base_model(ids).last_hidden_state
        log_probs = (policy.lm.lm_head(hidden)[0] / 0.9).log_softmax(-1)
        fixed = (reference.lm(ids).logits[0] / 0.9).log_softmax(-1).detach()
        values = None if policy.value is None else policy.value(hidden)[0, len(one.prompt) - 1 : -1, 0]
        for place, token in enumerate(one.tokens):
            at = len(one.prompt) - 1 + place
            if values is None:
                advantage: Any = (one.reward - mean) / (spread + 1e-6)
            else:
                # With gamma = lambda = 1 the advantage is the reward to come without what the critic said.
                advantage = one.reward - values[place].detach()
                total = total + 0.5 * (values[place] - one.reward) ** 2 / 2
            ratio = (log_probs[at, token] - one.log_probs[place]).exp()
            total = total - torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
            apart = fixed[at, token] - log_probs[at, token]
            total = total + kl * (apart.exp() - apart - 1)
    loss = total / sum(len(one.tokens) for one in given)
    loss.backward()
    return loss.item(), {name: one.grad for name, one in policy.named_parameters()}


def training(folder: Path) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    given = samples(30)
    mixed = random.Random(5).sample(given, len(given))
    for algorithm, kl in (("grpo", 0.0), ("grpo", 0.1), ("ppo", 0.1)):
        one, other = trainer(algorithm, kl, lam=1.0), trainer(algorithm, kl, lam=1.0, repeat=2)
        whole = trained(one, given, [given])
        streamed = trained(other, given, [tuple(mixed[:1]), tuple(mixed[1:9]), tuple(mixed[9:28]), tuple(mixed[28:])])
        loss, gradients = naive(algorithm, given, kl)
        norm = sum(float((one**2).sum()) for one in gradients.values()) ** 0.5
        moments = {name: one._optimizer.state[weight]["exp_avg"] for name, weight in one._parameters.items()}
        # The first moment after one step is a tenth of the gradient, which torch scales to a norm of at most 1.
        scale = min(1.0, 1.0 / (norm + 1e-6))
        facts[f"{algorithm} {kl}"] = {
            "chunks": distance(one.weights(), other.weights()),
            "moved": distance(one.weights(), dict(model().named_parameters())),
            "loss": [whole["loss"], streamed["loss"], loss],
            "norm": [whole["grad_norm"], norm],
            "gradient": max((moments[name] / 0.1 - gradients[name] * scale).abs().max().item() for name in gradients),
            "values": whole,
        }
    facts["continued"] = continued(folder)
    facts["gae"] = gae_error()
    facts["clip"] = [part.tolist() for part in clipped(*(torch.tensor([x]) for x in (0.5, 0.0, 1.0)), 0.2)]
    facts["missing"] = missing(given)
    facts["bfloat16"] = mixed_precision(given)
    return facts


def continued(folder: Path) -> dict[str, Any]:
    """Three iterations in one trainer, against two, a restart from the file, and the third; moves in between."""
    through, first = trainer("ppo", 0.05), trainer("ppo", 0.05)
    batches = [samples(12, seed) for seed in range(3)]
    for iteration, batch in enumerate(batches):
        trained(through, batch, [batch], iteration)
        through.offload()
        through.load()
    for iteration, batch in enumerate(batches[:2]):
        trained(first, batch, [batch], iteration)
    first.offload()
    first.save(folder)
    second = trainer("ppo", 0.05)
    second.offload()
    second.restore(folder)
    second.load()
    trained(second, batches[2], [batches[2]], 2)
    mine, other = second._saved(), through._saved()
    return {"version": second.version, "equal": all(torch.equal(mine[name], other[name]) for name in other), "tensors": len(other)}


def gae_error() -> float:
    """The recursion against the sum of the definition."""
    values, rewards, lengths = torch.rand(3, 6, dtype=torch.float64), torch.rand(3, dtype=torch.float64), torch.tensor([6, 1, 4])
    found = gae(values, rewards, lengths, 0.9, 0.8)
    worst = 0.0
    for row, length in enumerate(lengths.tolist()):
        v = [*values[row, :length].tolist(), 0.0]
        delta = [(rewards[row].item() if t == length - 1 else 0.0) + 0.9 * v[t + 1] - v[t] for t in range(length)]
        for t in range(6):
            expected = sum((0.9 * 0.8) ** (k - t) * delta[k] for k in range(t, length))
            worst = max(worst, abs(found[row, t].item() - expected))
    return worst


def missing(given: tuple[Sample, ...]) -> str:
    try:
        trainer("grpo").train(TrainTask(0, 0, given[:6], len(given), True))
    except ValueError as error:
        return str(error)
    return ""


def mixed_precision(given: tuple[Sample, ...]) -> dict[str, Any]:
    """Weights in float32, passes in bfloat16, as on a GPU."""
    one = TorchTrainer(build("tiny", Shape(), torch.float32, CPU, 1), Recipe(group=4), torch.bfloat16)
    values = trained(one, given, [given])
    exact = trained(trainer("grpo"), given, [given])
    return {"types": sorted({str(weight.dtype) for weight in one.weights().values()}), "norms": [values["grad_norm"], exact["grad_norm"]]}


def resident_bytes() -> int:
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) * 1024


def memory(_: Path) -> dict[str, Any]:
    """A trainer of some 15 million weights; everything is written once, so that the host memory is there."""
    wide = build("tiny", Shape(hidden=512, layers=6), torch.float64, CPU, 0)
    one = TorchTrainer(wide, Recipe(group=4, micro_tokens=64), torch.float64)
    trained(one, samples(4), [samples(4)])
    one.offload()
    one.load()
    before = {name: tensor.clone() for name, tensor in one._saved().items()}
    loaded, size = resident_bytes(), one.state_bytes()
    one.offload()
    away, size_away = resident_bytes(), one.state_bytes()
    seen = distance(one.weights(), {name.removeprefix("lm."): before[name] for name in before if name.startswith("lm.")})
    one.load()
    back = resident_bytes()
    equal = all(torch.equal(before[name], tensor) for name, tensor in one._saved().items())
    one.train(TrainTask(1, 0, samples(4), 8, False))
    pending = one.state_bytes()
    one.offload()
    assert one.state_bytes() == pending
    shared = torch.arange(12.0)
    views = {"rows": shared.view(3, 4), "odd": shared[1::2]}
    movable = Movable(lambda: views, CPU)
    movable.offload()
    odd = movable.where_it_is(views["odd"]).tolist()
    movable.where_it_is(views["odd"])[0] = 77.0
    movable.load()
    return {
        "size": size, "size_away": size_away, "loaded": loaded, "away": away, "back": back, "equal": equal, "pending": pending,
        "seen_away": seen,
        "odd": odd, "written": views["rows"].flatten().tolist(), "shared_bytes": movable.state_bytes(),
    }  # fmt: skip


def ranks(folder: Path) -> dict[str, Any]:
    """The same three iterations on one rank and on two, with a restart of both."""
    from rollplan.executor.shell.seat import free_port

    port = free_port("127.0.0.1")
    children = [
        subprocess.Popen(
            [sys.executable, __file__, "rank", folder, str(rank), str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    answers = []
    for child in children:
        try:
            out, err = child.communicate(timeout=240)
            assert child.returncode == 0, err[-3000:]
            answers.append(json.loads(out.splitlines()[-1]))
        finally:
            child.kill()
    return {"ranks": answers}


def rank(folder: Path) -> dict[str, Any]:
    number, port = int(sys.argv[3]), sys.argv[4]
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=number, world_size=2)
    facts: dict[str, Any] = {}
    for algorithm, kl in (("grpo", 0.1), ("ppo", 0.0)):
        one, two = trainer(algorithm, kl), trainer(algorithm, kl, number, 2)
        half = two.state_bytes() / one.state_bytes()
        differences = []
        for iteration in range(3):
            # Five samples and one make shares of unlike numbers of passes.
            batch = samples(21, iteration)
            parts = [batch[:5], batch[5:6], batch[6:]]
            alone, together = trained(one, batch, parts, iteration), trained(two, batch, parts, iteration)
            two.offload()
            differences.append(distance(one.weights(), two.weights()))
            two.load()
            if iteration == 1:
                two.save(folder)
                two = trainer(algorithm, kl, number, 2)
                two.restore(folder)
        facts[algorithm] = {"differences": differences, "half": half, "values": [alone, together]}
    torch.distributed.destroy_process_group()
    return facts


CASES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "engine": engine,
    "training": training,
    "memory": memory,
    "ranks": ranks,
    "rank": rank,
}

if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    print(json.dumps(CASES[sys.argv[1]](Path(sys.argv[2]))))
