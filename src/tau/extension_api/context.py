"""What a handler is handed beside its event: the session as it is now, and the person in front of it.

Reading what is cheap to know needs no waiting: tau tells its `facts` before each
call. Everything else is asked for, so it is awaited.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

Run = Callable[[dict[str, Any], "Calling"], Awaitable[Any]]


class Calling(Protocol):
    """A call that is being answered."""

    cancelled: bool  # nobody waits for it any more

    def update(self, value: Any) -> None:
        """Say how far it has come."""

    async def put(self, value: Any) -> None:
        """Hand over a part of the answer; returns when there is room for more."""


class Line(Protocol):
    """The way to tau: a socket from a child process, plain calls in tau's own."""

    @property
    def facts(self) -> dict[str, Any]:
        """What is cheap to know: FACTS in messages.py."""

    def register(self, kind: str, name: str, spec: dict[str, Any], run: Run | None = None) -> int:
        """Returns the target, under which it can be taken back."""

    def unregister(self, target: int) -> None: ...

    def tell(self, name: str, params: dict[str, Any]) -> None:
        """An action without an answer."""

    async def act(self, name: str, params: dict[str, Any]) -> Any:
        """An action, and its answer."""


class Event(dict[str, Any]):
    """A dict whose keys are attributes too, in Python's spelling: event["toolName"] is event.tool_name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        camel = re.sub(r"_([a-z])", lambda found: found[1].upper(), name)
        for key in (name, camel):
            if key in self:
                return self[key]
        return None


def given(**params: Any) -> dict[str, Any]:
    """Parameters for the wire: what is None is not said."""
    return {name: value for name, value in params.items() if value is not None}


class Ui:
    """The person in front of the client. A dialog that nobody answers ends with None, or False for confirm.

    `timeout` is in milliseconds.
    """

    def __init__(self, line: Line) -> None:
        self._line = line

    async def select(self, title: str, options: Sequence[str], timeout: int | None = None) -> str | None:
        return await self._ask("select", title=title, options=list(options), timeout=timeout)  # type: ignore[no-any-return]

    async def confirm(self, title: str, message: str = "", timeout: int | None = None) -> bool:
        return bool(await self._ask("confirm", title=title, message=message, timeout=timeout))

    async def input(self, title: str, placeholder: str | None = None, timeout: int | None = None) -> str | None:
        return await self._ask("input", title=title, placeholder=placeholder, timeout=timeout)  # type: ignore[no-any-return]

    async def editor(self, title: str, prefill: str | None = None) -> str | None:
        return await self._ask("editor", title=title, prefill=prefill)  # type: ignore[no-any-return]

    def notify(self, message: str, type: str | None = None) -> None:
        """`type` is "info", "warning" or "error"."""
        self._line.tell("notify", given(message=message, notifyType=type))

    def set_status(self, key: str, text: str | None) -> None:
        """None takes the entry away."""
        self._line.tell("set_status", given(statusKey=key, statusText=text))

    def set_widget(self, key: str, lines: Sequence[str] | None, placement: str | None = None) -> None:
        """None takes the widget away. `placement` is "aboveEditor" or "belowEditor"."""
        shown = None if lines is None else list(lines)
        self._line.tell("set_widget", given(widgetKey=key, widgetLines=shown, widgetPlacement=placement))

    def set_title(self, title: str) -> None:
        self._line.tell("set_title", {"title": title})

    def set_editor_text(self, text: str) -> None:
        self._line.tell("set_editor_text", {"text": text})

    paste_to_editor = set_editor_text

    # What only a terminal of its own could do: said, and nothing happens.

    async def custom(self, *args: Any, **options: Any) -> None:
        return None

    def get_editor_text(self) -> str:
        return ""

    def get_tools_expanded(self) -> bool:
        return False

    def get_all_themes(self) -> list[Any]:
        return []

    def get_theme(self, name: str) -> None:
        return None

    def set_theme(self, theme: Any) -> dict[str, Any]:
        why = "Theme switching not supported in RPC mode" if self._line.facts.get("hasUI") else "UI not available"
        return {"success": False, "error": why}

    def _nothing(self, *args: Any, **options: Any) -> None:
        return None

    on_terminal_input = set_working_message = set_working_indicator = set_working_visible = _nothing
    set_hidden_thinking_label = set_footer = set_header = add_autocomplete_provider = _nothing
    set_editor_component = set_tools_expanded = _nothing

    async def _ask(self, name: str, **params: Any) -> Any:
        return await self._line.act(name, given(**params))


class SessionView:
    """The session, to look at. Entries are dicts as they stand in the session file."""

    def __init__(self, line: Line) -> None:
        self._line = line

    @property
    def id(self) -> str | None:
        return self._line.facts.get("sessionId")

    @property
    def file(self) -> str | None:
        return self._line.facts.get("sessionFile")

    @property
    def name(self) -> str | None:
        return self._line.facts.get("sessionName")

    @property
    def leaf_id(self) -> str | None:
        return self._line.facts.get("leafId")

    async def entries(self) -> list[dict[str, Any]]:
        return await self._line.act("get_entries", {})  # type: ignore[no-any-return]

    async def branch(self, from_id: str | None = None) -> list[dict[str, Any]]:
        """From the root to the leaf, or to `from_id`."""
        return await self._line.act("get_branch", given(fromId=from_id))  # type: ignore[no-any-return]

    async def tree(self) -> list[dict[str, Any]]:
        return await self._line.act("get_tree", {})  # type: ignore[no-any-return]

    async def entry(self, id: str) -> dict[str, Any] | None:
        return await self._line.act("get_entry", {"id": id})  # type: ignore[no-any-return]

    async def label(self, id: str) -> str | None:
        return await self._line.act("get_label", {"id": id})  # type: ignore[no-any-return]

    async def header(self) -> dict[str, Any] | None:
        return await self._line.act("get_header", {})  # type: ignore[no-any-return]


class Context:
    """`ctx` of every handler, tool and command."""

    def __init__(self, line: Line, calling: Calling) -> None:
        self._line = line
        self._calling = calling
        self.ui = Ui(line)
        self.session = SessionView(line)

    @property
    def cancelled(self) -> bool:
        """Whether this call was given up: the run was aborted, or the time is over."""
        return self._calling.cancelled

    @property
    def has_ui(self) -> bool:
        return bool(self._line.facts.get("hasUI"))

    @property
    def mode(self) -> str:
        return str(self._line.facts.get("mode", ""))

    @property
    def cwd(self) -> str:
        return str(self._line.facts.get("cwd", ""))

    @property
    def model(self) -> dict[str, Any] | None:
        return self._line.facts.get("model")

    @property
    def thinking_level(self) -> str | None:
        return self._line.facts.get("thinkingLevel")

    def is_idle(self) -> bool:
        return bool(self._line.facts.get("isIdle"))

    def has_pending_messages(self) -> bool:
        return bool(self._line.facts.get("hasPendingMessages"))

    def abort(self) -> None:
        self._line.tell("abort", {})

    def compact(self, instructions: str | None = None) -> None:
        """Begin a compaction; session_compact tells when it is done."""
        self._line.tell("compact", given(customInstructions=instructions))

    def shutdown(self) -> None:
        self._line.tell("shutdown", {})

    async def get_context_usage(self) -> dict[str, Any] | None:
        return await self._line.act("get_context_usage", {})  # type: ignore[no-any-return]

    async def get_system_prompt(self) -> str:
        return str(await self._line.act("get_system_prompt", {}))


class CommandContext(Context):
    """`ctx` of a command, which may also move the session. What can be cancelled returns {"cancelled": bool}."""

    async def wait_for_idle(self) -> None:
        await self._line.act("wait_for_idle", {})

    async def new_session(self, parent_session: str | None = None) -> Mapping[str, Any]:
        return await self._line.act("new_session", given(parentSession=parent_session))  # type: ignore[no-any-return]

    async def fork(self, entry_id: str) -> Mapping[str, Any]:
        return await self._line.act("fork", {"entryId": entry_id})  # type: ignore[no-any-return]

    async def navigate(
        self,
        target_id: str,
        summarize: bool | None = None,
        instructions: str | None = None,
        replace_instructions: bool | None = None,
        label: str | None = None,
    ) -> Mapping[str, Any]:
        params = given(
            targetId=target_id,
            summarize=summarize,
            customInstructions=instructions,
            replaceInstructions=replace_instructions,
            label=label,
        )
        return await self._line.act("navigate_tree", params)  # type: ignore[no-any-return]

    async def switch_session(self, path: str) -> Mapping[str, Any]:
        return await self._line.act("switch_session", {"sessionPath": path})  # type: ignore[no-any-return]

    async def reload(self) -> None:
        """Load settings, resources and extensions anew: the process this runs in will be gone."""
        await self._line.act("reload", {})
