"""Seconds of one iteration from the seconds of its stages: the definition that verifiers use.

    serial          R + T + sync
    mini-batch      K chunks of equal size; chunk k trains when its samples are finished and chunk k - 1 is trained:
                    f_k = max(f_{k-1}, g_k) + T / K + chunk,  f_K + sync      (g_k: when share k is finished)
    dynamic-batch   the same with one chunk for each share in `finish`
    one-step        max(R, T) + sync: training uses the batch of the iteration before, then both wait for the weights
    async-batch     max(R, T, sync, (R + T + sync) / 2): weights move beside training, a batch trains once it is whole
    async-streamed  max(R, T + K chunk, sync, (R + sync) / 2): training takes samples of a batch that is still being
                    generated, in K chunks (optimistic)

StreamRL Fig. 5 (Zhong et al. 2025) shows the behaviour; the recurrences are ours (docs/modes.md). Interference slows a
stage down for all of its time here, which is an upper limit; `models.pipelining` counts the overlap.
"""

from __future__ import annotations

from typing import Literal

from rollplan.models.pipelining.iteration import batch_period_s, streamed_period_s
from rollplan.models.split.problem import SplitProblem, Way

UnchunkedWay = Literal["serial", "one-step", "async-batch", "async-streamed"]


def stages(problem: SplitProblem, way: Way, pools: tuple[str, str], gpus: tuple[int, int]) -> tuple[float, float, float]:
    """Return seconds of rollout, training and iteration of separate stages on GPUs of their own."""
    rollout_s, train_s = problem.rollout[pools[0]][gpus[0]], problem.train[pools[1]][gpus[1]]
    sync_s = problem.sync(*pools)
    if way == "serial":
        return rollout_s, train_s, period_s(way, rollout_s, rollout_s, train_s, sync_s)
    slower, longer = problem.interference
    train_s *= longer
    if way in ("async-batch", "async-streamed"):
        train_s += problem.chunks * problem.chunk_s if way == "async-streamed" else 0.0
        steady_s = problem.steady.get(pools[0], {}).get(gpus[0], rollout_s) * slower
        return steady_s, train_s, period_s(way, rollout_s, steady_s, train_s, sync_s)
    rollout_s *= slower
    if way == "one-step":
        return rollout_s, train_s, period_s(way, rollout_s, rollout_s, train_s, sync_s)
    shares = [share * slower for share in problem.finish.get(pools[0], {}).get(gpus[0], (problem.rollout[pools[0]][gpus[0]],))]
    ends = shares if way == "dynamic-batch" else joined(shares, problem.chunks)
    done_s = 0.0
    for end_s in ends:
        done_s = max(done_s, end_s) + train_s / len(ends) + problem.chunk_s
    return rollout_s, train_s, done_s + sync_s


def period_s(way: UnchunkedWay, rollout_s: float, steady_s: float, train_s: float, sync_s: float) -> float:
    """Return the seconds of an iteration whose training does not depend on when single samples are finished.

    rollout_s: of one batch alone; steady_s: of a batch that overlaps with its neighbours, which `async-*` count.
    """
    match way:
        case "serial":
            return rollout_s + train_s + sync_s
        case "one-step":
            return max(rollout_s, train_s) + sync_s
        case "async-batch":
            period = batch_period_s(steady_s, train_s, sync_s)
        case "async-streamed":
            period = streamed_period_s(steady_s, train_s, sync_s)
    # Those laws let the sync of one iteration run beside that of the next; over one link they follow each other.
    return max(sync_s, period)


def joined(shares: list[float], chunks: int) -> list[float]:
    """Return when each of `chunks` chunks is finished, the last share in it; fewer chunks if there are fewer shares."""
    count = min(chunks, len(shares))
    return [shares[-(-len(shares) * (k + 1) // count) - 1] for k in range(count)]
