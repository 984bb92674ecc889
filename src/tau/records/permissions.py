"""What a file of rules for `--permissions` says. Strict: a rule that is misspelled must not be passed over."""

from __future__ import annotations

from typing import Literal

from tau.records.base import UNSET, Record, UnsetType

Words = str | list[str]


class Rule(Record, forbid_unknown_fields=True):
    """Which calls. What it does not name is not looked at; of a list, one is enough."""

    tool: Words | UnsetType = UNSET
    path: Words | UnsetType = UNSET
    command: Words | UnsetType = UNSET


class Permissions(Record, forbid_unknown_fields=True):
    """A file of rules. `deadline` is in seconds."""

    deny: list[Rule] = []
    ask: list[Rule] = []
    allow: list[Rule] = []
    otherwise: Literal["allow", "ask", "deny"] = "ask"
    deadline: float = 60


class Denial(Record):
    """In `details.denied` of the result of a call that was denied.

    `rule` is the place in the file of rules, such as `deny[0]`, where one of them decided, or wanted it asked.
    """

    by: Literal["rule", "user", "deadline", "nobody"]
    reason: str
    rule: str | UnsetType = UNSET
