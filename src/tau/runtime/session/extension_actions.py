"""Actions of extensions on their session: ACTIONS, keyed by the names of the message protocol.

An action is a record of its parameters and a function. Invalid parameters are rejected with the path of the wrong
field. Errors are returned to the extension; if the extension does not wait for a reply, the client receives them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

from tau.core.agent.queues import QueueName
from tau.errors import CommandError, ExtensionFailure
from tau.records import dialogs
from tau.records.base import (
    MAX_RECEIVED_NESTING,
    UNSET,
    BadRecord,
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
from tau.runtime.extensions.dialogs import dialog_id
from tau.runtime.extensions.hook_answers import read_custom
from tau.runtime.extensions.hooks import Destination
from tau.runtime.extensions.registry import PausableTimeout, current_timeout
from tau.runtime.history.session_log import now
from tau.runtime.session import choices
from tau.runtime.session.operations import context_usage_of
from tau.runtime.session.session import BUSY, Session

Deliver = Literal["steer", "followUp"]
QUEUES: dict[Deliver | None, QueueName | None] = {None: None, "steer": "steer", "followUp": "follow_up"}


class Nothing(Record):
    pass


# Messages and entries.


class SendMessage(Record):
    message: Any
    trigger_turn: bool = False
    deliver_as: Literal["steer", "followUp", "nextTurn"] | None = None


async def send_message(session: Session, wanted: SendMessage) -> None:
    await session.input.send_custom(read_custom(wanted.message, now()), wanted.deliver_as, trigger=wanted.trigger_turn)


class SendUserMessage(Record):
    content: str | list[Text | Image]
    deliver_as: Deliver | None = None


async def send_user_message(session: Session, wanted: SendUserMessage) -> None:
    """Submit text like a typed prompt, but literally: commands, templates and skills are not expanded."""
    blocks = [Text(wanted.content)] if isinstance(wanted.content, str) else wanted.content
    text = "\n".join(block.text for block in blocks if isinstance(block, Text))
    images = [block for block in blocks if isinstance(block, Image)]
    if session.runs.streaming and wanted.deliver_as is None:
        raise CommandError(BUSY.replace("streamingBehavior", "deliverAs"))
    if await session.input.submit(text, images, QUEUES[wanted.deliver_as], source="extension") == "queued":
        await session.emit_queue_update()


class AppendEntry(Record):
    custom_type: str
    data: Any = UNSET


async def append_entry(session: Session, wanted: AppendEntry) -> None:
    session.log.append_custom(wanted.custom_type, wanted.data)
    session.schedule_sync()


class SetSessionName(Record):
    name: str


async def set_session_name(session: Session, wanted: SetSessionName) -> None:
    await choices.set_name(session, wanted.name)


class SetLabel(Record):
    entry_id: str
    label: str | None = None


async def set_label(session: Session, wanted: SetLabel) -> None:
    if wanted.entry_id not in session.log.tree:
        raise CommandError(f"Entry not found: {wanted.entry_id}")
    session.log.label(wanted.entry_id, wanted.label)
    session.schedule_sync()


# Tools, models and thinking level.


class SetActiveTools(Record):
    names: list[str]


async def set_active_tools(session: Session, wanted: SetActiveTools) -> None:
    session.tool_runner.set_active(wanted.names)


async def get_all_tools(session: Session, wanted: Nothing) -> list[dict[str, Any]]:
    return [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in session.tool_runner.all_tools.values()
    ]


async def get_commands(session: Session, wanted: Nothing) -> Any:
    return to_builtins([*session.extension_lifecycle.commands(), *await session.resources.commands()])


class SetModel(Record):
    provider: str
    model_id: str


async def set_model(session: Session, wanted: SetModel) -> bool:
    """Returns False if the model does not exist or has no key."""
    try:
        await choices.set_model(session, wanted.provider, wanted.model_id)
    except CommandError:
        return False
    return True


async def get_models(session: Session, wanted: Nothing) -> Any:
    return to_builtins(session.models.available)


class SetThinkingLevel(Record):
    level: ThinkingLevel


async def set_thinking_level(session: Session, wanted: SetThinkingLevel) -> None:
    await choices.set_level(session, wanted.level)


# Runs.


async def abort(session: Session, wanted: Nothing) -> None:
    """Abort the run, but not the extension command that asks for it."""
    await session.compactor.abort()
    await session.runs.abort()


class Compact(Record):
    custom_instructions: str | None = None


async def compact(session: Session, wanted: Compact) -> None:
    await session.navigator.wait_until_done()
    await session.compactor.compact(wanted.custom_instructions)
    session.schedule_sync()


async def shutdown(session: Session, wanted: Nothing) -> None:
    """Exit when no run is left."""
    await session.runs.idle()
    session.request_exit()


async def wait_for_idle(session: Session, wanted: Nothing) -> None:
    await session.runs.idle()


async def get_context_usage(session: Session, wanted: Nothing) -> dict[str, Any] | None:
    return to_builtins(context_usage_of(session))  # type: ignore[no-any-return]


async def get_system_prompt(session: Session, wanted: Nothing) -> str:
    return session.model_client.system_override or await session.model_client.system_prompt()


# Session switches and navigation.


class NewSession(Record):
    parent_session: str | None = None


async def new_session(session: Session, wanted: NewSession) -> dict[str, bool]:
    return {"cancelled": not await session.navigator.new_session(wanted.parent_session)}


class Fork(Record):
    entry_id: str


async def fork(session: Session, wanted: Fork) -> dict[str, Any]:
    text, went = await session.navigator.fork(wanted.entry_id)
    return {"text": text, "cancelled": not went}


class NavigateTree(Record):
    target_id: str
    summarize: bool = False
    custom_instructions: str | None = None
    replace_instructions: bool = False
    label: str | None = None


async def navigate_tree(session: Session, wanted: NavigateTree) -> Any:
    to = Destination(
        wanted.target_id, wanted.label, wanted.summarize, wanted.custom_instructions, wanted.replace_instructions
    )
    return to_builtins(await session.navigator.navigate(to))


class SwitchSession(Record):
    session_path: str


async def switch_session(session: Session, wanted: SwitchSession) -> dict[str, bool]:
    if not wanted.session_path or "\0" in wanted.session_path:
        raise CommandError(f"sessionPath: not a path: {wanted.session_path!r}")
    path = Path(session.services.cwd, Path(wanted.session_path).expanduser())
    return {"cancelled": not await session.navigator.open_file(path)}


async def reload(session: Session, wanted: Nothing) -> None:
    session.extension_lifecycle.request_reload()


# Reading the session.


class OfEntry(Record):
    id: str


class OfBranch(Record):
    from_id: str | None = None


async def get_entries(session: Session, wanted: Nothing) -> list[Any]:
    return [parse_stored(line) for line in session.log.tree.after(None)]


async def get_branch(session: Session, wanted: OfBranch) -> list[Any]:
    tree = session.log.tree
    at = tree.leaf if wanted.from_id is None else tree.find(wanted.from_id)
    if at is None:
        raise CommandError(f"Entry not found: {wanted.from_id}")
    return [parse_stored(tree.line(one)) for one in tree.path(at)]


async def get_tree(session: Session, wanted: Nothing) -> Any:
    return parse_stored(session.log.tree.json(), nesting=None)  # the tree is as deep as the session is long


async def get_entry(session: Session, wanted: OfEntry) -> Any:
    at = session.log.tree.find(wanted.id)
    return None if at is None else parse(session.log.tree.line(at))


async def get_label(session: Session, wanted: OfEntry) -> str | None:
    tree = session.log.tree
    for at in reversed(tree.of_kind("label")):
        entry = tree.entry(at)
        if isinstance(entry, Label) and entry.target_id == wanted.id:
            return entry.label
    return None


async def get_header(session: Session, wanted: Nothing) -> Any:
    return parse(wire_json(session.log.header))


Action = tuple[type[Record], Callable[[Session, Any], Awaitable[Any]]]

ACTIONS: dict[str, Action] = {
    "send_message": (SendMessage, send_message),
    "send_user_message": (SendUserMessage, send_user_message),
    "append_entry": (AppendEntry, append_entry),
    "set_session_name": (SetSessionName, set_session_name),
    "set_label": (SetLabel, set_label),
    "set_active_tools": (SetActiveTools, set_active_tools),
    "get_all_tools": (Nothing, get_all_tools),
    "get_commands": (Nothing, get_commands),
    "set_model": (SetModel, set_model),
    "get_models": (Nothing, get_models),
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
    "get_branch": (OfBranch, get_branch),
    "get_tree": (Nothing, get_tree),
    "get_entry": (OfEntry, get_entry),
    "get_label": (OfEntry, get_label),
    "get_header": (Nothing, get_header),
}
# Dialogs: QUESTIONS wait for the person at the client to answer, SHOWN are only displayed.
QUESTIONS: dict[str, type[dialogs.Select | dialogs.Confirm | dialogs.Input | dialogs.Editor]] = {
    "select": dialogs.Select,
    "confirm": dialogs.Confirm,
    "input": dialogs.Input,
    "editor": dialogs.Editor,
}
SHOWN: dict[str, type[dialogs.UiRequest]] = {
    "notify": dialogs.Notify,
    "set_status": dialogs.SetStatus,
    "set_widget": dialogs.SetWidget,
    "set_title": dialogs.SetTitle,
    "set_editor_text": dialogs.SetEditorText,
}


async def act(session: Session, name: str, params: dict[str, Any]) -> Any:
    """Execute one action. Raises ExtensionFailure, or another error whose text says what went wrong."""
    said = {key: value for key, value in params.items() if value is not None}
    try:
        if name in QUESTIONS:
            return await session.dialogs.ask(_request(QUESTIONS[name], said))
        if name in SHOWN:
            return session.dialogs.show(_request(SHOWN[name], said))
        if name not in ACTIONS:
            raise ExtensionFailure(f'There is no action "{name}".')
        kind, do = ACTIONS[name]
        wanted = decode(kind, encode(said), MAX_RECEIVED_NESTING)
    except BadRecord as error:
        raise ExtensionFailure(f"{name}: {error}") from None
    return await do(session, wanted)


def _request(kind: type[Any], params: dict[str, Any]) -> Any:
    tag = kind.__struct_config__.tag
    return decode(kind, encode({**params, "method": tag, "id": dialog_id()}))


def actions_for(session: Session) -> Callable[[str, str, dict[str, Any], PausableTimeout | None], Awaitable[Any]]:
    """Return `act` bound to a session, for all of its extensions."""

    async def do(path: str, name: str, params: dict[str, Any], patience: PausableTimeout | None) -> Any:
        token = current_timeout.set(patience)
        try:
            return await act(session, name, params)
        finally:
            current_timeout.reset(token)

    return do


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
        "activeTools": list(session.tool_runner.tools),
    }
