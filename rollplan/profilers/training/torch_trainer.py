"""A causal language model of transformers with AdamW on one device; part of the worker, with torch and transformers only.

Weights are random and of the model's shape: time and memory do not depend on their values.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from shutil import disk_usage
from typing import Any

import torch
import transformers

from rollplan.profilers.training.measure import CHUNK_TOKENS, NoRoomError
from rollplan.profilers.worker import WorkerError

_LEARNING_RATE = 1e-6
_SPARE = 0.9


class TorchTrainer:
    """See `measure.Trainer`. Gradients stay where they are between micro-batches, as when they are accumulated."""

    def __init__(self, config: Mapping[str, Any], dtype: torch.dtype, device: torch.device, checkpointing: bool, folder: Path) -> None:
        self._device, self._cuda, self._folder = device, device.type == "cuda", folder
        self._resident: int | None = None
        torch.manual_seed(7)
        self._model = _model(config, dtype, device)
        if checkpointing:
            self._model.gradient_checkpointing_enable({"use_reentrant": False})
        self._model.train()
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=_LEARNING_RATE, fused=self._cuda)
        self._vocabulary = int(self._model.config.get_text_config().vocab_size)
        self._host: dict[str, dict[str, torch.Tensor]] = {}

    def update(self, sequences: int, length: int) -> float:
        """Forward and backward over one micro-batch, with the fp32 cross entropy of a plain trainer."""
        tokens = self._tokens(sequences, length)

        def run() -> None:
            logits = self._model(input_ids=tokens, use_cache=False).logits
            torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens.flatten()).backward()

        return self._timed(run)

    def log_prob(self, sequences: int, length: int) -> float:
        """Log-probabilities of the same tokens without gradients, logits for `CHUNK_TOKENS` at a time."""
        tokens = self._tokens(sequences, length)
        return self._timed(lambda: log_probs(self._model, tokens))

    def step(self) -> float:
        """One step of AdamW, and zeros into the gradients."""

        def run() -> None:
            self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=False)

        return self._timed(run)

    def reset_peak(self) -> None:
        """Forget the peak: of torch's allocator, or of the resident set where Linux allows it."""
        if self._cuda:
            torch.cuda.reset_peak_memory_stats(self._device)
        elif _forget_resident_peak() and self._resident is None:
            # Libraries are loaded by now, and so is the state; what is beyond the state is theirs.
            self._resident = _status_bytes("VmRSS") - sum(self.state_bytes().values())

    def peak_bytes(self) -> int | None:
        """Return the peak since then; on a CPU what the resident set had beyond the libraries."""
        if self._cuda:
            return int(torch.cuda.max_memory_allocated(self._device))
        return None if self._resident is None else max(0, _status_bytes("VmHWM") - self._resident)

    def state_bytes(self) -> dict[str, int]:
        """Return bytes of weights, gradients and optimizer state, as the tensors have them."""
        parameters = list(self._model.parameters())
        return {
            "weights": sum(tensor.nbytes for tensor in parameters),
            "gradients": sum(tensor.grad.nbytes for tensor in parameters if tensor.grad is not None),
            "optimizer": sum(tensor.nbytes for tensor in self._state("optimizer").values()),
        }

    def offload(self, what: str) -> float:
        """Copy to page-locked host memory (on a CPU: to other memory), which is made on the first call."""
        state = self._state(what)
        if what not in self._host:
            self._host[what] = self._host_copy(state)
        host = self._host[what]
        return self._timed(lambda: [host[name].copy_(tensor, non_blocking=True) for name, tensor in state.items()])

    def load(self, what: str) -> float:
        """Copy back."""
        state, host = self._state(what), self._host[what]
        return self._timed(lambda: _copy_back(state, host.items()))

    def save(self, what: str) -> float:
        """Write to a file, `fsync` included."""
        state = self._state(what)
        need = sum(tensor.nbytes for tensor in state.values())
        if disk_usage(self._folder).free * _SPARE < need:
            raise NoRoomError(f"{need / 2**30:.1f} GiB do not fit on the disk of {self._folder}")

        def run() -> None:
            _write(state, self._file(what))
            with open(self._file(what), "rb") as file:
                os.fsync(file.fileno())

        return self._timed(run)

    def restore(self, what: str) -> tuple[float, float | None]:
        """Read the file into the tensors, after the operating system was asked to drop its cache of it."""
        with open(self._file(what), "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            size = os.fstat(file.fileno()).st_size
        before = _read_bytes()
        seconds = self._timed(lambda: _copy_back(self._state(what), _read(self._file(what))))
        after = _read_bytes()
        return seconds, None if before is None or after is None else min(1.0, (after - before) / size)

    def forget(self, what: str) -> None:
        """Give host memory and file back."""
        self._host.pop(what, None)
        self._file(what).unlink(missing_ok=True)

    def _file(self, what: str) -> Path:
        return self._folder / f"{what}.state"

    def _tokens(self, sequences: int, length: int) -> torch.Tensor:
        return torch.randint(self._vocabulary, (sequences, length), device=self._device)

    def _state(self, what: str) -> dict[str, torch.Tensor]:
        """Return the tensors of the weights, or of the optimizer's moments, by name."""
        named = dict(self._model.named_parameters())
        if what == "weights":
            return {name: parameter.detach() for name, parameter in named.items()}
        moments = {name: self._optimizer.state.get(parameter, {}) for name, parameter in named.items()}
        return {
            f"{name}.{key}": value
            for name, kept in moments.items()
            for key, value in kept.items()
            if torch.is_tensor(value) and value.dim()
        }

    def _host_copy(self, state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        need, free = sum(tensor.nbytes for tensor in state.values()), _available_bytes()
        # torch rounds page-locked blocks up to powers of two.
        if free is not None and need * (2 if self._cuda else 1) > _SPARE * free:
            raise NoRoomError(f"{need / 2**30:.1f} GiB do not fit into the {free / 2**30:.1f} GiB of free host memory")
        try:
            return {name: torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=self._cuda) for name, tensor in state.items()}
        except RuntimeError as error:
            # A limit on locked memory, or one that the system does not show.
            raise NoRoomError(f"{need / 2**30:.1f} GiB of host memory cannot be had: {str(error).splitlines()[0]}") from None

    def _timed(self, run: Callable[[], object]) -> float:
        """Return the seconds of some work: by events on a GPU, by the clock on a CPU."""
        full = None
        try:
            if not self._cuda:
                start_s = time.perf_counter()
                run()
                return time.perf_counter() - start_s
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            run()
            end.record()
            torch.cuda.synchronize()
            return float(start.elapsed_time(end)) / 1000
        except torch.cuda.OutOfMemoryError as error:
            full = str(error).splitlines()[0]
        # Outside of the handler, whose exception holds the frames and with them the tensors.
        torch.cuda.empty_cache()
        raise NoRoomError(full)


def log_probs(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """Return the log-probability (sequences, length - 1) of each token after those before it."""
    with torch.no_grad():
        hidden, head = model.base_model(input_ids=tokens, use_cache=False).last_hidden_state[:, :-1], model.get_output_embeddings()
        labels = tokens[:, 1:]
        found = []
        for part, chosen in zip(hidden.flatten(0, 1).split(CHUNK_TOKENS), labels.flatten().split(CHUNK_TOKENS), strict=True):
            logits = head(part).float()
            found.append(logits.gather(-1, chosen[:, None])[:, 0] - logits.logsumexp(-1))
        return torch.cat(found).view(labels.shape)


def _model(config: Mapping[str, Any], dtype: torch.dtype, device: torch.device) -> Any:
    """Return the model of a config.json with random weights, made on the device itself."""
    given = dict(config)
    kind = given.pop("model_type", None)
    if not isinstance(kind, str):
        raise WorkerError("the config has no model_type; give the config.json of a Hugging Face model")
    try:
        known = transformers.AutoConfig.for_model(kind, **given)
        newer = tuple(int(part) for part in transformers.__version__.split(".")[:2]) >= (4, 56)
        with device:
            return transformers.AutoModelForCausalLM.from_config(known, **{"dtype" if newer else "torch_dtype": dtype})
    except (ValueError, KeyError) as error:
        raise WorkerError(f"transformers {transformers.__version__} cannot build the model: {error}") from None
    except torch.cuda.OutOfMemoryError as error:
        raise NoRoomError(f"the weights do not fit: {str(error).splitlines()[0]}") from None


def _write(state: Mapping[str, torch.Tensor], file: Path) -> None:
    """Write tensors: safetensors if it is there, else torch's own format."""
    try:
        from safetensors.torch import save_file
    except ImportError:
        torch.save(dict(state), file)
        return
    save_file(dict(state), file)


def _read(file: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield tensors in host memory, one by one; nothing is unpickled but tensors."""
    try:
        from safetensors import safe_open
    except ImportError:
        yield from torch.load(file, weights_only=True, mmap=True, map_location="cpu").items()
        return
    with safe_open(file, framework="pt", device="cpu") as stored:
        for name in stored.keys():  # noqa: SIM118 - not a mapping
            yield name, stored.get_tensor(name)


def _copy_back(state: Mapping[str, torch.Tensor], source: Any) -> None:
    for name, tensor in source:
        state[name].copy_(tensor, non_blocking=True)


def _forget_resident_peak() -> bool:
    """Give freed memory back to the system and forget the peak of the resident set; False where that cannot be done."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):
        return False
    return True


def _status_bytes(key: str) -> int:
    """Return a memory figure of this process, 0 where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:")), 0)


def _available_bytes() -> int | None:
    """Return the host memory that is free, also by the limit of a container; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    free = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
    group = Path("/sys/fs/cgroup")
    try:
        most, used = ((group / name).read_text().strip() for name in ("memory.max", "memory.current"))
    except OSError:
        return free
    return free if free is None or most == "max" else min(free, int(most) - int(used))


def _read_bytes() -> int | None:
    """Return the bytes that this process has caused to be read from storage, None where the system does not count them."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("read_bytes:")), None)
