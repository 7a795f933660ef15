"""`rollplan profile train`: what training takes on this machine."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rollplan.cli.arguments import seconds


class Checkpointing(StrEnum):
    """Which activations are recomputed in the backward pass."""

    none = "none"
    full = "full"


class Dtype(StrEnum):
    """Type of weights, gradients and optimizer state."""

    bfloat16 = "bfloat16"
    float32 = "float32"


def command(
    model: Annotated[Path, typer.Option(help="A model's config.json, or its folder.", show_default=False)],
    python: Annotated[str | None, typer.Option(help="Python with torch and transformers (absent: this one).", show_default=False)] = None,
    tokens: Annotated[str | None, typer.Option(help="Tokens of a micro-batch: 2048,4096,8192.", show_default=False)] = None,
    lengths: Annotated[str | None, typer.Option(help="Tokens of each of its sequences: 1024,4096.", show_default=False)] = None,
    checkpointing: Annotated[Checkpointing, typer.Option(help="Activation checkpointing.")] = Checkpointing.none,
    dtype: Annotated[Dtype | None, typer.Option(help="Absent: bfloat16 on a GPU, float32 on a CPU.", show_default=False)] = None,
    moves: Annotated[bool, typer.Option("--moves/--no-moves", help="Whether to time off-loading and loading the state.")] = True,
    disk: Annotated[Path | None, typer.Option(help="Folder for cold moves (absent: the system's for temporary files).")] = None,
    spread: Annotated[str, typer.Option(help="Repeat until quartiles are so close to the median.")] = "5%",
    time_limit: Annotated[
        float, typer.Option(parser=seconds(1.0, 1e6), metavar="TIME", help="For measuring, loading not counted: seconds, or with a unit.")
    ] = 300.0,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the profile to this file.", show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is not a profile.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the profile as JSON.")] = False,
) -> None:
    """Measure training of one model on one device: passes, optimizer step, moves of its state, memory beside the bill."""
    from rollplan.cli.arguments import profile_path, share, whole_numbers
    from rollplan.cli.profile.delivery import deliver, progress
    from rollplan.cli.profile.train_screen import train_screen
    from rollplan.profilers.training.profile import Wanted, profile

    wanted = Wanted(
        tokens=whole_numbers(tokens, "--tokens"),
        lengths=whole_numbers(lengths, "--lengths"),
        checkpointing=checkpointing.value,
        dtype=dtype.value if dtype else None,
        moves=moves,
        spread=share(spread, "--spread"),
        time_limit_s=time_limit,
        disk=disk,
    )
    if output is not None:
        profile_path(output, force)
    made = profile(model, wanted, python, on_line=progress)
    deliver(made, output, as_json, lambda: train_screen(made), "rollplan calibrate SCENARIO {}")
