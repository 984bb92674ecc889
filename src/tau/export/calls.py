"""A tool call and what came of it, each tool in the form that is easiest to read.

The call has a slot for its result; the two are written apart, because on
another branch the same call may have another result, or none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tau.core.clean import Cleaner
from tau.export.blocks import Context, diff, folded, images, output
from tau.export.code import language
from tau.export.text import count, esc, pretty, short_path
from tau.export.titles import text_of
from tau.records.messages import ToolCall, ToolResult

COMMAND_LINES = 12
TAIL_LINES = 8
HEAD_LINES = 10
ARGUMENT_LINES = 10
ONE_LINE = 80  # characters of arguments that fit beside a name

_END = re.compile(r"\n\n(Command (?:exited with code -?\d+|aborted|timed out after [^\n]{1,40}))\Z")
_RESULT_NOTE = re.compile(r"\n\n(\[[^\n]{1,300}\])\Z")


# Calls


def call_html(call: ToolCall, slot: str, results: str, context: Context) -> str:
    head, body = _CALLS.get(call.name, _other)(call.arguments, context)
    name = esc(call.name)
    return (
        f'<section class="call" id="{slot}"><div class="head"><b>{name}</b>{head}</div>{body}'
        f'<div class="slot">{results}</div></section>'
    )


def _bash(args: dict[str, Any], context: Context) -> tuple[str, str]:
    timeout = args.get("timeout")
    head = f'<span class="aside">timeout {esc(str(timeout))} s</span>' if timeout is not None else ""
    command = _word(args, "command")
    return head, f'<div class="command">{folded(context.code.lines(command, "bash"), COMMAND_LINES)}</div>'


def _read(args: dict[str, Any], context: Context) -> tuple[str, str]:
    offset, limit = args.get("offset"), args.get("limit")
    lines = ""
    if isinstance(offset, int | float) or isinstance(limit, int | float):
        first = int(offset) if isinstance(offset, int | float) else 1
        last = str(first + int(limit) - 1) if isinstance(limit, int | float) else ""
        lines = f'<span class="aside">lines {first}-{last}</span>'
    return _path(args, context) + lines, ""


def _write(args: dict[str, Any], context: Context) -> tuple[str, str]:
    content = _word(args, "content").removesuffix("\n")
    lines = context.code.beginning(content, language(_file(args)), HEAD_LINES)
    aside = f'<span class="aside">{count(len(lines), "line")}</span>'
    return _path(args, context) + aside, folded(lines, HEAD_LINES) if content else ""


def _edit(args: dict[str, Any], context: Context) -> tuple[str, str]:
    """The diff comes with the result; a call that failed shows there what was wanted."""
    return _path(args, context), ""


def _search(args: dict[str, Any], context: Context) -> tuple[str, str]:
    pattern = f"<code>{esc(_word(args, 'pattern'))}</code>"
    where = f'<span class="aside">in</span>{_path(args, context)}' if args.get("path") else ""
    others = {key: value for key, value in args.items() if key not in ("pattern", "path")}
    return pattern + where + _asides(others), ""


def _list(args: dict[str, Any], context: Context) -> tuple[str, str]:
    path = _path(args, context) if args.get("path") else "<code>.</code>"
    return path + _asides({key: value for key, value in args.items() if key != "path"}), ""


def _other(args: dict[str, Any], context: Context) -> tuple[str, str]:
    if not args:
        return "", ""
    if len(text := pretty(args, None)) <= ONE_LINE:
        return f"<code>{esc(text)}</code>", ""
    text = pretty(args)
    return "", f'<div class="arguments">{folded(context.code.lines(text, "json"), ARGUMENT_LINES)}</div>'


_CALLS: dict[str, Callable[[dict[str, Any], Context], tuple[str, str]]] = {
    "bash": _bash,
    "read": _read,
    "write": _write,
    "edit": _edit,
    "grep": _search,
    "find": _search,
    "ls": _list,
}


def _file(args: dict[str, Any]) -> str:
    return _word(args, "path") or _word(args, "file_path")  # the second name is that of early sessions


def _path(args: dict[str, Any], context: Context) -> str:
    path = _file(args)
    return f'<code title="{esc(path)}">{esc(short_path(path, context.cwd))}</code>'


def _asides(args: dict[str, Any]) -> str:
    return "".join(f'<span class="aside">{esc(key)} {esc(str(value))}</span>' for key, value in args.items())


def _word(args: dict[str, Any], name: str) -> str:
    """An argument as text. Models send all sorts of things."""
    value = args.get(name, "")
    return value if isinstance(value, str) else pretty(value)


# Results


def result_html(result: ToolResult, call: ToolCall | None, context: Context) -> str:
    text = Cleaner().feed(text_of(result.content))
    if result.is_error:
        return _failure(text, call, context) + images(result.content)
    body = _RESULTS.get(result.tool_name, _plain)(text, result, call, context)
    return body + images(result.content)


def _failure(text: str, call: ToolCall | None, context: Context) -> str:
    end = _END.search(text)
    wanted = diff(_wanted(call.arguments)) if call and call.name == "edit" else ""
    body = output(text[: end.start()] if end else text, TAIL_LINES, "tail")
    return wanted + body + (f'<p class="end">{esc(end[1])}</p>' if end else "")


def _wanted(args: dict[str, Any]) -> str:
    """What an edit would have changed, in the rows of a diff."""
    edits = args.get("edits")
    pairs = edits if isinstance(edits, list) else [args]
    rows = []
    for pair in pairs:
        if isinstance(pair, dict):
            rows += [f"- {row}" for row in _word(pair, "oldText").split("\n")]
            rows += [f"+ {row}" for row in _word(pair, "newText").split("\n")]
    return "\n".join(rows)


def _of_bash(text: str, result: ToolResult, call: ToolCall | None, context: Context) -> str:
    if text.strip() in ("", "(no output)"):
        return '<p class="note">no output</p>'
    return _noted(text, lambda body: output(body, TAIL_LINES, "tail"))


def _of_read(text: str, result: ToolResult, call: ToolCall | None, context: Context) -> str:
    name = language(_file(call.arguments)) if call else ""

    def show(body: str) -> str:
        body = body.rstrip("\n")
        return folded(context.code.beginning(body, name, HEAD_LINES), HEAD_LINES) if body else ""

    return _noted(text, show)


def _of_edit(text: str, result: ToolResult, call: ToolCall | None, context: Context) -> str:
    changes = result.details.get("diff") if isinstance(result.details, dict) else None
    if isinstance(changes, str) and changes:
        return diff(changes)
    return (diff(_wanted(call.arguments)) if call else "") + output(text, HEAD_LINES)


def _of_write(text: str, result: ToolResult, call: ToolCall | None, context: Context) -> str:
    # "Successfully wrote n bytes to …": the content stands above.
    return "" if text.startswith("Successfully wrote ") and "\n" not in text else output(text, HEAD_LINES)


def _plain(text: str, result: ToolResult, call: ToolCall | None, context: Context) -> str:
    return _noted(text, lambda body: output(body, HEAD_LINES))


_RESULTS: dict[str, Callable[[str, ToolResult, ToolCall | None, Context], str]] = {
    "bash": _of_bash,
    "read": _of_read,
    "write": _of_write,
    "edit": _of_edit,
}


def _noted(text: str, show: Callable[[str], str]) -> str:
    """A notice at the end (what was cut, where the rest is) is no part of the output."""
    notice = _RESULT_NOTE.search(text)
    if notice is None:
        return show(text)
    return show(text[: notice.start()]) + f'<p class="note">{esc(notice[1])}</p>'
