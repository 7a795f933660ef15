"""Against reality: published step times of RL frameworks beside what rollplan predicts, and who binds.

    python benchmarks/reality.py [--set engine.overhead="5 ms"] [--set-moe trainer.mfu=0.08] [--only a]

(a) reference data alone: model, GPU, GPU counts, lengths and samples as the run states them, and its layouts where a plan
    with them exists. Runs that state everything but the mean length come apart, with one assumed mean (rows.py).
(b) from a run's own times to another split or GPU count of the same experiment: published/pairs.py says which and how.
(c) demands: orders and bindings that a planner must get right, published/demands.py.

One set of defaults for all runs, nothing tuned per run. Sources and licences of benchmarks/data: NOTICE. `--set` replaces
a default in every run, `--set-moe` in those of mixtures of experts, to see what a constant would do to the medians.
Binding is counted where the source tells (`Row.binds`); colocated runs count with the longer of their two sides.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from statistics import median

from published.demands import demands
from published.pairs import Pair, assumed, pairs, predicted
from published.predict import Constants, Prediction, moe, predict
from published.rows import Row, read, stated, unpredictable

from rollplan.models.errors import InfeasibleError

HEAD = f"{'':<76} {'measured':>8} {'predicted':>9} {'error':>6}   {'rollout':>7} {'train':>6}  binds (measured)    layouts"
Settings = Callable[[Row], Constants]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a default of all runs, such as engine.overhead=5ms"
    )
    parser.add_argument("--set-moe", action="append", default=[], metavar="KEY=VALUE", help="the same, of mixtures of experts")
    parser.add_argument("--only", choices=("a", "b", "c"), help="one part alone")
    options = parser.parse_args()
    common, of_moe = constants(options.set), constants(options.set_moe)
    rows, merged = read()

    def settings(row: Row) -> Constants:
        return (*common, *(of_moe if moe(row) else ()))

    print("Seconds per step.")
    if options.only in (None, "a"):
        part_a(rows, merged, settings)
    if options.only in (None, "b"):
        compare("(b) from a run's own times", ((described(pair), pair) for pair in pairs(rows)), settings)
    if options.only in (None, "c"):
        print("\n(c) demands")
        found = list(demands(rows, settings))
        for demand in found:
            print(f"{'yes' if demand.holds else 'no':<4}{demand.sentence}\n      measured: {demand.measured}; rollplan: {demand.said}")
        print(f"{sum(demand.holds for demand in found)} of {len(found)} hold")


def part_a(rows: list[Row], merged: dict[str, int], settings: Settings) -> None:
    """Print both tables of reference data alone, and the rows that are left out."""
    reasons = [unpredictable(row) for row in rows]
    compare("(a) reference data alone", ((str(row), row) for row, reason in zip(rows, reasons, strict=True) if reason is None), settings)
    unstated = [row for row in rows if row.mean is None and unpredictable(assumed(row)) is None and row.limit is not None]
    compare(
        f"(a*) the same, mean length assumed ({assumed(unstated[0]).mean:.0f} tokens): no validation, for orientation",
        ((str(row), row) for row in unstated),
        settings,
    )
    print("\nlines left out of (a)")
    for reason, count in (Counter(reason for reason in reasons if reason) + Counter(merged)).most_common():
        print(f"{count:>4} {reason}")
    beside: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.leftover_s is not None and row.framework.startswith("verl") and row.group.count("fully_async.md"):
            beside["colocated" if row.colocated else "separate"].append(row.leftover_s)
    for mode, seconds in beside.items():
        print(f"verl fully_async.md, {mode}: beside its phases a step takes {median(seconds):.1f} s (median of {len(seconds)})")


def compare(title: str, items: Iterable[tuple[str, Row | Pair]], settings: Settings) -> None:
    """Print one table and its medians."""
    print(f"\n{title}\n{HEAD}")
    errors: dict[str, list[float]] = defaultdict(list)
    right: list[bool] = []
    for name, item in items:
        target = item.target if isinstance(item, Pair) else item
        constants_of = settings(target)
        try:
            found = predicted(item, constants_of) if isinstance(item, Pair) else predict(assumed(item), settings=constants_of)
        except InfeasibleError as refusal:
            print(f"{name:<76} {target.step_s:>8.1f}   refused: {str(refusal).splitlines()[-1].strip()[:60]}")
            continue
        error = found.step_s / stated(target.step_s) - 1
        for group in (
            target.framework.split()[0],
            f"{target.framework.split()[0]} {'colocated' if target.colocated else 'separate'}",
            "all",
        ):
            errors[group].append(error)
        if target.binds is not None:
            right.append(found.binds == target.binds)
        print(line(name, target, found, error))
    for group, values in sorted(errors.items()):
        print(f"{group:<22} {len(values):>3} runs: median error {median(map(abs, values)):.1%}, median bias {median(values):+.1%}")
    print(f"binding right in {sum(right)} of {len(right)} runs that tell")


def line(name: str, target: Row, found: Prediction, error: float) -> str:
    """Return one row of a table."""
    told = f"{found.binds} ({target.binds or '-'})"
    return (
        f"{name[:76]:<76} {target.step_s:>8.1f} {found.step_s:>9.1f} {error:>+6.0%}   {found.rollout_s:>7.1f} {found.train_s:>6.1f}  "
        f"{told:<19} {found.layouts}"
    )


def described(pair: Pair) -> str:
    """Return a pair's own name."""
    known = " + ".join(f"{row.rollout_gpus}" if row.colocated else f"{row.rollout_gpus}:{row.train_gpus}" for row in pair.known)
    target = pair.target
    gpus = f"{target.rollout_gpus}" if target.colocated else f"{target.rollout_gpus}:{target.train_gpus}"
    where = f" {target.setting}" if target.setting else ""
    return f"{pair.kind:<5} {target.framework} {target.model[:20]}{where} {target.gpu} {known} -> {gpus} {target.mode}"


def constants(texts: Iterable[str]) -> Constants:
    """Return what `section.key=value` stands for."""
    found = []
    for text in texts:
        key, _, value = text.partition("=")
        section, _, name = key.rpartition(".")
        number = value.replace(".", "", 1).isdecimal()
        found.append((section, name, float(value) if number else value))
    return tuple(found)


if __name__ == "__main__":
    main()
