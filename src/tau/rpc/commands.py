"""RPC command handlers.

A handler takes the operations of the session and the command, with `with_request` also the Request, and with
`with_lender` the tools that this client offers. It returns the
`data` of the response: a record, None for null, UNSET for no data. It raises CommandError for what cannot be done.
Handlers that do not wait for anything are plain functions and finish before the next line is handled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tau import __version__
from tau.core.checks.attachments import attachment_blocks
from tau.core.checks.images import checked_images
from tau.core.checks.secrets import redact_model
from tau.errors import CommandError
from tau.records import commands as c
from tau.records import replies as r
from tau.records.base import UNSET, Raw, UnsetType
from tau.records.budgets import Budget
from tau.records.events import CompactionResult
from tau.records.models import Model
from tau.runtime.extensions.hooks import Destination
from tau.runtime.protocol.dispatcher import HandlerTable
from tau.runtime.protocol.requests import Request
from tau.runtime.session.operations import QUEUES, Operations
from tau.wire import dialects

if TYPE_CHECKING:
    from tau.core.agent.structured_output import OutputSchema
    from tau.runtime.protocol.dispatcher import ToolLender

HANDLERS = HandlerTable()
handles = HANDLERS.handles


@handles(c.Prompt)
async def prompt(session: Operations, command: c.Prompt) -> r.Accepted:
    blocks = [*attachment_blocks(command.attachments), *checked_images(command.images)]
    return r.Accepted(
        await session.submit(
            command.message,
            blocks,
            QUEUES[command.streaming_behavior],
            attachments=command.attachments or (),
            output_schema=_output_schema(command.output_schema),
            trace_parent=command.traceparent,
        )
    )


def _output_schema(schema: dict[str, Any] | None) -> OutputSchema | None:
    if schema is None:
        return None
    from tau.core.agent.structured_output import BadSchema, parse_output_schema

    try:
        return parse_output_schema(schema)
    except BadSchema as error:
        raise CommandError(f"outputSchema: {error}") from None


@handles(c.Steer)
async def steer(session: Operations, command: c.Steer) -> r.Accepted:
    return r.Accepted(await session.submit(command.message, checked_images(command.images), "steer", queue_only=True))


@handles(c.FollowUp)
async def follow_up(session: Operations, command: c.FollowUp) -> r.Accepted:
    return r.Accepted(
        await session.submit(command.message, checked_images(command.images), "follow_up", queue_only=True)
    )


@handles(c.Abort)
async def abort(session: Operations, command: c.Abort) -> UnsetType:
    await session.abort()
    return UNSET


@handles(c.ClearQueue)
async def clear_queue(session: Operations, command: c.ClearQueue) -> r.Queues:
    return await session.clear_queues()


@handles(c.NewSession)
async def new_session(session: Operations, command: c.NewSession) -> r.Cancelled:
    return r.Cancelled(not await session.new_session(command.parent_session))


@handles(c.GetState)
def get_state(session: Operations, command: c.GetState) -> r.SessionState:
    return session.state.masked()


@handles(c.GetMessages)
def get_messages(session: Operations, command: c.GetMessages) -> r.Messages:
    return r.Messages(session.log.messages_json())


@handles(c.SetModel)
async def set_model(session: Operations, command: c.SetModel) -> Model:
    return redact_model(await session.set_model(command.provider, command.model_id))


@handles(c.CycleModel)
async def cycle_model(session: Operations, command: c.CycleModel) -> r.Cycled | None:
    chosen = await session.cycle_model()
    return None if chosen is None else r.Cycled(redact_model(chosen[0]), chosen[1], chosen[2])


@handles(c.GetAvailableModels)
def get_available_models(session: Operations, command: c.GetAvailableModels) -> r.Models:
    return r.Models([redact_model(model) for model in session.models.available])


@handles(c.SetThinkingLevel)
async def set_thinking_level(session: Operations, command: c.SetThinkingLevel) -> UnsetType:
    await session.set_thinking_level(command.level)
    return UNSET


@handles(c.CycleThinkingLevel)
async def cycle_thinking_level(session: Operations, command: c.CycleThinkingLevel) -> r.Level | None:
    level = await session.cycle_thinking_level()
    return None if level is None else r.Level(level)


@handles(c.GetAvailableThinkingLevels)
def get_available_thinking_levels(session: Operations, command: c.GetAvailableThinkingLevels) -> r.Levels:
    return r.Levels(session.models.levels)


@handles(c.SetSteeringMode)
async def set_steering_mode(session: Operations, command: c.SetSteeringMode) -> UnsetType:
    await session.set_queue_mode("steer", command.mode)
    return UNSET


@handles(c.SetFollowUpMode)
async def set_follow_up_mode(session: Operations, command: c.SetFollowUpMode) -> UnsetType:
    await session.set_queue_mode("follow_up", command.mode)
    return UNSET


@handles(c.Compact)
async def compact(session: Operations, command: c.Compact) -> CompactionResult:
    return await session.compact(command.custom_instructions)


@handles(c.SetAutoCompaction)
async def set_auto_compaction(session: Operations, command: c.SetAutoCompaction) -> UnsetType:
    await session.set_auto_compaction(command.enabled)
    return UNSET


@handles(c.SetAutoRetry)
async def set_auto_retry(session: Operations, command: c.SetAutoRetry) -> UnsetType:
    await session.set_auto_retry(command.enabled)
    return UNSET


@handles(c.AbortRetry)
async def abort_retry(session: Operations, command: c.AbortRetry) -> UnsetType:
    await session.abort_retry()
    return UNSET


@handles(c.SetBudget)
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


@handles(c.Bash, with_request=True)
async def bash(session: Operations, command: c.Bash, request: Request) -> r.BashResult:
    id = request.id.copy() if request.id else UNSET  # bash_execution_update events carry the id of the command
    return await session.bash(command.command, exclude=command.exclude_from_context is True, id=id)


@handles(c.AbortBash)
def abort_bash(session: Operations, command: c.AbortBash) -> UnsetType:
    session.abort_bash()
    return UNSET


@handles(c.GetSessionStats)
def get_session_stats(session: Operations, command: c.GetSessionStats) -> r.SessionStats:
    return session.stats()


@handles(c.ExportHtml)
async def export_html(session: Operations, command: c.ExportHtml) -> r.Exported:
    return r.Exported(await session.export_html(command.output_path))


@handles(c.SwitchSession)
async def switch_session(session: Operations, command: c.SwitchSession) -> r.Cancelled:
    return r.Cancelled(not await session.switch_session(command.session_path))


@handles(c.ListSessions)
async def list_sessions(session: Operations, command: c.ListSessions) -> r.SessionRows:
    return r.SessionRows(await session.sessions(everywhere=command.all is True))


@handles(c.Navigate)
async def navigate(session: Operations, command: c.Navigate) -> r.Navigated:
    destination = Destination(command.entry_id, command.label, command.summarize is True, command.custom_instructions)
    return await session.navigate(destination)


@handles(c.Fork)
async def fork(session: Operations, command: c.Fork) -> r.Forked:
    text, done = await session.fork(command.entry_id)
    return r.Forked(text, not done)


@handles(c.Clone)
async def clone(session: Operations, command: c.Clone) -> r.Cancelled:
    return r.Cancelled(not await session.clone())


@handles(c.GetForkMessages)
def get_fork_messages(session: Operations, command: c.GetForkMessages) -> r.ForkPoints:
    return r.ForkPoints(cast(list[r.ForkPoint], Raw(session.tree.fork_points_json())))


@handles(c.GetEntries)
def get_entries(session: Operations, command: c.GetEntries) -> r.Entries:
    return r.Entries([Raw(line) for line in session.entries_after(command.since)], session.tree.leaf_id)


@handles(c.GetTree)
def get_tree(session: Operations, command: c.GetTree) -> r.Tree:
    return r.Tree(Raw(session.tree.json()), session.tree.leaf_id)


@handles(c.GetLastAssistantText)
def get_last_assistant_text(session: Operations, command: c.GetLastAssistantText) -> r.LastText:
    return r.LastText(session.last_assistant_text())


@handles(c.SetSessionName)
async def set_session_name(session: Operations, command: c.SetSessionName) -> UnsetType:
    await session.set_session_name(command.name)
    return UNSET


@handles(c.GetMcpServers)
async def get_mcp_servers(session: Operations, command: c.GetMcpServers) -> r.McpServers:
    return await session.mcp_servers()


@handles(c.RestartMcpServer)
async def restart_mcp_server(session: Operations, command: c.RestartMcpServer) -> r.McpServerRow:
    return await session.restart_mcp_server(command.server)


@handles(c.GetCommands)
async def get_commands(session: Operations, command: c.GetCommands) -> r.SlashCommands:
    return r.SlashCommands(await session.commands())


@handles(c.SetTools, with_lender=True)
def set_tools(session: Operations, command: c.SetTools, lender: ToolLender) -> r.ToolNames:
    return r.ToolNames(lender.set_tools(command.tools))


@handles(c.HostToolProgress, with_lender=True)
def tool_progress(session: Operations, command: c.HostToolProgress, lender: ToolLender) -> UnsetType:
    lender.progress(command.request_id, command.content)
    return UNSET


@handles(c.HostToolResult, with_lender=True)
def tool_result(session: Operations, command: c.HostToolResult, lender: ToolLender) -> UnsetType:
    lender.finish(command.request_id, command.content, is_error=command.is_error is True, details=command.details)
    return UNSET


@handles(c.GetTools)
async def get_tools(session: Operations, command: c.GetTools) -> r.ListedTools:
    return r.ListedTools(await session.listed_tools())


@handles(c.SetActiveTools)
def set_active_tools(session: Operations, command: c.SetActiveTools) -> UnsetType:
    session.set_tools(command.names)
    return UNSET


@handles(c.GetProtocol)
def get_protocol(session: Operations, command: c.GetProtocol) -> r.Protocol:
    dialect = dialects.find(session.dialect)
    events = [str(kind.__struct_config__.tag) for kind in dialect.event_types()]
    capabilities = r.Capabilities([*dialect.command_types], events, dialect.snapshots, dialect.responses)
    return r.Protocol(dialect.name, dialect.pi, __version__, [*dialects.NAMES], capabilities)
