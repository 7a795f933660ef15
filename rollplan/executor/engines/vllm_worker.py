"""What `VllmEngine` puts into vLLM's worker processes: counted sampling, weights in place, memory given back.

vLLM imports this module by name in every worker (`logits_processors`, `worker_extension_cls`).
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping
from typing import Any

import torch
from vllm import SamplingParams
from vllm.config import set_current_vllm_config
from vllm.model_executor.layers.logits_processor import LogitsProcessor as Head
from vllm.model_executor.layers.vocab_parallel_embedding import VocabParallelEmbedding
from vllm.model_executor.model_loader.reload.layerwise import finalize_layerwise_reload, get_layerwise_info, initialize_layerwise_reload
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, process_dict_updates

from rollplan.executor.engines.sampling import draw, uniform

COUNTER = "rollplan_counter"
"""Key of `SamplingParams.extra_args`: seed, iteration, number, and how many tokens of the response were generated elsewhere."""
_Row = tuple[tuple[int, int, int, int], list[int]]


class CountedSampling(LogitsProcessor):  # type: ignore[misc]  # vLLM is not typed here
    """Draws the tokens of requests that carry a counter with `sampling.draw`, and makes each the most probable of its row.

    Greedy sampling then takes it. vLLM's own generators belong to a request of one engine and cannot be carried to another.
    """

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self._rows: dict[int, _Row] = {}

    def is_argmax_invariant(self) -> bool:
        """Return False: greedy sampling shall take what was drawn here."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow the requests through the rows of the batch."""
        process_dict_updates(self._rows, batch_update, _row)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Draw from logits of shape [requests, vocabulary], which are divided by the temperature already."""
        if self._rows:
            rows = list(self._rows)
            chances = [uniform(*counter[:3], counter[3] + len(output)) for counter, output in self._rows.values()]
            tokens, _ = draw(logits[rows], chances, 1.0)
            logits[rows, tokens] = float("inf")
        return logits


def _row(params: SamplingParams, _: list[int] | None, output: list[int]) -> _Row | None:
    counter = (params.extra_args or {}).get(COUNTER)
    return None if counter is None else (tuple(counter), output)


class WorkerExtension:
    """Methods that every worker of the engine gets, called by name through `collective_rpc`."""

    model_runner: Any
    model_config: Any
    vllm_config: Any

    def rollplan_update(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Load a whole checkpoint in place; ValueError if it leaves parameters as they were. After an error weights are mixed."""
        model = self.model_runner.get_model()
        expected = {name for name, _ in model.named_parameters()}
        with set_current_vllm_config(self.vllm_config), torch.no_grad():
            initialize_layerwise_reload(model)
            try:
                loaded = model.load_weights(iter(weights.items()))
            except BaseException:
                # Layers that are not done get their old tensors back, so that the next update finds whole ones.
                for info in map(get_layerwise_info, model.modules()):
                    info.loaded_weights.clear()
                    info.load_numel = 0
                raise
            finally:
                finalize_layerwise_reload(model, self.model_config)
            for module in model.modules():
                if isinstance(module, VocabParallelEmbedding) and module.weight.device.type == "cpu":
                    # A head that is tied to the embedding has no weights of its own in a checkpoint, but its own packed copy.
                    module.quant_method.process_weights_after_loading(module)
        if loaded is not None and (missing := sorted(expected - loaded)):
            raise ValueError(f"weights: {len(missing)} parameters of the engine got no value, such as {missing[0]}; send all of them")

    def rollplan_temperature(self, temperature: float) -> None:
        """Divide logits by a temperature where they are made, so that log-probs are those of the distribution sampled from."""
        for module in self.model_runner.get_model().modules():
            if isinstance(module, Head):
                own = module.__dict__.setdefault("rollplan_own_scale", module.scale)
                module.scale = own / temperature

    def rollplan_state_bytes(self) -> int:
        """Return the bytes of weights and buffers, as they were before kernels packed them their own way."""
        sizes: dict[int, int] = {}
        for module in self.model_runner.get_model().modules():
            parameters, buffers = get_layerwise_info(module).restore_metadata
            for name, tensor in (*module._parameters.items(), *module._buffers.items()):
                if tensor is not None:
                    # Modules that share a tensor count it once.
                    sizes[id(tensor)] = {**parameters, **buffers}.get(name, tensor).nbytes
        return sum(sizes.values())

    def rollplan_kv_bytes(self) -> int:
        """Return the bytes of the KV cache."""
        return sum(self._rollplan_kv().values())

    def rollplan_release_kv(self) -> None:
        """Give the memory of a KV cache on a CPU back to the system; addresses stay valid, and read as zeros."""
        libc = ctypes.CDLL(None, use_errno=True)
        for start, size in self._rollplan_kv().items():
            first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
            length = (start + size) // mmap.PAGESIZE * mmap.PAGESIZE - first
            if libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), mmap.MADV_DONTNEED):
                raise OSError(ctypes.get_errno(), "the KV cache could not be given back to the system")

    def _rollplan_kv(self) -> dict[int, int]:
        stores = [cache.untyped_storage() for cache in self.model_runner.kv_caches]
        return {store.data_ptr(): store.nbytes() for store in stores}
