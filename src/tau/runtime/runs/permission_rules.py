"""Reads the rules of `--permissions`: the name of a mode, a file, or the content of one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tau.core.checks.permissions import HARMLESS, BadRules, Rules, Verdict
from tau.core.text.terminal_text import escape_hidden
from tau.errors import UsageError, shortened
from tau.records.base import UNSET, BadRecord, decode, encode, replace
from tau.records.permissions import Permissions, Rule
from tau.runtime.extensions.dialogs import ANSWER_TIMEOUT_S
from tau.runtime.runs.real_paths import home, with_link_targets
from tau.store.files import read_small
from tau.wire.comments import strip_comments
from tau.wire.position import line_of

MAX_REASON_BYTES = 200  # bytes of the reason why a command is asked about


class LoadedRules(NamedTuple):
    """Rules and their source: `text` is the content of the file, as strict JSON. `deadline`: None if they set none."""

    rules: Rules
    deadline: float | None
    source: str
    text: str = ""
    path: str | None = None
    fixed_deadline: bool = False

    def location(self, place: str) -> str:
        """Describe the location of a rule, for people."""
        if self.path is None:
            return f"{place} of {self.source}"
        return f"{place} in {self.source}:{line_of(self.text, place)}"

    def asked_by(self, verdict: Verdict) -> str:
        """Say which rule requires a confirmation."""
        if verdict.uncertain:
            reason = f"{shortened(verdict.reason, MAX_REASON_BYTES)}: " if verdict.reason else ""
            return f"{reason}the rule {self.location(verdict.place)} may apply"
        if verdict.place != "otherwise":
            return f"the rule {self.location(verdict.place)}"
        return self.source if self.path is None else f"no rule of {self.source} allows it"

    def why_asked(self, verdict: Verdict) -> str:
        """Return the end of the question about a call that a rule may apply to; empty for other calls."""
        if not verdict.uncertain:
            return ""
        # The reason may quote the command.
        reason = shortened(escape_hidden(verdict.reason), MAX_REASON_BYTES)
        because = f"because {reason}: " if reason else "because "
        return f"\n\nThis is asked {because}the rule {self.location(verdict.place)} may apply."

    def why_denied(self, place: str) -> str:
        if not place:
            return f"{self.source} is the file with the rules, which tools may not change."
        if place == "otherwise":
            return f"no rule of {self.source} allows it."
        return f"the rule {self.location(place)} denies it."


def read_permissions(given: str | Mapping[str, Any], cwd: str) -> LoadedRules:
    """Read the rules. `given` is "ask", "rules FILE", or the content of such a file. Raises UsageError."""
    if not isinstance(given, str):
        return _parse("permissions", encode(dict(given)).decode(), cwd, None)
    kind, _, file = given.partition(" ")
    if given == "ask":
        return LoadedRules(Rules(HARMLESS, os.path.realpath(cwd), home()), None, "--permissions ask")
    if kind != "rules" or not file.strip():
        raise UsageError(f"--permissions: {given!r} is neither ask nor rules FILE")
    path = Path(cwd, Path(file.strip()).expanduser())
    try:
        text = strip_comments(read_small(path).decode())
    except OSError as error:
        raise UsageError(f"--permissions: {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"--permissions: {path}: not valid UTF-8") from None
    return _parse(f"--permissions: {path}", text, cwd, os.path.realpath(path))


def _parse(name: str, text: str, cwd: str, path: str | None) -> LoadedRules:
    try:
        shape = decode(Permissions, text.encode())
    except BadRecord as error:
        place, colon, _ = str(error).partition(": ")
        at = f":{line_of(text, place)}" if colon and path is not None and _is_json(text) else ""
        raise UsageError(f"{name}{at}: {error}") from None
    try:
        rules = Rules(_follow_links(shape, os.path.realpath(cwd)), os.path.realpath(cwd), home())
    except BadRules as error:
        at = f":{line_of(text, error.place)}" if path is not None else ""
        raise UsageError(f"{name}{at}: {error.place}: {error}") from None
    source = name.removeprefix("--permissions: ")
    usual = ANSWER_TIMEOUT_S if shape.fixed_deadline else None
    deadline = usual if shape.deadline is UNSET else shape.deadline
    return LoadedRules(rules, deadline, source, text, path, shape.fixed_deadline)


def _follow_links(given: Permissions, cwd: str) -> Permissions:
    """Extend the globs of deny and ask rules to the targets of symbolic links in the folders that they name."""

    def more(rule: Rule) -> Rule:
        globs = [] if rule.path is UNSET else [rule.path] if isinstance(rule.path, str) else rule.path
        return replace(rule, path=[one for glob in globs for one in with_link_targets(glob, cwd)]) if globs else rule

    return replace(given, deny=[more(rule) for rule in given.deny], ask=[more(rule) for rule in given.ask])


def _is_json(text: str) -> bool:
    try:
        decode(dict[str, Any], text.encode())
    except BadRecord:
        return False
    return True
