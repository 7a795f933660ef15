"""Generation: our event simulation beside a plain loop over decode steps, in the same run.

    python benchmarks/generation.py [--samples 1024] [--instances 16] [--repeats 3] [--monte-carlo 100] [--many 100000]

Lengths are StreamRL's Fig. 7, up to 20,000 tokens, behind prompts of 500; 32 slots, and a KV cache of 100,000 tokens for
two of the rules. The plain loop is what one writes first: every step of every instance advances its sequences by one
token. Both must find the same seconds. The plain loop is written for the affine law alone.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from statistics import median
from time import perf_counter

import numpy as np

from rollplan.models.decode import Admission, Generation, Requests, longest_first, simulate
from rollplan.models.latency import AffineLatency, IntArray, TableLatency
from rollplan.models.lengths import REFERENCE_LENGTHS
from rollplan.models.lengths.sampling import sample, stratified

LAW = REFERENCE_LENGTHS["streamrl-20k"]
PROMPT_TOKENS = 500
AFFINE = AffineLatency(8.44, 0.0544, 0.01)
TABLE = TableLatency(np.array([1, 32, 256]), np.array([512.0, 8192.0]), np.array([[8.4, 8.5], [10.3, 12.9], [21.4, 42.0]]))
RULES = {
    "slots": Admission(32, 10**9),
    "reserve": Admission(32, 100_000, "reserve"),
    "preempt": Admission(32, 100_000, "preempt"),
}


def plain_s(requests: Requests, rule: Admission, latency: AffineLatency) -> float:
    """Return the seconds of one instance, step by step."""
    tokens, left = requests.prompt_tokens.copy(), requests.output_tokens.copy()
    waiting, running = list(range(len(requests)))[::-1], np.zeros(0, dtype=np.int64)
    held, clock_ms, changed = 0, 0.0, True
    while waiting or running.size:
        while held + running.size > rule.kv_tokens and rule.policy == "preempt":
            waiting.append(int(running[-1]))
            held -= tokens[running[-1]]
            running = running[:-1]
        while changed and waiting and running.size < rule.slots:
            new = np.append(running, waiting[-1])
            if (tokens[new] + (1 if rule.policy == "preempt" else left[new])).sum() > rule.kv_tokens:
                break
            running = new
            held += tokens[waiting.pop()]
        tokens[running] += 1
        left[running] -= 1
        held += running.size
        clock_ms += latency.fixed_ms + latency.per_sequence_ms * running.size + latency.per_kilotoken_ms * held / 1000
        done = left[running] == 0
        changed = done.any()
        if changed:
            held -= tokens[running[done]].sum()
            running = running[~done]
    return clock_ms / 1000


def dealt(lengths: IntArray, instances: int) -> list[Requests]:
    """Return what each instance gets, dealt like cards, longest first."""
    parts = (lengths[first::instances] for first in range(instances))
    return [longest_first(Requests(np.full(part.size, PROMPT_TOKENS), part)) for part in parts]


def timed(repeats: int, action: Callable[[], Generation]) -> tuple[float, Generation]:
    """Return the median seconds of an action and its last result."""
    seconds = []
    for _ in range(repeats):
        started = perf_counter()
        found = action()
        seconds.append(perf_counter() - started)
    return median(seconds), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1024, help="samples of one rollout")
    parser.add_argument("--instances", type=int, default=16, help="inference instances")
    parser.add_argument("--repeats", type=int, default=3, help="runs of ours, of which the median counts")
    parser.add_argument("--monte-carlo", type=int, default=100, help="rollouts with drawn lengths, drawing included")
    parser.add_argument("--many", type=int, default=100_000, help="samples of one large rollout")
    options = parser.parse_args()
    samples, instances = options.samples, options.instances
    print(f"Python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}; {instances} instances")
    print(f"{'what':<26} {'latency':<8} {'rule':<8} {'ours, ms':>10} {'plain, ms':>10} {'ratio':>7} {'rollout, s':>11} {'preempted':>10}")
    for name, rule in RULES.items():
        parts = dealt(stratified(LAW, samples), instances)
        ours, found = timed(options.repeats, lambda parts=parts, rule=rule: simulate(parts, rule, AFFINE))
        started = perf_counter()
        expected = max(plain_s(part, rule, AFFINE) for part in parts)
        plain = perf_counter() - started
        if not np.isclose(found.seconds, expected, rtol=1e-9):
            raise SystemExit(f"{name}: ours {found.seconds} s, the plain loop {expected} s")
        row(f"{samples} samples", "affine", name, ours, found, f"{1e3 * plain:10.0f} {plain / ours:7.0f}")
    for name, rule in RULES.items():
        parts = dealt(stratified(LAW, samples), instances)
        row(f"{samples} samples", "table", name, *timed(options.repeats, lambda parts=parts, rule=rule: simulate(parts, rule, TABLE)))
    rng = np.random.default_rng(0)
    for name, rule in RULES.items():

        def monte_carlo(rule: Admission = rule) -> Generation:
            for _ in range(options.monte_carlo):
                found = simulate(dealt(sample(LAW, rng, samples, 1).ravel(), instances), rule, TABLE)
            return found

        row(f"{options.monte_carlo} drawn, the last", "table", name, *timed(1, monte_carlo))
    for name, rule in RULES.items():
        parts = dealt(stratified(LAW, options.many), instances)
        row(f"{options.many} samples", "table", name, *timed(1, lambda parts=parts, rule=rule: simulate(parts, rule, TABLE)))


def row(what: str, latency: str, rule: str, seconds: float, found: Generation, plain: str = f"{'':>10} {'':>7}") -> None:
    print(f"{what:<26} {latency:<8} {rule:<8} {1e3 * seconds:10.1f} {plain} {found.seconds:11.1f} {found.preempted:10}")


if __name__ == "__main__":
    main()
