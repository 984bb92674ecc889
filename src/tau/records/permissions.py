"""The rules file of `--permissions`, denials, and what a permission question is about.

Unknown fields are errors, so that a misspelled rule is not silently ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tau.records.base import UNSET, Record, UnsetType, Value

StringOrList = str | list[str]


class Rule(Record, forbid_unknown_fields=True):
    """Selects tool calls. A rule matches if every field that is present matches; in a list, one match is enough."""

    tool: StringOrList | UnsetType = UNSET
    path: StringOrList | UnsetType = UNSET
    command: StringOrList | UnsetType = UNSET


class Permissions(Record, forbid_unknown_fields=True):
    """A rules file. `deadline` is in seconds; without it, the front end decides how long a question waits.

    With `fixed_deadline`, there is one, and the user at the terminal cannot stop it.
    """

    deny: list[Rule] = []
    ask: list[Rule] = []
    allow: list[Rule] = []
    otherwise: Literal["allow", "ask", "deny"] = "ask"
    deadline: float | UnsetType = UNSET
    fixed_deadline: bool = False


DeniedBy = Literal["rule", "user", "deadline", "nobody"]


class Denial(Record):
    """`details.denied` in the result of a tool call that was denied.

    `rule` is the rule that denied the call or asked about it, such as `deny[0]`.
    """

    by: DeniedBy
    reason: str
    rule: str | UnsetType = UNSET


class PermissionDetails(Value):
    """What a permission question is about, for a front end in this process. It is not part of the wire format."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    commands: tuple[str, ...]
    paths: tuple[str, ...]  # real paths
    cwd: str
    sandbox: str | None  # the level, if there is a sandbox
    asked_by: str  # the rule that requires the confirmation
    diff: str = ""  # what an edit or a write would change, in the format of the edit tool
    order: int = 0  # of the question among all questions of its session, in the order of the calls
    can_stop_clock: bool = True
