"""Worker: vLLM through its own Python interface, step by step; a build for GPUs and one for CPUs alike.

Runs in an interpreter that has vLLM, and imports nothing of rollplan that needs more than the standard library. Prompts
are random tokens, without prefix cache: every run computes what it claims to compute. Everything else is as vLLM chooses it.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

from rollplan.profilers.rollout.measure import Wanted, measure
from rollplan.profilers.rollout.plan import model_length
from rollplan.profilers.rollout.series import Run
from rollplan.profilers.worker import serve

EVERYWHERE = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}
"""One compute thread on CPU: two that wait for each other stand still as soon as another process takes a core. To ask whether
there is a GPU must not start CUDA here: vLLM forks one process for each device of tp, and these could not start it again."""
ON_CPU = {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
SLOTS_ON_CPU, SLOTS_ON_GPU = 32, 256


class VllmEngine:
    """A vLLM engine in this process."""

    queues = True

    def __init__(self, request: dict[str, Any]) -> None:
        # Libraries read their environment when they are imported; what a user has set there stays.
        _set_defaults(EVERYWHERE)
        import torch

        cuda = torch.cuda.is_available()
        if not cuda:
            _set_defaults(ON_CPU)
        import vllm
        from vllm import LLM, SamplingParams
        from vllm.sampling_params import RequestOutputKind

        config = json.loads((Path(request["model"]) / "config.json").read_text(encoding="utf-8"))
        text = {**config, **(config.get("text_config") or {})}
        wanted = request["measure"]
        self.slots = request["slots"] or (max(wanted["batches"]) if wanted["batches"] else SLOTS_ON_GPU if cuda else SLOTS_ON_CPU)
        llm = LLM(
            model=request["model"],
            load_format="dummy" if request["weights"] == "dummy" else "auto",
            skip_tokenizer_init=True,
            generation_config="vllm",
            enforce_eager=request["enforce_eager"],
            tensor_parallel_size=request["tp"],
            max_model_len=model_length(wanted["contexts"], text.get("max_position_embeddings") or 2**31),
            max_num_seqs=self.slots,
            enable_prefix_caching=False,
        )
        self._engine = llm.llm_engine
        settings = self._engine.vllm_config
        self.max_model_len = int(settings.model_config.max_model_len)
        cache = settings.cache_config
        self.kv_tokens = int(cache.num_gpu_blocks * cache.block_size) if cache.num_gpu_blocks else None
        self._ending: dict[str, Any] = {"ignore_eos": True, "detokenize": False, "output_kind": RequestOutputKind.FINAL_ONLY}
        self._params: Any = SamplingParams
        random = Random(7)
        self._tokens = [random.randrange(text["vocab_size"]) for _ in range(self.max_model_len)]
        self.facts = {
            "device": torch.cuda.get_device_name(0) if cuda else "CPU",
            "threads": None if cuda else torch.get_num_threads(),
            "versions": {"python": platform.python_version(), "torch": torch.__version__, "vllm": vllm.__version__},
            "settings": {
                "async_scheduling": str(bool(settings.scheduler_config.async_scheduling)),
                "dtype": str(settings.model_config.dtype).removeprefix("torch."),
                "enforce_eager": str(bool(settings.model_config.enforce_eager)),
                "max_num_batched_tokens": str(settings.scheduler_config.max_num_batched_tokens),
            },
        }

    def generate(self, prompt_tokens: Sequence[int], output_tokens: Sequence[int], at_once: int | None = None) -> Run:
        """Generate so many tokens after prompts of so many tokens, see `series.Engine`; handing over is not timed."""
        waiting = iter(range(len(prompt_tokens)))
        finish_step = [0] * len(prompt_tokens)
        step_s: list[float] = []
        self._hand_over(waiting, at_once or len(prompt_tokens), prompt_tokens, output_tokens)
        while self._engine.has_unfinished_requests():
            start = perf_counter()
            done = self._engine.step()
            step_s.append(perf_counter() - start)
            for output in done:
                finish_step[int(output.request_id)] = len(step_s)
            self._hand_over(waiting, len(done), prompt_tokens, output_tokens)
        return Run(step_s, finish_step)

    def _hand_over(self, waiting: Any, count: int, prompt_tokens: Sequence[int], output_tokens: Sequence[int]) -> None:
        for _, index in zip(range(count), waiting, strict=False):
            prompt = {"prompt_token_ids": self._tokens[: prompt_tokens[index]]}
            self._engine.add_request(str(index), prompt, self._params(max_tokens=output_tokens[index], **self._ending))


def _set_defaults(environment: dict[str, str]) -> None:
    for name, value in environment.items():
        os.environ.setdefault(name, value)


def work(request: dict[str, Any]) -> dict[str, Any]:
    """Load the engine, measure, and say what was measured on what."""
    engine = VllmEngine(request)
    limits = {"slots": engine.slots, "max_model_len": engine.max_model_len, "kv_tokens": engine.kv_tokens}
    return {**engine.facts, **limits, **measure(engine, Wanted(**request["measure"]))}


def main() -> None:
    """Answer the request on stdin."""
    serve(work)


if __name__ == "__main__":
    main()
