"""`rollplan profile rollout`: decode latency, prefill and KV capacity of an inference engine."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rollplan.cli.arguments import seconds


class Engine(StrEnum):
    """What is measured."""

    vllm = "vllm"
    torch = "torch"


class Weights(StrEnum):
    """Random weights of the right shape take as long as real ones, except where experts are chosen by content."""

    dummy = "dummy"
    real = "real"


def command(
    model: Annotated[str, typer.Option(help="Folder of a model, its config.json, or a model of the reference data.", show_default=False)],
    engine: Annotated[Engine, typer.Option(help="vLLM, or transformers in plain torch.")] = Engine.vllm,
    python: Annotated[str | None, typer.Option(help="Interpreter that has the engine (absent: this one).", show_default=False)] = None,
    tp: Annotated[str, typer.Option(help="Degrees of tensor parallelism, such as 1,2,4.")] = "1",
    batches: Annotated[str | None, typer.Option(help="Such as 1,2,4,8 (absent: powers of 2 up to the slots).", show_default=False)] = None,
    contexts: Annotated[
        str | None, typer.Option(help="Tokens per sequence (absent: 48, 192, 768, ... to 4096).", show_default=False)
    ] = None,
    max_num_seqs: Annotated[
        int | None, typer.Option(min=1, help="The engine's slots (absent: the largest batch).", show_default=False)
    ] = None,
    weights: Annotated[Weights, typer.Option(help="Random ones of the right shape, or those in the folder.")] = Weights.dummy,
    prompt_tokens: Annotated[int | None, typer.Option(min=1, help="Prompt whose prefill is measured.", show_default=False)] = None,
    enforce_eager: Annotated[bool, typer.Option("--enforce-eager", help="No compilation and no CUDA graphs.")] = False,
    spread: Annotated[str, typer.Option(help="Stop when half the quartile distance of every point is this small.")] = "2%",
    time_limit: Annotated[
        float,
        typer.Option(
            parser=seconds(1.0, 1e6), metavar="TIME", help="For the rounds of each process and tp, after loading: seconds, or with a unit."
        ),
    ] = 300.0,
    processes: Annotated[int, typer.Option(min=1, max=100, help="Engines to start, one after the other.")] = 2,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the profile here (JSON).", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the profile as JSON.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Let -o overwrite a file that is not a profile.")] = False,
) -> None:
    """Measure how long a decode step takes by batch and context, what a prompt costs, and what the KV cache holds."""
    from rollplan.cli.arguments import profile_path, share, whole_numbers
    from rollplan.cli.profile.delivery import deliver, progress
    from rollplan.cli.profile.rollout_screen import rollout_screen
    from rollplan.models.profile.file import Profile
    from rollplan.profilers.rollout.profile import RolloutRequest, profile_rollout

    degrees = whole_numbers(tp, "--tp")
    assert degrees is not None, "it has a default"
    request = RolloutRequest(
        model=model,
        engine=engine.value,
        python=python,
        tp=degrees,
        batches=whole_numbers(batches, "--batches"),
        contexts=whole_numbers(contexts, "--contexts"),
        slots=max_num_seqs,
        weights=weights.value,
        spread=share(spread, "--spread"),
        time_limit_s=time_limit,
        processes=processes,
        prompt_tokens=prompt_tokens,
        enforce_eager=enforce_eager,
    )
    before = None
    if output is not None:
        profile_path(output, force)
        before = Profile.load(output) if output.exists() and not force else None

    made = profile_rollout(request, progress)
    deliver(made, output, as_json, lambda: rollout_screen(made, before), "`measured: {}` in a scenario's split")
