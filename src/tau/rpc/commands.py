"""RPC command handlers.

A handler takes the operations of the session and the command, and for the kinds in WITH_REQUEST also the Request. It
returns the `data` of the response: a record, None for null, UNSET for no data. It raises CommandError for what cannot
be done. Handlers that do not wait for anything are plain functions and finish before the next line is handled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tau import __version__
from tau.core.agent.structured_output import BadSchema, OutputSchema, parse_output_schema
from tau.core.checks.attachments import attachment_blocks
from tau.core.checks.images import checked_images
from tau.core.checks.secrets import redact_model
from tau.errors import CommandError
from tau.records import commands as c
from tau.records import replies as r
from tau.records.base import UNSET, Raw, UnsetType, replace
from tau.records.budgets import Budget
from tau.records.events import CompactionResult
from tau.records.models import Model
from tau.runtime.extensions.hooks import Destination
from tau.runtime.protocol.requests import Request
from tau.runtime.session.operations import QUEUES, Operations
from tau.wire import dialects


async def prompt(session: Operations, command: c.Prompt) -> r.Accepted:
    blocks = [*attachment_blocks(command.attachments), *checked_images(command.images)]
    return r.Accepted(
        await session.submit(
            command.message,
            blocks,
            QUEUES[command.streaming_behavior],
            attachments=command.attachments or (),
            output_schema=_output_schema(command.output_schema),
        )
    )


def _output_schema(schema: dict[str, Any] | None) -> OutputSchema | None:
    try:
        return None if schema is None else parse_output_schema(schema)
    except BadSchema as error:
        raise CommandError(f"outputSchema: {error}") from None


async def steer(session: Operations, command: c.Steer) -> r.Accepted:
    return r.Accepted(await session.submit(command.message, checked_images(command.images), "steer", queue=True))


async def follow_up(session: Operations, command: c.FollowUp) -> r.Accepted:
    return r.Accepted(await session.submit(command.message, checked_images(command.images), "follow_up", queue=True))


async def abort(session: Operations, command: c.Abort) -> UnsetType:
    await session.abort()
    return UNSET


async def clear_queue(session: Operations, command: c.ClearQueue) -> r.Queues:
    return await session.clear_queues()


async def new_session(session: Operations, command: c.NewSession) -> r.Cancelled:
    return r.Cancelled(not await session.new_session(command.parent_session))


def get_state(session: Operations, command: c.GetState) -> r.SessionState:
    state = session.state()
    return state if state.model is None else replace(state, model=redact_model(state.model))


def get_messages(session: Operations, command: c.GetMessages) -> r.Messages:
    return r.Messages(session.log.messages_json())


async def set_model(session: Operations, command: c.SetModel) -> Model:
    return redact_model(await session.set_model(command.provider, command.model_id))


async def cycle_model(session: Operations, command: c.CycleModel) -> r.Cycled | None:
    chosen = await session.cycle_model()
    return None if chosen is None else r.Cycled(redact_model(chosen[0]), chosen[1], chosen[2])


def get_available_models(session: Operations, command: c.GetAvailableModels) -> r.Models:
    return r.Models([redact_model(model) for model in session.models.available])


async def set_thinking_level(session: Operations, command: c.SetThinkingLevel) -> UnsetType:
    await session.set_thinking_level(command.level)
    return UNSET


async def cycle_thinking_level(session: Operations, command: c.CycleThinkingLevel) -> r.Level | None:
    level = await session.cycle_thinking_level()
    return None if level is None else r.Level(level)


def get_available_thinking_levels(session: Operations, command: c.GetAvailableThinkingLevels) -> r.Levels:
    return r.Levels(session.models.levels)


async def set_steering_mode(session: Operations, command: c.SetSteeringMode) -> UnsetType:
    await session.set_queue_mode("steer", command.mode)
    return UNSET


async def set_follow_up_mode(session: Operations, command: c.SetFollowUpMode) -> UnsetType:
    await session.set_queue_mode("follow_up", command.mode)
    return UNSET


async def compact(session: Operations, command: c.Compact) -> CompactionResult:
    return await session.compact(command.custom_instructions)


async def set_auto_compaction(session: Operations, command: c.SetAutoCompaction) -> UnsetType:
    await session.set_auto_compaction(command.enabled)
    return UNSET


async def set_auto_retry(session: Operations, command: c.SetAutoRetry) -> UnsetType:
    await session.set_auto_retry(command.enabled)
    return UNSET


async def abort_retry(session: Operations, command: c.AbortRetry) -> UnsetType:
    await session.abort_retry()
    return UNSET


def set_budget(session: Operations, command: c.SetBudget) -> Budget:
    return session.set_budget(
        Budget(
            command.max_turns,
            command.max_tokens,
            command.max_cost,
            command.time_limit,
            command.allow_unknown_cost is True,
        )
    )


async def bash(session: Operations, command: c.Bash, request: Request) -> r.BashResult:
    id = Raw(request.id) if request.id else UNSET  # bash_execution_update events carry the id of the command
    return await session.bash(command.command, exclude=command.exclude_from_context is True, id=id)


def abort_bash(session: Operations, command: c.AbortBash) -> UnsetType:
    session.abort_bash()
    return UNSET


def get_session_stats(session: Operations, command: c.GetSessionStats) -> r.SessionStats:
    return session.stats()


async def export_html(session: Operations, command: c.ExportHtml) -> r.Exported:
    return r.Exported(await session.export_html(command.output_path))


async def switch_session(session: Operations, command: c.SwitchSession) -> r.Cancelled:
    return r.Cancelled(not await session.switch_session(command.session_path))


async def list_sessions(session: Operations, command: c.ListSessions) -> r.SessionRows:
    return r.SessionRows(await session.sessions(everywhere=command.all is True))


async def navigate(session: Operations, command: c.Navigate) -> r.Navigated:
    destination = Destination(command.entry_id, command.label, command.summarize is True, command.custom_instructions)
    return await session.navigate(destination)


async def fork(session: Operations, command: c.Fork) -> r.Forked:
    text, done = await session.fork(command.entry_id)
    return r.Forked(text, not done)


async def clone(session: Operations, command: c.Clone) -> r.Cancelled:
    return r.Cancelled(not await session.clone())


def get_fork_messages(session: Operations, command: c.GetForkMessages) -> r.ForkPoints:
    return r.ForkPoints(session.tree.fork_points())


def get_entries(session: Operations, command: c.GetEntries) -> r.Entries:
    return r.Entries([Raw(line) for line in session.entries_after(command.since)], session.tree.leaf_id)


def get_tree(session: Operations, command: c.GetTree) -> r.Tree:
    return r.Tree(Raw(session.tree.json()), session.tree.leaf_id)


def get_last_assistant_text(session: Operations, command: c.GetLastAssistantText) -> r.LastText:
    return r.LastText(session.last_assistant_text())


async def set_session_name(session: Operations, command: c.SetSessionName) -> UnsetType:
    await session.set_session_name(command.name)
    return UNSET


async def get_commands(session: Operations, command: c.GetCommands) -> r.SlashCommands:
    return r.SlashCommands(await session.commands())


def get_protocol(session: Operations, command: c.GetProtocol) -> r.Protocol:
    dialect = dialects.find(session.dialect)
    events = [str(kind.__struct_config__.tag) for kind in dialect.event_types()]
    capabilities = r.Capabilities([*dialect.commands()], events, dialect.snapshots, dialect.responses)
    return r.Protocol(dialect.name, dialect.pi, __version__, [*dialects.NAMES], capabilities)


HANDLERS: dict[type[c.Command], Callable[..., Any]] = {
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
    c.SetBudget: set_budget,
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

WITH_REQUEST = frozenset({c.Bash})  # their handlers also take the Request, as a third argument
