"""What each command does.

A handler takes the session and the command and returns the response's data: a
record, None for null, UNSET for no data. What cannot be done is raised as a
CommandError. Handlers that have nothing to wait for are plain functions: they
are done before the next line is looked at.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tau import __version__
from tau.core.attachments import attached
from tau.core.branches import Branch
from tau.core.images import accepted
from tau.core.queues import Queue
from tau.core.stats import stats
from tau.core.tokens import context_usage
from tau.errors import CommandError
from tau.host import choices
from tau.host.export import export_session
from tau.host.hooking import Destination
from tau.host.session import Session
from tau.records import commands as c
from tau.records import replies as r
from tau.records.base import UNSET, Raw, Record, UnsetType, decode, replace, wire
from tau.records.events import CompactionResult
from tau.records.messages import Assistant
from tau.records.models import Model
from tau.wire import dialects

BEHAVIORS: dict[str | None, Queue | None] = {None: None, "steer": "steer", "followUp": "follow_up"}


async def prompt(session: Session, command: c.Prompt) -> r.Accepted:
    blocks = [*attached(command.attachments), *accepted(command.images)]
    await session.moves.over()
    before = len(session.queues)
    disposition = await session.hearing.hear(
        command.message, blocks, BEHAVIORS[command.streaming_behavior], attachments=command.attachments or ()
    )
    await _show_change(session, before)
    return r.Accepted(disposition)


async def steer(session: Session, command: c.Steer) -> r.Accepted:
    return await _queue(session, "steer", command)


async def follow_up(session: Session, command: c.FollowUp) -> r.Accepted:
    return await _queue(session, "follow_up", command)


async def _queue(session: Session, queue: Queue, command: c.Steer | c.FollowUp) -> r.Accepted:
    images = accepted(command.images)
    await session.moves.over()
    before = len(session.queues)
    await session.hearing.hear(command.message, images, queue, queue=True)
    await _show_change(session, before)
    return r.Accepted("queued")


async def _show_change(session: Session, before: int) -> None:
    if len(session.queues) != before and (waiting := session.show_queues()) is not None:
        await waiting


async def abort(session: Session, command: c.Abort) -> UnsetType:
    await session.abort()
    return UNSET


async def clear_queue(session: Session, command: c.ClearQueue) -> r.Queues:
    before = len(session.queues)
    was = r.Queues(*session.clear_queues())
    await _show_change(session, before)
    return was


async def new_session(session: Session, command: c.NewSession) -> r.Cancelled:
    return r.Cancelled(not await session.moves.to_new(command.parent_session))


def get_state(session: Session, command: c.GetState) -> r.SessionState:
    return r.SessionState(
        model=session.models.current,
        thinking_level=session.models.level,
        is_streaming=session.runs.streaming,
        is_compacting=session.compactor.busy,
        steering_mode=session.queues.modes["steer"],
        follow_up_mode=session.queues.modes["follow_up"],
        session_file=str(session.log.path) if session.log.path is not None else UNSET,
        session_id=session.log.id,
        session_name=session.log.tree.name or UNSET,
        auto_compaction_enabled=session.settings.compaction.enabled,
        message_count=session.log.message_count,
        pending_message_count=len(session.queues),
    )


def get_messages(session: Session, command: c.GetMessages) -> r.Messages:
    return r.Messages(session.log.messages_json())


async def set_model(session: Session, command: c.SetModel) -> Model:
    return await choices.set_model(session, command.provider, command.model_id)


async def cycle_model(session: Session, command: c.CycleModel) -> r.Cycled | None:
    model = await choices.cycle_model(session)
    return None if model is None else r.Cycled(model, session.models.level, bool(session.models.scoped))


def get_available_models(session: Session, command: c.GetAvailableModels) -> r.Models:
    return r.Models(session.models.available)


async def set_thinking_level(session: Session, command: c.SetThinkingLevel) -> UnsetType:
    await choices.set_level(session, command.level)
    return UNSET


async def cycle_thinking_level(session: Session, command: c.CycleThinkingLevel) -> r.Level | None:
    level = await choices.cycle_level(session)
    return None if level is None else r.Level(level)


def get_available_thinking_levels(session: Session, command: c.GetAvailableThinkingLevels) -> r.Levels:
    return r.Levels(session.models.levels)


async def set_steering_mode(session: Session, command: c.SetSteeringMode) -> UnsetType:
    session.queues.modes["steer"] = command.mode
    await session.save({"steeringMode": command.mode})
    return UNSET


async def set_follow_up_mode(session: Session, command: c.SetFollowUpMode) -> UnsetType:
    session.queues.modes["follow_up"] = command.mode
    await session.save({"followUpMode": command.mode})
    return UNSET


async def compact(session: Session, command: c.Compact) -> CompactionResult:
    await session.moves.over()
    result = await session.compactor.compact(command.custom_instructions)
    session.kept_soon()
    return result


async def set_auto_compaction(session: Session, command: c.SetAutoCompaction) -> UnsetType:
    settings = session.settings
    session.settings = replace(settings, compaction=replace(settings.compaction, enabled=command.enabled))
    await session.save({"compaction": {"enabled": command.enabled}})
    return UNSET


async def set_auto_retry(session: Session, command: c.SetAutoRetry) -> UnsetType:
    settings = session.settings
    session.settings = replace(settings, retry=replace(settings.retry, enabled=command.enabled))
    await session.save({"retry": {"enabled": command.enabled}})
    return UNSET


async def abort_retry(session: Session, command: c.AbortRetry) -> UnsetType:
    await session.runs.abort_retry()
    return UNSET


class Asked(Record):
    """The id of a command that was read: a client finds it again in the updates of what it runs."""

    id: Any = UNSET


async def bash(session: Session, command: c.Bash) -> r.BashResult:
    asked = decode(Asked, wire(command))
    return await session.shell.run(command.command, exclude=command.exclude_from_context is True, id=asked.id)


def abort_bash(session: Session, command: c.AbortBash) -> UnsetType:
    session.shell.abort()
    return UNSET


def get_session_stats(session: Session, command: c.GetSessionStats) -> r.SessionStats:
    file = str(session.log.path) if session.log.path is not None else UNSET
    return stats(session.log.messages, session.log.id, file, _context_usage(session), session.models.unpriced)


def _context_usage(session: Session) -> r.ContextUsage | UnsetType:
    model = session.models.current
    if model is None:
        return UNSET
    tokens, percent = context_usage(Branch(session.log.tree), model.context_window)
    return r.ContextUsage(tokens, model.context_window, percent)


async def export_html(session: Session, command: c.ExportHtml) -> r.Exported:
    log, around = session.log, session.around
    if command.output_path is not None:
        _path("outputPath", command.output_path)
    told = await session.caller.system_prompt()
    path = await around.machine.in_thread(lambda: export_session(log, around, told, command.output_path))
    return r.Exported(path)


async def switch_session(session: Session, command: c.SwitchSession) -> r.Cancelled:
    path = Path(session.around.cwd, _path("sessionPath", command.session_path))
    return r.Cancelled(not await session.moves.to_file(path))


def _path(field: str, text: str) -> Path:
    """A path that a system can have: some text cannot be one."""
    try:
        if "\0" in text or not text:
            raise ValueError
        os.fsencode(text)
        return Path(text).expanduser()
    except (ValueError, RuntimeError):
        raise CommandError(f"{field}: not a path: {text!r}") from None


async def list_sessions(session: Session, command: c.ListSessions) -> r.SessionRows:
    return r.SessionRows(await session.moves.sessions(everywhere=command.all is True))


async def navigate(session: Session, command: c.Navigate) -> r.Navigated:
    wanted = Destination(command.entry_id, command.label, command.summarize is True, command.custom_instructions)
    return await session.moves.to_entry(wanted)


async def fork(session: Session, command: c.Fork) -> r.Forked:
    text, went = await session.moves.to_fork(command.entry_id)
    return r.Forked(text, not went)


async def clone(session: Session, command: c.Clone) -> r.Cancelled:
    return r.Cancelled(not await session.moves.to_clone())


def get_fork_messages(session: Session, command: c.GetForkMessages) -> r.ForkPoints:
    return r.ForkPoints(session.log.tree.fork_points())


def get_entries(session: Session, command: c.GetEntries) -> r.Entries:
    tree = session.log.tree
    if command.since is not None and command.since not in tree:
        raise CommandError(f"Entry not found: {command.since}")
    return r.Entries([Raw(line) for line in tree.after(command.since)], tree.leaf_id)


def get_tree(session: Session, command: c.GetTree) -> r.Tree:
    return r.Tree(Raw(session.log.tree.json()), session.log.tree.leaf_id)


def get_last_assistant_text(session: Session, command: c.GetLastAssistantText) -> r.LastText:
    for message in reversed(session.log.messages):
        if isinstance(message, Assistant) and (message.content or message.stop_reason != "aborted"):
            return r.LastText(message.text.strip() or None)
    return r.LastText(None)


async def set_session_name(session: Session, command: c.SetSessionName) -> UnsetType:
    await choices.set_name(session, command.name)
    return UNSET


async def get_commands(session: Session, command: c.GetCommands) -> r.SlashCommands:
    return r.SlashCommands([*session.guests.commands(), *await session.resources.commands()])


def get_protocol(session: Session, command: c.GetProtocol) -> r.Protocol:
    spoken = dialects.find(session.settings.dialect)
    heard = [str(kind.__struct_config__.tag) for kind in spoken.spoken()]
    can = r.Capabilities([*spoken.commands()], heard, spoken.snapshots, spoken.responses)
    return r.Protocol(spoken.name, spoken.pi, __version__, [*dialects.NAMES], can)


HANDLERS: dict[type[c.Command], Callable[[Session, Any], Any]] = {
    c.Prompt: prompt,
    c.Steer: steer,
    c.FollowUp: follow_up,
    c.Abort: abort,
    c.ClearQueue: clear_queue,
    c.NewSession: new_session,
    c.GetState: get_state,
    c.GetMessages: get_messages,
    c.SetModel: set_model,
    c.CycleModel: cycle_model,
    c.GetAvailableModels: get_available_models,
    c.SetThinkingLevel: set_thinking_level,
    c.CycleThinkingLevel: cycle_thinking_level,
    c.GetAvailableThinkingLevels: get_available_thinking_levels,
    c.SetSteeringMode: set_steering_mode,
    c.SetFollowUpMode: set_follow_up_mode,
    c.Compact: compact,
    c.SetAutoCompaction: set_auto_compaction,
    c.SetAutoRetry: set_auto_retry,
    c.AbortRetry: abort_retry,
    c.Bash: bash,
    c.AbortBash: abort_bash,
    c.GetSessionStats: get_session_stats,
    c.ExportHtml: export_html,
    c.SwitchSession: switch_session,
    c.ListSessions: list_sessions,
    c.Navigate: navigate,
    c.Fork: fork,
    c.Clone: clone,
    c.GetForkMessages: get_fork_messages,
    c.GetEntries: get_entries,
    c.GetTree: get_tree,
    c.GetLastAssistantText: get_last_assistant_text,
    c.SetSessionName: set_session_name,
    c.GetCommands: get_commands,
    c.GetProtocol: get_protocol,
}
