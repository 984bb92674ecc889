"""Totals of a whole session: every branch, including what precedes a compaction."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from tau.export import Entry
from tau.export.titles import text_of
from tau.records import entries as e
from tau.records import messages as m
from tau.records.base import BadRecord, decode, encode


class Totals:
    user: int = 0
    assistant: int = 0
    results: int = 0
    calls: int = 0
    commands: int = 0
    custom: int = 0
    compactions: int = 0
    branch_summaries: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0
    code: int = 0  # characters of files that were read or written

    def __init__(self) -> None:
        self.models: dict[str, None] = {}  # in the order of first use

    def add_usage(self, usage: m.Usage) -> None:
        self.input += usage.input
        self.output += usage.output
        self.cache_read += usage.cache_read
        self.cache_write += usage.cache_write
        self.cost += usage.cost.total

    def add_stored(self, usage: Any) -> None:
        """Usage as an entry has it, which may be absent or of any shape."""
        if isinstance(usage, dict):
            with suppress(BadRecord):
                self.add_usage(decode(m.Usage, encode(usage)))


def totals(entries: Iterable[Entry]) -> Totals:
    sums = Totals()
    for entry in entries:
        match entry:
            case e.MessageEntry(message=m.User()):
                sums.user += 1
            case e.MessageEntry(message=m.Assistant() as answer):
                sums.assistant += 1
                sums.calls += len(answer.tool_calls)
                sums.models[f"{answer.provider}/{answer.model}"] = None
                sums.add_usage(answer.usage)
                sums.code += sum(len(str(call.arguments.get("content", ""))) for call in answer.tool_calls)
            case e.MessageEntry(message=m.ToolResult() as result):
                sums.results += 1
                sums.code += len(text_of(result.content)) if result.tool_name == "read" else 0
            case e.MessageEntry(message=m.BashExecution()):
                sums.commands += 1
            case e.CustomMessageEntry() | e.MessageEntry(message=m.Custom()):
                sums.custom += 1
            case e.CompactionEntry():
                sums.compactions += 1
                sums.add_stored(entry.usage)
            case e.BranchSummaryEntry():
                sums.branch_summaries += 1
            case {"type": "usage", "usage": dict(usage)}:  # in newer files: usage that no message accounts for
                sums.add_stored(usage)
    return sums
