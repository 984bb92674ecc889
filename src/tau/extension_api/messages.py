"""The protocol between tau and the process of an extension: JSON lines in both directions.

docs/extension-protocol.md describes it for implementations in other languages. Values that are only passed on
(payloads, answers, parameters) are not validated here.

ACTIONS lists everything an extension may request, with its parameters as on the wire; "?" marks optional ones, which
may be missing or null. Actions in TELLS have no answer; their failures are reported as extension_error with that name.
runtime/session/extension_actions.py carries them out.
"""

from __future__ import annotations

from typing import Any

from tau.records.base import UNSET, Record, UnsetType, field

PROTOCOL = 1
MAX_LINE_BYTES = 32 * 1024 * 1024  # bytes of one line


class Message(Record, tag_field="type"):
    """Base of all messages."""


# From tau


class Load(Message, tag="load"):
    """The first message: what to load, and the current facts. `memoryLimitMb` 0 means no limit.

    `following` has the words that follow options without a value of their own: the values of options that need one.
    `modules` has the SHA-256 of each module of the extension, by path: no other file of its folder is imported. If the
    extension is `closed`, nothing else is imported at all, except from `installed`, the folders of installed packages.
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
    root: str | UnsetType = UNSET  # the folder of an extension that is not in Python, if it has one of its own
    closed: bool = False
    installed: list[str] = []


class Facts(Message, tag="facts"):
    """The facts that have changed since the last message."""

    facts: dict[str, Any]


class Call(Message, tag="call"):
    """Run the target registered under this number; the answer has the same id."""

    id: int
    target: int
    params: dict[str, Any]


class Cancel(Message, tag="cancel"):
    """tau no longer waits for this call."""

    id: int


class Ping(Message, tag="ping"):
    id: int


class Piece(Message, tag="piece"):
    """What an action has so far, before its answer. `ask` is the id of the action."""

    ask: int
    value: Any


class Renew(Message, tag="renew"):
    """Another session is open: take back all registrations, run `setup` again, and answer as to `load`."""


class Stop(Message, tag="stop"):
    """End the process."""


# From the extension


class Register(Message, tag="register"):
    """Register a target. `kind` is one of KINDS; `spec` has the other parameters."""

    kind: str
    target: int
    name: str
    spec: dict[str, Any] = {}


class Unregister(Message, tag="unregister"):
    target: int


class Loaded(Message, tag="loaded"):
    """Loading is done, or `renew`: all registrations of `setup` have been sent."""


class Failed(Message, tag="failed"):
    """The extension could not be loaded."""

    error: str


class Update(Message, tag="update"):
    """Progress of a tool (all of it so far), or the new chunks of a stream.

    With `ask`, tau answers that id when there is room for more.
    """

    id: int
    value: Any
    ask: int | UnsetType = UNSET


class Action(Message, tag="action"):
    """A request that is answered. `call` is the call in which it is made, if any.

    `session` is the id of the session that the extension knows (fact `sessionId`). If that session has been left, an
    action that would change the session fails.
    """

    id: int
    name: str
    params: dict[str, Any]
    call: int | UnsetType = UNSET
    session: str | UnsetType = UNSET
    sync: bool = False  # the extension blocks until the answer is there, which comes on a descriptor of its own


class Tell(Message, tag="tell"):
    """An action without an answer."""

    name: str
    params: dict[str, Any]
    call: int | UnsetType = UNSET
    session: str | UnsetType = UNSET


class Trouble(Message, tag="trouble"):
    """A failure outside of any call: in a task, a timer or a thread."""

    error: str
    event: str = "task"


class Pong(Message, tag="pong"):
    id: int


# In both directions


class Answer(Message, tag="answer"):
    """The answer to a call or an action. With `error`, `where` is the line of the extension that raised it."""

    id: int
    value: Any = None
    error: str | UnsetType = UNSET
    where: str | UnsetType = UNSET


FromTau = Load | Renew | Facts | Call | Cancel | Ping | Piece | Stop | Answer
FromExtension = Register | Unregister | Loaded | Failed | Update | Action | Tell | Trouble | Pong | Answer

KINDS = (
    *("handler", "tool", "command", "flag", "provider", "bus"),
    *("shortcut", "completions", "autocomplete", "tool_renderer", "message_renderer"),  # for a terminal
)

# A dialog without an answer ends with null, or false for confirm. `timeout` is in milliseconds.
DIALOGS = {
    "select": ("title", "options", "timeout?"),
    "confirm": ("title", "message", "timeout?"),
    "input": ("title", "placeholder?", "timeout?"),
    "editor": ("title", "prefill?"),
}
NOTIFICATIONS = {
    "notify": ("message", "notifyType?"),
    "set_status": ("statusKey", "statusText?"),
    "set_widget": ("widgetKey", "widgetLines?", "widgetPlacement?"),
    "set_title": ("title",),
    "set_editor_text": ("text",),
    "paste_to_editor": ("text",),
    "set_working_message": ("message?",),
    "set_working_visible": ("visible",),
    "set_working_indicator": ("frames?", "intervalMs?"),
    "set_hidden_thinking_label": ("label?",),
    "set_footer": ("lines?",),
    "set_header": ("lines?",),
    "set_tools_expanded": ("expanded",),
    "set_theme": ("theme",),
    "send_message": ("message", "triggerTurn?", "deliverAs?"),
    "send_user_message": ("content", "deliverAs?", "expandPromptTemplates?"),
    "append_entry": ("customType", "data?"),
    "append_message": ("message",),
    "set_session_name": ("name",),
    "set_label": ("entryId", "label?"),
    "set_active_tools": ("names",),
    "set_thinking_level": ("level",),
    "abort": (),
    "compact": ("customInstructions?",),
    "shutdown": (),
    "emit": ("channel", "data?", "elsewhere?"),
    "withdraw": ("ask",),
}
QUERIES = {
    "get_all_tools": (),
    "get_commands": (),
    "set_model": ("provider", "modelId"),
    "get_models": ("all?",),
    "get_provider_auth": ("provider",),
    "get_api_key": ("provider",),
    "complete": ("model", "context", "options?", "stream?"),
    "get_builtin_tools": (),
    "run_tool": ("name", "arguments", "cwd?", "env?"),
    "get_facts": (),
    "get_system_prompt_options": (),
    "get_context_usage": (),
    "get_system_prompt": (),
    "get_entries": (),
    "read_entries": ("after?",),
    "get_branch": ("fromId?",),
    "get_tree": (),
    "get_entry": ("id",),
    "get_label": ("id",),
    "get_header": (),
    "wait_for_idle": (),
    "new_session": ("parentSession?",),
    "fork": ("entryId", "position?"),
    "navigate_tree": ("targetId", "summarize?", "customInstructions?", "replaceInstructions?", "label?"),
    "switch_session": ("sessionPath",),
    "reload": (),
}
ACTIONS = {**DIALOGS, **NOTIFICATIONS, **QUERIES}

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
    "entryCount",
    "sessionDir",
    "scopedModels",
    "projectTrusted",
)
TERMINAL_FACTS = ("editorText", "toolsExpanded", "themes", "theme")  # only in the mode "tui"
