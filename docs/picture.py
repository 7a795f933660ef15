"""Draw the picture of the README: the plan screen of an example as SVG.

    python docs/picture.py > docs/images/plan.svg

A test compares the committed picture with what this prints.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from rollplan import Scenario, plan
from rollplan.cli.screen import plan_screen

EXAMPLE = "examples/production_ten/paper_prices.yaml"


def draw() -> str:
    """Return the SVG of `rollplan plan` on the example, without the seconds it took."""
    scenario = Scenario.load(Path(__file__).parent.parent / EXAMPLE)
    console = Console(record=True, width=100, file=io.StringIO(), highlight=False, markup=False)
    console.print(plan_screen(plan(scenario)))
    # Without fonts from elsewhere: the picture loads nothing.
    plain = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(code_format=plain, title=f"rollplan plan {EXAMPLE}", unique_id="plan")


if __name__ == "__main__":
    print(draw(), end="")
