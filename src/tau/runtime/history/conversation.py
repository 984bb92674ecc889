"""The conversation: the messages on the current branch, as an iterable.

The messages of an opened file are parsed on demand. A short conversation is then kept in memory; a long one is parsed
again on each iteration, block by block, since as objects it takes several times the memory that it takes in the file.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, groupby

from tau.core.conversation.entry_messages import compacted_messages, message_of
from tau.core.conversation.tree import Tree
from tau.records.base import BadRecord, SplicedList, left_out, wire_json
from tau.records.entries import CompactionEntry
from tau.records.lines import raw_messages, read_message, typed_messages
from tau.records.messages import StoredMessage

BLOCK_BYTES = 512 * 1024
MAX_CACHED_BYTES = 4 * 1024 * 1024


class Conversation:
    """`ats` are the entries that exist already; `problem` is called for those that cannot be read."""

    def __init__(
        self,
        tree: Tree,
        summary: CompactionEntry | None = None,
        ats: Sequence[int] = (),
        problem: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._tree = tree
        self._ats = ats
        self._problem = problem
        self.unreadable: set[int] = set()  # of the entries parsed so far
        self._before: list[StoredMessage] = compacted_messages(summary) if summary is not None else []
        self._after: list[StoredMessage] = []
        self._size = len(self._before) + len(ats)
        if tree.size_of(ats) <= MAX_CACHED_BYTES:
            self._before += self._read()
            self._ats, self._size = (), len(self._before)

    def __len__(self) -> int:
        """The number of messages, including the few that cannot be read, if there are any."""
        return self._size + len(self._after)

    def __iter__(self) -> Iterator[StoredMessage]:
        return chain(self._before, self._read(), self._after)

    def __reversed__(self) -> Iterator[StoredMessage]:
        yield from reversed(self._after)
        for at in reversed(self._ats):
            yield from self._each([at])
        yield from reversed(self._before)

    def but(self, prompts: Sequence[StoredMessage]) -> Past:
        """Return the messages until now, without `prompts`; it does not include messages that are added later."""
        past = copy.copy(self)
        past._after = [*self._after]
        return Past(past, prompts)

    def append(self, message: StoredMessage) -> None:
        self._after.append(message)

    def _read(self) -> Iterator[StoredMessage]:
        for kind, ats in groupby(self._ats, self._tree.kind):
            if kind != "message":
                yield from self._each([*ats])
                continue
            for block, given in self._tree.message_blocks([*ats], BLOCK_BYTES, typed_messages):
                yield from self._each(block) if given is None else given

    def _each(self, ats: Sequence[int]) -> Iterator[StoredMessage]:
        for at in ats:
            try:
                message = self._tree.message(at)
            except BadRecord as error:
                self.unreadable.add(at)
                self._report(at, [str(error)])
            else:
                if message is not None:
                    self._report(at, left_out(message))
                    yield message

    def _report(self, at: int, problems: Sequence[str]) -> None:
        for problem in problems:
            self._problem(f"entry {self._tree.readable_id(at) or at + 1}: not sent to the model: {problem}")


class Past:
    def __init__(self, conversation: Conversation, prompts: Sequence[StoredMessage]) -> None:
        self._conversation = conversation
        self._prompts = prompts

    def __iter__(self) -> Iterator[StoredMessage]:
        # Compared by value: after a compaction a prompt is another object, parsed from its entry.
        return (message for message in self._conversation if message not in self._prompts)


def messages_json(tree: Tree, unreadable: Container[int] = ()) -> SplicedList:
    """Return the conversation as JSON, byte for byte as it was read; its parts are made when they are sent."""
    summary, entries = tree.seen()
    if unreadable:
        entries = [at for at in entries if at not in unreadable]
    return SplicedList(_portions(tree, summary, entries), tree.size)


def _portions(tree: Tree, summary: CompactionEntry | None, entries: list[int]) -> Iterator[Sequence[bytes]]:
    if summary is not None:
        yield [wire_json(message) for message in compacted_messages(summary)]
    for kind, ats in groupby(entries, tree.kind):
        if kind == "message":
            for block, given in tree.message_blocks(list(ats), BLOCK_BYTES, raw_messages):
                yield _readable(tree, block) if given is None else list(given)
        else:
            yield [wire_json(other) for at in ats if (other := message_of(tree.entry(at))) is not None]


def _readable(tree: Tree, block: Iterable[int]) -> list[bytes]:
    """Return the messages of a block that contains bad ones, without those that cannot be read."""
    found = []
    for at in block:
        with suppress(BadRecord):
            found.append(wire_json(read_message(tree.message_json(at))))
    return found
