"""Estimate how much of the context window a conversation uses.

A provider counts exactly, but only when it answers. So the last count is used and later messages are estimated.
Counts from before a compaction are stale: the messages they counted are gone. Messages that a model never sees count
as zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tau.core.conversation.entry_messages import compacted_messages, is_system, message_of, summary_of
from tau.records.base import UNSET, BadRecord, encode, parse, wire_json
from tau.records.entries import AnyEntry, CompactionEntry, MessageEntry
from tau.records.lines import UnknownEntry
from tau.records.messages import (
    Assistant,
    BashExecution,
    BranchSummary,
    CompactionSummary,
    Custom,
    Image,
    Other,
    StoredMessage,
    System,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    UsageCost,
    User,
)

TreeEntry = AnyEntry | UnknownEntry
CHARS_PER_TOKEN = 4
CHARS_PER_IMAGE = 4800


def estimate(message: StoredMessage) -> int:
    """Approximate number of tokens of a message."""
    return -(-_characters(message) // CHARS_PER_TOKEN)


def _characters(message: StoredMessage) -> int:
    if hidden_from_model(message):
        return 0
    match message:
        case User() | Custom() | ToolResult():
            return _content(message.content)
        case Assistant():
            return sum(map(_block, message.content))
        case BashExecution():
            return len(message.command) + len(message.output)
        case BranchSummary() | CompactionSummary():
            return len(message.summary)
    return 0  # a role that another program wrote


def _content(content: str | list[Text | Image]) -> int:
    return len(content) if isinstance(content, str) else sum(map(_block, content))


def _block(block: Text | Thinking | ToolCall | Image) -> int:
    match block:
        case Text():
            return len(block.text)
        case Thinking():
            return len(block.thinking)
        case ToolCall():
            return len(block.name) + len(encode(block.arguments).decode())
        case Image():
            return CHARS_PER_IMAGE


def hidden_from_model(message: StoredMessage) -> bool:
    """True if a message is in the conversation only for people (core/conversation/provider_messages.py omits it)."""
    match message:
        case Assistant():
            return message.failed
        case BashExecution():
            return message.exclude_from_context is True
    return False


def entry_tokens(entry: TreeEntry) -> int:
    message = message_of(entry)
    return 0 if message is None else estimate(message)


def sum_usage(usages: Sequence[Usage]) -> Usage:
    """The sum of the usage of several answers."""
    reasoning = [usage.reasoning for usage in usages if usage.reasoning is not UNSET]
    kept_longer = [usage.cache_write_1h for usage in usages if usage.cache_write_1h is not UNSET]
    costs = [usage.cost for usage in usages]
    return Usage(
        sum(usage.input for usage in usages),
        sum(usage.output for usage in usages),
        sum(usage.cache_read for usage in usages),
        sum(usage.cache_write for usage in usages),
        sum(usage.total_tokens for usage in usages),
        UsageCost(
            sum(cost.input for cost in costs),
            sum(cost.output for cost in costs),
            sum(cost.cache_read for cost in costs),
            sum(cost.cache_write for cost in costs),
            sum(cost.total for cost in costs),
        ),
        sum(reasoning) if reasoning else UNSET,
        sum(kept_longer) if kept_longer else UNSET,
    )


def usage_tokens(usage: Usage) -> int:
    return usage.total_tokens or usage.input + usage.output + usage.cache_read + usage.cache_write


def since_compaction(branch: Sequence[TreeEntry]) -> tuple[CompactionEntry | None, Sequence[TreeEntry]]:
    """The last compaction, and the entries from the first that it kept.

    Searches from the end and stops at that entry: the part before it may be long, and entries are parsed on access.
    """
    at = next((i for i in reversed(range(len(branch))) if isinstance(branch[i], CompactionEntry)), None)
    if at is None:
        return None, branch[:]
    compaction = branch[at]
    assert isinstance(compaction, CompactionEntry)
    first = next((i for i in reversed(range(at)) if branch[i].id == compaction.first_kept_entry_id), at + 1)
    return compaction, branch[first:]


def last_counted(back: Iterable[TreeEntry]) -> int | None:
    """The last token count of a provider plus an estimate of later messages; entries come newest first.

    None if no model has counted since the last compaction, or ever.
    """
    later = 0
    for entry in back:
        if isinstance(entry, CompactionEntry):
            return None
        if isinstance(entry, MessageEntry) and isinstance(answer := entry.message, Assistant):
            tokens = 0 if answer.failed else usage_tokens(answer.usage)
            if tokens:
                return tokens + later
        later += entry_tokens(entry)
    return None


def context_tokens(branch: Sequence[TreeEntry]) -> int:
    """Number of tokens of the next request."""
    known = last_counted(reversed(branch))
    if known is not None:
        return known
    compaction, entries = since_compaction(branch)
    summary = 0 if compaction is None else estimate(summary_of(compaction))
    return summary + sum(map(entry_tokens, entries)) + _system_tokens(compaction, entries)


def _system_tokens(compaction: CompactionEntry | None, entries: Sequence[TreeEntry]) -> int:
    """Tokens of the system prompt and tools, if the conversation declares them. A compaction has the sum of them."""
    declared = [] if compaction is None else compacted_messages(compaction)
    for entry in entries:
        if isinstance(entry, CompactionEntry):
            declared = compacted_messages(entry)
        elif isinstance(entry, MessageEntry):
            declared.append(entry.message)
    return sum(-(-_declared_characters(message) // CHARS_PER_TOKEN) for message in declared if is_system(message))


def _declared_characters(message: Other | System) -> int:
    try:
        content = parse(wire_json(message))
    except BadRecord:
        return 0
    sections, tools = content.get("sections"), content.get("toolsAdded")
    texts = [content.get("content"), *(sections.values() if isinstance(sections, dict) else ())]
    characters = sum(len(text) for text in texts if isinstance(text, str))
    return characters + (len(encode(tools).decode()) if tools else 0)


def context_usage(branch: Sequence[TreeEntry], context_window: int) -> tuple[int | None, float | None]:
    """Tokens and percentage of the window; None while they are unknown, right after a compaction."""
    tokens = last_counted(reversed(branch))
    if tokens is None:
        if since_compaction(branch)[0] is not None:
            return None, None
        tokens = context_tokens(branch)
    return tokens, tokens / context_window * 100 if context_window > 0 else None
