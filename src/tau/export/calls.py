"""Tool calls and their results, each tool in its most readable form.

A call has a slot for its result. The two are produced separately, because on another branch the same call may have
another result, or none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tau.core.text.highlight import language_of_file
from tau.core.text.terminal_text import Cleaner
from tau.export.blocks import RenderContext, diff, fold_lines, images, output
from tau.export.text import count, esc, pretty, short_path
from tau.export.titles import text_of
from tau.records.messages import ToolCall, ToolResult

COMMAND_LINES = 12
TAIL_LINES = 8
HEAD_LINES = 10
ARGUMENT_LINES = 10
MAX_INLINE_CHARACTERS = 80  # shorter arguments are shown beside the name

_EXIT_LINE = re.compile(r"\n\n(Command (?:exited with code -?\d+|aborted|timed out after [^\n]{1,40}))\Z")
_NOTICE = re.compile(r"\n\n(\[[^\n]{1,300}\])\Z")


# Calls


def call_html(call: ToolCall, slot: str, results: str, context: RenderContext) -> str:
    head, body = _CALLS.get(call.name, _other)(call.arguments, context)
    name = esc(call.name)
    return (
        f'<section class="call" id="{slot}"><div class="head"><b>{name}</b>{head}</div>{body}'
        f'<div class="slot">{results}</div></section>'
    )


def _bash(args: dict[str, Any], context: RenderContext) -> tuple[str, str]:
    timeout = args.get("timeout")
    head = f'<span class="aside">timeout {esc(str(timeout))} s</span>' if timeout is not None else ""
    command = _argument(args, "command")
    return head, f'<div class="command">{fold_lines(context.code.of_tool(command, "bash"), COMMAND_LINES)}</div>'


def _read(args: dict[str, Any], context: RenderContext) -> tuple[str, str]:
    offset, limit = args.get("offset"), args.get("limit")
    lines = ""
    if isinstance(offset, int | float) or isinstance(limit, int | float):
        first = int(offset) if isinstance(offset, int | float) else 1
        last = str(first + int(limit) - 1) if isinstance(limit, int | float) else ""
        lines = f'<span class="aside">lines {first}-{last}</span>'
    return _path(args, context) + lines, ""


def _write(args: dict[str, Any], context: RenderContext) -> tuple[str, str]:
    content = _argument(args, "content").removesuffix("\n")
    lines = context.code.of_tool(content, language_of_file(_file(args)))
    aside = f'<span class="aside">{count(len(lines), "line")}</span>'
    return _path(args, context) + aside, fold_lines(lines, HEAD_LINES) if content else ""


def _edit(args: dict[str, Any], context: RenderContext) -> tuple[str, str]:
    """The diff is part of the result; the result of a failed call shows the intended change."""
    return _path(args, context), ""


def _search(args: dict[str, Any], context: RenderContext) -> tuple[str, str]:
    pattern = f"<code>{esc(_argument(args, 'pattern'))}</code>"
    where = f'<span class="aside">in</span>{_path(args, context)}' if args.get("path") else ""
    others = {key: value for key, value in args.items() if key not in ("pattern", "path")}
    return pattern + where + _asides(others), ""


def _list(args: dict[str, Any], context: RenderContext) -> tuple[str, str]:
    path = _path(args, context) if args.get("path") else "<code>.</code>"
    return path + _asides({key: value for key, value in args.items() if key != "path"}), ""


def _other(args: dict[str, Any], context: RenderContext) -> tuple[str, str]:
    if not args:
        return "", ""
    if len(text := pretty(args, None)) <= MAX_INLINE_CHARACTERS:
        return f"<code>{esc(text)}</code>", ""
    text = pretty(args)
    return "", f'<div class="arguments">{fold_lines(context.code.of_tool(text, "json"), ARGUMENT_LINES)}</div>'


_CALLS: dict[str, Callable[[dict[str, Any], RenderContext], tuple[str, str]]] = {
    "bash": _bash,
    "read": _read,
    "write": _write,
    "edit": _edit,
    "grep": _search,
    "find": _search,
    "ls": _list,
}


def _file(args: dict[str, Any]) -> str:
    return _argument(args, "path") or _argument(args, "file_path")  # older sessions call it file_path


def _path(args: dict[str, Any], context: RenderContext) -> str:
    path = _file(args)
    return f'<code title="{esc(path)}">{esc(short_path(path, context.cwd))}</code>'


def _asides(args: dict[str, Any]) -> str:
    return "".join(f'<span class="aside">{esc(key)} {esc(str(value))}</span>' for key, value in args.items())


def _argument(args: dict[str, Any], name: str) -> str:
    """Return an argument as text. Models may send any type."""
    value = args.get(name, "")
    return value if isinstance(value, str) else pretty(value)


# Results


def result_html(result: ToolResult, call: ToolCall | None, context: RenderContext) -> str:
    text = Cleaner().feed(text_of(result.content))
    if result.is_error:
        return _failure(text, call, context) + images(result.content)
    body = _RESULTS.get(result.tool_name, _other_result)(text, result, call, context)
    return body + images(result.content)


def _failure(text: str, call: ToolCall | None, context: RenderContext) -> str:
    end = _EXIT_LINE.search(text)
    intended = diff(_intended_diff(call.arguments)) if call and call.name == "edit" else ""
    body = output(text[: end.start()] if end else text, TAIL_LINES, "tail")
    return intended + body + (f'<p class="end">{esc(end[1])}</p>' if end else "")


def _intended_diff(args: dict[str, Any]) -> str:
    """The change that an edit intended, as rows of a diff."""
    edits = args.get("edits")
    pairs = edits if isinstance(edits, list) else [args]
    rows = []
    for pair in pairs:
        if isinstance(pair, dict):
            rows += [f"- {row}" for row in _argument(pair, "oldText").split("\n")]
            rows += [f"+ {row}" for row in _argument(pair, "newText").split("\n")]
    return "\n".join(rows)


def _bash_result(text: str, result: ToolResult, call: ToolCall | None, context: RenderContext) -> str:
    if text.strip() in ("", "(no output)"):
        return '<p class="note">no output</p>'
    return _with_notice(text, lambda body: output(body, TAIL_LINES, "tail"))


def _read_result(text: str, result: ToolResult, call: ToolCall | None, context: RenderContext) -> str:
    name = language_of_file(_file(call.arguments)) if call else ""

    def show(body: str) -> str:
        body = body.rstrip("\n")
        return fold_lines(context.code.of_tool(body, name), HEAD_LINES) if body else ""

    return _with_notice(text, show)


def _edit_result(text: str, result: ToolResult, call: ToolCall | None, context: RenderContext) -> str:
    changes = result.details.get("diff") if isinstance(result.details, dict) else None
    if isinstance(changes, str) and changes:
        return diff(changes)
    return (diff(_intended_diff(call.arguments)) if call else "") + output(text, HEAD_LINES)


def _write_result(text: str, result: ToolResult, call: ToolCall | None, context: RenderContext) -> str:
    # "Successfully wrote n bytes to …": the content is shown with the call.
    return "" if text.startswith("Successfully wrote ") and "\n" not in text else output(text, HEAD_LINES)


def _other_result(text: str, result: ToolResult, call: ToolCall | None, context: RenderContext) -> str:
    return _with_notice(text, lambda body: output(body, HEAD_LINES))


_RESULTS: dict[str, Callable[[str, ToolResult, ToolCall | None, RenderContext], str]] = {
    "bash": _bash_result,
    "read": _read_result,
    "write": _write_result,
    "edit": _edit_result,
}


def _with_notice(text: str, show: Callable[[str], str]) -> str:
    """Show a notice at the end (what was truncated, where the rest is) separately from the output."""
    notice = _NOTICE.search(text)
    if notice is None:
        return show(text)
    return show(text[: notice.start()]) + f'<p class="note">{esc(notice[1])}</p>'
