"""The operations of a session as one client of the host may use them: it can narrow what it got, never widen it.

The class overrides what must be narrowed, and UNCHANGED names what is as harmless here as elsewhere. Anything else is
refused, so that an operation that is new is not open to every client before somebody has looked at it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from tau.core.agent.queues import QueueName
from tau.errors import CommandError
from tau.records.base import UNSET
from tau.records.budgets import Budget
from tau.records.entries import CommandKey
from tau.records.messages import Attachment
from tau.records.replies import BashResult, Disposition, SessionRow
from tau.runtime.session.operations import Blocks, Operations, as_path
from tau.runtime.session.refusals import refuses_others
from tau.serve.keys import current_key
from tau.serve.opening import narrower_budget
from tau.store.paths import is_inside
from tau.tools import Tool
from tau.tools.registry import MODULES
from tau.wire.dialect import Dialect

if TYPE_CHECKING:
    from tau.core.agent.structured_output import OutputSchema
    from tau.serve.host import Host
    from tau.serve.live_session import LiveSession


UNCHANGED = frozenset(
    """
    abort abort_bash abort_retry clear_queues clone commands compact context_usage cwd cycle_model cycle_thinking_level
    entries_after fork last_assistant_text listed_tools log mcp_servers models navigate new_session restart_mcp_server
    session_folder set_auto_compaction set_auto_retry set_model set_queue_mode set_session_name set_thinking_level
    start_folder stats tree
    """.split()
)


@refuses_others("{name}: a client of a host cannot use this operation", UNCHANGED)
class ClientOperations(Operations):
    def __init__(self, host: Host, live: LiveSession, dialect: Dialect, client: str) -> None:
        super().__init__(live.handle._session)
        self._state = live.handle.state
        self._host = host
        self._live = live
        self._dialect = dialect
        self._client = client

    @property
    def dialect(self) -> str | None:
        """That of the client, not of the session."""
        return self._dialect.name

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
        """`key` is the one that came with the command, whatever the caller gives."""
        key, runs = current_key.get(), self._live.handle.runs
        done = await super().submit(
            text,
            blocks,
            behavior,
            queue_only=queue_only,
            attachments=attachments,
            output_schema=output_schema,
            trace_parent=trace_parent,
            key=key,
        )
        if key is not None and done == "started":
            self._live.run_keys[runs.accepted] = key.key
        return done

    def answer_dialog(self, answer: Any) -> None:
        self._live.dialogs.answer(answer, self._client)

    async def bash(self, command: str, *, exclude: bool = False, id: Any = UNSET) -> BashResult:
        if "bash" not in self._live.offered_tools:
            raise CommandError("bash: this host does not offer it")
        if self._session.tool_runner.permission_gate is not None:
            why = await self._live.handle.permissions.refusal("bash", {"command": command})
            if why is not None:
                raise CommandError(f"bash: {why}")
        token = object()
        self._live.bash_began(token, command, id)
        try:
            return await super().bash(command, exclude=exclude, id=id)
        finally:
            self._live.bash_ended(token)

    def set_tools(self, tools: Sequence[str | Tool]) -> None:
        """Built-in tools that the session was not opened with cannot be added."""
        for tool in tools:
            if tool in MODULES and tool not in self._live.offered_tools:
                raise CommandError(f"names: this host does not offer {tool}")
        super().set_tools(tools)

    def set_budget(self, budget: Budget) -> Budget:
        return super().set_budget(narrower_budget(self._live.budget_limit, budget))

    async def switch_session(self, path: str) -> bool:
        target = os.path.join(self.cwd, as_path("sessionPath", path))
        self._host.opener.check_file("sessionPath", target)
        other = self._host.live_at(target)
        if other is not None and other is not self._live:
            raise CommandError(f"Session {other.id} is open here; attach to it.")
        return await super().switch_session(path)

    async def sessions(self, *, everywhere: bool) -> list[SessionRow]:
        """Those of folders outside of the roots are not listed."""
        serves = cache(self._host.opener.serves)
        return [row for row in await super().sessions(everywhere=everywhere) if serves(row.cwd)]

    async def export_html(self, path: str | None) -> str:
        if path is not None and not is_inside(
            os.path.join(self.start_folder, as_path("outputPath", path)), [self.start_folder]
        ):
            raise CommandError(f"outputPath: {path} is not below the working folder")
        return await super().export_html(path)
