"""The context (`ctx`) of handlers, tools and commands: the session and the user interface.

Properties return at once: tau sends the `facts` before each call. Everything else is a request to tau and is awaited.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from tau.extension_api.channel import CallHandle, Channel, without_none
from tau.extension_api.terminal_ui import TerminalUi

T = TypeVar("T")


class Event(dict[str, Any]):
    """A dict with its keys as attributes too, in Python's spelling: event["toolName"] is event.tool_name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(self._key(name))

    def __setattr__(self, name: str, value: Any) -> None:
        self[self._key(name)] = value

    def _key(self, name: str) -> str:
        camel = re.sub(r"_([a-z])", lambda found: found[1].upper(), name)
        return camel if name not in self and camel in self else name


class Question(Coroutine[Any, Any, T]):
    """A dialog that has to be awaited. Without `await` it would be true, so a guard would take it for a yes: to test
    or compare it raises TypeError.
    """

    def __init__(self, method: str, work: Coroutine[Any, Any, T]) -> None:
        self._method = method
        self._work = work

    def __await__(self) -> Generator[Any, Any, T]:
        return self._work.__await__()

    def send(self, value: Any) -> Any:
        return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __bool__(self) -> NoReturn:
        call = f"ctx.ui.{self._method}(...)"
        raise TypeError(f"{call} has no answer yet; in an async function, write: await {call}")

    def __eq__(self, other: object) -> NoReturn:
        self.__bool__()

    __hash__ = object.__hash__


class Ui(TerminalUi):
    """The user interface of the client. A dialog without an answer returns None, or False for confirm.

    `timeout` is in milliseconds.
    """

    def select(self, title: str, options: Sequence[str], timeout: int | None = None) -> Question[str | None]:
        """Let the user choose one of the options. Returns None if the dialog was cancelled or timed out."""
        return self._ask("select", title=title, options=list(options), timeout=timeout)

    def confirm(self, title: str, message: str = "", timeout: int | None = None) -> Question[bool]:
        """Ask a yes/no question. Returns False if the dialog was cancelled or timed out."""
        return self._ask("confirm", bool, title=title, message=message, timeout=timeout)

    def input(self, title: str, placeholder: str | None = None, timeout: int | None = None) -> Question[str | None]:
        """Ask for one line of text. Returns None if the dialog was cancelled or timed out."""
        return self._ask("input", title=title, placeholder=placeholder, timeout=timeout)

    def editor(self, title: str, prefill: str | None = None) -> Question[str | None]:
        """Ask for text of several lines. Returns None if the dialog was cancelled."""
        return self._ask("editor", title=title, prefill=prefill)

    def notify(self, message: str, type: str | None = None) -> None:
        """`type` is "info", "warning" or "error"."""
        self._channel.tell("notify", without_none(message=message, notifyType=type))

    def set_status(self, key: str, text: str | None) -> None:
        """Set a status entry; None removes it."""
        self._channel.tell("set_status", without_none(statusKey=key, statusText=text))

    def set_widget(self, key: str, lines: Sequence[str] | None, placement: str | None = None) -> None:
        """Set a widget; None removes it. `placement` is "aboveEditor" or "belowEditor"."""
        shown = None if lines is None else list(lines)
        self._channel.tell("set_widget", without_none(widgetKey=key, widgetLines=shown, widgetPlacement=placement))

    def set_title(self, title: str) -> None:
        """Set the title of the terminal or window."""
        self._channel.tell("set_title", {"title": title})

    def _ask(self, name: str, read: Callable[[Any], Any] = lambda answer: answer, **params: Any) -> Question[Any]:
        async def ask() -> Any:
            return read(await self._channel.act(name, without_none(**params)))

        ask.__qualname__ = f"ctx.ui.{name}"  # in Python's warning about a coroutine that was never awaited
        return Question(name, ask())


class SessionView:
    """Read access to the session. Entries are dicts as in the session file."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @property
    def id(self) -> str | None:
        """The id of the session."""
        return self._channel.facts.get("sessionId")

    @property
    def file(self) -> str | None:
        """The path of the session file; None for a session in memory."""
        return self._channel.facts.get("sessionFile")

    @property
    def name(self) -> str | None:
        """The name of the session; None if it has none."""
        return self._channel.facts.get("sessionName")

    @property
    def leaf_id(self) -> str | None:
        """The id of the entry that the next entry will follow."""
        return self._channel.facts.get("leafId")

    async def entries(self) -> list[dict[str, Any]]:
        """Return all entries in the order in which they were added."""
        return await self._channel.act("get_entries", {})  # type: ignore[no-any-return]

    async def branch(self, from_id: str | None = None) -> list[dict[str, Any]]:
        """Return the entries from the root to the leaf, or to `from_id`."""
        return await self._channel.act("get_branch", without_none(fromId=from_id))  # type: ignore[no-any-return]

    async def tree(self) -> list[dict[str, Any]]:
        """Return the entries as a tree."""
        return await self._channel.act("get_tree", {})  # type: ignore[no-any-return]

    async def entry(self, id: str) -> dict[str, Any] | None:
        """Return one entry; None if it does not exist."""
        return await self._channel.act("get_entry", {"id": id})  # type: ignore[no-any-return]

    async def label(self, id: str) -> str | None:
        """Return the label of an entry; None if it has none."""
        return await self._channel.act("get_label", {"id": id})  # type: ignore[no-any-return]

    async def header(self) -> dict[str, Any] | None:
        """Return the header of the session file."""
        return await self._channel.act("get_header", {})  # type: ignore[no-any-return]


class Context:
    """The `ctx` of every handler, tool and command."""

    def __init__(self, channel: Channel, call: CallHandle) -> None:
        self._channel = channel
        self._call = call
        self.ui = Ui(channel)
        self.session = SessionView(channel)

    @property
    def cancelled(self) -> bool:
        """True if this call was cancelled: the run was aborted, or the call timed out."""
        return self._call.cancelled

    @property
    def has_ui(self) -> bool:
        """True if dialogs can be shown."""
        return bool(self._channel.facts.get("hasUI"))

    @property
    def mode(self) -> str:
        """How tau was started: "tui" (the terminal interface), "rpc", "acp", "json", "print" or "library"."""
        return str(self._channel.facts.get("mode", ""))

    @property
    def cwd(self) -> str:
        """The working folder of the agent."""
        return str(self._channel.facts.get("cwd", ""))

    @property
    def model(self) -> dict[str, Any] | None:
        """The current model, as on the wire; None if none is configured."""
        return self._channel.facts.get("model")

    @property
    def thinking_level(self) -> str | None:
        """The current thinking level."""
        return self._channel.facts.get("thinkingLevel")

    def is_idle(self) -> bool:
        """Return True if no run is active."""
        return bool(self._channel.facts.get("isIdle"))

    def has_pending_messages(self) -> bool:
        """Return True if messages are queued."""
        return bool(self._channel.facts.get("hasPendingMessages"))

    def abort(self) -> None:
        """Stop the run."""
        self._channel.tell("abort", {})

    def compact(self, instructions: str | None = None) -> None:
        """Start a compaction; the event session_compact follows when it is done."""
        self._channel.tell("compact", without_none(customInstructions=instructions))

    def shutdown(self) -> None:
        """Close the agent."""
        self._channel.tell("shutdown", {})

    async def get_context_usage(self) -> dict[str, Any] | None:
        """Return how full the context window is."""
        return await self._channel.act("get_context_usage", {})  # type: ignore[no-any-return]

    async def get_system_prompt(self) -> str:
        """Return the system prompt."""
        return str(await self._channel.act("get_system_prompt", {}))


class CommandContext(Context):
    """The `ctx` of a command, which can switch sessions. Methods that hooks can cancel return {"cancelled": bool}."""

    async def wait_for_idle(self) -> None:
        """Wait until no run is in progress."""
        await self._channel.act("wait_for_idle", {})

    async def new_session(self, parent_session: str | None = None) -> Mapping[str, Any]:
        """Start a new session."""
        return await self._channel.act("new_session", without_none(parentSession=parent_session))  # type: ignore[no-any-return]

    async def fork(self, entry_id: str) -> Mapping[str, Any]:
        """Continue in a new session from the point before an earlier user message."""
        return await self._channel.act("fork", {"entryId": entry_id})  # type: ignore[no-any-return]

    async def navigate(
        self,
        target_id: str,
        summarize: bool | None = None,
        instructions: str | None = None,
        replace_instructions: bool | None = None,
        label: str | None = None,
    ) -> Mapping[str, Any]:
        """Continue from another entry of this session."""
        params = without_none(
            targetId=target_id,
            summarize=summarize,
            customInstructions=instructions,
            replaceInstructions=replace_instructions,
            label=label,
        )
        return await self._channel.act("navigate_tree", params)  # type: ignore[no-any-return]

    async def switch_session(self, path: str) -> Mapping[str, Any]:
        """Open the session in a file."""
        return await self._channel.act("switch_session", {"sessionPath": path})  # type: ignore[no-any-return]

    async def reload(self) -> None:
        """Reload settings, resources and extensions. This ends the process of the calling extension."""
        await self._channel.act("reload", {})
