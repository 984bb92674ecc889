"""RPC command handlers.

A handler takes the session and the command, and for the kinds in WITH_REQUEST also the Request. It returns the `data`
of the response: a record, None for null, UNSET for no data. It raises CommandError for what cannot be done. Handlers
that do not wait for anything are plain functions and finish before the next line is handled. Commands that modify the
session wait for a session switch in progress (`navigator.wait_until_done`) and apply to the new session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tau import __version__
from tau.core.agent.queues import QueueName
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
from tau.runtime.session import choices, operations
from tau.runtime.session.session import Session
from tau.wire import dialects

BEHAVIORS: dict[str | None, QueueName | None] = {None: None, "steer": "steer", "followUp": "follow_up"}


async def prompt(session: Session, command: c.Prompt) -> r.Accepted:
    blocks = [*attachment_blocks(command.attachments), *checked_images(command.images)]
    queue, attachments = BEHAVIORS[command.streaming_behavior], command.attachments or ()
    schema = _output_schema(command.output_schema)
    return r.Accepted(
        await operations.submit(session, command.message, blocks, queue, attachments=attachments, aim=schema)
    )


def _output_schema(schema: dict[str, Any] | None) -> OutputSchema | None:
    try:
        return None if schema is None else parse_output_schema(schema)
    except BadSchema as error:
        raise CommandError(f"outputSchema: {error}") from None


async def steer(session: Session, command: c.Steer) -> r.Accepted:
    return r.Accepted(
        await operations.submit(session, command.message, checked_images(command.images), "steer", queue=True)
    )


async def follow_up(session: Session, command: c.FollowUp) -> r.Accepted:
    return r.Accepted(
        await operations.submit(session, command.message, checked_images(command.images), "follow_up", queue=True)
    )


async def abort(session: Session, command: c.Abort) -> UnsetType:
    await session.abort()
    return UNSET


async def clear_queue(session: Session, command: c.ClearQueue) -> r.Queues:
    await session.navigator.wait_until_done()
    return await operations.clear_queues(session)


async def new_session(session: Session, command: c.NewSession) -> r.Cancelled:
    return r.Cancelled(not await session.navigator.new_session(command.parent_session))


def get_state(session: Session, command: c.GetState) -> r.SessionState:
    state = operations.get_state(session)
    return state if state.model is None else replace(state, model=redact_model(state.model))


def get_messages(session: Session, command: c.GetMessages) -> r.Messages:
    return r.Messages(session.log.messages_json())


async def set_model(session: Session, command: c.SetModel) -> Model:
    await session.navigator.wait_until_done()
    return redact_model(await choices.set_model(session, command.provider, command.model_id))


async def cycle_model(session: Session, command: c.CycleModel) -> r.Cycled | None:
    await session.navigator.wait_until_done()
    scoped = bool(session.models.scoped)
    chosen = await choices.cycle_model(session)
    return None if chosen is None else r.Cycled(redact_model(chosen[0]), chosen[1], scoped)


def get_available_models(session: Session, command: c.GetAvailableModels) -> r.Models:
    return r.Models([redact_model(model) for model in session.models.available])


async def set_thinking_level(session: Session, command: c.SetThinkingLevel) -> UnsetType:
    await session.navigator.wait_until_done()
    await choices.set_level(session, command.level)
    return UNSET


async def cycle_thinking_level(session: Session, command: c.CycleThinkingLevel) -> r.Level | None:
    await session.navigator.wait_until_done()
    level = await choices.cycle_level(session)
    return None if level is None else r.Level(level)


def get_available_thinking_levels(session: Session, command: c.GetAvailableThinkingLevels) -> r.Levels:
    return r.Levels(session.models.levels)


async def set_steering_mode(session: Session, command: c.SetSteeringMode) -> UnsetType:
    await operations.set_mode(session, "steer", command.mode)
    return UNSET


async def set_follow_up_mode(session: Session, command: c.SetFollowUpMode) -> UnsetType:
    await operations.set_mode(session, "follow_up", command.mode)
    return UNSET


async def compact(session: Session, command: c.Compact) -> CompactionResult:
    await session.navigator.wait_until_done()
    result = await session.compactor.compact(command.custom_instructions)
    session.schedule_sync()
    return result


async def set_auto_compaction(session: Session, command: c.SetAutoCompaction) -> UnsetType:
    await operations.set_auto_compaction(session, command.enabled)
    return UNSET


async def set_auto_retry(session: Session, command: c.SetAutoRetry) -> UnsetType:
    await operations.set_auto_retry(session, command.enabled)
    return UNSET


async def abort_retry(session: Session, command: c.AbortRetry) -> UnsetType:
    await session.runs.abort_retry()
    return UNSET


def set_budget(session: Session, command: c.SetBudget) -> Budget:
    session.budget.set(
        Budget(
            command.max_turns,
            command.max_tokens,
            command.max_cost,
            command.time_limit,
            command.allow_unknown_cost is True,
        )
    )
    return session.budget.limits


async def bash(session: Session, command: c.Bash, request: Request) -> r.BashResult:
    id = Raw(request.id) if request.id else UNSET  # bash_execution_update events carry the id of the command
    await session.navigator.wait_until_done()
    return await session.user_bash.run(command.command, exclude=command.exclude_from_context is True, id=id)


def abort_bash(session: Session, command: c.AbortBash) -> UnsetType:
    session.user_bash.abort()
    return UNSET


def get_session_stats(session: Session, command: c.GetSessionStats) -> r.SessionStats:
    return operations.session_stats(session)


async def export_html(session: Session, command: c.ExportHtml) -> r.Exported:
    await session.navigator.wait_until_done()
    return r.Exported(await operations.export_html(session, command.output_path))


async def switch_session(session: Session, command: c.SwitchSession) -> r.Cancelled:
    return r.Cancelled(not await operations.switch_session(session, command.session_path))


async def list_sessions(session: Session, command: c.ListSessions) -> r.SessionRows:
    return r.SessionRows(await session.navigator.sessions(everywhere=command.all is True))


async def navigate(session: Session, command: c.Navigate) -> r.Navigated:
    destination = Destination(command.entry_id, command.label, command.summarize is True, command.custom_instructions)
    return await session.navigator.navigate(destination)


async def fork(session: Session, command: c.Fork) -> r.Forked:
    text, done = await session.navigator.fork(command.entry_id)
    return r.Forked(text, not done)


async def clone(session: Session, command: c.Clone) -> r.Cancelled:
    return r.Cancelled(not await session.navigator.clone())


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
    return r.LastText(operations.last_assistant_text(session))


async def set_session_name(session: Session, command: c.SetSessionName) -> UnsetType:
    await session.navigator.wait_until_done()
    await choices.set_name(session, command.name)
    return UNSET


async def get_commands(session: Session, command: c.GetCommands) -> r.SlashCommands:
    return r.SlashCommands([*session.extension_lifecycle.commands(), *await session.resources.commands()])


def get_protocol(session: Session, command: c.GetProtocol) -> r.Protocol:
    dialect = dialects.find(session.settings.dialect)
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
