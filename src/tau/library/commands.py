"""The operations of an agent besides prompting: every command of the protocol as a Python method."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tau.core.checks.images import checked_images
from tau.errors import CommandError
from tau.functions.function_tools import check_tool
from tau.library.arguments import LEVEL, QUEUE_MODE, check_argument, check_prompt
from tau.library.wording import with_python_errors
from tau.records.base import UNSET
from tau.records.commands import ImageGiven, QueueMode
from tau.records.entries import AnyEntry, Label
from tau.records.events import CompactionResult
from tau.records.lines import UnknownEntry
from tau.records.messages import Assistant, Image, StoredMessage, Text
from tau.records.models import Model, ThinkingLevel
from tau.records.replies import (
    BashResult,
    ContextUsage,
    Forked,
    ForkPoint,
    McpServerRow,
    McpServers,
    Navigated,
    Queues,
    SessionRow,
    SessionState,
    SessionStats,
    SlashCommand,
)
from tau.runtime.app.handle import SessionHandle
from tau.runtime.clock import now
from tau.runtime.extensions.hook_answers import read_custom
from tau.runtime.extensions.hooks import Destination
from tau.runtime.session.operations import Delivery
from tau.tools import Tool

Entry = AnyEntry | UnknownEntry
Deliver = Literal["steer", "follow_up"]
DELIVERY: dict[str | None, Delivery | None] = {
    None: None,
    "steer": "steer",
    "follow_up": "followUp",
    "next_turn": "nextTurn",
}


@dataclass
class Node:
    """A session entry and the entries that follow it. With more than one child, the session branches there."""

    entry: Entry
    children: list[Node] = field(default_factory=list)
    label: str | None = None


@with_python_errors
class Commands:
    """An operation that cannot be carried out raises CommandError with the reason."""

    def _require_handle(self) -> SessionHandle:
        """Return the handle of the session. Raises CommandError if the agent is closed."""
        raise NotImplementedError

    def _function_tool(self, function: Callable[..., Any]) -> Tool:
        """Make a tool of a function. Raises UsageError if that is not possible."""
        raise NotImplementedError

    # State.

    @property
    def state(self) -> SessionState:
        """The state of the session: model, thinking level, queue modes, message counts."""
        return self._require_handle().state.current()

    @property
    def model(self) -> Model | None:
        """The current model; None if none is configured."""
        return self._require_handle().models.current

    @property
    def thinking(self) -> ThinkingLevel:
        """The current thinking level."""
        return self._require_handle().models.level

    @property
    def cwd(self) -> str:
        """The working folder of the agent."""
        return self._require_handle().cwd

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self._require_handle().log.id

    @property
    def session_file(self) -> Path | None:
        """None for a session that is only in memory. The file exists from the first prompt on."""
        return self._require_handle().log.path

    @property
    def name(self) -> str | None:
        """The name of the session."""
        return self._require_handle().tree.name

    @property
    def is_streaming(self) -> bool:
        """True between a prompt and its AgentEnd."""
        return self._require_handle().runs.streaming

    @property
    def is_busy(self) -> bool:
        """True until AgentSettled: like `is_streaming`, but also during retry delays and everything else before it."""
        return self._require_handle().runs.busy

    @property
    def is_compacting(self) -> bool:
        """True while the conversation is being summarized."""
        return self._require_handle().state.current().is_compacting

    @property
    def retry_attempt(self) -> int:
        """The number of the retry whose delay is running; 0 if none is."""
        return self._require_handle().retry_attempt

    def messages(self) -> list[StoredMessage]:
        """Return the conversation as the model sees it. A message that is not understood is an `Other`."""
        return list(self._require_handle().log.messages)

    def stats(self) -> SessionStats:
        """Return the numbers of messages and tokens, and the cost of the session."""
        return self._require_handle().stats()

    def context_usage(self) -> ContextUsage | None:
        """Return how full the context window is; None without a model."""
        return self._require_handle().context_usage()

    def last_text(self) -> str | None:
        """Return the text of the last assistant message."""
        return self._require_handle().last_assistant_text()

    async def system_prompt(self) -> str:
        """Return the system prompt."""
        return await self._require_handle().system_prompt()

    async def commands(self) -> list[SlashCommand]:
        """Return the slash commands: commands of extensions, prompt templates and skills."""
        return await self._require_handle().commands()

    async def mcp_servers(self) -> McpServers:
        """Return the configured MCP servers and their states. Starts none."""
        return await self._require_handle().mcp_servers()

    async def restart_mcp_server(self, name: str) -> McpServerRow:
        """Start an MCP server again, also one that failed too often."""
        return await self._require_handle().restart_mcp_server(name)

    # Messages.

    async def steer(self, text: str, images: Sequence[Image] = ()) -> None:
        """Queue a message that interrupts the run: it is delivered after the current tool call."""
        check_prompt(text, images)
        await self._require_handle().submit(text, validated_images(images), "steer", queue_only=True)

    async def follow_up(self, text: str, images: Sequence[Image] = ()) -> None:
        """Queue a message that is delivered when the agent would otherwise stop."""
        check_prompt(text, images)
        await self._require_handle().submit(text, validated_images(images), "follow_up", queue_only=True)

    async def clear_queue(self) -> Queues:
        """Empty both queues and return the messages that were in them."""
        return await self._require_handle().clear_queues()

    async def send_user_message(
        self, content: str | Sequence[Text | Image], *, deliver_as: Deliver | None = None
    ) -> None:
        """Send a message verbatim: it is not interpreted as a slash command, template or skill. Returns when it is
        accepted.
        """
        await self._require_handle().send_user_message(content, deliver_as, "deliver_as")

    async def send_message(
        self,
        custom_type: str,
        content: str | Sequence[Text | Image],
        *,
        display: bool = True,
        details: object = UNSET,
        trigger_turn: bool = False,
        deliver_as: Deliver | Literal["next_turn"] | None = None,
    ) -> None:
        """Add a custom message of the program to the conversation: now, or as `deliver_as` says."""
        fields = {"customType": custom_type, "content": content if isinstance(content, str) else list(content)}
        message = read_custom(
            {**fields, "display": display} | ({} if details is UNSET else {"details": details}), now()
        )
        await self._require_handle().send_custom(message, DELIVERY[deliver_as], trigger_turn=trigger_turn)

    # Runs.

    async def abort(self) -> None:
        """Stop the run, or whatever else is in progress; returns when it has stopped."""
        await self._require_handle().abort()

    async def wait_idle(self) -> None:
        """Wait until all prompts are finished."""
        await self._require_handle().wait_idle()

    async def abort_retry(self) -> None:
        """Cancel a retry that is waiting for its delay to pass."""
        await self._require_handle().abort_retry()

    async def compact(self, instructions: str | None = None) -> CompactionResult:
        """Replace the older part of the conversation by a summary."""
        return await self._require_handle().compact(instructions)

    async def abort_compaction(self) -> None:
        """Stop a compaction that is in progress."""
        await self._require_handle().abort_compaction()

    async def bash(self, command: str, *, exclude_from_context: bool = False) -> BashResult:
        """Run a shell command as the user. Its output is sent to the model with the next prompt."""
        return await self._require_handle().bash(command, exclude=exclude_from_context)

    def abort_bash(self) -> None:
        """Stop the shell command that `bash` runs."""
        self._require_handle().abort_bash()

    # Model and thinking.

    def models(self) -> list[Model]:
        """Return the models that can be used now: those that have an API key or need none."""
        return self._require_handle().models.available

    async def set_model(self, model: Model | str) -> Model:
        """Switch to a model: a Model, or a name as after --model, usually "provider/id"."""
        if isinstance(model, Model):
            return await self._require_handle().set_model(model.provider, model.id)
        return await self._require_handle().choose_model(model)

    async def cycle_model(self) -> Model | None:
        """Switch to the next model; None if there is only one."""
        chosen = await self._require_handle().cycle_model()
        return None if chosen is None else chosen[0]

    def set_scoped_models(self, patterns: Sequence[str]) -> list[Model]:
        """Limit `cycle_model` to names or patterns, as with --models. Returns the models."""
        return self._require_handle().set_scoped_models(patterns)

    def thinking_levels(self) -> list[ThinkingLevel]:
        """Return the thinking levels that the model supports."""
        return self._require_handle().models.levels

    async def set_thinking(self, level: ThinkingLevel) -> ThinkingLevel:
        """Set the thinking level and return the level in effect, which is one that the model supports."""
        check_argument("level", level, LEVEL)
        return await self._require_handle().set_thinking_level(level)

    async def cycle_thinking(self) -> ThinkingLevel | None:
        """Switch to the next thinking level; None if the model does not support thinking."""
        return await self._require_handle().cycle_thinking_level()

    # Settings of this agent, which are not saved.

    async def set_steering_mode(self, mode: QueueMode) -> None:
        """Deliver steering messages all at once ("all") or one per turn ("one-at-a-time")."""
        check_argument("mode", mode, QUEUE_MODE)
        await self._require_handle().set_queue_mode("steer", mode)

    async def set_follow_up_mode(self, mode: QueueMode) -> None:
        """The same for follow-up messages."""
        check_argument("mode", mode, QUEUE_MODE)
        await self._require_handle().set_queue_mode("follow_up", mode)

    async def set_auto_compaction(self, enabled: bool) -> None:
        """Choose whether the conversation is summarized when the context window is almost full."""
        await self._require_handle().set_auto_compaction(enabled)

    async def set_auto_retry(self, enabled: bool) -> None:
        """Choose whether model calls that fail temporarily are retried."""
        await self._require_handle().set_auto_retry(enabled)

    # Tools.

    @property
    def tools(self) -> list[str]:
        """The tools that are active."""
        return self._require_handle().active_tools()

    def all_tools(self) -> list[str]:
        """Return the names of all available tools."""
        return list(self._require_handle().all_tools())

    def set_tools(self, names: Sequence[str | Tool | Callable[..., Any]]) -> None:
        """Make exactly these tools active, from the next turn on: names, and as in `tau.open` functions and
        `tau.Tool`s.
        """
        tools = [self._function_tool(tool) if callable(tool) else tool for tool in names]
        for tool in tools:
            if isinstance(tool, Tool):
                check_tool(tool.name, tool.parameters)
        if unknown := {tool for tool in tools if isinstance(tool, str)} - set(self.all_tools()):
            raise CommandError(f"There is no tool {', '.join(sorted(unknown))}.")
        self._require_handle().set_tools(tools)

    # Sessions.

    async def new_session(self, parent: str | None = None) -> bool:
        """Start a new session. Returns False if an extension cancelled it, as do the methods below."""
        return await self._require_handle().new_session(parent)

    async def switch_session(self, path: str | os.PathLike[str]) -> bool:
        """Open the session in a file, or start a new one there."""
        return await self._require_handle().switch_session(os.fspath(path))

    async def fork(self, entry_id: str) -> Forked:
        """Continue in a new session from the point before an earlier user message; the result contains its text."""
        text, done = await self._require_handle().fork(entry_id)
        return Forked(text, not done)

    async def clone(self) -> bool:
        """Copy the current branch to a new session and continue there."""
        return await self._require_handle().clone()

    async def navigate(
        self,
        entry_id: str,
        *,
        summarize: bool = False,
        instructions: str | None = None,
        replace_instructions: bool = False,
        label: str | None = None,
    ) -> Navigated:
        """Continue from another entry of this session."""
        destination = Destination(entry_id, label, summarize, instructions, replace_instructions)
        return await self._require_handle().navigate(destination)

    async def set_name(self, name: str) -> None:
        """Set the name of the session."""
        await self._require_handle().set_session_name(name)

    async def sessions(self, *, everywhere: bool = False) -> list[SessionRow]:
        """List the sessions of this project, or of all projects, newest first."""
        return await self._require_handle().sessions(everywhere=everywhere)

    def fork_points(self) -> list[ForkPoint]:
        """Return the user messages that can be forked from, on all branches."""
        return self._require_handle().tree.fork_points()

    def entries(self, since: str | None = None) -> list[Entry]:
        """Return the session entries in the order in which they were added, all of them or those after `since`."""
        tree = self._require_handle().tree
        first = 0 if since is None else tree.find(since)
        if first is None:
            raise CommandError(f"Entry not found: {since}")
        return [tree.entry(index) for index in range(first + (since is not None), len(tree))]

    @property
    def leaf_id(self) -> str | None:
        """The id of the entry that the next entry will follow."""
        return self._require_handle().tree.leaf_id

    def tree(self) -> list[Node]:
        """Return the roots of the tree of entries."""
        roots: list[Node] = []
        nodes: dict[str, Node] = {}
        for entry in self.entries():
            node = Node(entry)
            if isinstance(entry, Label) and entry.target_id in nodes:
                nodes[entry.target_id].label = entry.label or None
            parent = nodes.get(entry.parent_id or "")
            (roots if parent is None else parent.children).append(node)
            nodes[entry.id] = node
        return roots

    async def export_html(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Export the session to an HTML file."""
        handle = self._require_handle()
        return Path(handle.start_folder, await handle.export_html(None if path is None else os.fspath(path)))

    async def reload(self) -> None:
        """Search again for context files, skills and templates, and reload extensions from files."""
        await self._require_handle().reload()

    @property
    def partial(self) -> Assistant | None:
        """The assistant message that is being streamed, as far as it has been received."""
        raise NotImplementedError


def validated_images(images: Sequence[Image]) -> list[Image]:
    """Validate images. Raises CommandError, with the same messages as for RPC clients."""
    return checked_images([ImageGiven("image", image.data, image.mime_type) for image in images])
