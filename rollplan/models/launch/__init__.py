"""Launch settings of RL frameworks: what they mean here, which key holds them there, and how a change is written.

settings  `LaunchSettings`, the same words for every framework
keys      the table: framework and dialect -> exact key of each setting
rules     what a framework or arithmetic enforces
setting   a change in the framework's own words
"""

from rollplan.models.launch.keys import DIALECTS, Dialect, dialect
from rollplan.models.launch.rules import broken_rules
from rollplan.models.launch.setting import Adjustable, changed_lines, setting
from rollplan.models.launch.settings import FRAMEWORKS, FrameworkName, LaunchSettings, Placement

__all__ = [
    "DIALECTS",
    "FRAMEWORKS",
    "Adjustable",
    "Dialect",
    "FrameworkName",
    "LaunchSettings",
    "Placement",
    "broken_rules",
    "changed_lines",
    "dialect",
    "setting",
]
