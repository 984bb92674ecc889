"""Every command as a method that says what it takes and what it gives."""

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
from tau.records.messages import Image, Stored
from tau.records.models import Model, ThinkingLevel

Images = Sequence[Image] | None


class Calls:
    """What can be asked of an agent. A refusal raises CommandError with the agent's words.

    Not every agent knows every command: older pis refuse those that came later.
    """

    async def call(self, command: Command) -> bytes:
        """Any command; returns the JSON of the response's data, b"" if it has none."""
        raise NotImplementedError

    # Prompting.

    async def prompt(
        self,
        message: str,
        images: Images = None,
        *,
        streaming_behavior: Literal["steer", "followUp"] | None = None,
        output_schema: dict[str, Any] | None = None,
    ) -> None:
        """Send a message; returns when it is accepted. While the agent works, say how to queue it.

        With `output_schema`, a JSON schema, the result comes as a StructuredOutput event. Only tau knows it.
        """
        await self.call(c.Prompt(message, given(images), streaming_behavior, output_schema=output_schema))

    async def steer(self, message: str, images: Images = None) -> None:
        """Interrupt: delivered after the tool that runs now."""
        await self.call(c.Steer(message, given(images)))

    async def follow_up(self, message: str, images: Images = None) -> None:
        """Delivered when the agent would otherwise stop."""
        await self.call(c.FollowUp(message, given(images)))

    async def abort(self) -> None:
        """Stop the run; returns when it has stopped."""
        await self.call(c.Abort())

    async def clear_queue(self) -> r.Queues:
        """Empty both queues and return what was in them."""
        return read(r.Queues, await self.call(c.ClearQueue()), "clear_queue")

    # State.

    async def get_state(self) -> r.SessionState:
        return read(r.SessionState, await self.call(c.GetState()), "get_state")

    async def get_messages(self) -> list[Stored]:
        """The conversation as the model sees it. A message of a role that tau does not know is an `Other`."""
        return read_messages(await self.call(c.GetMessages()), "get_messages")

    async def get_session_stats(self) -> r.SessionStats:
        """Messages, tokens and cost."""
        return read(r.SessionStats, await self.call(c.GetSessionStats()), "get_session_stats")

    async def get_last_assistant_text(self) -> str | None:
        return read(r.LastText, await self.call(c.GetLastAssistantText()), "get_last_assistant_text").text

    async def get_commands(self) -> list[r.SlashCommand]:
        """What can be invoked by a prompt that begins with `/`."""
        return read(r.SlashCommands, await self.call(c.GetCommands()), "get_commands").commands

    # Model and thinking.

    async def set_model(self, provider: str, model_id: str) -> Model:
        return read(Model, await self.call(c.SetModel(provider, model_id)), "set_model")

    async def cycle_model(self) -> r.Cycled | None:
        """The next model; None if there is only one."""
        return read_or_none(r.Cycled, await self.call(c.CycleModel()), "cycle_model")

    async def get_available_models(self) -> list[Model]:
        """Models that have a key."""
        return read(r.Models, await self.call(c.GetAvailableModels()), "get_available_models").models

    async def set_thinking_level(self, level: ThinkingLevel) -> None:
        """A level that the model does not have is clamped."""
        await self.call(c.SetThinkingLevel(level))

    async def cycle_thinking_level(self) -> ThinkingLevel | None:
        """The next level; None if the model does not think."""
        found = read_or_none(r.Level, await self.call(c.CycleThinkingLevel()), "cycle_thinking_level")
        return found.level if found else None

    async def get_available_thinking_levels(self) -> list[ThinkingLevel]:
        data = await self.call(c.GetAvailableThinkingLevels())
        return read(r.Levels, data, "get_available_thinking_levels").levels

    # Queues, retry, compaction.

    async def set_steering_mode(self, mode: QueueMode) -> None:
        await self.call(c.SetSteeringMode(mode))

    async def set_follow_up_mode(self, mode: QueueMode) -> None:
        await self.call(c.SetFollowUpMode(mode))

    async def set_auto_retry(self, enabled: bool) -> None:
        await self.call(c.SetAutoRetry(enabled))

    async def abort_retry(self) -> None:
        """Stop waiting for the next try."""
        await self.call(c.AbortRetry())

    async def set_budget(self, budget: Budget) -> Budget:
        """Limit what each prompt may take, the one under way included. Only tau knows it."""
        return read(Budget, await self.call(c.SetBudget(*astuple(budget))), "set_budget")

    async def compact(self, custom_instructions: str | None = None) -> CompactionResult:
        """Replace the older part of the conversation by a summary."""
        return read(CompactionResult, await self.call(c.Compact(custom_instructions)), "compact")

    async def set_auto_compaction(self, enabled: bool) -> None:
        await self.call(c.SetAutoCompaction(enabled))

    # Shell.

    async def bash(self, command: str, *, exclude_from_context: bool | None = None) -> r.BashResult:
        """Run a shell command; its output goes to the model with the next prompt.

        `stdout` and `stderr` are told by tau only; `output` holds both.
        """
        return read(r.BashResult, await self.call(c.Bash(command, exclude_from_context)), "bash")

    async def abort_bash(self) -> None:
        await self.call(c.AbortBash())

    # Sessions.

    async def new_session(self, parent_session: str | None = None) -> r.Cancelled:
        return read(r.Cancelled, await self.call(c.NewSession(parent_session)), "new_session")

    async def switch_session(self, session_path: str | os.PathLike[str]) -> r.Cancelled:
        return read(r.Cancelled, await self.call(c.SwitchSession(os.fspath(session_path))), "switch_session")

    async def set_session_name(self, name: str) -> None:
        await self.call(c.SetSessionName(name))

    async def list_sessions(self, *, all: bool | None = None) -> list[r.SessionRow]:
        """The sessions of this project, or of every project. tau only."""
        return read(r.SessionRows, await self.call(c.ListSessions(all)), "list_sessions").sessions

    async def get_fork_messages(self) -> list[r.ForkPoint]:
        """User messages that can be forked from."""
        return read(r.ForkPoints, await self.call(c.GetForkMessages()), "get_fork_messages").messages

    async def fork(self, entry_id: str) -> r.Forked:
        """Go on from before an earlier user message, in a new session."""
        return read(r.Forked, await self.call(c.Fork(entry_id)), "fork")

    async def clone(self) -> r.Cancelled:
        """Copy the current branch into a new session and go on there."""
        return read(r.Cancelled, await self.call(c.Clone()), "clone")

    async def navigate(
        self,
        entry_id: str,
        *,
        summarize: bool | None = None,
        custom_instructions: str | None = None,
        label: str | None = None,
    ) -> r.Navigated:
        """Go on from another entry of this session. tau only."""
        command = c.Navigate(entry_id, summarize, custom_instructions, label)
        return read(r.Navigated, await self.call(command), "navigate")

    async def get_entries(self, since: str | None = None) -> r.Entries:
        """Session entries in the order they were added, all or those after `since`."""
        return read(r.Entries, await self.call(c.GetEntries(since)), "get_entries")

    async def get_tree(self) -> r.Tree:
        return read(r.Tree, await self.call(c.GetTree()), "get_tree")

    async def export_html(self, output_path: str | os.PathLike[str] | None = None) -> str:
        """Write the session as an HTML page; returns its path as the agent tells it."""
        path = None if output_path is None else os.fspath(output_path)
        return read(r.Exported, await self.call(c.ExportHtml(path)), "export_html").path


def given(images: Images) -> list[ImageGiven] | None:
    return [ImageGiven("image", image.data, image.mime_type) for image in images] if images else None
