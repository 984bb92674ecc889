"""Lines of a session, newest version only: a header, then a tree of entries."""

from __future__ import annotations

from typing import Any, ClassVar

from tau.records.base import UNSET, Record, UnsetType
from tau.records.messages import AnyMessage, Image, Text
from tau.records.models import ThinkingLevel

VERSION = 3


class Header(Record, tag_field="type", tag="session", kw_only=True):
    version: int = VERSION
    id: str
    timestamp: str
    cwd: str
    parent_session: str | UnsetType = UNSET


class Entry(Record, tag_field="type"):
    """Base of the tree: `parentId` is null at a root."""

    carries: ClassVar[tuple[str, ...]] = ()
    id: str
    parent_id: str | None
    timestamp: str


class MessageEntry(Entry, tag="message"):
    carries = ("message",)
    message: AnyMessage


class ModelChange(Entry, tag="model_change"):
    provider: str
    model_id: str


class ThinkingLevelChange(Entry, tag="thinking_level_change"):
    thinking_level: ThinkingLevel


class SessionInfo(Entry, tag="session_info"):
    name: str


class CompactionEntry(Entry, tag="compaction"):
    """`usage` is what the summary took."""

    summary: str
    first_kept_entry_id: str
    tokens_before: int
    details: Any = UNSET
    from_hook: bool | UnsetType = UNSET
    usage: Any = UNSET  # a usage; of whatever shape, the entry is still a compaction


class BranchSummaryEntry(Entry, tag="branch_summary"):
    """`fromId` is where the branch was left; newer releases of pi write null for a leaf that was none.

    `usage` is what the summary took.
    """

    from_id: str | None
    summary: str
    details: Any = UNSET
    from_hook: bool | UnsetType = UNSET
    usage: Any = UNSET


class CustomEntry(Entry, tag="custom"):
    """State of an extension; the model never sees it."""

    custom_type: str
    data: Any = UNSET


class CustomMessageEntry(Entry, tag="custom_message"):
    custom_type: str
    content: str | list[Text | Image]
    display: bool
    details: Any = UNSET


class ContextEdit(Entry, tag="context_edit"):
    """A `replacement` of null leaves an earlier entry of the branch out of the conversation. Others are not applied."""

    target_id: str
    replacement: Any


class Label(Entry, tag="label"):
    target_id: str
    label: str | None = None


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
