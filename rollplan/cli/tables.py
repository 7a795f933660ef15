"""The pieces of screens: tables, labelled lines, shares, and how a screen is printed."""

from __future__ import annotations

import os
import sys
from io import StringIO

from rich.console import Console, RenderableType
from rich.table import Table

from rollplan.cli.output import tell

_WIDTH = 100


def show(screen: RenderableType) -> None:
    """Print a screen to stdout, as wide as the terminal but at most 100 columns; files and pipes get 100."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    width = min(_WIDTH, (os.get_terminal_size().columns if terminal else 0) or _WIDTH)
    text = StringIO()
    Console(file=text, force_terminal=terminal, width=width, highlight=False, markup=False, soft_wrap=False).print(screen)
    tell(text.getvalue(), end="")


def labelled(kind: str, text: str) -> RenderableType:
    """Return a labelled line whose continuation is indented."""
    table = Table(box=None, show_header=False, padding=(0, 0, 0, 2), pad_edge=True)
    table.add_column(width=8)
    table.add_column(overflow="fold")
    table.add_row(kind, text)
    return table


def new_table(*columns: tuple[str, str]) -> Table:
    """Return an empty table with these (title, side) columns."""
    table = Table(box=None, pad_edge=True, padding=(0, 2, 0, 0), show_edge=False)
    for title, justify in columns:
        table.add_column(title, justify="right" if justify == "right" else "left", overflow="fold")
    return table


def percent(share: float, digits: int = 2) -> str:
    """Return a share as text."""
    return f"{100 * share:.{digits}f} %"


def seconds_text(seconds: float) -> str:
    """Return seconds with three digits that count: no prediction is better than that."""
    digits = 0 if seconds >= 100 else 1 if seconds >= 10 else 2
    return f"{seconds:.{digits}f} s"
