"""The entries of a session as a list of short texts: what a view of the whole tree shows, without their content.

20,000 entries are read in a fraction of a second: only the fields that are shown are decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from tau.core.conversation.tree import ROOT, Tree
from tau.records.base import BadRecord, Value, decode, decode_lines

MAX_TEXT = 200  # characters of an entry

NodeKind = Literal[
    "user", "assistant", "tool", "bash", "custom_message", "compaction", "branch_summary", "message", "setting"
]


class Node(Value, gc=False):
    """An entry. `setting`: a label, a name, a model, state of an extension: not part of the conversation."""

    kind: NodeKind
    title: str  # what it is, such as "bash" or "model"; "" for prompts and answers
    text: str
    silent: bool = False  # an answer that only calls tools


class LabelOf(NamedTuple):
    text: str
    timestamp: str


class TreeOutline(NamedTuple):
    """`parents` has -1 for a root; parents precede their children. `active` is the last entry of the conversation."""

    nodes: Sequence[Node]
    parents: Sequence[int]
    active: int
    labels: dict[int, LabelOf]


class _Arguments(Value, gc=False):
    command: Any = None
    path: Any = None
    file_path: Any = None
    pattern: Any = None


class _Block(Value, gc=False):
    type: str = ""
    text: str = ""
    id: str = ""
    name: str = ""
    arguments: _Arguments | str | list[Any] | None = None


class _Message(Value, rename="camel", gc=False):
    role: str = ""
    content: str | list[_Block] | None = ""
    tool_call_id: str = ""
    tool_name: str = ""
    stop_reason: str = ""
    error_message: Any = None
    command: str = ""


class _Line(Value, rename="camel", gc=False):
    type: str
    timestamp: Any = ""
    message: _Message | None = None
    content: str | list[_Block] | None = ""
    summary: Any = ""
    tokens_before: Any = 0
    provider: Any = ""
    model_id: Any = ""
    thinking_level: Any = ""
    name: Any = ""
    custom_type: Any = ""
    target_id: Any = ""
    label: Any = None


def outline(tree: Tree) -> TreeOutline:
    nodes: list[Node] = []
    labels: dict[str, LabelOf | None] = {}
    calls: dict[str, Node] = {}  # by the id of the call
    for line in _lines(tree):
        if line is None:
            nodes.append(Node("setting", "unreadable", ""))
            continue
        if line.type == "label" and isinstance(line.target_id, str):
            given = line.label
            labels[line.target_id] = LabelOf(given, str(line.timestamp)) if isinstance(given, str) and given else None
        nodes.append(_node(line, calls))
    parents = [tree.parent(at) for at in range(len(nodes))]
    active = tree.leaf
    while active != ROOT and nodes[active].kind == "setting":
        active = parents[active]
    places = {tree.find(target): label for target, label in labels.items() if label is not None}
    return TreeOutline(nodes, parents, active, {at: label for at, label in places.items() if at is not None})


def _lines(tree: Tree) -> list[_Line | None]:
    lines: list[_Line | None] = []
    for count, block in tree.blocks(0):
        found = decode_lines(_Line, block)
        if found is not None and len(found) == count:
            lines += found
        else:
            lines += [_line(tree.line(at)) for at in range(len(lines), len(lines) + count)]
    return lines


def _line(data: bytes) -> _Line | None:
    try:
        return decode(_Line, data, nesting=None)
    except BadRecord:
        return None


def _node(line: _Line, calls: dict[str, Node]) -> Node:
    if line.message is not None and line.type == "message":
        return _message(line.message, calls)
    match line.type:
        case "compaction":
            count = line.tokens_before
            return Node("compaction", "compaction", f"{count:,} tokens" if isinstance(count, int) else "")
        case "branch_summary":
            return Node("branch_summary", "branch summary", _short(line.summary))
        case "custom_message":
            return Node("custom_message", _short(line.custom_type), _short(_text(line.content)))
        case "model_change":
            return Node("setting", "model", _short(f"{line.provider}/{line.model_id}"))
        case "thinking_level_change":
            return Node("setting", "thinking", _short(line.thinking_level))
        case "session_info":
            return Node("setting", "name", _short(line.name))
        case "label":
            return Node("setting", "label", _short(line.label or "removed"))
        case "custom":
            return Node("setting", "custom", _short(line.custom_type))
    return Node("setting", _short(line.type), "")


def _message(message: _Message, calls: dict[str, Node]) -> Node:
    match message.role:
        case "user":
            return Node("user", "", _short(_text(message.content)))
        case "assistant":
            return _answer(message, calls)
        case "toolResult":
            known = calls.get(message.tool_call_id)
            return known if known is not None else Node("tool", _short(message.tool_name), "")
        case "bashExecution":
            return Node("bash", "!", _short(message.command))
    return Node("message", _short(message.role), _short(_text(message.content)))


def _answer(message: _Message, calls: dict[str, Node]) -> Node:
    blocks = message.content if isinstance(message.content, list) else []
    for block in blocks:
        if block.type == "toolCall":
            calls[block.id] = Node("tool", _short(block.name), _about(block.arguments))
    if text := _short(_text(message.content)):
        return Node("assistant", "", text)
    if message.stop_reason == "error":
        return Node("assistant", "error", _short(message.error_message or ""))
    if message.stop_reason == "aborted":
        return Node("assistant", "stopped", "")
    return Node("assistant", "no text", "", silent=True)


def _about(arguments: _Arguments | str | list[Any] | None) -> str:
    if not isinstance(arguments, _Arguments):
        return ""
    given = (arguments.command, arguments.path, arguments.file_path, arguments.pattern)
    return next((_short(one) for one in given if isinstance(one, str) and one), "")


def _text(content: str | list[_Block] | None) -> str:
    if isinstance(content, list):
        if len(content) == 1:
            return content[0].text if content[0].type == "text" else ""
        return " ".join([block.text for block in content if block.type == "text"])
    return content or ""


def _short(text: Any) -> str:
    """The beginning of a text, on one line."""
    return " ".join(str(text)[:MAX_TEXT].split())
