"""Statistics: counts and sums of messages, for a whole session or for a conversation.

A session is counted as pi 0.87 counts it: every entry of every branch, failed answers that were retried, and the
usage of compactions and branch summaries. So the numbers never shrink. The conversation is what `get_messages`
returns: the current branch since its last compaction. Releases of pi until 0.73 counted that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain, compress, repeat
from operator import add, attrgetter, is_
from weakref import WeakKeyDictionary

from tau.core.conversation.tree import Tree
from tau.records.base import UNSET, UnsetType, decode_lines
from tau.records.counting import (
    AnyCounted,
    CountedAnswer,
    CountedCall,
    CountedEntry,
    CountedLine,
    CountedMessage,
    CountedPrompt,
    CountedResult,
    CountedUsage,
    counted_entries,
)
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

    def usages(self, usages: Sequence[CountedUsage], model: tuple[str, str]) -> None:
        """Like `usage` for each of them, all of one model."""
        fields = ("input", "output", "cache_read", "cache_write")
        sums = [sum(map(attrgetter(name), usages)) for name in fields]
        was = self.tokens
        self.tokens = TokenSums(
            was.input + sums[0],
            was.output + sums[1],
            was.cache_read + sums[2],
            was.cache_write + sums[3],
            was.total + sum(sums),
        )
        # One after the other: in another order the sum of these floats may differ in its last digit.
        self.cost = reduce(add, [usage.cost.total for usage in usages], self.cost)
        if any(_is_free(usage) for usage in usages):
            self._free.add(model)

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


def _is_free(usage: CountedUsage) -> bool:
    return not usage.cost.total and bool(usage.input or usage.output or usage.cache_read or usage.cache_write)


class SessionCounts(Counts):
    """Counts of all entries of one tree. Each entry is read once, by the first update after it was added."""

    def __init__(self) -> None:
        super().__init__()
        self._read = 0
        self._model = ("", "")  # the last model that was set or answered: it wrote the next summary

    def update(self, tree: Tree) -> SessionCounts:
        """Count the entries added to the tree since the last call. The tree must always be the same."""
        for _ in self.steps(tree):
            pass
        return self

    def steps(self, tree: Tree) -> Iterator[None]:
        """Like `update`, in steps of a millisecond or so. Other updates may happen between them."""
        while self._read < len(tree):
            count, block = next(tree.blocks(self._read))
            self._read += count
            lines = decode_lines(CountedLine, block)
            if lines is None or len(lines) != count:
                self._add_entries(counted_entries(count, block))
            else:
                self._add_lines(lines, block)
            yield

    def _add_lines(self, lines: Sequence[CountedLine], block: bytes) -> None:
        start = 0
        types = [line.type for line in lines]
        if types.count("message") != len(types):
            raw = block.split(b"\n")
            for at in [at for at, type in enumerate(types) if type in _COUNTED_TYPES]:
                self._add_messages(lines[start:at])  # in order: a summary belongs to the model of the message before
                self._add_entries(counted_entries(1, raw[at]))
                start = at + 1
        self._add_messages(lines[start:])

    def _add_messages(self, lines: Sequence[CountedLine]) -> None:
        """Count many messages with few operations in Python for each: a session may have a million."""
        messages = [line.message for line in lines if line.message is not None and line.type == "message"]
        kinds = list(map(type, messages))
        for kind, number in Counter(kinds).items():
            role = _ROLES.get(kind, "other")
            self.roles[role] = self.roles.get(role, 0) + number
        self.messages += len(messages)
        answers: list[CountedAnswer] = list(compress(messages, map(is_, kinds, repeat(CountedAnswer))))  # type: ignore[arg-type]
        blocks: Iterable[object] = chain.from_iterable(map(attrgetter("content"), answers))
        self.tool_calls += list(map(type, blocks)).count(CountedCall)
        models = set(map(attrgetter("provider", "model"), answers))
        results = compress(messages, map(is_, kinds, repeat(CountedResult)))
        if len(models) > 1 or any(map(attrgetter("usage"), results)):  # the model of each usage matters
            self._add_each_usage(messages)
        elif answers:
            self._model = answers[-1].provider, answers[-1].model
            self.usages([answer.usage for answer in answers if answer.usage is not None], self._model)

    def _add_each_usage(self, messages: Sequence[AnyCounted]) -> None:
        for message in messages:
            if isinstance(message, CountedAnswer):
                self._model = message.provider, message.model
            if isinstance(message, CountedAnswer | CountedResult) and message.usage is not None:
                self.usage(message.usage, *self._model)

    def _add_entries(self, entries: Iterable[CountedEntry]) -> None:
        for entry in entries:
            if entry.type == "message" and entry.message is not None:
                self._add_message(entry.message)
            else:
                self._add_other(entry)

    def _add_other(self, entry: CountedEntry) -> None:
        match entry.type:
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


_ROLES: dict[type, str] = {CountedAnswer: "assistant", CountedResult: "toolResult", CountedPrompt: "user"}
_COUNTED_TYPES = frozenset({"model_change", "compaction", "branch_summary", "usage"})
_COUNTS: WeakKeyDictionary[Tree, SessionCounts] = WeakKeyDictionary()


def session_counts(tree: Tree) -> SessionCounts:
    """The counts of a tree, which have to be updated."""
    counts = _COUNTS.get(tree)
    if counts is None:
        counts = _COUNTS[tree] = SessionCounts()
    return counts


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
