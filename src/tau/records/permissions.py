"""The rules file of `--permissions`, and denials.

Unknown fields are errors, so that a misspelled rule is not silently ignored.
"""

from __future__ import annotations

from typing import Literal

from tau.records.base import UNSET, Record, UnsetType

StringOrList = str | list[str]


class Rule(Record, forbid_unknown_fields=True):
    """Selects tool calls. A rule matches if every field that is present matches; in a list, one match is enough."""

    tool: StringOrList | UnsetType = UNSET
    path: StringOrList | UnsetType = UNSET
    command: StringOrList | UnsetType = UNSET


class Permissions(Record, forbid_unknown_fields=True):
    """A rules file. `deadline` is in seconds."""

    deny: list[Rule] = []
    ask: list[Rule] = []
    allow: list[Rule] = []
    otherwise: Literal["allow", "ask", "deny"] = "ask"
    deadline: float = 60


class Denial(Record):
    """`details.denied` in the result of a tool call that was denied.

    `rule` is the rule that denied the call or asked about it, such as `deny[0]`.
    """

    by: Literal["rule", "user", "deadline", "nobody"]
    reason: str
    rule: str | UnsetType = UNSET
