"""`rollplan profile lengths`: the response lengths of a run, and a ranker of its prompts."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rollplan.models.profile.file import Profile


class CountedUnit(StrEnum):
    """What lengths count."""

    tokens = "tokens"
    words = "words"
    characters = "characters"


class RankerKind(StrEnum):
    """Which ranker to train."""

    none = "none"
    light = "light"


def command(
    samples: Annotated[Path, typer.Argument(help="CSV or JSON lines, gzip too, a folder of them, or a profile.", show_default=False)],
    column: Annotated[str | None, typer.Option(help="Column of the lengths (absent: the usual names).", show_default=False)] = None,
    text: Annotated[str | None, typer.Option(help="Column of the responses, to count words or characters.", show_default=False)] = None,
    prompt_column: Annotated[str | None, typer.Option(help="Column of the prompts (absent: the usual names).", show_default=False)] = None,
    group: Annotated[
        str | None, typer.Option(help="Column that tells whose samples belong together (absent: prompt).", show_default=False)
    ] = None,
    step_column: Annotated[str | None, typer.Option(help="Column of the step (absent: the usual names).", show_default=False)] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Length at which responses are cut off.", show_default=False)] = None,
    unit: Annotated[CountedUnit, typer.Option(help="What lengths count; scenarios need tokens.")] = CountedUnit.tokens,
    ranker: Annotated[RankerKind, typer.Option(help="Train a ranker of prompts by length.")] = RankerKind.none,
    prompts: Annotated[Path | None, typer.Option(help="New prompts to estimate (CSV, JSON lines).", show_default=False)] = None,
    estimates: Annotated[Path | None, typer.Option(help="Write the estimates of --prompts here (CSV).", show_default=False)] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of the split and of what is random.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the profile here (JSON).", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the profile as JSON.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Let -o overwrite a file that is not a profile.")] = False,
) -> None:
    """Read response lengths: their law, tail, drift, likeness inside of groups, and how well prompts foretell the longest."""
    from rollplan.cli.arguments import profile_path
    from rollplan.cli.profile.delivery import deliver
    from rollplan.cli.profile.lengths_screen import lengths_screen
    from rollplan.models.errors import Finding, InputError
    from rollplan.models.files import writable
    from rollplan.models.profile.file import Profile, is_profile
    from rollplan.profilers.lengths.measure import Wanted, profile_lengths
    from rollplan.profilers.lengths.samples import Columns

    if (prompts is None) != (estimates is None):
        given, other = ("--prompts", "--estimates") if estimates is None else ("--estimates", "--prompts")
        raise InputError("command line", [Finding(given, "", f"stands without {other}", "give both or none")])
    if text is not None and (column is not None or unit is CountedUnit.tokens):
        problem = "stands beside --column" if column is not None else "has no tokens without its tokenizer"
        raise InputError("command line", [Finding("--text", f"`{text}`", problem, "add --unit words, and leave --column out")])
    if estimates is not None:
        writable(estimates)
    if output is not None:
        profile_path(output, force)
    if samples.suffix.lower() == ".json" and is_profile(samples):
        reading = {"--column": column, "--text": text, "--group": group, "--step-column": step_column, "--limit": limit}
        if ignored := [name for name, value in reading.items() if value is not None] + ["--ranker"] * (ranker is RankerKind.light):
            problem = "has no effect on a profile, which holds no samples"
            raise InputError("command line", [Finding(name, "", problem, "leave it out, or give the samples") for name in ignored])
        profile = Profile.load(samples)
    else:
        columns = Columns(column, text, prompt_column, group, step_column)
        profile = profile_lengths(samples, Wanted(columns, unit.value, limit, ranker is RankerKind.light, seed))
    if profile.lengths is None:
        raise InputError(str(samples), [Finding("lengths", "", "is missing: the profile holds no lengths", "give the samples")])
    if prompts is not None and estimates is not None:
        _estimate(profile, samples, prompts, prompt_column, estimates)
    deliver(
        profile, output, as_json, lambda: lengths_screen(profile, str(output or "profile.json")), "`lengths: {{file: {}}}` in a workload"
    )


def _estimate(profile: Profile, source: Path, prompts: Path, column: str | None, place: Path) -> None:
    """Write the estimated length of each new prompt, in the order of the file; refuse a ranker that knows no better than chance."""
    from rollplan.cli.output import note
    from rollplan.models.errors import Finding, InputError
    from rollplan.models.files import write_whole
    from rollplan.profilers.lengths.features import SURFACE
    from rollplan.profilers.lengths.ranker import estimates
    from rollplan.profilers.lengths.samples import read_prompts

    assert profile.lengths is not None, "the caller has checked it"
    trained = profile.lengths.ranker
    if trained is None or trained.weights is None:
        problem = "was not trained" if trained is None else "is no better than chance"
        remedy = "add --ranker light" if trained is None else "dispatch without one, or give more samples"
        raise InputError(str(source), [Finding("ranker", "", problem, remedy)])
    if unknown := sorted(trained.weights.surface.keys() - SURFACE.keys()):
        problem = "is no feature that this version of rollplan knows"
        raise InputError(str(source), [Finding("ranker.weights.surface", f"`{unknown[0]}`", problem, "train the ranker again")])
    found = estimates(trained.weights, list(read_prompts(prompts, column)))
    rows = [f"row,estimated_{profile.lengths.unit}", *(f"{row},{value:.1f}" for row, value in enumerate(found.tolist(), start=1))]
    write_whole(place, "\n".join(rows) + "\n")
    note(f"wrote {place}: {len(found)} estimates")
