"""Local search: two machines share their jobs anew.

With the target T, a machine that ends after T and another one put their jobs together. If some subset of these sums to
between (all - T) and T, both end in time, and any such subset is taken by chance; else the most even split. Which sums
there are is read from the bits of one large integer (`subset_sums`), so that the split of twelve jobs of each is exact.
Now and then the two machines are any two: this moves jobs on without loss.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from rollplan.models.pcmax.problem import PcmaxProblem
from rollplan.models.pcmax.solution import PcmaxSolution, of_times

MOVES = 10_000
"""Pairs of machines tried in all, so that the effort does not depend on the machine: about 0.15 s."""
_PATIENCE = 1000
"""Pairs, and 20 more for each machine, after which the search ends if the time after the target has not become less."""
_FREE = 12
"""Jobs of each machine that may change."""
_ANY_PAIR = 0.3
_LARGEST = 2**22
"""Times are divided so that a makespan has no more units when sums are listed; the split is then nearly exact."""


def improve(
    problem: PcmaxProblem,
    start: PcmaxSolution,
    target: int,
    moves: int = MOVES,
    seed: int = 0,
    stop: Callable[[], object] = lambda: None,
) -> PcmaxSolution:
    """Return a solution that is never worse; the search ends at the target, after so many moves, or when `stop` says so."""
    if start.makespan <= target or problem.machines == 1:
        return start
    chance = Random(seed)
    machines = [[problem.times[job] for job in jobs] for jobs in start.machines]
    ends = [sum(times) for times in machines]
    best, best_end = [list(times) for times in machines], start.makespan
    unit, last = max(1, start.makespan // _LARGEST), 0
    excess = least = sum(max(0, end - target) for end in ends)
    patience = _PATIENCE + 20 * len(machines)
    for move in range(moves):
        late = [i for i, end in enumerate(ends) if end > target]
        if not late or move > last + patience or (move % 100 == 0 and stop()):
            break
        i = chance.randrange(len(machines)) if chance.random() < _ANY_PAIR else chance.choice(late)
        k = chance.randrange(len(machines) - 1)
        k += k >= i
        one, other = share(machines[i], machines[k], target, unit, chance)
        one_end, other_end = sum(one), sum(other)
        if max(one_end, other_end) > max(ends[i], ends[k], target):
            continue
        excess += sum(max(0, end - target) for end in (one_end, other_end)) - sum(max(0, ends[at] - target) for at in (i, k))
        machines[i], machines[k], ends[i], ends[k] = one, other, one_end, other_end
        if excess < least:
            least, last = excess, move
        if (end := max(ends)) < best_end:
            best, best_end = [list(times) for times in machines], end
    return of_times(problem, best)


def share(one: list[int], other: list[int], target: int, unit: int, chance: Random) -> tuple[list[int], list[int]]:
    """Return the jobs of two machines shared anew: both within the target if the jobs that may change allow it, else evenly.

    Sums are listed in whole units, times rounded down.
    """
    one, other = chance.sample(one, len(one)), chance.sample(other, len(other))
    free = one[:_FREE] + other[:_FREE]
    chance.shuffle(free)
    stay, total = sum(one[_FREE:]), sum(one) + sum(other)
    prefixes = [1]
    for time in free:
        prefixes.append(prefixes[-1] | prefixes[-1] << time // unit)
    left = _pick(prefixes[-1], total - target - stay, target - stay, total // 2 - stay, unit, chance)
    first, second = one[_FREE:], other[_FREE:]
    for time, before in zip(reversed(free), reversed(prefixes[:-1]), strict=True):
        if before >> left & 1:
            second.append(time)
        else:
            first.append(time)
            left -= time // unit
    return first, second


def _pick(sums: int, low: int, high: int, even: int, unit: int, chance: Random) -> int:
    """Return, in units, a sum of `low` to `high`, drawn by chance, or the one that is nearest to `even` if there is none."""
    low, high, even = max(0, -(-low // unit)), high // unit, max(0, even // unit)
    if low <= high and (within := sums >> low & (1 << high - low + 1) - 1):
        at = chance.randrange(high - low + 1)
        above = within >> at
        return low + at + _lowest(above) if above else low + _lowest(within)
    below = (sums & (1 << even + 1) - 1).bit_length() - 1
    above = sums >> even
    return even + _lowest(above) if above and _lowest(above) < even - below else below


def _lowest(bits: int) -> int:
    """Return the position of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1
