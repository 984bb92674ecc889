"""Session entries reduced to the fields that session statistics need.

Entries of any shape can be counted: sessions come from other programs, and from older releases. Lines of the usual
shape are decoded as CountedLine, several times faster: these classes are tagged by role and type, so that only
the fields of assistant messages are decoded.
"""

from __future__ import annotations

from typing import cast

from tau.records.base import BadRecord, Record, Value, decode, decode_lines, parse_stored
from tau.records.lenient import read_leniently


class CountedBlock(Record):
    type: str = ""


class CountedCost(Value, gc=False):
    total: float = 0


class CountedUsage(Value, rename="camel", gc=False):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: CountedCost = CountedCost()


class CountedMessage(Record):
    role: str
    content: str | list[CountedBlock] | None = None
    provider: str = ""
    model: str = ""
    usage: CountedUsage | None = None

    @property
    def tool_calls(self) -> int:
        blocks = self.content if self.role == "assistant" and isinstance(self.content, list) else ()
        return sum(block.type == "toolCall" for block in blocks)


class CountedEntry(Record):
    type: str
    message: CountedMessage | None = None
    usage: CountedUsage | None = None
    provider: str = ""
    model: str = ""
    model_id: str = ""


class CountedCall(Value, tag_field="type", tag="toolCall", gc=False):
    pass


class CountedText(Value, tag_field="type", tag="text", gc=False):
    pass


class CountedThinking(Value, tag_field="type", tag="thinking", gc=False):
    pass


class CountedImage(Value, tag_field="type", tag="image", gc=False):
    pass


class CountedAnswer(Value, tag_field="role", tag="assistant", gc=False):
    content: str | list[CountedCall | CountedText | CountedThinking | CountedImage] = ""
    provider: str = ""
    model: str = ""
    usage: CountedUsage | None = None


class CountedResult(Value, tag_field="role", tag="toolResult", gc=False):
    usage: CountedUsage | None = None


class CountedPrompt(Value, tag_field="role", tag="user", gc=False):
    pass


class CountedCustom(Value, tag_field="role", tag="custom", gc=False):
    pass


class CountedBash(Value, tag_field="role", tag="bashExecution", gc=False):
    pass


AnyCounted = CountedAnswer | CountedResult | CountedPrompt | CountedCustom | CountedBash


class CountedLine(Value, rename="camel", gc=False):
    """One line of a session: the fields that form the tree, and those of a message that are counted."""

    type: str
    id: str
    parent_id: str | None
    message: AnyCounted | None = None


def counted_entries(count: int, block: bytes) -> list[CountedEntry]:
    """Parse the entries of a block of `count` lines, skipping those that are unreadable even for this purpose."""
    found = decode_lines(CountedEntry, block)
    if found is not None and len(found) == count:
        return found
    return [entry for line in block.split(b"\n") if (entry := _counted_entry(line)) is not None]


def _counted_entry(line: bytes) -> CountedEntry | None:
    try:
        return decode(CountedEntry, line)
    except BadRecord:
        pass
    try:
        return cast("CountedEntry", read_leniently(CountedEntry, parse_stored(line)))
    except BadRecord:
        return None
