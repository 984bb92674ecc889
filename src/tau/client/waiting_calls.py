"""Every command as a method that waits: the same as in calls.py, which a test sees to."""

from __future__ import annotations

import os
from collections.abc import Coroutine
from typing import Any, Literal, TypeVar

from tau.client.calls import Calls, Images
from tau.records import replies as r
from tau.records.budgets import Budget
from tau.records.commands import Command, QueueMode
from tau.records.events import CompactionResult
from tau.records.messages import Stored
from tau.records.models import Model, ThinkingLevel

T = TypeVar("T")


class WaitingCalls:
    """What can be asked of an agent. A refusal raises CommandError with the agent's words."""

    _rpc: Calls

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        raise NotImplementedError

    def call(self, command: Command) -> bytes:
        """Any command; returns the JSON of the response's data, b"" if it has none."""
        return self._wait(self._rpc.call(command))

    # Prompting.

    def prompt(
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
        asked = self._rpc.prompt(message, images, streaming_behavior=streaming_behavior, output_schema=output_schema)
        self._wait(asked)

    def steer(self, message: str, images: Images = None) -> None:
        """Interrupt: delivered after the tool that runs now."""
        self._wait(self._rpc.steer(message, images))

    def follow_up(self, message: str, images: Images = None) -> None:
        """Delivered when the agent would otherwise stop."""
        self._wait(self._rpc.follow_up(message, images))

    def abort(self) -> None:
        """Stop the run; returns when it has stopped."""
        self._wait(self._rpc.abort())

    def clear_queue(self) -> r.Queues:
        """Empty both queues and return what was in them."""
        return self._wait(self._rpc.clear_queue())

    # State.

    def get_state(self) -> r.SessionState:
        return self._wait(self._rpc.get_state())

    def get_messages(self) -> list[Stored]:
        """The conversation as the model sees it. A message of a role that tau does not know is an `Other`."""
        return self._wait(self._rpc.get_messages())

    def get_session_stats(self) -> r.SessionStats:
        """Messages, tokens and cost."""
        return self._wait(self._rpc.get_session_stats())

    def get_last_assistant_text(self) -> str | None:
        return self._wait(self._rpc.get_last_assistant_text())

    def get_commands(self) -> list[r.SlashCommand]:
        """What can be invoked by a prompt that begins with `/`."""
        return self._wait(self._rpc.get_commands())

    # Model and thinking.

    def set_model(self, provider: str, model_id: str) -> Model:
        return self._wait(self._rpc.set_model(provider, model_id))

    def cycle_model(self) -> r.Cycled | None:
        """The next model; None if there is only one."""
        return self._wait(self._rpc.cycle_model())

    def get_available_models(self) -> list[Model]:
        """Models that have a key."""
        return self._wait(self._rpc.get_available_models())

    def set_thinking_level(self, level: ThinkingLevel) -> None:
        """A level that the model does not have is clamped."""
        self._wait(self._rpc.set_thinking_level(level))

    def cycle_thinking_level(self) -> ThinkingLevel | None:
        """The next level; None if the model does not think."""
        return self._wait(self._rpc.cycle_thinking_level())

    def get_available_thinking_levels(self) -> list[ThinkingLevel]:
        return self._wait(self._rpc.get_available_thinking_levels())

    # Queues, retry, compaction.

    def set_steering_mode(self, mode: QueueMode) -> None:
        self._wait(self._rpc.set_steering_mode(mode))

    def set_follow_up_mode(self, mode: QueueMode) -> None:
        self._wait(self._rpc.set_follow_up_mode(mode))

    def set_auto_retry(self, enabled: bool) -> None:
        self._wait(self._rpc.set_auto_retry(enabled))

    def abort_retry(self) -> None:
        """Stop waiting for the next try."""
        self._wait(self._rpc.abort_retry())

    def set_budget(self, budget: Budget) -> Budget:
        """Limit what each prompt may take, the one under way included. Only tau knows it."""
        return self._wait(self._rpc.set_budget(budget))

    def compact(self, custom_instructions: str | None = None) -> CompactionResult:
        """Replace the older part of the conversation by a summary."""
        return self._wait(self._rpc.compact(custom_instructions))

    def set_auto_compaction(self, enabled: bool) -> None:
        self._wait(self._rpc.set_auto_compaction(enabled))

    # Shell.

    def bash(self, command: str, *, exclude_from_context: bool | None = None) -> r.BashResult:
        """Run a shell command; its output goes to the model with the next prompt.

        `stdout` and `stderr` are told by tau only; `output` holds both.
        """
        return self._wait(self._rpc.bash(command, exclude_from_context=exclude_from_context))

    def abort_bash(self) -> None:
        self._wait(self._rpc.abort_bash())

    # Sessions.

    def new_session(self, parent_session: str | None = None) -> r.Cancelled:
        return self._wait(self._rpc.new_session(parent_session))

    def switch_session(self, session_path: str | os.PathLike[str]) -> r.Cancelled:
        return self._wait(self._rpc.switch_session(session_path))

    def set_session_name(self, name: str) -> None:
        self._wait(self._rpc.set_session_name(name))

    def list_sessions(self, *, all: bool | None = None) -> list[r.SessionRow]:
        """The sessions of this project, or of every project. tau only."""
        return self._wait(self._rpc.list_sessions(all=all))

    def get_fork_messages(self) -> list[r.ForkPoint]:
        """User messages that can be forked from."""
        return self._wait(self._rpc.get_fork_messages())

    def fork(self, entry_id: str) -> r.Forked:
        """Go on from before an earlier user message, in a new session."""
        return self._wait(self._rpc.fork(entry_id))

    def clone(self) -> r.Cancelled:
        """Copy the current branch into a new session and go on there."""
        return self._wait(self._rpc.clone())

    def navigate(
        self,
        entry_id: str,
        *,
        summarize: bool | None = None,
        custom_instructions: str | None = None,
        label: str | None = None,
    ) -> r.Navigated:
        """Go on from another entry of this session. tau only."""
        return self._wait(
            self._rpc.navigate(entry_id, summarize=summarize, custom_instructions=custom_instructions, label=label)
        )

    def get_entries(self, since: str | None = None) -> r.Entries:
        """Session entries in the order they were added, all or those after `since`."""
        return self._wait(self._rpc.get_entries(since))

    def get_tree(self) -> r.Tree:
        return self._wait(self._rpc.get_tree())

    def export_html(self, output_path: str | os.PathLike[str] | None = None) -> str:
        """Write the session as an HTML page; returns its path as the agent tells it."""
        return self._wait(self._rpc.export_html(output_path))
