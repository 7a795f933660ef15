"""The page about the memory bill shows what the code prints."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "memory.md").read_text()


def test_the_example_prints_what_the_page_shows() -> None:
    """No code lives in prose only."""
    code, shown = re.findall(r"```(?:python|text)\n(.*?)```", PAGE, re.DOTALL)
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code, "memory.md", "exec"), {})
    assert printed.getvalue() == shown
