"""Worker: a transformers model in plain torch, one forward pass per step; for machines without an inference engine.

Runs in an interpreter that has torch and transformers. It knows no continuous batching, no paged cache and no kernels of an
inference engine, so its numbers are those of `generate` in transformers: an upper bound of what an engine takes.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from itertools import pairwise
from time import perf_counter
from typing import Any

from rollplan.profilers.rollout.measure import Wanted, measure
from rollplan.profilers.rollout.plan import model_length
from rollplan.profilers.rollout.series import NoRoomError, Run
from rollplan.profilers.worker import WorkerError, serve

SLOTS = 32


class TorchEngine:
    """A causal language model with the growing KV cache of transformers; greedy decoding of a whole batch."""

    queues = False
    kv_tokens: int | None = None

    def __init__(self, request: dict[str, Any]) -> None:
        if request["tp"] != 1:
            raise WorkerError(f"the torch engine runs on one device, tp {request['tp']} was asked for; use the vLLM engine")
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        import torch
        import transformers

        self._torch = torch
        self._cuda = torch.cuda.is_available()
        self._device = torch.device("cuda" if self._cuda else "cpu")
        kind = torch.bfloat16 if self._cuda else torch.float32
        auto = transformers.AutoModelForCausalLM
        if request["weights"] == "dummy":
            config = transformers.AutoConfig.from_pretrained(request["model"])
            torch.manual_seed(7)
            with torch.device(self._device):
                model = auto.from_config(config, dtype=kind)
        else:
            model = auto.from_pretrained(request["model"], dtype=kind).to(self._device)
        self._model = model.eval()
        text = model.config.get_text_config()
        wanted = request["measure"]
        self.max_model_len = model_length(wanted["contexts"], getattr(text, "max_position_embeddings", None) or 2**31)
        self.slots = request["slots"] or (max(wanted["batches"]) if wanted["batches"] else SLOTS)
        self._vocabulary = int(text.vocab_size)
        self.facts = {
            "device": torch.cuda.get_device_name(0) if self._cuda else "CPU",
            "threads": None if self._cuda else torch.get_num_threads(),
            "versions": {"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__},
            "settings": {"attention": str(model.config._attn_implementation), "dtype": str(kind).removeprefix("torch.")},
        }

    def generate(self, prompt_tokens: Sequence[int], output_tokens: Sequence[int], at_once: int | None = None) -> Run:
        """Generate for equal requests, see `series.Engine`; others would have to wait for the longest."""
        if len({*zip(prompt_tokens, output_tokens, strict=True)}) > 1 or at_once is not None:
            raise WorkerError("the torch engine knows no continuous batching; only equal requests, all at once")
        try:
            step_s = self._steps(len(prompt_tokens), prompt_tokens[0], output_tokens[0])
            return Run(step_s, [len(step_s)] * len(prompt_tokens))
        except self._torch.cuda.OutOfMemoryError:
            pass
        # Outside of the handler, whose exception holds the frames and with them the KV cache.
        self._torch.cuda.empty_cache()
        raise NoRoomError("out of GPU memory")

    def _steps(self, batch: int, prompt: int, outputs: int) -> list[float]:
        torch = self._torch
        tokens = torch.randint(self._vocabulary, (batch, prompt), device=self._device)
        marks = [self._mark()]
        cache = None
        with torch.inference_mode():
            for _ in range(outputs):
                out = self._model(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
                tokens, cache = out.logits[:, -1:].argmax(-1), out.past_key_values
                marks.append(self._mark())
        if not self._cuda:
            return [end - start for start, end in pairwise(marks)]
        torch.cuda.synchronize()
        return [start.elapsed_time(end) / 1000 for start, end in pairwise(marks)]

    def _mark(self) -> Any:
        """Return the time: an event in the GPU's queue, or the clock."""
        if not self._cuda:
            return perf_counter()
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event


def work(request: dict[str, Any]) -> dict[str, Any]:
    """Load the model, measure, and say what was measured on what."""
    if request["measure"]["workloads"]:
        raise WorkerError("the torch engine knows no continuous batching and cannot generate whole workloads; use the vLLM engine")
    engine = TorchEngine(request)
    limits = {"slots": engine.slots, "max_model_len": engine.max_model_len, "kv_tokens": engine.kv_tokens}
    return {**engine.facts, **limits, **measure(engine, Wanted(**request["measure"]))}


def main() -> None:
    """Answer the request on stdin."""
    serve(work)


if __name__ == "__main__":
    main()
