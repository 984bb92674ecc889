"""Actions of extensions on their session: ACTIONS, keyed by the names of the message protocol.

An action is a record of its parameters and a function. Invalid parameters are rejected with the path of the wrong
field. Errors are returned to the extension; if the extension does not wait for a reply, the client receives them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from tau.errors import CommandError, ExtensionFailure
from tau.records.base import (
    MAX_RECEIVED_NESTING,
    UNSET,
    BadRecord,
    Raw,
    Record,
    decode,
    encode,
    parse,
    parse_stored,
    to_builtins,
    wire_json,
)
from tau.records.entries import Label
from tau.records.messages import Image, Text
from tau.records.models import ThinkingLevel
from tau.runtime.clock import now
from tau.runtime.extensions.hook_answers import read_custom, read_one_message
from tau.runtime.extensions.hooks import Destination
from tau.runtime.extensions.registry import PausableTimeout, current_timeout
from tau.runtime.session.extension_models import MODEL_ACTIONS
from tau.runtime.session.extension_tools import TOOL_ACTIONS
from tau.runtime.session.operations import QUEUES, Operations
from tau.runtime.session.session import Session
from tau.runtime.session.ui_requests import QUESTIONS, SHOWN, TERMINAL, remember_shown, ui_request

Deliver = Literal["steer", "followUp"]


class Nothing(Record):
    pass


# Messages and entries.


class SendMessage(Record):
    message: Any
    trigger_turn: bool = False
    deliver_as: Literal["steer", "followUp", "nextTurn"] | None = None


async def send_message(session: Operations, wanted: SendMessage) -> None:
    message = read_custom(wanted.message, now())
    await session.send_custom(message, wanted.deliver_as, trigger_turn=wanted.trigger_turn)


class SendUserMessage(Record):
    content: str | list[Text | Image]
    deliver_as: Deliver | None = None
    expand_prompt_templates: bool = False


async def send_user_message(session: Operations, wanted: SendUserMessage) -> None:
    queue = QUEUES[wanted.deliver_as]
    expand = wanted.expand_prompt_templates and queue is None
    await session.send_user_message(wanted.content, queue, "deliverAs", expand=expand)


class AppendEntry(Record):
    custom_type: str
    data: Any = UNSET


async def append_entry(session: Operations, wanted: AppendEntry) -> None:
    await session.append_entry(wanted.custom_type, wanted.data)


class AppendMessage(Record):
    message: Any


async def append_message(session: Operations, wanted: AppendMessage) -> None:
    """Add a message to the session without a run, for the setup of a new session."""
    await session.append_message(read_one_message(wanted.message, "message"))


class SetSessionName(Record):
    name: str


async def set_session_name(session: Operations, wanted: SetSessionName) -> None:
    await session.set_session_name(wanted.name)


class SetLabel(Record):
    entry_id: str
    label: str | None = None


async def set_label(session: Operations, wanted: SetLabel) -> None:
    await session.set_label(wanted.entry_id, wanted.label)


# Tools, models and thinking level.


class SetActiveTools(Record):
    names: list[str]


async def set_active_tools(session: Operations, wanted: SetActiveTools) -> None:
    session.set_tools(wanted.names)


async def get_commands(session: Operations, wanted: Nothing) -> Any:
    return to_builtins(await session.commands())


class SetModel(Record):
    provider: str
    model_id: str


async def set_model(session: Operations, wanted: SetModel) -> bool:
    """Returns False if the model does not exist or has no key."""
    try:
        await session.set_model(wanted.provider, wanted.model_id)
    except CommandError:
        return False
    return True


class SetThinkingLevel(Record):
    level: ThinkingLevel


async def set_thinking_level(session: Operations, wanted: SetThinkingLevel) -> None:
    await session.set_thinking_level(wanted.level)


# Runs.


async def abort(session: Operations, wanted: Nothing) -> None:
    await session.abort_run()


class Compact(Record):
    custom_instructions: str | None = None


async def compact(session: Operations, wanted: Compact) -> Any:
    return to_builtins(await session.compact(wanted.custom_instructions))


async def shutdown(session: Operations, wanted: Nothing) -> None:
    """Exit when no run is left."""
    await session.wait_idle()
    session.request_exit()


async def wait_for_idle(session: Operations, wanted: Nothing) -> None:
    await session.wait_idle()


async def get_context_usage(session: Operations, wanted: Nothing) -> dict[str, Any] | None:
    return to_builtins(session.context_usage())  # type: ignore[no-any-return]


async def get_system_prompt(session: Operations, wanted: Nothing) -> str:
    return await session.effective_system_prompt()


# Session switches and navigation.


class NewSession(Record):
    parent_session: str | None = None


async def new_session(session: Operations, wanted: NewSession) -> dict[str, bool]:
    return {"cancelled": not await session.new_session(wanted.parent_session)}


class Fork(Record):
    entry_id: str
    position: Literal["before", "at"] = "before"


async def fork(session: Operations, wanted: Fork) -> dict[str, Any]:
    if wanted.position == "at":
        return {"cancelled": not await session.fork_at(wanted.entry_id)}
    text, went = await session.fork(wanted.entry_id)
    return {"text": text, "cancelled": not went}


class NavigateTree(Record):
    target_id: str
    summarize: bool = False
    custom_instructions: str | None = None
    replace_instructions: bool = False
    label: str | None = None


async def navigate_tree(session: Operations, wanted: NavigateTree) -> Any:
    to = Destination(
        wanted.target_id, wanted.label, wanted.summarize, wanted.custom_instructions, wanted.replace_instructions
    )
    return to_builtins(await session.navigate(to))


class SwitchSession(Record):
    session_path: str


async def switch_session(session: Operations, wanted: SwitchSession) -> dict[str, bool]:
    return {"cancelled": not await session.switch_session(wanted.session_path)}


async def reload(session: Operations, wanted: Nothing) -> None:
    session.request_reload()


# Reading the session.


class OfEntry(Record):
    id: str


class OfBranch(Record):
    from_id: str | None = None


async def get_entries(session: Operations, wanted: Nothing) -> list[Any]:
    return [parse_stored(line) for line in session.tree.after(None)]


class ReadEntries(Record):
    after: str | None = None


async def read_entries(session: Operations, wanted: ReadEntries) -> list[Raw]:
    """The entries after another one, as they are stored: extensions that keep the others read only what is new."""
    if wanted.after is not None and wanted.after not in session.tree:
        raise CommandError(f"Entry not found: {wanted.after}")
    return [Raw(line) for line in session.tree.after(wanted.after)]


async def get_branch(session: Operations, wanted: OfBranch) -> list[Any]:
    tree = session.tree
    at = tree.leaf if wanted.from_id is None else tree.find(wanted.from_id)
    if at is None:
        raise CommandError(f"Entry not found: {wanted.from_id}")
    return [parse_stored(tree.line(one)) for one in tree.path(at)]


async def get_tree(session: Operations, wanted: Nothing) -> Any:
    return parse_stored(session.tree.json(), nesting=None)  # the tree is as deep as the session is long


async def get_entry(session: Operations, wanted: OfEntry) -> Any:
    at = session.tree.find(wanted.id)
    return None if at is None else parse_stored(session.tree.line(at))


async def get_label(session: Operations, wanted: OfEntry) -> str | None:
    tree = session.tree
    for at in reversed(tree.of_kind("label")):
        entry = tree.entry(at)
        if isinstance(entry, Label) and entry.target_id == wanted.id:
            return entry.label or None
    return None


async def get_header(session: Operations, wanted: Nothing) -> Any:
    return parse(wire_json(session.log.header))


Action = tuple[type[Record], Callable[[Operations, Any], Awaitable[Any]]]
SessionAction = tuple[type[Record], Callable[[Session, Any], Awaitable[Any]]]
SESSION_ACTIONS: dict[str, SessionAction] = {**MODEL_ACTIONS, **TOOL_ACTIONS}

ACTIONS: dict[str, Action] = {
    "send_message": (SendMessage, send_message),
    "send_user_message": (SendUserMessage, send_user_message),
    "append_entry": (AppendEntry, append_entry),
    "append_message": (AppendMessage, append_message),
    "set_session_name": (SetSessionName, set_session_name),
    "set_label": (SetLabel, set_label),
    "set_active_tools": (SetActiveTools, set_active_tools),
    "get_commands": (Nothing, get_commands),
    "set_model": (SetModel, set_model),
    "set_thinking_level": (SetThinkingLevel, set_thinking_level),
    "abort": (Nothing, abort),
    "compact": (Compact, compact),
    "shutdown": (Nothing, shutdown),
    "wait_for_idle": (Nothing, wait_for_idle),
    "get_context_usage": (Nothing, get_context_usage),
    "get_system_prompt": (Nothing, get_system_prompt),
    "new_session": (NewSession, new_session),
    "fork": (Fork, fork),
    "navigate_tree": (NavigateTree, navigate_tree),
    "switch_session": (SwitchSession, switch_session),
    "reload": (Nothing, reload),
    "get_entries": (Nothing, get_entries),
    "read_entries": (ReadEntries, read_entries),
    "get_branch": (OfBranch, get_branch),
    "get_tree": (Nothing, get_tree),
    "get_entry": (OfEntry, get_entry),
    "get_label": (OfEntry, get_label),
    "get_header": (Nothing, get_header),
}


async def act(session: Session, name: str, params: dict[str, Any]) -> Any:
    """Execute one action. Raises ExtensionFailure, or another error whose text says what went wrong."""
    said = {key: value for key, value in params.items() if value is not None}
    try:
        if name in QUESTIONS:
            return await session.dialogs.ask(ui_request(QUESTIONS[name], said))
        if name in SHOWN:
            return await _has_room(session.dialogs.show(ui_request(SHOWN[name], said)))
        if name in TERMINAL:
            request = ui_request(TERMINAL[name], said)
            return await _has_room(session.dialogs.show(request)) if session.services.mode == "tui" else None
        if name in SESSION_ACTIONS:
            of_session, perform = SESSION_ACTIONS[name]
            return await perform(session, decode(of_session, encode(said), MAX_RECEIVED_NESTING))
        if name not in ACTIONS:
            raise ExtensionFailure(f'There is no action "{name}".')
        kind, do = ACTIONS[name]
        wanted = decode(kind, encode(said), MAX_RECEIVED_NESTING)
    except BadRecord as error:
        raise ExtensionFailure(f"{name}: {error}") from None
    return await do(Operations(session), wanted)


async def _has_room(room: asyncio.Future[None] | None) -> None:
    """Wait for a client that does not read, so that an extension which shows more and more reaches its limits."""
    if room is not None:
        await asyncio.wait([room])


def actions_for(session: Session) -> Callable[[str, str, dict[str, Any], PausableTimeout | None], Awaitable[Any]]:
    """Return `act` bound to a session, for all of its extensions."""

    async def do(path: str, name: str, params: dict[str, Any], patience: PausableTimeout | None) -> Any:
        token = current_timeout.set(patience)
        try:
            value = await act(session, name, params)
        finally:
            current_timeout.reset(token)
        if session.services.mode == "tui":
            remember_shown(session.extensions.terminal, path, name, params)
        return value

    session.extensions.terminal.restore = lambda name, params: _show(session, name, params)
    return do


def _show(session: Session, name: str, params: dict[str, Any]) -> None:
    session.dialogs.show(ui_request({**SHOWN, **TERMINAL}[name], params))


def session_facts(session: Session) -> dict[str, Any]:
    """Session state that extensions receive without asking."""
    return {
        "cwd": session.services.cwd,
        "hasUI": session.dialogs.has_ui,
        "mode": session.services.mode,
        "model": to_builtins(session.models.current),
        "thinkingLevel": session.models.level,
        "isIdle": not session.runs.streaming,
        "hasPendingMessages": len(session.queues) > 0,
        "sessionId": session.log.id,
        "sessionFile": None if session.log.path is None else str(session.log.path),
        "sessionName": session.log.tree.name,
        "leafId": session.log.tree.leaf_id,
        "entryCount": len(session.log.tree),
        "activeTools": list(session.tool_runner.tools),
        "sessionDir": None if session.services.sessions is None else str(session.services.sessions),
        "scopedModels": [
            {"model": to_builtins(match.model), **({} if match.level is None else {"thinkingLevel": match.level})}
            for match in session.models.scoped
        ],
        **session.dialogs.terminal_facts(),
    }
