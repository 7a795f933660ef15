"""`rollplan profile link`: latency and bandwidth between machines."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rollplan.cli.arguments import seconds


class Backend(StrEnum):
    """What moves the bytes: TCP between CPUs, or NVIDIA's library between GPUs."""

    gloo = "gloo"
    nccl = "nccl"


def command(
    python: Annotated[str | None, typer.Option(help="Interpreter that has torch (absent: this one).", show_default=False)] = None,
    rank: Annotated[int | None, typer.Option(help="Be this rank (absent: start all of them here).", show_default=False)] = None,
    ranks: Annotated[int, typer.Option(help="How many ranks there are; more than two for broadcast.")] = 2,
    address: Annotated[str | None, typer.Option(help="Rank 0's HOST:PORT on the link, for all ranks.", show_default=False)] = None,
    interface: Annotated[str | None, typer.Option(help="Such as eth0 (absent: that towards rank 0).", show_default=False)] = None,
    backend: Annotated[Backend | None, typer.Option(help="Absent: nccl where every rank has a GPU, else gloo.", show_default=False)] = None,
    streams: Annotated[str, typer.Option(help="Numbers of streams at once.")] = "1,2,4",
    megabytes: Annotated[str | None, typer.Option(help="Sizes, such as 16,64,256 (absent: by the time limit).", show_default=False)] = None,
    time_limit: Annotated[
        float, typer.Option(parser=seconds(1.0, 1e6), metavar="TIME", help="For measuring: seconds, or with a unit.")
    ] = 60.0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the profile here (JSON).", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the profile as JSON.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Let -o overwrite a file that is not a profile.")] = False,
) -> None:
    """Measure a link: latency, what one and several streams get, broadcast. One rank on each machine; rank 0 writes the profile."""
    import json
    from dataclasses import asdict

    from rollplan.cli.arguments import profile_path, whole_numbers
    from rollplan.cli.output import tell
    from rollplan.cli.profile.delivery import deliver, progress
    from rollplan.cli.profile.link_screen import link_screen
    from rollplan.models.errors import Finding, InputError
    from rollplan.profilers.link.profile import Joined, LinkRequest, profile_link

    request = LinkRequest(
        rank=rank,
        ranks=ranks,
        address=address,
        interface=interface,
        backend=backend.value if backend else None,
        streams=list(whole_numbers(streams, "--streams") or ()),
        sizes=[] if megabytes is None else [round(size * 1e6) for size in _sizes(megabytes)],
        time_limit_s=time_limit,
    )
    if output is not None:
        if rank:
            raise InputError(
                "command line", [Finding("-o", f"`{output}`", f"is not for rank {rank}", "give it to rank 0, which has the profile")]
            )
        profile_path(output, force)
    made = profile_link(request, python, progress)
    if isinstance(made, Joined):
        tell(json.dumps(asdict(made), sort_keys=True, indent=1) if as_json else f"rank {made.rank} is done; rank 0 has the profile")
        return
    deliver(made, output, as_json, lambda: link_screen(made), "its line into `links` of a scenario")


def _sizes(text: str) -> list[float]:
    """Return `16,64,256` as positive numbers."""
    from math import isfinite

    from rollplan.models.errors import Finding, InputError

    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(isfinite(number) and 0 < number <= 1e6 for number in found):
        raise InputError("command line", [Finding("--megabytes", f"`{text}`", "is not a list of positive numbers", "write 16,64,256")])
    return found
