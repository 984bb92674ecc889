"""The ls tool: lists a folder."""

from __future__ import annotations

from typing import Any

from tau.core.text.truncate import MAX_BYTES
from tau.errors import ToolError
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.tools import Entry, Tool, ToolContext
from tau.tools.listing import Notice, listed, whole
from tau.tools.paths import resolve

LIMIT = 500


async def run(args: dict[str, Any], context: ToolContext) -> Outcome:
    limit = whole(args, "limit", LIMIT, least=1)
    path = resolve(args.get("path") or ".", context.cwd)
    entries = await context.machine.in_thread(lambda: _entries(context, path))
    if not entries:
        return Outcome([Text("(empty directory)")])
    entries.sort(key=lambda entry: (entry.name.lower(), entry.name))
    more = f"{limit} entries limit reached. Use limit={2 * limit} for more"
    return listed(
        (_shown(entry) for entry in entries[:limit]),
        Notice("entryLimitReached", limit, more) if len(entries) > limit else None,
    )


def _entries(context: ToolContext, path: str) -> list[Entry]:
    files = context.machine.files
    match files.kind(path):
        case "folder":
            try:
                real = files.real(path)
                context.confirm(path, real)
                return files.entries(real)
            except ToolError as error:
                raise ToolError(f"Cannot read directory: {error}") from None
        case None:
            raise ToolError(f"Path not found: {path}")
        case _:
            raise ToolError(f"Not a directory: {path}")


def _shown(entry: Entry) -> str:
    name = entry.name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return f"{name}/" if entry.is_folder else name


TOOL = Tool(
    name="ls",
    description=(
        f"List a folder: one name per line in alphabetical order, including hidden entries; folders end with a slash."
        f" Returns at most {LIMIT} entries unless limit is set, and at most {MAX_BYTES // 1024}KB."
    ),
    snippet="List folders",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The folder to list (default: the working directory)"},
            "limit": {"type": "number", "description": f"Maximum number of entries to return (default: {LIMIT})"},
        },
        "required": [],
    },
    run=run,
)
