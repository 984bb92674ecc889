"""The permissions of a running session: what they are, and how to make them stricter.

Rules that the program was started with can be added to, never removed: the strictest of all decides. A session that
was started without rules can get them and lose them again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from tau.errors import CommandError
from tau.runtime.runs.permission_rules import LoadedRules, read_permissions
from tau.runtime.runs.permissions import Grant, Permits
from tau.runtime.runs.tool_runner import ToolRunner


class RuleSource(NamedTuple):
    """`text` is the content of the rules file, as JSON; empty for `--permissions ask`."""

    source: str
    text: str


class PermissionState(NamedTuple):
    mode: Literal["off", "ask", "rules"]
    rules: Sequence[RuleSource]  # the strictest of them decides
    grants: Sequence[Grant]  # what the user allowed for this session
    can_turn_off: bool


class PermissionControl:
    """`make_gate` builds the gate of a session that has none yet."""

    def __init__(self, tools: ToolRunner, make_gate: Callable[[LoadedRules], Permits]) -> None:
        self._tools = tools
        self._make_gate = make_gate
        self._started_with_rules = tools.permission_gate is not None

    @property
    def _gate(self) -> Permits | None:
        gate = self._tools.permission_gate
        return gate if isinstance(gate, Permits) else None

    def state(self) -> PermissionState:
        gate = self._gate
        if gate is None:
            return PermissionState("off", (), (), can_turn_off=False)
        mode: Literal["ask", "rules"] = "rules" if any(loaded.text for loaded in gate.rules) else "ask"
        sources = [RuleSource(loaded.source, loaded.text) for loaded in gate.rules]
        return PermissionState(mode, sources, gate.grants(), not self._started_with_rules)

    def add(self, given: str | Mapping[str, Any]) -> None:
        """Add rules: "ask" or "rules FILE", as after --permissions, or the content of such a file.

        Raises UsageError if they cannot be read. Blocks.
        What was allowed for this session is asked about again.
        """
        loaded = read_permissions(given, self._tools.services.cwd)
        gate = self._gate
        if gate is None:
            self._tools.permission_gate = self._make_gate(loaded)
        elif loaded.text or all(other.text for other in gate.rules):  # "ask" twice is no stricter than once
            gate.add_rules(loaded)

    async def refusal(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """Why the rules deny a call that a user asks for; None if they do not."""
        return None if self._gate is None else await self._gate.refusal(tool, arguments)

    def turn_off(self) -> None:
        """Raises CommandError if the program was started with rules: these stay."""
        if self._started_with_rules:
            raise CommandError("Permissions that tau was started with can only be made stricter.")
        self._tools.permission_gate = None

    def revoke(self, grant: int) -> None:
        """Take back what was allowed for this session. Raises CommandError if it is not allowed any more."""
        if self._gate is None or not self._gate.revoke(grant):
            raise CommandError(f"There is no permission {grant} of this session.")
