"""What every inference engine of this folder is asked and answers: `TorchEngine.generate` and `VllmEngine.generate` have one signature.

A program turns a `RolloutTask` into `Request`s and every `Generated` into a `Sample`; so it need not know which engine it has:

    for one in engine.generate(requests, sampling, task.slots, worker.interrupted):
        yield Sample(number=one.number, tokens=one.tokens, log_probs=one.log_probs, finished=one.finished, ...)

Only the standard library is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from rollplan.executor.api import Engine


@dataclass(frozen=True, slots=True)
class Request:
    """One response to generate. number: of the sample in its iteration.

    max_tokens: of the whole response, `tokens` included. tokens, log_probs: what another engine already generated, if the
    sample was interrupted there; generation goes on after them.
    """

    number: int
    prompt: tuple[int, ...]
    max_tokens: int
    tokens: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. temperature: 0 takes the most probable token. eos: token that ends a response, and belongs to it.

    seed, iteration: with the sample's number and the position in the response they decide every random number
    (`sampling.uniform`, used by every engine). So a response depends neither on who else is in the batch nor on the engine
    that goes on with it.
    """

    temperature: float = 1.0
    eos: int | None = None
    seed: int = 0
    iteration: int = 0


@dataclass(frozen=True, slots=True)
class Generated:
    """A response, whole: what was resumed comes first. log_probs: natural, of each token in the distribution it was drawn from.

    That is the softmax of logits / temperature, or of the logits at temperature 0. finished: False if it was interrupted.
    """

    number: int
    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]
    finished: bool


class Generator(Engine, Protocol):
    """An engine that generates token by token."""

    def generate(self, requests: Sequence[Request], sampling: Sampling, slots: int, interrupted: Callable[[], bool]) -> Iterator[Generated]:
        """Generate, at most `slots` at once, begun in the order of the requests; yield each response as soon as it is finished.

        interrupted: asked after every step (so it may also report progress). Once it is True, what is unfinished is yielded
        with `finished=False`, also what was not begun, and the iterator ends. A caller that drops the iterator early leaves
        nothing running.
        """
