"""The tools there are. A new one needs a line here."""

from __future__ import annotations

from tau.tools import Tool
from tau.tools.bash import BASH
from tau.tools.read import READ

TOOLS: dict[str, Tool] = {tool.name: tool for tool in (READ, BASH)}
DEFAULT = ("read", "bash")
