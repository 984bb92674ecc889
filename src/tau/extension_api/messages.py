"""The message protocol between tau and the process an extension runs in: JSON lines, both ways.

docs/extension-protocol.md describes it for those who write the other side in
another language. What is only passed on (payloads, answers, parameters) is not
looked at here.

ACTIONS names everything an extension may ask for, with its parameters as they are
on the wire; "?" marks those that may be missing, which null says too. Those in
TELLS want no answer, and what goes wrong with them is an extension_error of that
name. runtime/session/extension_actions.py carries them out.
"""

from __future__ import annotations

from typing import Any

from tau.records.base import UNSET, Record, UnsetType, field

PROTOCOL = 1
LIMIT = 32 * 1024 * 1024  # bytes of one line


class Message(Record, tag_field="type"):
    """Base of all that is said."""


# From tau.


class Load(Message, tag="load"):
    """The first message: what to load, and what is so at the moment. `memoryLimitMb` 0 is no limit.

    `following` has the words that stood behind options without a value of their own: the values of those that want one.
    `modules` has the SHA-256 of each module of the extension, by its path: nothing else of its folder is imported.
    """

    path: str
    cwd: str
    agent_dir: str
    mode: str
    has_ui: bool = field(name="hasUI")
    flags: dict[str, Any]
    facts: dict[str, Any]
    memory_limit_mb: int = 0
    following: dict[str, str] = {}
    modules: dict[str, str] = {}
    protocol: int = PROTOCOL


class Facts(Message, tag="facts"):
    """What has changed since it was told last."""

    facts: dict[str, Any]


class Call(Message, tag="call"):
    """Run what was registered as `target`; answer with the same id."""

    id: int
    target: int
    params: dict[str, Any]


class Cancel(Message, tag="cancel"):
    """Nobody waits for this call any more."""

    id: int


class Ping(Message, tag="ping"):
    id: int


class Stop(Message, tag="stop"):
    """Come to an end."""


# From the extension.


class Register(Message, tag="register"):
    """`kind` is one of KINDS; what else it takes is in `spec`."""

    kind: str
    target: int
    name: str
    spec: dict[str, Any] = {}


class Unregister(Message, tag="unregister"):
    target: int


class Loaded(Message, tag="loaded"):
    """Everything that is registered while loading has been."""


class Failed(Message, tag="failed"):
    """It cannot be loaded."""

    error: str


class Update(Message, tag="update"):
    """Progress of a tool: the whole so far. Of a stream: the pieces that are new.

    With `ask`, tau answers that id when there is room for more.
    """

    id: int
    value: Any
    ask: int | UnsetType = UNSET


class Action(Message, tag="action"):
    """Wants an answer. `call` is the call it is made in, if any."""

    id: int
    name: str
    params: dict[str, Any]
    call: int | UnsetType = UNSET


class Tell(Message, tag="tell"):
    """An action without an answer."""

    name: str
    params: dict[str, Any]
    call: int | UnsetType = UNSET


class Trouble(Message, tag="trouble"):
    """Something failed that nobody called: a task, a timer, a thread."""

    error: str
    event: str = "task"


class Pong(Message, tag="pong"):
    id: int


# Both ways.


class Answer(Message, tag="answer"):
    """To a call, or to an action. With `error`, `where` is the line of the extension it came from."""

    id: int
    value: Any = None
    error: str | UnsetType = UNSET
    where: str | UnsetType = UNSET


FromTau = Load | Facts | Call | Cancel | Ping | Stop | Answer
FromExtension = Register | Unregister | Loaded | Failed | Update | Action | Tell | Trouble | Pong | Answer

KINDS = ("handler", "tool", "command", "flag", "provider", "bus")

# Dialogs end with a value also when nobody answers: null, and false for confirm. `timeout` is in milliseconds.
DIALOGS = {
    "select": ("title", "options", "timeout?"),
    "confirm": ("title", "message", "timeout?"),
    "input": ("title", "placeholder?", "timeout?"),
    "editor": ("title", "prefill?"),
}
TELLS = {
    "notify": ("message", "notifyType?"),
    "set_status": ("statusKey", "statusText?"),
    "set_widget": ("widgetKey", "widgetLines?", "widgetPlacement?"),
    "set_title": ("title",),
    "set_editor_text": ("text",),
    "send_message": ("message", "triggerTurn?", "deliverAs?"),
    "send_user_message": ("content", "deliverAs?"),
    "append_entry": ("customType", "data?"),
    "set_session_name": ("name",),
    "set_label": ("entryId", "label?"),
    "set_active_tools": ("names",),
    "set_thinking_level": ("level",),
    "abort": (),
    "compact": ("customInstructions?",),
    "shutdown": (),
    "emit": ("channel", "data?"),
}
ASKED = {
    "get_all_tools": (),
    "get_commands": (),
    "set_model": ("provider", "modelId"),
    "get_models": (),
    "get_context_usage": (),
    "get_system_prompt": (),
    "get_entries": (),
    "get_branch": ("fromId?",),
    "get_tree": (),
    "get_entry": ("id",),
    "get_label": ("id",),
    "get_header": (),
    "wait_for_idle": (),
    "new_session": ("parentSession?",),
    "fork": ("entryId",),
    "navigate_tree": ("targetId", "summarize?", "customInstructions?", "replaceInstructions?", "label?"),
    "switch_session": ("sessionPath",),
    "reload": (),
}
ACTIONS = {**DIALOGS, **TELLS, **ASKED}

FACTS = (
    "cwd",
    "hasUI",
    "mode",
    "model",
    "thinkingLevel",
    "isIdle",
    "hasPendingMessages",
    "sessionId",
    "sessionFile",
    "sessionName",
    "leafId",
    "activeTools",
)
