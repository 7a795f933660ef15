"""The seconds of one inference instance as a planner's closed form: equalised rounds (StreamRL, arXiv 2504.15930, Eq. 2).

m samples of about equal length do not all fit into the batch. Eq. 2 takes rounds of a full batch,

    time = PTL(BS) * L * R        with R = ceil(m / BS), BS <= cap,

and leaves BS open. The largest BS makes a cliff: one sample above the cap costs a whole round at the full batch's
latency. Equal rounds, R = ceil(m / cap) and BS = ceil(m / R), do not.
"""

from __future__ import annotations

from rollplan.models.latency import DecodeLatency, ptl_ms


def equalised_rounds(samples: int, cap: int) -> tuple[int, int]:
    """Return (rounds, batch size): the fewest rounds of at most `cap` samples, of equal size up to one sample."""
    if samples < 1 or cap < 1:
        raise ValueError(f"samples and cap must be at least 1, got {samples} and {cap}")
    rounds = -(-samples // cap)
    return rounds, -(-samples // rounds)


def rounds_seconds(latency: DecodeLatency, mean_tokens: float, samples: int, cap: int, prompt_tokens: float = 0.0) -> float:
    """Return the seconds of `samples` outputs of `mean_tokens` each, at most `cap` at once.

    prompt_tokens: mean, kept in the KV cache. A sequence attends to its prompt and, on average, half its output.
    """
    rounds, batch = equalised_rounds(samples, cap)
    return rounds * mean_tokens * ptl_ms(latency, batch, batch * (prompt_tokens + mean_tokens / 2)) / 1000
