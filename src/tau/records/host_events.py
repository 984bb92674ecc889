"""What only a host of many sessions sends (`tau serve`): data of its responses, and events of a stream or a channel."""

from __future__ import annotations

from typing import Any, Literal

from tau.records.base import UNSET, Record, UnsetType
from tau.records.events import Event
from tau.records.host_commands import Scope
from tau.records.replies import Queues, SessionState

SnapshotReason = Literal["new", "old", "stream", "slow"]
DialogOutcome = Literal["answered", "cancelled", "late"]


# Data of responses.


class Limits(Record):
    """`line`: bytes of a line. `commands`: responses that may wait before no more commands are read."""

    line: int
    commands: int


class Attached(Record):
    """`seq` is the number of the last event. `resumed`: the events after the given number follow; else a snapshot."""

    session: str
    stream: str
    seq: int
    resumed: bool


class HelloReply(Record):
    """`host` is new with every start of the host. `client` is the name of this channel in `who`."""

    version: int
    tau: str
    host: str
    client: str
    dialect: str
    scope: Scope
    limits: Limits
    attached: Attached | UnsetType = UNSET


class Opened(Record):
    """`created` is false for a session that existed, live or as a file."""

    session: str
    stream: str
    seq: int
    session_file: str | UnsetType
    created: bool


class HostSessionRow(Record):
    """A session. `attention`: a dialog waits for an answer. `live` sessions are open in this host. `cost` is in
    dollars, for all branches; it is absent for very long sessions.
    """

    id: str
    cwd: str
    path: str | UnsetType
    name: str | UnsetType
    created: int
    modified: int
    message_count: int
    first_message: str
    live: bool
    streaming: bool = False
    attention: bool = False
    clients: int = 0
    cost: float | UnsetType = UNSET


class HostSessions(Record):
    """`cursor` continues the list."""

    sessions: list[HostSessionRow]
    cursor: str | UnsetType = UNSET


class ClientRow(Record):
    """A client of a session. `since` is in milliseconds since 1970."""

    client: str
    name: str
    scope: Scope
    since: int


class Clients(Record):
    clients: list[ClientRow]


# Events of a stream: numbered.


class SessionChanged(Event, tag="session_changed"):
    """The live session moved to another session, or to another place in it. Everyone attached goes along. `cwd` is the
    folder in which it runs now.
    """

    session_id: str
    session_file: str | UnsetType
    leaf_id: str | None
    reason: str
    cwd: str | UnsetType = UNSET


class DialogResolved(Event, tag="extension_ui_resolved"):
    """A dialog has ended. `by` is the client that answered; absent if none did."""

    id: str
    outcome: DialogOutcome
    by: str | UnsetType = UNSET


HOST_STREAM_EVENTS = (SessionChanged, DialogResolved)


# Events of a channel: without a number of a stream.


class RunningTool(Record):
    tool_call_id: str
    tool_name: str
    args: Any
    partial_result: Any = UNSET


class ShownUi(Record):
    """What extensions show: the title, and statuses and widgets by their keys."""

    title: str | UnsetType
    statuses: dict[str, str]
    widgets: dict[str, Any]


class RunningBash(Record):
    """A `bash` command of a client. `id` is that of the command."""

    command: str
    id: Any = UNSET


class Settled(Record):
    """The prompt that settled last: the number of its `agent_settled`, and its key if it had one. The number is 0 if it
    settled before this stream began.
    """

    seq: int
    aborted: bool
    key: str | UnsetType = UNSET


class Interrupted(Record):
    """The last run of this session did not end, because the host died. It is not continued by itself."""

    entry_id: str


class Snapshot(Event, tag="snapshot"):
    """What a client that heard the stream up to `seq` knows. `entries` are those after the client's last one, or the
    newest; with `more`, older ones can be read with `get_entries`. `partialArguments` is the JSON text so far of the
    calls in `partial` whose arguments are not complete, by content index: later deltas continue it. `cwd` is the folder
    in which the session runs.
    """

    session: str
    stream: str
    seq: int
    reason: SnapshotReason
    state: SessionState
    leaf_id: str | None
    entries: list[Any]
    more: bool
    partial: Any
    tools: list[RunningTool]
    queue: Queues
    dialogs: list[Any]
    ui: ShownUi
    bash: list[RunningBash]
    settled: Settled | None
    interrupted: Interrupted | None
    partial_arguments: dict[str, str] | UnsetType = UNSET
    cwd: str | UnsetType = UNSET


class HostClosing(Event, tag="host_closing"):
    """The host ends; runs may finish within `seconds`."""

    seconds: float


class Pong(Event, tag="pong"):
    """The answer to `ping`, ahead of all waiting output."""

    data: Any = UNSET


class SessionOpened(Event, tag="session_opened"):
    """A session was opened."""

    session: str
    cwd: str
    name: str | UnsetType = UNSET


class SessionClosed(Event, tag="session_closed"):
    """A session was closed; its file stays."""

    session: str


class SessionStatus(Event, tag="session_status"):
    """The state of a live session changed; at most two of these in a second for a session. `cost` is in dollars."""

    session: str
    streaming: bool
    attention: bool
    clients: int
    cost: float
    name: str | UnsetType = UNSET


HOST_CHANNEL_EVENTS = (Snapshot, HostClosing, Pong, SessionOpened, SessionClosed, SessionStatus)
