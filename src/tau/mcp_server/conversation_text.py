"""A conversation as plain text, for a reader that is not a client of the protocol. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tau.records.base import encode
from tau.records.messages import (
    Assistant,
    BashExecution,
    BranchSummary,
    CompactionSummary,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)

MAX_RESULT = 4000  # characters of a tool result
MAX_ARGUMENTS = 1000


def conversation_text(messages: Iterable[object]) -> str:
    """The messages, each under a heading, without thinking; results of tools are cut."""
    return "\n\n".join(part for message in messages for part in _parts(message)) + "\n"


def _parts(message: object) -> Iterator[str]:
    match message:
        case User(content=content):
            yield f"# User\n\n{_text(content)}"
        case Assistant(content=content):
            yield f"# Assistant\n\n{_text(content)}".rstrip()
        case ToolResult(tool_name=name, content=content, is_error=is_error):
            heading = f"## {'Error' if is_error else 'Result'} of {name}"
            yield f"{heading}\n\n{_short(_text(content), MAX_RESULT)}"
        case BashExecution(command=command, output=output):
            yield f"# Command of the user\n\n$ {command}\n{_short(output, MAX_RESULT)}"
        case CompactionSummary(summary=summary) | BranchSummary(summary=summary):
            yield f"# Summary\n\n{summary}"


def _text(content: str | Iterable[object]) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(filter(None, map(_block, content)))


def _block(block: object) -> str:
    match block:
        case Text(text=text):
            return text
        case Image(mime_type=kind):
            return f"[image: {kind}]"
        case ToolCall(name=name, arguments=arguments):
            return f"[{name} {_short(encode(arguments).decode(), MAX_ARGUMENTS)}]"
        case Thinking():
            return ""
    return ""


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n[cut off]"
