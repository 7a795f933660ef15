"""`rollplan plan`: scenario in, plan out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rollplan.cli.arguments import seconds
from rollplan.cli.exits import Exit


class Method(StrEnum):
    """How to plan."""

    exact = "exact"
    lossless = "lossless"
    paper = "paper"
    greedy = "greedy"
    random = "random"
    solo = "solo"


def command(
    scenario: Annotated[Path, typer.Argument(help="Scenario file (YAML).", show_default=False)],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the plan here (JSON).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
    method: Annotated[Method, typer.Option(help="Exact search, or one heuristic alone.")] = Method.exact,
    time_limit: Annotated[
        float, typer.Option(parser=seconds(), metavar="TIME", help="Seconds, or with a unit, such as 2 min; the best plan so far is kept.")
    ] = 60.0,
    node_limit: Annotated[int, typer.Option(min=1, help="Search nodes; unlike seconds, the same on every run.")] = 1000,
    target_gap: Annotated[str, typer.Option(help="Stop when the proven gap is this small, such as 1%.")] = "0%",
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of everything random.")] = 0,
    since: Annotated[Path | None, typer.Option(help="A plan that runs: move few of its jobs.", show_default=False)] = None,
    max_moved: Annotated[
        int | None, typer.Option(min=0, help="With --since: most jobs that change their group.", show_default=False)
    ] = None,
    move_price: Annotated[str, typer.Option(help="With --since: what each moved job must save, such as 5 $/h.")] = "0 $/h",
    force: Annotated[bool, typer.Option("--force", help="Let -o overwrite a file that is not a plan.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")] = False,
) -> None:
    """Plan the jobs of a scenario; print the plan, save it with -o."""
    from shlex import join
    from time import monotonic

    from rollplan.cli.interrupt import Interrupt
    from rollplan.models.certified import Limits

    started = monotonic()
    # Once Ctrl-C is heard it leads to a plan: that of a heuristic, if nothing better is known.
    with Interrupt() as interrupt:
        # The clock runs while libraries and scenario are loaded, too: a user waits for the whole.
        limits = Limits(time_limit, node_limit, interrupted=interrupt)

        from rollplan.cli.arguments import output_path, price_per_h, share
        from rollplan.cli.output import note, tell
        from rollplan.cli.progress import Progress

        limits.target_gap = share(target_gap, "--target-gap")
        price = price_per_h(move_price, "--move-price")
        since_is_whole(since, max_moved, price, method)
        if output is not None:
            output_path(output, force)

        from rollplan.models.errors import NoSolutionError
        from rollplan.models.plan import Plan
        from rollplan.models.scenario import Scenario
        from rollplan.planner.compose import plan

        read = Scenario.load(scenario)
        # To describe, write and show a plan takes about a millisecond per job.
        limits.time_s -= min(0.1 * time_limit, 0.001 * len(read.jobs))
        before = None if since is None else Plan.load(since)
        progress = Progress(quiet)
        try:
            made = plan(read, method.value, limits, seed, progress, before, max_moved, price)
        except NoSolutionError:
            if not interrupt.asked:
                raise
            note("interrupted before there was a plan")
            raise typer.Exit(Exit.INTERRUPTED) from None
        finally:
            progress.done()
        if output is not None:
            made.save(output)
        if as_json:
            tell(made.to_json(), end="")
        else:
            from rollplan.cli.screen import plan_screen
            from rollplan.cli.tables import show

            show(plan_screen(made, monotonic() - started))
        if before is not None:
            from rollplan.cli.since_screen import since_lines

            lines = since_lines(read, str(since), before, made, price)
            (note if as_json else tell)("\n".join(lines))
        if not as_json and output is not None:
            tell(f"  saved     {output}   ({join(['rollplan', 'check', str(scenario), str(output)])})")
        if interrupt.asked:
            note("interrupted: this is the best plan so far")
            raise typer.Exit(Exit.INTERRUPTED)


def since_is_whole(since: Path | None, max_moved: int | None, price: float, method: Method) -> None:
    """Refuse options that belong to --since without it, and a heuristic with it."""
    from rollplan.models.errors import Finding, InputError

    if since is None and max_moved is not None:
        raise InputError("command line", [Finding("--max-moved", f"`{max_moved}`", "counts moves since a plan", "add --since PLAN")])
    if since is None and price:
        raise InputError("command line", [Finding("--move-price", f"`{price:g} $/h`", "prices moves since a plan", "add --since PLAN")])
    if since is not None and method is not Method.exact:
        raise InputError("command line", [Finding("--method", f"`{method.value}`", "plans anew", "leave it out, or leave out --since")])
