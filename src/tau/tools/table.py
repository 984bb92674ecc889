"""The tools there are. A new one needs a line here."""

from __future__ import annotations

from tau.tools import Tool
from tau.tools.bash import BASH
from tau.tools.edit import EDIT
from tau.tools.find import FIND
from tau.tools.grep import GREP
from tau.tools.ls import LS
from tau.tools.read import READ
from tau.tools.write import WRITE

TOOLS: dict[str, Tool] = {tool.name: tool for tool in (READ, BASH, EDIT, WRITE, GREP, FIND, LS)}
DEFAULT = ("read", "bash", "edit", "write")
