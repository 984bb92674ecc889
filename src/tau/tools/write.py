"""The write tool: writes a whole file."""

from __future__ import annotations

from typing import Any

from tau.core.text.editing import well_formed
from tau.errors import Aborted
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.tools import Tool, ToolContext
from tau.tools.file_locks import Stopped, in_turn
from tau.tools.paths import resolve
from tau.tools.read import portions


async def run(args: dict[str, Any], context: ToolContext) -> Outcome:
    """Write the file atomically: a cancelled call has written all of it or nothing."""
    name, content = args["path"], args["content"]
    files, seen = context.machine.files, context.seen

    def work(path: str, real: str, stopped: Stopped) -> Outcome:
        context.confirm(name, real)
        data = well_formed(content).encode()
        if seen.required and files.kind(path) is not None:
            with files.open(path) as file:
                seen.check(name, real, portions(file, stopped))
        if stopped():
            raise Aborted
        files.replace(path, data)
        seen.note(real, data)
        return Outcome([Text(f"Successfully wrote {_length(content)} bytes to {name}")])

    return await in_turn(context.machine, lambda: resolve(name, context.cwd), work)


def _length(text: str) -> int:
    """Return the length in UTF-16 code units, as JavaScript counts. pi's sentence calls them bytes."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


TOOL = Tool(
    name="write",
    description=(
        "Write a file, replacing its contents. Creates missing parent directories. To change part of a file, use edit."
    ),
    snippet="Create or overwrite files",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file, relative to the working directory or absolute"},
            "content": {"type": "string", "description": "The complete content of the file"},
        },
        "required": ["path", "content"],
    },
    run=run,
    guidelines=("Use write for new files and for complete rewrites.",),
)
