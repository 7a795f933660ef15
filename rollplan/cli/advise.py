"""`rollplan advise`: what the log of a run says about its split."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Placement(StrEnum):
    """Where both sides run."""

    colocated = "colocated"
    separate = "separate"


def command(
    log: Annotated[Path, typer.Argument(help="Log of a run (plain or gzip), or a profile made from one.", show_default=False)],
    config: Annotated[Path | None, typer.Option(help="Launch configuration or script of the run.", show_default=False)] = None,
    framework: Annotated[str | None, typer.Option(help="Framework, where log or configuration are ambiguous.", show_default=False)] = None,
    run: Annotated[int | None, typer.Option(min=1, help="Which run of the log (absent: the last).", show_default=False)] = None,
    placement: Annotated[Placement | None, typer.Option(help="Both sides on the same GPUs or apart.", show_default=False)] = None,
    rollout_gpus: Annotated[int | None, typer.Option(min=1, help="GPUs that roll out.", show_default=False)] = None,
    train_gpus: Annotated[int | None, typer.Option(min=1, help="GPUs that train.", show_default=False)] = None,
    staleness: Annotated[float | None, typer.Option(min=0.0, max=100.0, help="Versions that weights may lag.", show_default=False)] = None,
    model: Annotated[str | None, typer.Option(help="Model, such as Qwen3-8B: its laws sharpen the answer.", show_default=False)] = None,
    gpu: Annotated[str | None, typer.Option(help="Kind of GPU, such as H100.", show_default=False)] = None,
    price: Annotated[str | None, typer.Option(help="Price of one GPU, such as '3.2 $/h'.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the advice as JSON.")] = False,
) -> None:
    """Say who binds, what idles and costs, and which split, mode and settings would be better on the same GPUs."""
    import json

    from rollplan.cli.advise_screen import advice_data, advice_screen
    from rollplan.cli.arguments import price_per_h
    from rollplan.cli.output import tell
    from rollplan.cli.tables import show
    from rollplan.models.reference.architectures import architecture
    from rollplan.models.reference.gpus import gpu_name
    from rollplan.planner.advise.advise import advise
    from rollplan.planner.advise.facts import Facts, facts
    from rollplan.profilers.configs.read import read_config
    from rollplan.profilers.logs.read import logged_run

    given = facts(
        None if config is None else read_config(config, framework),
        Facts(
            placement=None if placement is None else placement.value,
            rollout_gpus=rollout_gpus,
            train_gpus=train_gpus,
            staleness=staleness,
            model=None if model is None else architecture(model).name,
            gpu=None if gpu is None else gpu_name(gpu),
            price_per_gpu_h=None if price is None else price_per_h(price, "--price"),
        ),
    )
    advice = advise(logged_run(log, framework, run), given)
    if as_json:
        tell(json.dumps(advice_data(advice), sort_keys=True, indent=1))
    else:
        show(advice_screen(advice))
