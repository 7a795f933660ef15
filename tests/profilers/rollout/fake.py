"""An engine that obeys a law exactly: continuous batching with prompts in chunks, as vLLM does it, on a clock of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from rollplan.profilers.rollout.measure import Wanted, measure
from rollplan.profilers.rollout.series import NoRoomError, Run

Noise = Callable[[int, int], float]
"""Factor of a step, by the number of the run and of the step."""


def calm(run: int, step: int) -> float:
    """Nothing disturbs."""
    return 1.0


class FakeEngine:
    """A step takes `fixed_ms + batch_ms B + kv_ms kv / 1000` and `prefill_s` for each prompt token, times noise.

    kv: tokens attended to, in the convention of the decode simulation: prompt + j in the j-th step of a request.
    """

    def __init__(
        self,
        slots: int = 32,
        max_model_len: int = 1024,
        kv_tokens: int | None = None,
        chunk: int = 10**9,
        law: tuple[float, float, float] = (3.0, 0.1, 0.5),
        prefill_s: float = 2e-5,
        noise: Noise = calm,
        memory_tokens: int = 10**9,
        queues: bool = True,
    ) -> None:
        self.slots, self.max_model_len, self.kv_tokens, self.chunk = slots, max_model_len, kv_tokens, chunk
        self.law, self.prefill_s, self.noise, self.memory_tokens, self.queues = law, prefill_s, noise, memory_tokens, queues
        self.now, self.runs = 0.0, 0
        self.asked: list[tuple[int, int]] = []
        self.questions: list[tuple[str, str | None]] = []

    def clock(self) -> float:
        """Seconds that all runs took."""
        return self.now

    def ms(self, batch: int, kv: float) -> float:
        """The law."""
        return self.law[0] + self.law[1] * batch + self.law[2] * kv / 1000

    def generate(self, prompt_tokens: Sequence[int], output_tokens: Sequence[int], at_once: int | None = None) -> Run:
        """Generate, see `series.Engine`."""
        if sum(prompt_tokens) > self.memory_tokens:
            raise NoRoomError("out of memory")
        assert all(p + o <= self.max_model_len for p, o in zip(prompt_tokens, output_tokens, strict=True))
        self.asked.append((len(prompt_tokens), prompt_tokens[0]))
        waiting = list(range(len(prompt_tokens)))[::-1]
        left = list(prompt_tokens)
        made = [0] * len(left)
        running: list[int] = []
        finish = [0] * len(left)
        step_s: list[float] = []
        slots = min(self.slots, at_once or self.slots)
        while waiting or running:
            decoding = [index for index in running if not left[index]]
            budget, computed = self.chunk - len(decoding), 0
            while waiting and len(running) < slots and sum(left[index] for index in running) < budget:
                running.append(waiting.pop())
            for index in running:
                part = min(left[index], budget)
                left[index] -= part
                budget -= part
                computed += part
            active = [index for index in running if not left[index]]
            for index in active:
                made[index] += 1
            kv = sum(prompt_tokens[index] + made[index] for index in active)
            seconds = self.ms(len(active), kv) / 1000 + self.prefill_s * computed
            step_s.append(seconds * self.noise(self.runs, len(step_s)))
            for index in active:
                if made[index] == output_tokens[index]:
                    finish[index] = len(step_s)
                    running.remove(index)
        self.runs += 1
        self.now += sum(step_s)
        return Run(step_s, finish)


def answer(engine: FakeEngine, request: dict[str, Any]) -> dict[str, Any]:
    """Return what a worker with this engine answers, through JSON as a real one."""
    facts = {"device": "CPU", "threads": 1, "versions": {"fake": "1.0"}, "settings": {"dtype": "none"}}
    limits = {"slots": engine.slots, "max_model_len": engine.max_model_len, "kv_tokens": engine.kv_tokens}
    wanted = Wanted(**json.loads(json.dumps(request["measure"])))
    result: dict[str, Any] = json.loads(json.dumps({**facts, **limits, **measure(engine, wanted, engine.clock)}))
    return result
