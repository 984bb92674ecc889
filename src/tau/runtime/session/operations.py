"""Every operation on a session, once: RPC handlers, the library and extension actions all call these methods.

A front end translates its input into one of these calls and the result into its own format; it decides nothing. An
operation that cannot be carried out raises CommandError with the reason.

An operation that changes the session waits for a session switch in progress and then applies to the new session
(`Navigator.wait_until_done`, which knows who must not wait).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tau.core.agent.budgets import Spent
from tau.core.agent.queues import QueueName
from tau.core.conversation.branches import Branch
from tau.core.conversation.tokens import context_usage
from tau.core.conversation.tree import Tree
from tau.errors import CommandError
from tau.records.base import UNSET, replace
from tau.records.budgets import Budget
from tau.records.commands import QueueMode
from tau.records.entries import CommandKey
from tau.records.events import CompactionResult, Outcome
from tau.records.messages import Assistant, Attachment, Custom, Image, StoredMessage, Text, ToolCall
from tau.records.models import Model, ThinkingLevel
from tau.records.replies import (
    BashResult,
    ContextUsage,
    Disposition,
    ListedTool,
    McpServerRow,
    McpServers,
    Navigated,
    Queues,
    SessionRow,
    SessionStats,
    SlashCommand,
)
from tau.records.settings import Settings
from tau.runtime.extensions.hooks import Destination
from tau.runtime.extensions.registry import called_by_handler
from tau.runtime.history.session_log import SessionLog
from tau.runtime.models.selection import ModelSelection
from tau.runtime.session import choices
from tau.runtime.session.session import BUSY, Session
from tau.runtime.session.state import StateReader
from tau.tools import Tool

if TYPE_CHECKING:
    from tau.core.agent.structured_output import OutputSchema
    from tau.mcp.definitions import ToolDefinition
    from tau.runtime.session.host_tools import HostTools

MIN_INDEXED_BYTES = 1024 * 1024  # a smaller session is read within milliseconds when a client asks
MODES: dict[QueueName, str] = {"steer": "steeringMode", "follow_up": "followUpMode"}
# The queue that a value of `streamingBehavior` or `deliverAs` names, in the protocol and for extensions.
QUEUES: dict[str | None, QueueName | None] = {None: None, "steer": "steer", "followUp": "follow_up"}
Delivery = Literal["steer", "followUp", "nextTurn"]
Blocks = Sequence[Text | Image]


class Operations:
    def __init__(self, session: Session) -> None:
        self._session = session
        self.state = StateReader(session)

    async def _after_switch(self) -> Session:
        """Return the session when a session switch in progress is done."""
        await self._session.navigator.wait_until_done()
        return self._session

    # Prompts and queues.

    async def submit(
        self,
        text: str,
        blocks: Blocks,
        behavior: QueueName | None,
        *,
        queue_only: bool = False,
        attachments: Sequence[Attachment] = (),
        output_schema: OutputSchema | None = None,
        trace_parent: str | None = None,
        key: CommandKey | None = None,
    ) -> Disposition:
        """Submit input, and publish a queue update if the queues changed. With `queue_only` no run is started.

        `key` is stored with the message.
        """
        session = self._session
        done = await session.input.submit(
            text,
            blocks,
            behavior,
            queue_only=queue_only,
            attachments=attachments,
            output_schema=output_schema,
            trace_parent=trace_parent,
            key=key,
        )
        if done == "queued":
            await session.emit_queue_update()
        return done

    async def send_user_message(
        self, content: str | Blocks, queue: QueueName | None, option: str, *, expand: bool = False
    ) -> None:
        """Submit text like a typed prompt, but without `expand` literally: as no command, template or skill.

        `option` is the name of the caller's option for `queue`, for the error while a run is active.
        """
        session = self._session
        blocks = [Text(content)] if isinstance(content, str) else content
        text = "\n".join(block.text for block in blocks if isinstance(block, Text))
        images = [block for block in blocks if isinstance(block, Image)]
        is_command = expand and session.running_commands.find(text) is not None
        if session.runs.streaming and queue is None and not is_command:
            raise CommandError(BUSY.replace("streamingBehavior", option))
        if await session.input.submit(text, images, queue, source="extension", expand=expand) == "queued":
            await session.emit_queue_update()

    async def send_custom(self, message: Custom, delivery: Delivery | None, *, trigger_turn: bool) -> None:
        """Add a custom message to the next prompt, to the current run, to a run of its own, or only to the session."""
        session = await self._after_switch()
        await session.input.send_custom(message, delivery, trigger=trigger_turn)

    async def clear_queues(self) -> Queues:
        session = await self._after_switch()
        before = len(session.queues)
        cleared = Queues(*session.clear_queues())
        if before:
            await session.emit_queue_update()
        return cleared

    # Runs.

    async def abort(self) -> None:
        """Abort the run, compactions, extension commands and dialogs; return when they have stopped."""
        await self._session.abort()

    async def abort_run(self) -> None:
        """Abort the run and compactions, but not the extension command that asks for it."""
        await self._session.compactor.abort()
        await self._session.runs.abort()

    @property
    def retry_attempt(self) -> int:
        """The number of the retry whose delay is running; 0 if there is none."""
        return self._session.runs.retry_attempt

    async def retry_now(self) -> None:
        """Begin the pending retry without waiting longer."""
        self._session.runs.retry_now()

    async def abort_retry(self) -> None:
        await self._session.runs.abort_retry()

    async def abort_compaction(self) -> None:
        await self._session.compactor.abort()

    async def wait_idle(self) -> None:
        """Wait until all prompts are finished."""
        await self._session.runs.idle()

    async def compact(self, instructions: str | None) -> CompactionResult:
        session = await self._after_switch()
        result = await session.compactor.compact(instructions)
        session.schedule_sync()
        return result

    async def bash(self, command: str, *, exclude: bool = False, id: Any = UNSET) -> BashResult:
        """Run a command of the user. `id` is that of the client's command; updates carry it."""
        session = await self._after_switch()
        return await session.user_bash.run(command, exclude=exclude, id=id)

    def abort_bash(self) -> None:
        self._session.user_bash.abort()

    def answer_dialog(self, answer: Any) -> None:
        """Answer a dialog of an extension or a permission question, as in `extension_ui_response`."""
        self._session.dialogs.answer(answer)

    # Model and thinking level.

    async def set_model(self, provider: str, id: str, *, save: bool = True) -> Model:
        """With `save` the choice becomes the default of new sessions, here and below."""
        return await choices.set_model(await self._after_switch(), provider, id, save=save)

    async def choose_model(self, name: str, *, save: bool = True) -> Model:
        """Switch to a model by its name, as after --model: "provider/id", an id, or either with ":level"."""
        session = await self._after_switch()
        match = session.models.find(name, session.settings)
        model = await choices.set_model(session, match.model.provider, match.model.id, save=save)
        if match.level is not None:
            await choices.set_level(session, match.level, save=save)
        return model

    def set_scoped_models(self, patterns: Sequence[str]) -> list[Model]:
        """Limit `cycle_model` to names or patterns, as with --models. Returns the models."""
        return choices.set_scope(self._session.models, patterns)

    async def cycle_model(
        self, *, backward: bool = False, save: bool = True
    ) -> tuple[Model, ThinkingLevel, bool] | None:
        """Switch to the next model, or the one before.

        Returns it, its level, and True if the choice is scoped; None if there is only one model.
        """
        session = await self._after_switch()
        scoped = bool(session.models.scoped)
        chosen = await choices.cycle_model(session, backward=backward, save=save)
        return None if chosen is None else (*chosen, scoped)

    async def set_thinking_level(self, level: ThinkingLevel, *, save: bool = True) -> ThinkingLevel:
        """Returns the level in effect: one that the model supports."""
        session = await self._after_switch()
        await choices.set_level(session, level, save=save)
        return session.models.level

    async def cycle_thinking_level(self, *, save: bool = True) -> ThinkingLevel | None:
        """Returns None if the model does not support thinking."""
        return await choices.cycle_level(await self._after_switch(), save=save)

    # Settings.

    async def set_queue_mode(self, queue: QueueName, mode: QueueMode) -> None:
        self._session.queues.modes[queue] = mode
        await self._session.save_settings({MODES[queue]: mode})

    async def set_auto_compaction(self, enabled: bool) -> None:
        settings = self._session.settings
        self._session.settings = replace(settings, compaction=replace(settings.compaction, enabled=enabled))
        await self._session.save_settings({"compaction": {"enabled": enabled}})

    async def set_auto_retry(self, enabled: bool) -> None:
        settings = self._session.settings
        self._session.settings = replace(settings, retry=replace(settings.retry, enabled=enabled))
        await self._session.save_settings({"retry": {"enabled": enabled}})

    def set_budget(self, budget: Budget) -> Budget:
        """Returns the limits in effect."""
        self._session.budget.set(budget)
        return self._session.budget.limits

    @property
    def budget(self) -> Budget:
        """The limits of each prompt."""
        return self._session.budget.limits

    @property
    def spent(self) -> Spent:
        """What the current prompt has used, or the last one."""
        return self._session.budget.spent

    def set_tools(self, tools: Sequence[str | Tool]) -> None:
        """Make exactly these tools active, from the next turn on; unknown names are ignored."""
        self._session.tool_runner.set_active(tools)

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> tuple[Outcome, bool]:
        """Call a tool without a model, checked as in a run. Returns its result, and True if it is an error."""
        from tau.runtime.session.direct_calls import call_tool

        call = ToolCall(f"call_{os.urandom(8).hex()}", name, arguments)
        return await call_tool(self._session.tool_runner, call)

    @property
    def host_tools(self) -> HostTools:
        """The tools that clients lend to this session."""
        from tau.runtime.session.host_tools import HostTools

        session = self._session
        if session.host_tools is None:
            session.host_tools = HostTools(
                session.tool_runner, lambda: session.navigator.switching, lambda: session.mcp
            )
        return session.host_tools

    async def reload(self) -> None:
        """Search again for context files, skills and templates, and reload extensions from files."""
        await self._session.resources.reload()
        if self._session.mcp is not None:
            await self._session.mcp.reload()
        self.request_reload()

    def request_reload(self) -> None:
        """Reload extensions when no handler of theirs is running."""
        self._session.extension_lifecycle.request_reload()

    def request_exit(self) -> None:
        """Ask the front end to exit the program."""
        self._session.request_exit()

    # Session switches, navigation, entries.

    async def new_session(self, parent: str | None = None) -> bool:
        """Returns False if an extension cancelled it, as do the methods below."""
        return await self._switchable().navigator.new_session(parent)

    async def switch_session(self, path: str) -> bool:
        """Open a session file, or start a new session at an unused path."""
        session = self._switchable()
        return await session.navigator.open_file(Path(session.services.cwd, as_path("sessionPath", path)))

    async def fork(self, entry_id: str) -> tuple[str, bool]:
        """Continue before a user message in a new session. Returns the message's text, and False if cancelled."""
        return await self._switchable().navigator.fork(entry_id)

    async def fork_at(self, entry_id: str) -> bool:
        """Continue after an entry in a new session. False if cancelled."""
        return await self._switchable().navigator.fork_at(entry_id)

    async def clone(self) -> bool:
        return await self._switchable().navigator.clone()

    async def navigate(self, destination: Destination) -> Navigated:
        return await self._switchable().navigator.navigate(destination)

    def _switchable(self) -> Session:
        """Raises CommandError in a hook handler for which a session switch is waiting."""
        if called_by_handler() and self._session.navigator.switching:
            raise CommandError("A session switch is in progress; a hook handler cannot start another one.")
        return self._session

    async def set_session_name(self, name: str) -> None:
        await choices.set_name(await self._after_switch(), name)

    async def set_label(self, entry_id: str, label: str | None) -> None:
        session = await self._after_switch()
        if entry_id not in session.log.tree:
            raise CommandError(f"Entry not found: {entry_id}")
        session.log.label(entry_id, label)
        session.schedule_sync()

    async def append_entry(self, custom_type: str, data: Any) -> None:
        session = await self._after_switch()
        appended = session.log.append_custom(custom_type, data)
        session.schedule_sync()
        await session.emit(appended)

    async def append_message(self, message: StoredMessage) -> None:
        session = await self._after_switch()
        session.log.require_open()
        session.log.append_message(message)
        session.schedule_sync()

    async def export_html(self, path: str | None) -> str:
        """Returns the path as given, or a generated one."""
        from tau.runtime.history.html_export import export_session

        session = await self._after_switch()
        log, services = session.log, session.services
        if path is not None:
            as_path("outputPath", path)
        system_prompt = await session.model_client.system_prompt()
        return await services.machine.in_thread(lambda: export_session(log, services, system_prompt, path))

    async def export_jsonl(self, path: str | None) -> str:
        """Write the current branch as a session file. Returns the path as given, or a generated one."""
        from tau.runtime.history.jsonl_export import export_branch

        session = await self._after_switch()
        log, services = session.log, session.services
        if path is not None:
            as_path("outputPath", path)
        return await services.machine.in_thread(lambda: export_branch(log, services.start, path))

    async def write_bug_report(self, description: str, *, with_texts: bool) -> str:
        """Write a redacted report for the user to look at. Returns its path."""
        from tau.runtime.session.bug_report import write_bug_report

        session = await self._after_switch()
        machine = session.services.machine
        return str(await machine.in_thread(lambda: write_bug_report(session, description, with_texts=with_texts)))

    # Reading.

    @property
    def tree(self) -> Tree:
        """The entries of the session, to read."""
        return self._session.log.tree

    @property
    def log(self) -> SessionLog:
        """The session as it is stored, to read."""
        return self._session.log

    @property
    def cwd(self) -> str:
        return self._session.services.cwd

    @property
    def session_folder(self) -> str:
        """Where the tools of the session work: `cwd`, unless that is the folder of a terminal and a host has the
        session.
        """
        return self.cwd

    @property
    def start_folder(self) -> str:
        """The folder where the program was started; exports are relative to it."""
        return self._session.services.start

    @property
    def models(self) -> ModelSelection:
        """The models that can be chosen, to read; changed by the operations above."""
        return self._session.models

    @property
    def settings(self) -> Settings:
        """The settings in effect, to read."""
        return self._session.settings

    @property
    def queues(self) -> Queues:
        """The texts of the queued messages."""
        queues = self._session.queues
        return Queues(queues.texts("steer"), queues.texts("follow_up"))

    @property
    def dialect(self) -> str | None:
        return self._session.settings.dialect

    def entries_after(self, id: str | None) -> list[bytes]:
        """The lines of the entries in the order in which they were added: all, or those after an entry."""
        if id is not None and id not in self.tree:
            raise CommandError(f"Entry not found: {id}")
        return list(self.tree.after(id))

    def all_tools(self) -> dict[str, Tool]:
        return dict(self._session.tool_runner.all_tools)

    async def listed_tools(self) -> list[ListedTool]:
        """All tools, with their source, and whether the model has them. Starts no MCP server."""
        from tau.runtime.session.tool_list import listed_tools

        return await listed_tools(self._session)

    def active_tools(self) -> list[str]:
        return list(self._session.tool_runner.tools)

    def stats(self) -> SessionStats:
        from tau.core.conversation.stats import Counts, conversation_counts, session_counts

        session, log = self._session, self._session.log
        counts: Counts
        if session.settings.compat.stats_of == "conversation":
            counts = conversation_counts(log.messages)
        else:
            counts = session_counts(log.tree).update(log.tree)
        usage = self.context_usage() or UNSET
        return counts.stats(log.id, self.state.file(), usage, session.models.price_unknown)

    def index_entries(self) -> Iterator[None]:
        """Read a long session in short steps, so that its statistics and fork points are known before a client asks."""
        tree = self._session.log.tree
        if tree.size >= MIN_INDEXED_BYTES:
            from tau.core.conversation.stats import session_counts

            yield from session_counts(tree).steps(tree)

    def context_usage(self) -> ContextUsage | None:
        """Returns None without a model."""
        model = self._session.models.current
        if model is None:
            return None
        tokens, percent = context_usage(Branch(self._session.log.tree), model.context_window)
        return ContextUsage(tokens, model.context_window, percent)

    def last_assistant_text(self) -> str | None:
        """Text of the last answer that has content or was not aborted."""
        for message in reversed(self._session.log.messages):
            if isinstance(message, Assistant) and (message.content or message.stop_reason != "aborted"):
                return message.text.strip() or None
        return None

    async def system_prompt(self) -> str:
        return await self._session.model_client.system_prompt()

    async def effective_system_prompt(self) -> str:
        """The prompt of the current run, which an extension may have replaced."""
        return self._session.model_client.system_override or await self.system_prompt()

    async def commands(self) -> list[SlashCommand]:
        """Commands of extensions, prompt templates and skills."""
        session = self._session
        prompts = [] if session.mcp is None else await session.mcp.commands()
        return [*session.extension_lifecycle.commands(), *await session.resources.commands(), *prompts]

    async def mcp_servers(self) -> McpServers:
        """The configured MCP servers and their states. Starts none."""
        return McpServers([]) if self._session.mcp is None else await self._session.mcp.rows()

    def mcp_tool(self, name: str) -> ToolDefinition | None:
        """How an MCP server describes a tool; None for other tools."""
        return None if self._session.mcp is None else self._session.mcp.definition(name)

    async def restart_mcp_server(self, name: str) -> McpServerRow:
        """Start a server again, also one that failed too often."""
        if self._session.mcp is None:
            raise CommandError("No MCP server is configured.")
        return await self._session.mcp.restart(name)

    async def sessions(self, *, everywhere: bool) -> list[SessionRow]:
        """List the sessions of this project, or of all projects, newest first."""
        return await self._session.navigator.sessions(everywhere)


def as_path(field: str, text: str) -> Path:
    """Convert text to a path. Raises CommandError for text that cannot be a path on this system."""
    try:
        if "\0" in text or not text:
            raise ValueError
        os.fsencode(text)
        return Path(text).expanduser()
    except (ValueError, RuntimeError):
        raise CommandError(f"{field}: not a path: {text!r}") from None
