"""What the engines do on a GPU, as far as it can be seen without one: with a torch that is made up."""

from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rollplan.profilers.rollout.engine_torch import TorchEngine
from rollplan.profilers.rollout.engine_vllm import EVERYWHERE, VllmEngine
from rollplan.profilers.rollout.series import NoRoomError


def test_memory_that_ran_out_is_given_back_when_nothing_holds_it_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside of the handler the exception holds the frames, these the KV cache, and the GPU stays full."""

    class OutOfMemoryError(Exception):
        pass

    handled = list[object]()
    cuda = SimpleNamespace(OutOfMemoryError=OutOfMemoryError, empty_cache=lambda: handled.append(sys.exc_info()[1]))

    def steps(*_: object) -> list[float]:
        raise OutOfMemoryError

    engine = object.__new__(TorchEngine)
    monkeypatch.setattr(engine, "_torch", SimpleNamespace(cuda=cuda), raising=False)
    monkeypatch.setattr(engine, "_steps", steps)
    with pytest.raises(NoRoomError, match="out of GPU memory") as refused:
        engine.generate([8, 8], [4, 4])
    assert handled == [None]
    assert refused.value.__context__ is None, "it would hold the frames, too"


def test_vllm_can_fork_after_it_was_asked_whether_there_is_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.cuda.is_available starts CUDA unless this is set, and the forked processes of tp > 1 cannot start it again."""

    class AskedError(Exception):
        pass

    def is_available() -> bool:
        raise AskedError(os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK"))

    torch: Any = ModuleType("torch")
    torch.cuda = SimpleNamespace(is_available=is_available)
    monkeypatch.setitem(sys.modules, "torch", torch)
    for name in EVERYWHERE:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    with pytest.raises(AskedError, match="1"):
        VllmEngine({})
