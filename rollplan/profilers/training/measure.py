"""What is measured of a trainer, in which order and how often. Standard library only: the worker uses it, tests use a fake trainer.

Everything is plain data. Passes of all micro-batches are repeated in turns (`rounds`), so that a disturbance falls on all
of them; peaks of memory are taken when each pass runs first, from the smallest to the largest micro-batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from rollplan.profilers.repeat import rounds, steady
from rollplan.profilers.worker import PROGRESS

_PASSES, _STEPS = 0.7, 0.8
"""Shares of the time limit after which passes, and then optimizer steps, are not repeated any more."""
CHUNK_TOKENS = 1024
"""Tokens whose logits exist at once in a pass without gradients; the memory bill is told the same."""
MOST_COLD = 3
"""Repeats of a cold move at most."""


"""What the worker's lines for the user begin with."""
DEFAULTS = {"cuda": ((2048, 4096, 8192, 16384), (1024, 4096)), "cpu": ((256, 512, 1024, 2048), (128, 512))}
"""Tokens of a micro-batch and of its sequences, by kind of device."""


class NoRoomError(Exception):
    """The device, the host or the disk has no room for what was to be measured; the message says which."""


class Trainer(Protocol):
    """A model with its optimizer on a device. Every method returns the seconds that it took, if it returns anything."""

    def update(self, sequences: int, length: int) -> float:
        """Forward and backward over one micro-batch; raise `NoRoomError` if it does not fit."""
        ...

    def log_prob(self, sequences: int, length: int) -> float:
        """Log-probabilities of the same tokens, without gradients."""
        ...

    def step(self) -> float:
        """One optimizer step."""
        ...

    def reset_peak(self) -> None:
        """Forget the peak of memory."""
        ...

    def peak_bytes(self) -> int | None:
        """Most memory since then, None if it is not known."""
        ...

    def state_bytes(self) -> dict[str, int]:
        """Bytes of weights, gradients and optimizer, counted tensor by tensor."""
        ...

    def offload(self, what: str) -> float:
        """Copy weights or optimizer state to host memory; raise `NoRoomError` if it does not fit."""
        ...

    def load(self, what: str) -> float:
        """Copy them back."""
        ...

    def save(self, what: str) -> float:
        """Write them to a file, down to the storage device."""
        ...

    def restore(self, what: str) -> tuple[float, float | None]:
        """Read them from the file, out of the cache of the operating system if possible; seconds, share read from storage."""
        ...

    def forget(self, what: str) -> None:
        """Give host memory and file back."""
        ...


def micro_batches(tokens: Sequence[int], lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Return (sequences, length) of every pair of amounts that divides, from the smallest to the largest."""
    pairs = {(total // length, length) for total in tokens for length in lengths if total % length == 0}
    return sorted(pairs, key=lambda pair: (pair[0] * pair[1], pair[1]))


def measure(
    trainer: Trainer, request: Mapping[str, Any], clock: Callable[[], float] = time.perf_counter, say: Callable[[str], object] = print
) -> dict[str, Any]:
    """Return the raw measurements of a trainer.

    request: points (see `micro_batches`), log_prob (bool), moves (list of `warm`, `cold`), spread, least, most, time_limit_s.
    The answer has points, optimizer_s, state_bytes, moves and skipped, seconds as lists of repeats. A micro-batch is
    skipped, with the reason, if it does not fit or if repeating it would take longer than the time that is left.
    """
    began, limit = clock(), float(request["time_limit_s"])
    often = {"spread": request["spread"], "least": request["least"], "most": request["most"], "clock": clock}
    skipped: list[str] = []

    def left(share: float = 1.0) -> float:
        return began + share * limit - clock()

    say(f"{PROGRESS}the model is ready, {len(request['points'])} micro-batches")
    trainer.update(1, min(length for _, length in request["points"]))
    trainer.step()
    peaks = _first_passes(trainer, request, lambda: left(_PASSES), skipped, clock)
    samplers: dict[tuple[str, int, int], Callable[[], float]] = {}
    for sequences, length in peaks:
        samplers["update", sequences, length] = _pass(trainer.update, sequences, length)
        if request["log_prob"]:
            samplers["log_prob", sequences, length] = _pass(trainer.log_prob, sequences, length)
    say(f"{PROGRESS}{len(peaks)} of {len(request['points'])} micro-batches fit; repeating them for up to {max(0.0, left(_PASSES)):.0f} s")
    seen = rounds(samplers, budget_s=left(_PASSES), together=True, **often)
    steps = steady(trainer.step, budget_s=max(0.0, left(_STEPS)), **often)
    points = [
        {
            "sequences": sequences,
            "length": length,
            "update_s": seen["update", sequences, length],
            "log_prob_s": seen.get(("log_prob", sequences, length)),
            "peak_bytes": peak,
            "log_prob_peak_bytes": log_prob_peak,
        }
        for (sequences, length), (peak, log_prob_peak) in peaks.items()
    ]
    state = trainer.state_bytes()
    say(f"{PROGRESS}passes and steps are done, {max(0.0, left()):.0f} s are left")
    moves = _moves(trainer, state, request["moves"], left, often, skipped)
    return {"points": points, "optimizer_s": steps, "state_bytes": state, "moves": moves, "skipped": skipped}


def _pass(run: Callable[[int, int], float], sequences: int, length: int) -> Callable[[], float]:
    return lambda: run(sequences, length)


def _first_passes(
    trainer: Trainer, request: Mapping[str, Any], left: Callable[[], float], skipped: list[str], clock: Callable[[], float]
) -> dict[tuple[int, int], tuple[int | None, int | None]]:
    """Warm every micro-batch up, from few tokens to many, and return the peaks of those that fit into memory and time."""
    peaks: dict[tuple[int, int], tuple[int | None, int | None]] = {}
    s_per_token = 0.0
    for sequences, length in request["points"]:
        name = f"{sequences} x {length} tokens"
        expected_s = s_per_token * sequences * length * (1 + request["least"])
        if peaks and expected_s > left():
            skipped.append(f"{name}: {_late(expected_s, left())}")
            continue
        start = clock()
        try:
            log_prob_peak = None
            if request["log_prob"]:
                trainer.reset_peak()
                trainer.log_prob(sequences, length)
                log_prob_peak = trainer.peak_bytes()
            trainer.reset_peak()
            trainer.update(sequences, length)
            peak = trainer.peak_bytes()
        except NoRoomError as error:
            skipped.append(f"{name}: {error}")
            continue
        s_per_token = (clock() - start) / (sequences * length)
        peaks[sequences, length] = peak, log_prob_peak
    if not peaks:
        raise NoRoomError(f"no micro-batch fits ({skipped[-1]})")
    return peaks


def _moves(
    trainer: Trainer,
    state: Mapping[str, int],
    temperatures: Sequence[str],
    left: Callable[[], float],
    often: Mapping[str, Any],
    skipped: list[str],
) -> list[dict[str, Any]]:
    """Return warm and cold moves of weights, then of the optimizer; what does not fit or would not end in time is skipped."""
    found: list[dict[str, Any]] = []
    cold_s_per_byte = 0.0
    for what in ("weights", "optimizer"):
        head = {"what": what, "bytes": state[what]}
        if "warm" in temperatures:
            try:
                trainer.offload(what)
                budget_s = max(0.0, left() / 8)
                warm = rounds({"offload": _move(trainer.offload, what), "load": _move(trainer.load, what)}, budget_s=budget_s, **often)
                found += [{**head, "temperature": "warm", "direction": direction, "seconds": taken} for direction, taken in warm.items()]
            except NoRoomError as error:
                skipped.append(f"warm moves of the {what}: {error}")
        expected_s = cold_s_per_byte * state[what]
        if "cold" in temperatures and left() <= expected_s:
            skipped.append(f"cold moves of the {what}: {_late(expected_s, left())}")
        elif "cold" in temperatures:
            try:
                saved, restored, from_storage = _cold(trainer, what, left)
                found.append({**head, "temperature": "cold", "direction": "offload", "seconds": saved})
                found.append({**head, "temperature": "cold", "direction": "load", "seconds": restored, "from_storage": from_storage})
                cold_s_per_byte = (saved[0] + restored[0]) / state[what]
            except NoRoomError as error:
                skipped.append(f"cold moves of the {what}: {error}")
        trainer.forget(what)
    return found


def _move(run: Callable[[str], float], what: str) -> Callable[[], float]:
    return lambda: run(what)


def _cold(trainer: Trainer, what: str, left: Callable[[], float]) -> tuple[list[float], list[float], float | None]:
    """Write and read once, and up to `MOST_COLD` times while another time takes less than half of the time that is left.

    Return the seconds of both, and the least share that came from storage: None if one of them is not known.
    """
    saved: list[float] = []
    restored: list[float] = []
    shares: list[float | None] = []
    while not saved or (len(saved) < MOST_COLD and saved[-1] + restored[-1] < left() / 2):
        saved.append(trainer.save(what))
        seconds, share = trainer.restore(what)
        restored.append(seconds)
        shares.append(share)
    known = [share for share in shares if share is not None]
    return saved, restored, min(known) if len(known) == len(shares) else None


def _late(expected_s: float, left_s: float) -> str:
    return f"{expected_s:.0f} s are expected, {max(0.0, left_s):.0f} s of the time limit are left"
