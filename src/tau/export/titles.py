"""Titles: one line for every entry, its kind and the beginning of its content."""

from __future__ import annotations

import re
from typing import Any

from tau.export import Entry
from tau.export.text import count, short_path, single_line
from tau.records import entries as e
from tau.records import messages as m

MAX_TITLE_CHARACTERS = 110
_HEADING = re.compile(r"^#+ ", re.MULTILINE)
HIDDEN_KINDS = {"setting", "data"}  # kinds that are not part of the conversation
_CONVERSATION = (m.User, m.Assistant, m.ToolResult, m.BashExecution, m.BranchSummary, m.CompactionSummary)


def is_hidden(entry: Entry) -> bool:
    """True if the title of an entry has a hidden kind; much cheaper than the title."""
    match entry:
        case e.MessageEntry(message=m.Custom(display=is_shown)):
            return not is_shown
        case e.MessageEntry(message=message):
            return not isinstance(message, _CONVERSATION)
        case e.CustomMessageEntry():
            return not entry.display
    return not isinstance(entry, (e.CompactionEntry, e.BranchSummaryEntry, e.ModelChange))


def title(entry: Entry, call: m.ToolCall | None, cwd: str) -> tuple[str, str]:
    """Return (kind, text). `call` is the call that a tool result belongs to."""
    kind, text = _title(entry, call, cwd)
    return kind, single_line(text, MAX_TITLE_CHARACTERS)


def _title(entry: Entry, call: m.ToolCall | None, cwd: str) -> tuple[str, str]:
    match entry:
        case e.MessageEntry(message=message):
            return _message(message, call, cwd)
        case e.CustomMessageEntry():
            return _custom(entry.custom_type, entry.content, entry.display)
        case e.CompactionEntry():
            return "summary", f"Compacted {entry.tokens_before:,} tokens"
        case e.BranchSummaryEntry():
            return "summary", f"Branch summary: {_words(entry.summary)}"
        case e.ModelChange():
            return "model", f"Model: {entry.provider}/{entry.model_id}"
        case e.ThinkingLevelChange():
            return "setting", f"Thinking: {entry.thinking_level}"
        case e.SessionInfo():
            return "setting", f"Name: {entry.name}"
        case e.Label():
            return "setting", f"Label: {entry.label}" if entry.label else "Label removed"
        case e.ContextEdit():
            return "setting", f"Context: {entry.target_id} {'left out' if entry.replacement is None else 'changed'}"
        case e.CustomEntry():
            return "data", entry.custom_type
    return "data", unknown_name(entry)


def unknown_name(entry: dict[str, Any]) -> str:
    """Return a name for an entry of an unknown type or a message with an unknown role."""
    message = entry.get("message")
    role = message.get("role") if isinstance(message, dict) else None
    return f"{role} message" if isinstance(role, str) else str(entry.get("type") or "unknown")


def _message(message: Any, call: m.ToolCall | None, cwd: str) -> tuple[str, str]:
    match message:
        case m.User():
            return "user", _words(text_of(message.content)) or "[image]"
        case m.Assistant():
            return _answer(message)
        case m.ToolResult():
            kind = "tool-failed" if message.is_error else "tool"
            return kind, call_text(call, cwd) if call else message.tool_name
        case m.BashExecution():
            return "bash", f"$ {message.command}"
        case m.Custom():
            return _custom(message.custom_type, message.content, message.display)
        case m.BranchSummary():
            return "summary", f"Branch summary: {_words(message.summary)}"
        case m.CompactionSummary():
            return "summary", f"Compacted {message.tokens_before:,} tokens"
    return "data", f"{message.role} message"


def _answer(message: m.Assistant) -> tuple[str, str]:
    text = message.text
    if message.failed:
        reason = f"Error: {message.error_message or 'unknown'}" if message.stop_reason == "error" else "Aborted"
        return "assistant-failed", _words(text) or reason
    if text and not text.isspace():
        return "assistant", _words(text)
    return "calls", count(len(message.tool_calls), "call") if message.tool_calls else "(empty)"


def call_text(call: m.ToolCall, cwd: str) -> str:
    """Return a call in short form: `read src/a.py`."""
    if call.name == "bash":
        return f"$ {call.arguments.get('command', '')}"
    for name in ("pattern", "path", "file_path", "command", "query", "url"):
        if isinstance(value := call.arguments.get(name), str) and value:
            return f"{call.name} {short_path(value, cwd)}"
    return call.name


def _custom(kind: str, content: str | list[m.Text | m.Image], display: bool) -> tuple[str, str]:
    return "custom" if display else "data", f"{kind}: {_words(text_of(content))}"


def _words(text: str) -> str:
    """Return the beginning of a text without Markdown markup."""
    text = text[: MAX_TITLE_CHARACTERS * 4]
    if "#" in text:
        text = _HEADING.sub("", text)
    return text.replace("*", "").replace("`", "")


def text_of(content: str | list[m.Text | m.Image]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, m.Text))
