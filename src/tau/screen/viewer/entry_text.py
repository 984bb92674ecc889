"""An entry of the transcript as text, to copy or to open in an editor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tau.records import entries as e
from tau.records import messages as m
from tau.records.base import encode


def entry_text(entry: Any, results: Mapping[str, m.ToolResult]) -> str:
    """Texts as they were written. An answer without text: its tool calls and their results."""
    message = entry.message if isinstance(entry, e.MessageEntry) else entry
    match message:
        case m.Assistant():
            text = "\n\n".join(block.text for block in message.content if isinstance(block, m.Text) and block.text)
            return text or _calls(message, results)
        case m.BashExecution():
            return f"$ {message.command}\n{message.output}"
        case m.CompactionSummary() | e.CompactionEntry() | m.BranchSummary() | e.BranchSummaryEntry():
            return message.summary
        case m.User() | m.Custom() | e.CustomMessageEntry() | m.ToolResult():
            return _text(message.content)
    return ""


def _calls(answer: m.Assistant, results: Mapping[str, m.ToolResult]) -> str:
    parts = []
    for call in answer.content:
        if isinstance(call, m.ToolCall):
            parts.append(f"{call.name} {encode(call.arguments).decode('utf-8', 'replace')}")
            if (result := results.get(call.id)) is not None:
                parts.append(_text(result.content))
    return "\n".join(parts)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, m.Text))
