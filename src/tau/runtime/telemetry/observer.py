"""What watches a session from inside this process: telemetry. Without one, each place costs a test for None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tau.core.agent.draft import Draft
from tau.llm.types import CallOptions, ModelContext
from tau.records.events import Event, Outcome
from tau.records.messages import Assistant, ToolCall
from tau.records.models import Model
from tau.runtime.history.session_log import SessionLog
from tau.runtime.models.selection import ModelSelection


class KnownTools(Protocol):
    def source_of(self, name: str) -> str | None:
        """Where a tool comes from (builtin, extension, host, mcp, program); None if there is no such tool."""


class ObservedSession(Protocol):
    """What an observer reads of its session."""

    log: SessionLog
    models: ModelSelection

    @property
    def tool_runner(self) -> KnownTools: ...


class CallObserver(Protocol):
    """Watches one request to a model."""

    def sent(self, model: Model, options: CallOptions, context: ModelContext) -> Mapping[str, str]:
        """The request is about to be sent. Returns headers for it."""

    def received(self, facts: Sequence[Any]) -> None:
        """What a piece of the answer has added to the draft."""

    def done(self, message: Assistant) -> None: ...

    def ended(self, error: BaseException | None) -> None:
        """Called at last, whether it failed or not."""


class SessionObserver(Protocol):
    """Watches a session. No method may raise or wait."""

    def accepted(self, parent: str | None) -> None:
        """A prompt starts a run of its own. `parent` is the `traceparent` that came with it."""

    def run_started(self) -> None: ...

    def on_event(self, event: Event) -> None:
        """Every event of the session, apart from pieces of an answer; the run ends with `agent_settled`."""

    def model_call(self, draft: Draft) -> CallObserver | None: ...

    def permission_checked(self, call: ToolCall, refusal: Outcome | None, *, asked: bool, seconds: float) -> None:
        """A call was checked against the permissions. `asked`: the user was asked, which took `seconds`."""

    def command_environment(self) -> Mapping[str, str | None]:
        """Variables for the commands of tools; None removes one."""

    def close(self) -> None:
        """The session has ended."""

    def flush(self) -> Any:
        """Send what is left, if no other session is watched; blocks for a limited time."""
