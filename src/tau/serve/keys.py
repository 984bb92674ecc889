"""Commands that can be repeated: a connection may die between a command and its response.

A command with a `key` is carried out once. Repeated, it gets the response of the first. The keys of prompts are also in
the session file, so that they are known after the host died.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from itertools import islice

from tau.core.conversation.tree import Tree
from tau.errors import CommandError
from tau.records.base import BadRecord, Record, decode, encode, parse
from tau.records.entries import CommandKey
from tau.records.host_commands import MAX_KEY_LENGTH
from tau.records.replies import Accepted

MAX_KEYS = 1024
MAX_STORED_KEYS = 256
NOT_ENVELOPE = ("id", "key", "session")  # fields that may differ when a command is repeated

current_key: ContextVar[CommandKey | None] = ContextVar("current_key", default=None)


class KeyedCall:
    """A command with a key. `response` is its response without the id; empty until there is one.

    Of a message that was accepted before the session was opened, only `restored` is known.
    """

    def __init__(self, digest: str, restored: Accepted | None = None) -> None:
        self.digest = digest
        self.restored = restored
        self.response = b""
        self.waiting: list[Callable[[bytes], None]] = []

    def when_answered(self, callback: Callable[[bytes], None]) -> None:
        if self.response:
            callback(self.response)
        else:
            self.waiting.append(callback)

    def answer(self, response: bytes) -> None:
        self.response = response
        waiting, self.waiting = self.waiting, []
        for callback in waiting:
            callback(response)


class Keys:
    """The last keys of a session, or of the host."""

    def __init__(self) -> None:
        self._calls: dict[str, KeyedCall] = {}

    def __contains__(self, key: object) -> bool:
        """True if a command had this key."""
        return isinstance(key, str) and key in self._calls

    def find(self, key: CommandKey) -> KeyedCall | None:
        """The call with this key, if there was one. Raises CommandError if that was another command."""
        call = self._calls.get(key.key)
        if call is not None and call.digest != key.digest:
            raise CommandError("key: it was used for another command")
        return call

    def add(self, key: CommandKey, restored: Accepted | None = None) -> KeyedCall:
        call = self._calls[key.key] = KeyedCall(key.digest, restored)
        while len(self._calls) > MAX_KEYS:
            del self._calls[next(iter(self._calls))]
        return call

    def forget(self, key: CommandKey) -> None:
        """The command was not carried out, so it may be tried again."""
        self._calls.pop(key.key, None)


def command_key(line: bytes, key: object) -> CommandKey | None:
    """The key of a command line; None without one. Raises CommandError if it cannot be a key."""
    if key is None:
        return None
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_LENGTH:
        raise CommandError(f"key: expected text of 1 to {MAX_KEY_LENGTH} characters")
    from hashlib import sha256  # it takes longer to load than the rest of this file, and most clients do without

    fields = parse(line)
    told = {name: value for name, value in fields.items() if name not in NOT_ENVELOPE and value is not None}
    return CommandKey(key, sha256(encode(dict(sorted(told.items())))).hexdigest()[:24])


class _Marks(Record):
    key: str
    key_digest: str


class _Line(Record):
    """Where an entry may have marks: a message has them itself, a queued message in its data."""

    key: object = None
    key_digest: object = None
    data: object = None


def stored_keys(tree: Tree) -> list[tuple[CommandKey, Accepted]]:
    """The keys in the last messages of the branch, the oldest first, and what became of their commands."""
    found: list[tuple[CommandKey, Accepted]] = []
    for at in islice(tree.last_on_branch("message", "custom"), MAX_STORED_KEYS):
        line = tree.line(at)
        if b'"keyDigest":' not in line:
            continue
        queued = tree.kind(at) == "custom"
        try:
            stored = decode(_Line, line)
            marks = decode(_Marks, encode(stored.data) if queued else line)
        except BadRecord:
            continue
        found.append((CommandKey(marks.key, marks.key_digest), Accepted("queued" if queued else "started")))
    return found[::-1]
