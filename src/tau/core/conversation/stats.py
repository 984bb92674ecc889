"""Statistics: counts and sums of messages, for a whole session or for a conversation.

A session is counted as pi 0.87 counts it: every entry of every branch, failed answers that were retried, and the
usage of compactions and branch summaries. So the numbers never shrink. The conversation is what `get_messages`
returns: the current branch since its last compaction. Releases of pi until 0.73 counted that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tau.core.conversation.tree import Tree
from tau.records.base import UNSET, UnsetType
from tau.records.counting import CountedEntry, CountedMessage, CountedUsage, counted_entries
from tau.records.messages import Assistant, StoredMessage, ToolResult, Usage, User
from tau.records.replies import ContextUsage, SessionStats, TokenSums

Unpriced = Callable[[str, str], bool]  # True if the price of a model is unknown; arguments: provider and id


def _all_priced(provider: str, model: str) -> bool:
    return False


class Counts:
    """Counters that only grow."""

    def __init__(self) -> None:
        self.roles: dict[str, int] = {}
        self.messages = 0
        self.tool_calls = 0
        self.tokens = TokenSums()
        self.cost: float = 0
        self._free: set[tuple[str, str]] = set()  # provider and id of models whose answers cost nothing

    def message(self, role: str, tool_calls: int = 0) -> None:
        self.messages += 1
        self.roles[role] = self.roles.get(role, 0) + 1
        self.tool_calls += tool_calls

    def usage(self, usage: Usage | CountedUsage, provider: str, model: str) -> None:
        was, total = self.tokens, usage.input + usage.output + usage.cache_read + usage.cache_write
        self.tokens = TokenSums(
            was.input + usage.input,
            was.output + usage.output,
            was.cache_read + usage.cache_read,
            was.cache_write + usage.cache_write,
            was.total + total,
        )
        self.cost += usage.cost.total
        if total and not usage.cost.total:
            self._free.add((provider, model))

    def stats(
        self,
        session_id: str,
        session_file: str | UnsetType = UNSET,
        context_usage: ContextUsage | UnsetType = UNSET,
        unpriced: Unpriced = _all_priced,
    ) -> SessionStats:
        """`unpriced` is called for models that cost nothing, to find out if only their price is unknown."""
        return SessionStats(
            session_file=session_file,
            session_id=session_id,
            user_messages=self.roles.get("user", 0),
            assistant_messages=self.roles.get("assistant", 0),
            tool_calls=self.tool_calls,
            tool_results=self.roles.get("toolResult", 0),
            total_messages=self.messages,
            tokens=self.tokens,
            cost=self.cost,
            context_usage=context_usage,
            cost_unknown=True if any(unpriced(provider, model) for provider, model in self._free) else UNSET,
        )


class SessionCounts(Counts):
    """Counts of all entries of one tree. Each entry is read once, by the first update after it was added."""

    def __init__(self) -> None:
        super().__init__()
        self._read = 0
        self._model = ("", "")  # the last model that was set or answered: it wrote the next summary

    def update(self, tree: Tree) -> SessionCounts:
        """Count the entries added to the tree since the last call. The tree must always be the same."""
        first, self._read = self._read, len(tree)
        for count, block in tree.blocks(first):
            for entry in counted_entries(count, block):
                self._add(entry)
        return self

    def _add(self, entry: CountedEntry) -> None:
        match entry.type:
            case "message" if entry.message is not None:
                self._add_message(entry.message)
            case "model_change":
                self._model = entry.provider, entry.model_id
            case "compaction" | "branch_summary" if entry.usage is not None:
                self.usage(entry.usage, *self._model)
            case "usage" if entry.usage is not None:  # pi: tokens spent outside the conversation
                self.usage(entry.usage, entry.provider, entry.model)

    def _add_message(self, message: CountedMessage) -> None:
        self.message(message.role, message.tool_calls)
        if message.role == "assistant":
            self._model = message.provider, message.model
        if message.role in ("assistant", "toolResult") and message.usage is not None:
            self.usage(message.usage, *self._model)


def conversation_counts(messages: Iterable[StoredMessage]) -> Counts:
    counts = Counts()
    for message in messages:  # each message is released again: all of them may not fit into memory
        match message:
            case User():
                counts.message("user")
            case Assistant():
                counts.message("assistant", len(message.tool_calls))
                counts.usage(message.usage, message.provider, message.model)
            case ToolResult():
                counts.message("toolResult")
            case _:
                counts.message("other")
    return counts
