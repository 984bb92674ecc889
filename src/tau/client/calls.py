"""One method per command, with typed parameters and results."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

from tau.client.replies import read, read_messages, read_or_none
from tau.records import commands as c
from tau.records import replies as r
from tau.records.base import astuple
from tau.records.budgets import Budget
from tau.records.commands import Command, ImageGiven, QueueMode
from tau.records.events import CompactionResult
from tau.records.messages import Image, StoredMessage
from tau.records.models import Model, ThinkingLevel

Images = Sequence[Image] | None


class Calls:
    """The commands of an agent. A command that fails raises CommandError with the agent's message.

    Not every agent knows every command: older versions of pi reject newer ones.
    """

    async def call(self, command: Command) -> bytes:
        """Send any command. Returns the JSON of the response's data, b"" if it has none."""
        raise NotImplementedError

    # Prompts.

    async def prompt(
        self,
        message: str,
        images: Images = None,
        *,
        streaming_behavior: Literal["steer", "followUp"] | None = None,
        output_schema: dict[str, Any] | None = None,
    ) -> None:
        """Send a message; returns when it is accepted. While the agent is working, `streaming_behavior` says how to
        queue it.

        With `output_schema`, a JSON Schema, the result arrives as a StructuredOutput event. Only tau supports this.
        """
        await self.call(c.Prompt(message, _image_inputs(images), streaming_behavior, output_schema=output_schema))

    async def steer(self, message: str, images: Images = None) -> None:
        """Queue a message that interrupts the run: it is delivered after the current tool call."""
        await self.call(c.Steer(message, _image_inputs(images)))

    async def follow_up(self, message: str, images: Images = None) -> None:
        """Queue a message that is delivered when the agent would otherwise stop."""
        await self.call(c.FollowUp(message, _image_inputs(images)))

    async def abort(self) -> None:
        """Stop the run; returns when it has stopped."""
        await self.call(c.Abort())

    async def clear_queue(self) -> r.Queues:
        """Empty both queues and return the messages that were in them."""
        return read(r.Queues, await self.call(c.ClearQueue()), "clear_queue")

    # State.

    async def get_state(self) -> r.SessionState:
        """Return the state of the session: model, thinking level, queue modes, message counts."""
        return read(r.SessionState, await self.call(c.GetState()), "get_state")

    async def get_messages(self) -> list[StoredMessage]:
        """Return the conversation as the model sees it. A message that is not understood is an `Other`."""
        return read_messages(await self.call(c.GetMessages()), "get_messages")

    async def get_session_stats(self) -> r.SessionStats:
        """Return the numbers of messages and tokens, and the cost."""
        return read(r.SessionStats, await self.call(c.GetSessionStats()), "get_session_stats")

    async def get_last_assistant_text(self) -> str | None:
        """Return the text of the last assistant message."""
        return read(r.LastText, await self.call(c.GetLastAssistantText()), "get_last_assistant_text").text

    async def get_commands(self) -> list[r.SlashCommand]:
        """Return the commands that a prompt can invoke with `/`."""
        return read(r.SlashCommands, await self.call(c.GetCommands()), "get_commands").commands

    # Tools.

    async def get_tools(self) -> list[r.ListedTool]:
        """Return all tools, with their source, and which of them the model has. Only tau supports this."""
        return read(r.ListedTools, await self.call(c.GetTools()), "get_tools").tools

    async def set_active_tools(self, names: Sequence[str]) -> None:
        """Give the model exactly these tools, from its next call on. Only tau supports this."""
        await self.call(c.SetActiveTools(list(names)))

    async def get_mcp_servers(self) -> r.McpServers:
        """Return the configured MCP servers and their states; not supported by pi."""
        return read(r.McpServers, await self.call(c.GetMcpServers()), "get_mcp_servers")

    async def restart_mcp_server(self, server: str) -> r.McpServerRow:
        """Start an MCP server again, also one that failed too often; not supported by pi."""
        return read(r.McpServerRow, await self.call(c.RestartMcpServer(server)), "restart_mcp_server")

    # Model and thinking.

    async def set_model(self, provider: str, model_id: str) -> Model:
        """Switch to a model and return it."""
        return read(Model, await self.call(c.SetModel(provider, model_id)), "set_model")

    async def cycle_model(self) -> r.Cycled | None:
        """Switch to the next model; None if there is only one."""
        return read_or_none(r.Cycled, await self.call(c.CycleModel()), "cycle_model")

    async def get_available_models(self) -> list[Model]:
        """Return the models that have an API key."""
        return read(r.Models, await self.call(c.GetAvailableModels()), "get_available_models").models

    async def set_thinking_level(self, level: ThinkingLevel) -> None:
        """Set the thinking level. A level that the model does not support is replaced by the nearest one."""
        await self.call(c.SetThinkingLevel(level))

    async def cycle_thinking_level(self) -> ThinkingLevel | None:
        """Switch to the next thinking level; None if the model does not support thinking."""
        reply = read_or_none(r.Level, await self.call(c.CycleThinkingLevel()), "cycle_thinking_level")
        return reply.level if reply else None

    async def get_available_thinking_levels(self) -> list[ThinkingLevel]:
        """Return the thinking levels that the model supports."""
        data = await self.call(c.GetAvailableThinkingLevels())
        return read(r.Levels, data, "get_available_thinking_levels").levels

    # Queues, retry, compaction.

    async def set_steering_mode(self, mode: QueueMode) -> None:
        """Deliver steering messages all at once ("all") or one per turn ("one-at-a-time")."""
        await self.call(c.SetSteeringMode(mode))

    async def set_follow_up_mode(self, mode: QueueMode) -> None:
        """The same for follow-up messages."""
        await self.call(c.SetFollowUpMode(mode))

    async def set_auto_retry(self, enabled: bool) -> None:
        """Choose whether model calls that fail temporarily are retried."""
        await self.call(c.SetAutoRetry(enabled))

    async def abort_retry(self) -> None:
        """Cancel a retry that is waiting for its delay to pass."""
        await self.call(c.AbortRetry())

    async def set_budget(self, budget: Budget) -> Budget:
        """Limit each prompt, including the current one. Only tau supports this."""
        return read(Budget, await self.call(c.SetBudget(*astuple(budget))), "set_budget")

    async def compact(self, custom_instructions: str | None = None) -> CompactionResult:
        """Replace the older part of the conversation by a summary."""
        return read(CompactionResult, await self.call(c.Compact(custom_instructions)), "compact")

    async def set_auto_compaction(self, enabled: bool) -> None:
        """Choose whether the conversation is summarized when the context window is almost full."""
        await self.call(c.SetAutoCompaction(enabled))

    # Shell.

    async def bash(self, command: str, *, exclude_from_context: bool | None = None) -> r.BashResult:
        """Run a shell command. Its output is sent to the model with the next prompt.

        Only tau fills in `stdout` and `stderr`; `output` holds both streams.
        """
        return read(r.BashResult, await self.call(c.Bash(command, exclude_from_context)), "bash")

    async def abort_bash(self) -> None:
        """Stop the shell command that `bash` runs."""
        await self.call(c.AbortBash())

    # Sessions.

    async def new_session(self, parent_session: str | None = None) -> r.Cancelled:
        """Start a new session."""
        return read(r.Cancelled, await self.call(c.NewSession(parent_session)), "new_session")

    async def switch_session(self, session_path: str | os.PathLike[str]) -> r.Cancelled:
        """Open the session in a file."""
        return read(r.Cancelled, await self.call(c.SwitchSession(os.fspath(session_path))), "switch_session")

    async def set_session_name(self, name: str) -> None:
        """Set the name of the session."""
        await self.call(c.SetSessionName(name))

    async def list_sessions(self, *, all: bool | None = None) -> list[r.SessionRow]:
        """List the sessions of this project, or of every project. Only tau supports this."""
        return read(r.SessionRows, await self.call(c.ListSessions(all)), "list_sessions").sessions

    async def get_fork_messages(self) -> list[r.ForkPoint]:
        """Return the user messages that can be forked from, on all branches."""
        return read(r.ForkPoints, await self.call(c.GetForkMessages()), "get_fork_messages").messages

    async def fork(self, entry_id: str) -> r.Forked:
        """Continue in a new session from the point before an earlier user message."""
        return read(r.Forked, await self.call(c.Fork(entry_id)), "fork")

    async def clone(self) -> r.Cancelled:
        """Copy the current branch to a new session and continue there."""
        return read(r.Cancelled, await self.call(c.Clone()), "clone")

    async def navigate(
        self,
        entry_id: str,
        *,
        summarize: bool | None = None,
        custom_instructions: str | None = None,
        label: str | None = None,
    ) -> r.Navigated:
        """Continue from another entry of this session. Only tau supports this."""
        command = c.Navigate(entry_id, summarize, custom_instructions, label)
        return read(r.Navigated, await self.call(command), "navigate")

    async def get_entries(self, since: str | None = None) -> r.Entries:
        """Return the session entries in the order in which they were added, all of them or those after `since`."""
        return read(r.Entries, await self.call(c.GetEntries(since)), "get_entries")

    async def get_tree(self) -> r.Tree:
        """Return all session entries as a tree."""
        return read(r.Tree, await self.call(c.GetTree()), "get_tree")

    async def export_html(self, output_path: str | os.PathLike[str] | None = None) -> str:
        """Export the session to an HTML file. Returns its path as reported by the agent."""
        path = None if output_path is None else os.fspath(output_path)
        return read(r.Exported, await self.call(c.ExportHtml(path)), "export_html").path


def _image_inputs(images: Images) -> list[ImageGiven] | None:
    return [ImageGiven("image", image.data, image.mime_type) for image in images] if images else None
