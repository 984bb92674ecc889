"""A conversation as a model may see it.

What clients and extensions put in becomes user messages; answers that failed
are left out together with their tool calls; every call has exactly one result.
A model that gets less than that refuses the whole conversation, for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tau.records.base import replace
from tau.records.messages import (
    Assistant,
    BashExecution,
    BranchSummary,
    CompactionSummary,
    Custom,
    Image,
    Stored,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from tau.records.models import Model

Spoken = User | Assistant | ToolResult
NO_RESULT = "No result provided"
COMPACTED = "The earlier part of this conversation was replaced by the following summary:"
BRANCHED = "The conversation went down another branch before it came back here. A summary of that branch:"


def for_model(messages: Iterable[Stored], model: Model) -> list[Spoken]:
    spoken = [said for message in messages if (said := _said(message)) is not None]
    return _paired([_readable(message, model) for message in spoken])


def bash_text(message: BashExecution) -> str:
    """How a client's shell command is told to the model."""
    parts = [f"Ran `{message.command}`"]
    parts.append(f"```\n{message.output}\n```" if message.output else "(no output)")
    text = "\n".join(parts)
    if message.cancelled:
        text += "\n\n(command cancelled)"
    elif isinstance(message.exit_code, int) and message.exit_code != 0:
        text += f"\n\nCommand exited with code {message.exit_code}"
    if message.truncated and message.full_output_path:
        text += f"\n\n[Output truncated. Full output: {message.full_output_path}]"
    return text


def _said(message: Stored) -> Spoken | None:
    match message:
        case User() | ToolResult():
            return message
        case Assistant():
            return None if message.failed else message
        case BashExecution():
            if message.exclude_from_context is True:
                return None
            return User([Text(bash_text(message))], message.timestamp)
        case Custom():
            return User(_blocks(message.content), message.timestamp)
        case CompactionSummary():
            return User([Text(f"{COMPACTED}\n\n<summary>\n{message.summary}\n</summary>")], message.timestamp)
        case BranchSummary():
            return User([Text(f"{BRANCHED}\n\n<summary>\n{message.summary}</summary>")], message.timestamp)
    return None  # a role of another program


def _blocks(content: str | list[Text | Image]) -> list[Text | Image]:
    return [Text(content)] if isinstance(content, str) else content


def _readable(message: Spoken, model: Model) -> Spoken:
    """`message` without what this model cannot read."""
    sees = "image" in model.input
    match message:
        case User():
            kept = [block for block in _blocks(message.content) if sees or not isinstance(block, Image)]
            return replace(message, content=kept)
        case ToolResult():
            kept = [block for block in message.content if sees or not isinstance(block, Image)]
            if not kept and message.content:
                kept = [Text("(image omitted: the model cannot see images)")]
            return replace(message, content=kept)
        case Assistant():
            same = (message.provider, message.api, message.model) == (model.provider, model.api, model.id)
            if same:
                return message
            return replace(
                message, content=[said for block in message.content if (said := _foreign(block)) is not None]
            )


def _foreign(block: Text | Thinking | ToolCall) -> Text | ToolCall | None:
    """A block of another model: signatures mean nothing here, thinking becomes text."""
    match block:
        case Thinking():
            return Text(block.thinking) if block.thinking.strip() and block.redacted is not True else None
        case Text():
            return Text(block.text)
        case ToolCall():
            return ToolCall(block.id, block.name, block.arguments)


def _paired(messages: Sequence[Spoken]) -> list[Spoken]:
    """Each call gets a result before anything else is said; results without a call are dropped."""
    paired: list[Spoken] = []
    waiting: list[ToolCall] = []

    def supply() -> None:
        for call in waiting:
            paired.append(ToolResult(call.id, call.name, [Text(NO_RESULT)], {}, True))
        waiting.clear()

    for message in messages:
        if isinstance(message, ToolResult):
            call = next((call for call in waiting if call.id == message.tool_call_id), None)
            if call is not None:
                waiting.remove(call)
                paired.append(message)
            continue
        supply()
        paired.append(message)
        if isinstance(message, Assistant):
            waiting += message.tool_calls
    supply()
    return paired
