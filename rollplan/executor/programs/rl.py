"""The program `rl`: GRPO or PPO on `engines.task`, with a torch or a vLLM engine and a torch trainer.

Settings: `rl_settings.RlSettings`, described in docs/programs.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import torch

from rollplan.executor.api import RolloutTask, Sample, TrainTask, Worker, phase
from rollplan.executor.engines.generation import Generator, Request, Sampling
from rollplan.executor.engines.model import TINY, Shape, build, device_of, dtype_of
from rollplan.executor.engines.task import LEAST_VOCABULARY, Task
from rollplan.executor.engines.torch_engine import TorchEngine
from rollplan.executor.engines.torch_trainer import Recipe, TorchTrainer
from rollplan.executor.programs.rl_settings import RlSettings
from rollplan.executor.sync.meeting import host_store, join_store

_MEET_S = 300.0


@phase(pool="rollout", kind="init")
def init_rollout(worker: Worker) -> None:
    """Build the engine, with the weights that the trainer begins with."""
    settings = _begin(worker)
    model = _model(worker, settings, _compute(worker, settings))
    engine: Generator = TorchEngine(model, settings.repeat_rollout) if settings.engine == "torch" else _vllm(worker, settings, model)
    worker.state["engine"] = engine
    worker.state["length"] = {}
    worker.keep(engine)


@phase(pool="rollout")
def estimate(worker: Worker, iteration: int) -> list[float]:
    """Return the tokens of each sample: as drawn, or what its digit came to when this worker last saw it."""
    settings, task = RlSettings.of(worker.settings), _task(worker)
    numbers = range(worker.samples)
    if settings.lengths == "drawn":
        return [float(task.limit(iteration, number)) for number in numbers]
    seen: Mapping[int, float] = worker.state["length"]
    return [seen.get(task.prompt(iteration, number)[0], float(settings.max_tokens)) for number in numbers]


@phase(pool="rollout")
def rollout(worker: Worker, task: RolloutTask) -> Iterator[Sample]:
    """Generate responses and reward those that are finished."""
    settings, game = RlSettings.of(worker.settings), _task(worker)
    begun = {one.number: one for one in task.resumed}
    requests = []
    for number in task.samples:
        request = Request(number, game.prompt(task.iteration, number), game.limit(task.iteration, number))
        if (old := begun.get(number)) is not None:
            request = replace(request, tokens=old.tokens, log_probs=old.log_probs)
        requests.append(request)
    prompts = {request.number: request.prompt for request in requests}

    def interrupted() -> bool:
        worker.progress()
        return worker.interrupted()

    sampling = Sampling(settings.temperature, game.eos, worker.seed, task.iteration)
    for made in worker.state["engine"].generate(requests, sampling, task.slots, interrupted):
        prompt, old = prompts[made.number], begun.get(made.number)
        version = old.version if old is not None and old.tokens else task.version
        reward = game.reward(prompt, made.tokens) if made.finished else None
        if made.finished:
            worker.state["length"][prompt[0]] = float(len(made.tokens))
        yield Sample(made.number, task.iteration, version, prompt, made.tokens, made.log_probs, reward, made.finished)


@phase(pool="train", kind="init")
def init_train(worker: Worker) -> None:
    """Build the trainer; several ranks meet first."""
    settings = _begin(worker)
    device, compute = device_of(worker.gpus), _compute(worker, settings)
    if worker.world > 1 and not torch.distributed.is_initialized():
        backend = "nccl" if device.type == "cuda" else "gloo"
        torch.distributed.init_process_group(backend, store=_store(worker), rank=worker.rank, world_size=worker.world)
    # AdamW loses small steps in bfloat16.
    kept = torch.float32 if compute == torch.bfloat16 else compute
    model = _model(worker, settings, kept)
    reference = _model(worker, settings, kept) if settings.kl else None
    trainer = TorchTrainer(model, _recipe(settings), compute, worker.rank, worker.world, reference)
    worker.state["trainer"] = trainer
    worker.keep(trainer)


@phase(pool="train")
def train(worker: Worker, task: TrainTask) -> Mapping[str, float]:
    """Train a chunk; the optimizer steps after the last one. `tokens_crc` tells whether two runs trained the same tokens."""
    values: Mapping[str, float] = worker.state["trainer"].train(task, worker.progress)
    return {**values, "tokens_crc": float(crc32(repr([(one.number, one.tokens) for one in task.samples]).encode()))}


def _begin(worker: Worker) -> RlSettings:
    """Check the settings, and let torch compute the same every time."""
    settings = RlSettings.of(worker.settings)
    torch.set_num_threads(settings.threads)
    if device_of(worker.gpus).type == "cpu":
        torch.use_deterministic_algorithms(True)
    return settings


def _store(worker: Worker) -> Any:
    """Return the store at which the ranks meet; one that torch opens itself listens on every network."""
    assert worker.rendezvous is not None, "several ranks have one"
    return host_store(worker.rendezvous, _MEET_S)[0] if worker.rank == 0 else join_store(worker.rendezvous, _MEET_S)


def _task(worker: Worker) -> Task:
    settings = RlSettings.of(worker.settings)
    return Task(
        settings.digits,
        settings.prompt_tokens,
        settings.samples_per_prompt,
        settings.lengths,
        settings.median_tokens,
        settings.tail,
        settings.max_tokens,
        worker.seed,
    )


def _recipe(settings: RlSettings) -> Recipe:
    return Recipe(
        algorithm=settings.algorithm,
        group=settings.samples_per_prompt,
        lr=settings.lr,
        temperature=settings.temperature,
        clip=settings.clip,
        kl=settings.kl,
        value=settings.value,
        gamma=settings.gamma,
        lam=settings.lam,
        max_norm=settings.max_norm,
        micro_tokens=settings.micro_tokens,
        repeat=settings.repeat_train,
    )


def _shape(settings: RlSettings) -> Shape:
    return Shape(settings.hidden, settings.layers, vocabulary=settings.vocabulary)


def _compute(worker: Worker, settings: RlSettings) -> torch.dtype:
    """Return the type of forward passes; vLLM knows no float64."""
    device = device_of(worker.gpus)
    if settings.engine == "vllm" and settings.dtype == "auto" and device.type == "cpu":
        return torch.float32
    return dtype_of(settings.dtype, settings.model, device)


def _model(worker: Worker, settings: RlSettings, dtype: torch.dtype) -> Any:
    model = build(settings.model, _shape(settings), dtype, device_of(worker.gpus), worker.seed)
    if (size := model.config.get_text_config().vocab_size) < LEAST_VOCABULARY:
        raise ValueError(f"the model knows {size} tokens, the task needs {LEAST_VOCABULARY}")
    return model


def _vllm(worker: Worker, settings: RlSettings, model: Any) -> Generator:
    """Return a vLLM engine of the same model, with the same weights."""
    from rollplan.executor.engines.vllm_engine import VllmEngine

    with TemporaryDirectory() as folder:
        if settings.model == TINY:
            (Path(folder) / "config.json").write_text(json.dumps(_shape(settings).config()))
        engine = VllmEngine(
            folder if settings.model == TINY else Path(settings.model).expanduser(),
            weights="dummy",
            seed=worker.seed,
            max_model_len=settings.prompt_tokens + settings.max_tokens,
            dtype=str(_compute(worker, settings)).removeprefix("torch."),
            tp=max(1, len(worker.gpus)) if device_of(worker.gpus).type == "cuda" else 1,
            kv_gib=settings.kv_gib or (0.25 if settings.model == TINY else None),
            enforce_eager=settings.enforce_eager,
        )
    engine.update({name: one.detach() for name, one in model.named_parameters()}, 0)
    return engine
