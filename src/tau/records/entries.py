"""Session entries: the header and the tree entries of a session file, in the current version of the format."""

# Without `from __future__ import annotations`: msgspec would compile each annotation of what every prompt decodes.
import re
from typing import Any, ClassVar

from tau.records.base import UNSET, Record, UnsetType, Value
from tau.records.messages import AnyMessage, Image, Text
from tau.records.models import ThinkingLevel

VERSION = 3
_ISO = r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?Z?"  # compiled when it is first used


class Header(Record, tag_field="type", tag="session", kw_only=True):
    """The first line of a session file. `parentSession` is the session that this one continues or was copied from."""

    version: int = VERSION
    id: str
    timestamp: str
    cwd: str
    parent_session: str | UnsetType = UNSET


class Entry(Record, tag_field="type"):
    """Base class of tree entries; `parentId` is null at a root. `carries` names the fields that hold messages."""

    carries: ClassVar[tuple[str, ...]] = ()
    id: str
    parent_id: str | None
    timestamp: str


class CommandKey(Value):
    """The client's key of a command that can be repeated, and a digest of the command."""

    key: str
    digest: str


class MessageEntry(Entry, tag="message"):
    """A message of the conversation. `key` is the key of the client's command, `keyDigest` a digest of that command:
    by these, a command that is repeated after the program died is recognised.
    """

    carries = ("message",)
    message: AnyMessage
    key: Any = UNSET  # text; of whatever shape, the entry is still a message
    key_digest: Any = UNSET


class ModelChange(Entry, tag="model_change"):
    """The session switched to another model."""

    provider: str
    model_id: str


class ThinkingLevelChange(Entry, tag="thinking_level_change"):
    """The session switched to another thinking level."""

    thinking_level: ThinkingLevel


class SessionInfo(Entry, tag="session_info"):
    """The session was named."""

    name: str


class CompactionEntry(Entry, tag="compaction"):
    """The conversation before `firstKeptEntryId` was replaced by a summary. `fromHook` is set if an extension wrote
    it; `usage` is what the summary cost. `systemMessage` has all that the system messages before it declared.
    """

    summary: str
    first_kept_entry_id: str
    tokens_before: int
    details: Any = UNSET
    from_hook: bool | UnsetType = UNSET
    usage: Any = UNSET  # a usage; of whatever shape, the entry is still a compaction
    system_message: Any = UNSET  # a message with the role "system"


class BranchSummaryEntry(Entry, tag="branch_summary"):
    """Summary of an abandoned branch. `fromId` is the leaf of that branch; newer releases of pi write null if there
    was no leaf. `usage` is what the summary cost.
    """

    from_id: str | None
    summary: str
    details: Any = UNSET
    from_hook: bool | UnsetType = UNSET
    usage: Any = UNSET


class CustomEntry(Entry, tag="custom"):
    """State of an extension. It is not sent to the model."""

    custom_type: str
    data: Any = UNSET


class CustomMessageEntry(Entry, tag="custom_message"):
    """A message of an extension. `display` says whether clients should show it."""

    custom_type: str
    content: str | list[Text | Image]
    display: bool
    details: Any = UNSET


class ContextEdit(Entry, tag="context_edit"):
    """A `replacement` of null leaves an earlier entry of the branch out of the conversation. Others are not applied."""

    target_id: str
    replacement: Any


class Label(Entry, tag="label"):
    """Sets the label of the entry `targetId`, or removes it if there is no `label`."""

    target_id: str
    label: str | UnsetType | None = UNSET


AnyEntry = (
    MessageEntry
    | ModelChange
    | ThinkingLevelChange
    | SessionInfo
    | CompactionEntry
    | BranchSummaryEntry
    | CustomEntry
    | CustomMessageEntry
    | ContextEdit
    | Label
)


def milliseconds(iso: str) -> int:
    """Unix milliseconds of an entry's timestamp (UTC); 0 if it is invalid."""
    match = re.fullmatch(_ISO, iso)
    if match is None:
        return 0
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    # Days since 1970 by the calendar that starts in March, so that leap days come last.
    years = year - (month <= 2)
    days = 365 * years + years // 4 - years // 100 + years // 400 + (153 * ((month + 9) % 12) + 2) // 5 + day - 719469
    fraction = int((match[7] or "0").ljust(3, "0")[:3])
    return ((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + fraction
