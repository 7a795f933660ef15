"""vLLM as the engine of a rollout: streams, is interrupted between two tokens, takes new weights in place, gives its memory back.

Works on builds of vLLM for GPUs and for CPUs, through vLLM's Python interface and in this process (its workers are
processes of their own only with tensor parallelism). Nothing is fetched: the model is a folder, and may hold no more than
a `config.json`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from rollplan.executor.engines.generation import Generated, Request, Sampling

EVERYWHERE = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}
"""What vLLM reads when it is imported; what a user has set stays. The rollout profiler sets the same for the same reasons
(profilers/rollout/engine_vllm.py), so what it measured is what runs here; the arrows keep either from importing the other."""
ON_CPU = {"VLLM_CPU_OMP_THREADS_BIND": "nobind"}
EAGER_ON_CPU = {"TORCHDYNAMO_DISABLE": "1"}
"""Without it vLLM compiles the counting of log-probs with the machine's C++ compiler, 20 s at the first token."""
KV_ON_CPU_GIB = 1.0
WORKER = "rollplan.executor.engines.vllm_worker"


class VllmEngine:
    """A vLLM engine in this process: `generation.Generator`.

    model: folder with a Hugging Face `config.json`. weights: `dummy` makes random ones from `seed`, `auto` reads those of the
    folder. slots: most samples at once, ever. kv_gib: of the KV cache; None lets vLLM take what `gpu_memory_utilization`
    leaves (on a CPU: 1 GiB). sampling: `counted` draws every token by `sampling.draw`, so that a response does not depend on
    its batch and goes on elsewhere with the same tokens; `engine` leaves it to vLLM's sampler with one seed per response,
    faster on a GPU, but what is resumed goes on with other random numbers.
    """

    def __init__(
        self,
        model: Path | str,
        *,
        weights: Literal["dummy", "auto"] = "auto",
        seed: int = 0,
        slots: int = 256,
        max_model_len: int | None = None,
        dtype: str = "auto",
        tp: int = 1,
        gpu_memory_utilization: float = 0.9,
        kv_gib: float | None = None,
        enforce_eager: bool = False,
        sampling: Literal["counted", "engine"] = "counted",
    ) -> None:
        # Libraries read their environment when they are imported.
        _set_defaults(EVERYWHERE)
        if sampling == "counted":
            # vLLM's second model runner knows another kind of logits processors.
            _set_defaults({"VLLM_USE_V2_MODEL_RUNNER": "0"})
        import torch

        self._cuda = torch.cuda.is_available()
        if not self._cuda:
            _set_defaults({**ON_CPU, **EAGER_ON_CPU} if enforce_eager else ON_CPU)
            kv_gib = KV_ON_CPU_GIB if kv_gib is None else kv_gib
        from vllm import LLM

        self._counted = sampling == "counted"
        llm = LLM(
            model=str(model),
            load_format="dummy" if weights == "dummy" else "auto",
            seed=seed,
            dtype=dtype,
            skip_tokenizer_init=True,
            generation_config="vllm",
            tensor_parallel_size=tp,
            max_model_len=max_model_len,
            max_num_seqs=slots,
            gpu_memory_utilization=gpu_memory_utilization,
            kv_cache_memory_bytes=None if kv_gib is None else int(kv_gib * 2**30),
            enforce_eager=enforce_eager,
            enable_sleep_mode=self._cuda,
            worker_extension_cls=f"{WORKER}.WorkerExtension",
            logits_processors=[f"{WORKER}:CountedSampling"] if self._counted else None,
            logprobs_mode="raw_logprobs" if self._counted else "processed_logprobs",
            # Counted sampling reads how long each response is on the host.
            async_scheduling=False if self._counted else None,
        )
        self._engine = llm.llm_engine
        self.slots = slots
        self.max_model_len = int(self._engine.vllm_config.model_config.max_model_len)
        self.version = 0
        self._state_bytes: int = sum(self._engine.collective_rpc("rollplan_state_bytes"))
        self.kv_bytes = sum(self._engine.collective_rpc("rollplan_kv_bytes"))
        self._temperature = 1.0
        self._loaded, self._mixed = True, False
        self._waiting: Mapping[str, Any] | None = None

    def generate(self, requests: Sequence[Request], sampling: Sampling, slots: int, interrupted: Callable[[], bool]) -> Iterator[Generated]:
        """Generate, see `generation.Generator`; ValueError for a request that does not fit, RuntimeError if off-loaded."""
        if not self._loaded or self._mixed:
            raise RuntimeError(
                "the engine is off-loaded: load it first" if not self._loaded else "the last update failed: update again first"
            )
        self._check(requests)
        return self._stream(requests, sampling, min(slots, self.slots), interrupted)

    def update(self, weights: Mapping[str, Any], version: int) -> None:
        """Put new weights in the place of the old ones, by the names of a Hugging Face checkpoint; once loaded, if off-loaded.

        ValueError if weights are missing, and what vLLM raises for shapes and names that it does not know; an engine whose
        update failed generates nothing until one succeeds.
        """
        self.version = version
        if not self._loaded:
            self._waiting = {name: tensor.detach().to("cpu", copy=True) for name, tensor in weights.items()}
            return
        self._mixed = True
        self._engine.collective_rpc("rollplan_update", args=(dict(weights),))
        self._mixed = False
        self._engine.reset_prefix_cache()
        self._engine.set_weight_version(str(version))

    def load(self) -> None:
        """Bring weights and KV cache onto the device."""
        if self._loaded:
            return
        if self._cuda:
            self._engine.wake_up()
        self._loaded = True
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            self.update(waiting, self.version)

    def offload(self) -> None:
        """Move weights to host memory (vLLM's sleep, level 1) and give the KV cache back.

        On a CPU the weights are where they belong already; only the KV cache is given back to the system.
        """
        if not self._loaded:
            return
        if self._cuda:
            self._engine.sleep(level=1)
        else:
            self._engine.reset_prefix_cache()
            self._engine.collective_rpc("rollplan_release_kv")
        self._loaded = False

    def state_bytes(self) -> int:
        """Return the bytes of weights and buffers; the KV cache is no state."""
        return self._state_bytes

    def save(self, folder: Path) -> None:
        """Write nothing: a fresh engine gets its weights from the trainer."""

    def restore(self, folder: Path) -> None:
        """Read nothing, see `save`."""

    def close(self) -> None:
        """End the engine and its worker processes."""
        self._engine.engine_core.shutdown()

    def _check(self, requests: Sequence[Request]) -> None:
        if len({request.number for request in requests}) < len(requests):
            raise ValueError("requests: two have the same number; each sample may be asked for once")
        for request in requests:
            if not request.prompt:
                raise ValueError(f"requests: sample {request.number} has no prompt; give it one token at least")
            if (length := len(request.prompt) + request.max_tokens) > self.max_model_len:
                raise ValueError(
                    f"requests: sample {request.number} may get {length} tokens with its prompt, the engine holds {self.max_model_len}: "
                    "raise max_model_len or lower max_tokens"
                )

    def _stream(self, requests: Sequence[Request], sampling: Sampling, slots: int, interrupted: Callable[[], bool]) -> Iterator[Generated]:
        self._set_temperature(sampling.temperature)
        waiting = iter(requests)
        running: dict[str, tuple[Request, list[int], list[float]]] = {}
        try:
            stop = interrupted()
            while not stop:
                while len(running) < slots and (request := next(waiting, None)):
                    if _complete(request, sampling.eos):
                        yield Generated(request.number, request.tokens, request.log_probs, finished=True)
                    else:
                        running[str(request.number)] = (request, list(request.tokens), list(request.log_probs))
                        self._begin(request, sampling)
                if not running:
                    return
                for output in self._engine.step():
                    request, tokens, log_probs = running[output.request_id]
                    made = output.outputs[0]
                    tokens += made.token_ids
                    log_probs += [chosen[token].logprob for token, chosen in zip(made.token_ids, made.logprobs, strict=True)]
                    if output.finished:
                        del running[output.request_id]
                        yield Generated(request.number, tuple(tokens), tuple(log_probs), finished=True)
                stop = interrupted()
            self._engine.abort_request(list(running))
            while running:
                request, tokens, log_probs = running.pop(next(iter(running)))
                yield Generated(request.number, tuple(tokens), tuple(log_probs), finished=False)
            for request in waiting:
                yield Generated(request.number, request.tokens, request.log_probs, finished=False)
        finally:
            self._engine.abort_request(list(running))

    def _begin(self, request: Request, sampling: Sampling) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        from rollplan.executor.engines.sampling import uniform

        drawn: dict[str, Any] = {"temperature": 0.0}
        begun = len(request.tokens)
        if sampling.temperature > 0 and self._counted:
            drawn["extra_args"] = {"rollplan_counter": (sampling.seed, sampling.iteration, request.number, begun)}
        elif sampling.temperature > 0:
            seed = int(uniform(sampling.seed, sampling.iteration, request.number, begun) * 2**53)
            drawn = {"temperature": sampling.temperature, "seed": seed}
        params = SamplingParams(
            max_tokens=request.max_tokens - begun,
            ignore_eos=True,
            stop_token_ids=None if sampling.eos is None else [sampling.eos],
            logprobs=0,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
            **drawn,
        )
        self._engine.add_request(str(request.number), {"prompt_token_ids": [*request.prompt, *request.tokens]}, params)

    def _set_temperature(self, temperature: float) -> None:
        wanted = temperature if self._counted and temperature > 0 else 1.0
        if wanted != self._temperature:
            self._engine.collective_rpc("rollplan_temperature", args=(wanted,))
            self._temperature = wanted


def _complete(request: Request, eos: int | None) -> bool:
    return len(request.tokens) >= request.max_tokens or (eos is not None and request.tokens[-1:] == (eos,))


def _set_defaults(environment: Mapping[str, str]) -> None:
    for name, value in environment.items():
        os.environ.setdefault(name, value)
