"""The write tool: writes a whole file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tau.errors import Aborted, ToolError
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.tools import Tool, ToolContext
from tau.tools.file_locks import ShouldStop, run_locked
from tau.tools.paths import resolve
from tau.tools.read import read_chunks

MAX_REPORTED_BYTES = 1024 * 1024  # of the old content of a file


async def run(args: dict[str, Any], context: ToolContext) -> Outcome:
    """Write the file atomically: a cancelled call has written all of it or nothing."""
    name, content = args["path"], args["content"]
    files, seen = context.machine.files, context.seen

    def work(path: str, real: str, stopped: ShouldStop) -> Outcome:
        from tau.core.text.editing import replace_lone_surrogates

        context.confirm(name, real)
        data = replace_lone_surrogates(content).encode()
        if seen.required and files.kind(path) is not None:
            with files.open(path) as file:
                seen.check_unchanged(name, real, read_chunks(file, stopped))
        if stopped():
            raise Aborted
        report = _change_report(context, path, data)
        files.replace(path, data)
        seen.record_write(real, data)
        report()
        size = "" if context.file_texts == "0.87" else f"{_length(content)} bytes "
        return Outcome([Text(f"Successfully wrote {size}to {name}")])

    return await run_locked(context.machine, lambda: resolve(name, context.cwd), work)


def _change_report(context: ToolContext, path: str, after: bytes) -> Callable[[], None]:
    """Read the content that is about to be replaced. Returns a function that reports the change once it is made.

    It reports nothing if nothing asks for it, or if the old content is too large or cannot be read.
    """
    report, files = context.file_changed, context.machine.files
    if report is None:
        return lambda: None
    before: bytes | None = None
    try:
        if files.kind(path) is not None:
            with files.open(path) as file:
                before = file.read(MAX_REPORTED_BYTES + 1) or b""
    except (ToolError, OSError):
        return lambda: None
    if before is not None and len(before) > MAX_REPORTED_BYTES:
        return lambda: None
    return lambda: report(path, before, after)


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
