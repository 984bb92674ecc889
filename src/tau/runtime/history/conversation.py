"""The messages on the current branch, for those who go through them.

Those of a file that was opened are read when somebody asks. If there are few they
are kept then; a long conversation is read anew each time, block by block, since
as objects it takes several times the memory it takes in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import chain, groupby

from tau.core.conversation.tree import Tree, message_of, summary_of
from tau.records.base import BadRecord
from tau.records.entries import CompactionEntry
from tau.records.lines import typed_messages
from tau.records.messages import Stored, as_message

BLOCK = 512 * 1024
KEPT = 4 * 1024 * 1024


class Conversation:
    """`ats` are the entries that were there already, `problem` hears of those that cannot be read."""

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
        self.unreadable: set[int] = set()  # of those that were looked at
        self._before: list[Stored] = [summary_of(summary)] if summary is not None else []
        self._after: list[Stored] = []
        self._size = len(self._before) + len(ats)
        if tree.size_of(ats) <= KEPT:
            self._before += self._read()
            self._ats, self._size = (), len(self._before)

    def __len__(self) -> int:
        """With the few that cannot be read, if there are any."""
        return self._size + len(self._after)

    def __iter__(self) -> Iterator[Stored]:
        return chain(self._before, self._read(), self._after)

    def __reversed__(self) -> Iterator[Stored]:
        yield from reversed(self._after)
        for at in reversed(self._ats):
            yield from self._each([at])
        yield from reversed(self._before)

    def but(self, prompts: Sequence[Stored]) -> Past:
        """What was said until now, without `prompts`; what is said from now on is not in it."""
        past = copy(self)
        past._after = [*self._after]
        return Past(past, prompts)

    def append(self, message: Stored) -> None:
        self._after.append(message)

    def _read(self) -> Iterator[Stored]:
        for kind, ats in groupby(self._ats, self._tree.kind):
            if kind != "message":
                yield from self._each([*ats])
                continue
            for block, given in self._tree.message_blocks([*ats], BLOCK, typed_messages):
                yield from self._each(block) if given is None else given

    def _each(self, ats: Sequence[int]) -> Iterator[Stored]:
        for at in ats:
            try:
                if self._tree.kind(at) == "message":
                    yield as_message(self._tree.message_json(at))
                elif (other := message_of(self._tree.entry(at))) is not None:
                    yield other
            except BadRecord as error:
                if at not in self.unreadable:
                    self.unreadable.add(at)
                    self._problem(f"entry {at + 1}: unreadable message, passed over ({error})")


class Past:
    def __init__(self, conversation: Conversation, prompts: Sequence[Stored]) -> None:
        self._conversation = conversation
        self._prompts = prompts

    def __iter__(self) -> Iterator[Stored]:
        # By value: after a compaction a prompt is one that was read.
        return (message for message in self._conversation if message not in self._prompts)
