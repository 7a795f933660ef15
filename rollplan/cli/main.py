"""The command line: verbs, and what every error becomes on the way out."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import Annotated, NoReturn

import typer

from rollplan import __version__
from rollplan.cli import advise, calibrate, check, diff, dispatch, explain, fit, plan, schema, split, what_if
from rollplan.cli import run as run_verb
from rollplan.cli.exits import Exit
from rollplan.cli.output import note
from rollplan.cli.profile import group

app = typer.Typer(
    name="rollplan",
    help="Plan RL post-training jobs on rollout and training GPUs, with a proven gap to the optimum.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done; 1 the answer is no; 2 wrong input or use; 3 infeasible; 4 no solution in time; 130 interrupted.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rollplan {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Plan RL post-training jobs on rollout and training GPUs, with a proven gap to the optimum."""


app.command("plan")(plan.command)
app.command("check")(check.command)
app.command("explain")(explain.command)
app.command("diff")(diff.command)
app.command("schema")(schema.command)
app.command("split")(split.command)
app.command("dispatch")(dispatch.command)
app.command("fit")(fit.command)
app.command("what-if")(what_if.command)
app.command("calibrate")(calibrate.command)
app.command("advise")(advise.command)
app.command("run")(run_verb.command)
app.add_typer(group.app, name="profile")


def run() -> NoReturn:
    """Run the command line and leave with its exit code; users never see a traceback for their own faults."""
    from rollplan.models.errors import InfeasibleError, InputError, NoSolutionError

    try:
        app()
    except SystemExit as done:
        _exit(done.code if isinstance(done.code, int) else Exit.DONE)
    except InputError as error:
        _leave(str(error), Exit.INPUT)
    except InfeasibleError as error:
        _leave(str(error), Exit.INFEASIBLE)
    except NoSolutionError as error:
        _leave(str(error), Exit.NO_SOLUTION)
    except KeyboardInterrupt:
        _leave("interrupted before there was a plan", Exit.INTERRUPTED)
    except OSError as error:
        _leave(str(error), Exit.INPUT)
    _exit(Exit.DONE)


def _exit(code: int) -> NoReturn:
    """Leave at once if a solver that would not stop is still running: the interpreter cannot wait for it."""
    if threading.active_count() > 1:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def _leave(message: str, code: Exit) -> NoReturn:
    head, *rest = message.splitlines()
    note("\n".join([f"error: {head}", *rest]))
    _exit(code)
