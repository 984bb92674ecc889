"""The edit tool: replaces text in a file.

The schema that models see has one pair of texts. Many models know the newer form with a list of pairs, or send that
list as a single pair or as JSON in a string: all of these are accepted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tau.core.text.truncate import format_size
from tau.errors import Aborted, ToolError
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.tools import Tool, ToolContext
from tau.tools.file_locks import ShouldStop, run_locked
from tau.tools.paths import resolve_existing
from tau.tools.read import existence_test, read_chunks

if TYPE_CHECKING:
    from tau.core.text.editing import Edit

MAX_FILE_BYTES = 64 * 1024 * 1024

_PATH = {"type": "string", "description": "The file, relative to the working directory or absolute"}
_PAIR = {
    "oldText": {"type": "string", "description": "The text to replace, exactly as it is in the file"},
    "newText": {"type": "string", "description": "The text to put in its place"},
}
_ONE = {"type": "object", "properties": {"path": _PATH, **_PAIR}, "required": ["path", *_PAIR]}
_EDIT = {"type": "object", "properties": _PAIR, "required": [*_PAIR]}
_SEVERAL = {
    "type": "object",
    "properties": {"path": _PATH, "edits": {"anyOf": [{"type": "array", "items": _EDIT}, _EDIT]}},
    "required": ["path", "edits"],
}
# What extensions that wrap the tool are given: as in pi, whose extensions read `edits`.
DEFINITION = {
    "description": (
        "Replace texts in a file. Each oldText must occur in the file exactly once and match it exactly, including"
        " whitespace, before any of the edits; they must not overlap. The rest of the file does not change."
    ),
    "parameters": {
        "type": "object",
        "properties": {"path": _PATH, "edits": {"type": "array", "items": _EDIT, "description": "The replacements"}},
        "required": ["path", "edits"],
    },
}


async def run(args: dict[str, Any], context: ToolContext) -> Outcome:
    """Apply the edits atomically: a cancelled call has made all changes or none."""
    name, edits = args["path"], edits_of(args)
    files, seen = context.machine.files, context.seen

    def work(path: str, real: str, stopped: ShouldStop) -> Outcome:
        context.confirm(name, real)
        data = _content(context, path, name, stopped)
        seen.check_unchanged(name, real, [data])
        from tau.core.text.editing import apply_edits

        result = apply_edits(data, edits, name)
        if stopped():
            raise Aborted
        files.replace(path, result.data)
        seen.record_write(real, result.data)
        if context.file_changed is not None:
            context.file_changed(path, data, result.data)
        what = "text" if context.file_texts == "0.13" else f"{len(edits)} block(s)"
        patch = {"patch": result.patch} if context.file_texts in ("0.84", "0.87") else {}
        details = {"diff": result.diff, **patch, "firstChangedLine": result.first_changed_line}
        return Outcome([Text(f"Successfully replaced {what} in {name}.")], details)

    return await run_locked(context.machine, lambda: resolve_existing(name, context.cwd, existence_test(files)), work)


def edits_of(args: dict[str, Any]) -> list[Edit]:
    from tau.core.text.editing import Edit

    given = args.get("edits")
    pairs = [] if given is None else given if isinstance(given, list) else [given]
    if isinstance(args.get("oldText"), str) and isinstance(args.get("newText"), str):
        pairs = [*pairs, args]
    if not pairs:
        raise ToolError("edits is empty; it must contain at least one pair of oldText and newText")
    return [Edit(pair["oldText"], pair["newText"]) for pair in pairs]


def _content(context: ToolContext, path: str, name: str, stopped: ShouldStop) -> bytes:
    files = context.machine.files
    if files.kind(path) is None:
        missing = f"Could not edit file: {name}. Error code: ENOENT."
        raise ToolError(f"File not found: {name}" if context.file_texts == "0.13" else missing)
    data = bytearray()
    with files.open(path) as file:
        for chunk in read_chunks(file, stopped):
            data += chunk
            if len(data) > MAX_FILE_BYTES:
                limit = format_size(MAX_FILE_BYTES)
                raise ToolError(f"{name} is larger than {limit}, too large for edit. Use bash, for example sed.")
    return bytes(data)


def schema_for(arguments: dict[str, Any]) -> dict[str, Any]:
    return _ONE if arguments.get("edits") is None else _SEVERAL


TOOL = Tool(
    name="edit",
    description=(
        "Replace text in a file. oldText must occur in the file exactly once and match it exactly, including"
        " whitespace; the rest of the file does not change."
    ),
    snippet="Change part of a file",
    parameters=_ONE,
    run=run,
    guidelines=(
        "Use edit to change parts of a file. Keep oldText short, but long enough to be unique in the file.",
        "Read a file before you edit it.",
    ),
    schema_for=schema_for,
)
