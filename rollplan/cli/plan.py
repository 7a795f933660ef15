"""`rollplan plan`: scenario in, plan out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

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
    time_limit: Annotated[float, typer.Option(min=0.0, help="Seconds; the best plan so far is kept.")] = 60.0,
    node_limit: Annotated[int, typer.Option(min=1, help="Search nodes; unlike seconds, the same on every run.")] = 1000,
    target_gap: Annotated[str, typer.Option(help="Stop when the proven gap is this small, such as 1%.")] = "0%",
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of everything random.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Let -o overwrite a file that is not a plan.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")] = False,
) -> None:
    """Plan the jobs of a scenario; print the plan, save it with -o."""
    from shlex import join
    from time import monotonic

    from rollplan.cli.arguments import output_path, share
    from rollplan.cli.interrupt import Interrupt
    from rollplan.cli.output import note, tell
    from rollplan.cli.progress import Progress

    gap = share(target_gap, "--target-gap")
    if output is not None:
        output_path(output, force)

    from rollplan.models.certified import Limits
    from rollplan.models.errors import NoSolutionError
    from rollplan.models.scenario import Scenario
    from rollplan.planner.compose import plan

    read = Scenario.load(scenario)
    started = monotonic()
    progress = Progress(quiet)
    with Interrupt() as interrupt:
        limits = Limits(time_limit, node_limit, gap, interrupt)
        try:
            made = plan(read, method.value, limits, seed, progress)
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
        if output is not None:
            tell(f"  saved     {output}   ({join(['rollplan', 'check', str(scenario), str(output)])})")
    if interrupt.asked:
        note("interrupted: this is the best plan so far")
        raise typer.Exit(Exit.INTERRUPTED)
