"""A profile of a link as a screen: the transfers beside the law, what limits streams, the line for a scenario."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rollplan.cli.tables import labelled, new_table, percent
from rollplan.models.profile.file import Profile
from rollplan.models.profile.link import LinkProfile, LinkSample, StreamLaw

_GPUS = 8
"""Training GPUs of the example where a limit is shared."""


def link_screen(made: Profile) -> RenderableType:
    """Return everything that was measured; the profile must have its section of the link."""
    link = made.link
    if link is None:
        raise ValueError("the profile has no section of a link: make one with `rollplan profile link`")
    parts: list[RenderableType] = [
        Text(f"{link.backend} over {link.interface}, {link.ranks} ranks, {made.origin.device}"),
        Text(),
        _transfers(link),
        labelled("seconds", "until all answers were back; +-: half the distance of the quartiles, by the median"),
        Text(),
        labelled("latency", f"{1e3 * link.law.latency_s:.3g} ms one way, half of a round trip"),
        *(labelled("streams", line) for line in _limits(link.law)),
        labelled("law", f"latency + bytes / bandwidth, off by {percent(link.law.error, 1)} on average"),
    ]
    if spread := link.broadcast:
        text = f"{1e3 * spread.start_s:.3g} ms + bytes / {spread.gb_s:.4g} GB/s to {spread.ranks} ranks, off by {percent(spread.error, 1)}"
        parts.append(labelled("to all", text))
    parts += [Text(), Text("In a scenario (a link's bandwidth is what one stream gets; sync uses one for each training GPU):")]
    parts += [labelled("links:", line) for line in scenario_lines(link.law)]
    parts += [labelled("warning", warning) for warning in made.warnings]
    return Group(*parts)


def scenario_lines(law: StreamLaw) -> list[str]:
    """Return the line to paste into a scenario's `links`, and what to know about it."""
    if law.total_gb_s is None:
        return [_line(law.per_stream_gb_s)]
    each = min(law.per_stream_gb_s, law.total_gb_s / _GPUS)
    why = f"for {_GPUS} training GPUs, which share {law.total_gb_s:.4g} GB/s; for n write {law.total_gb_s:.4g} / n"
    return [_line(each), f"{why}, but at most {law.per_stream_gb_s:.4g} GB/s"]


def _line(gb_s: float) -> str:
    return f"- {{from: TRAINING_POOL, to: ROLLOUT_POOL, bandwidth: {gb_s:.4g} GB/s}}"


def _transfers(link: LinkProfile) -> Table:
    columns = ("size", "streams", "ranks", "seconds", "+-", "repeats", "GB/s", "by law")
    table = new_table(("transfer", "left"), *((title, "right") for title in columns))
    for sample in link.samples:
        seconds = sample.seconds
        table.add_row(
            sample.kind.replace("_", " "),
            f"{sample.bytes / 1e6:.4g} MB" if sample.bytes >= 1000 else f"{sample.bytes} B",
            str(sample.streams),
            str(sample.ranks),
            f"{seconds.median:.4g}",
            percent(seconds.relative, 0),
            str(seconds.repeats),
            f"{sample.gb_s:.3g}",
            _by_law(link, sample),
        )
    return table


def _by_law(link: LinkProfile, sample: LinkSample) -> str:
    """Return how far the law of a transfer, and of the answer to it, is off."""
    if sample.kind != "broadcast":
        there_s = link.transfer_s(sample.bytes, sample.streams)
    elif link.broadcast is not None:
        there_s = link.broadcast.seconds(sample.bytes)
    else:
        return "-"
    return f"{100 * ((there_s + link.law.latency_s) / sample.seconds.median - 1):+.1f} %"


def _limits(law: StreamLaw) -> list[str]:
    one = f"{law.per_stream_gb_s:.4g} GB/s"
    if law.limited == "unknown":
        return [f"{one} for one; measure several with --streams to know what more of them get"]
    why = f"the laws are off by {percent(law.error_if_shared, 1)} if shared, {percent(law.error_if_per_stream, 1)} if per stream"
    if law.total_gb_s is None:
        return [f"{one} each: up to {law.most_streams} do not fill the link", why]
    if law.limited == "shared":
        return [f"{law.total_gb_s:.4g} GB/s together: one fills the link", why]
    return [f"{one} each, {law.total_gb_s:.4g} GB/s together: {law.streams_to_fill} fill the link", why]
