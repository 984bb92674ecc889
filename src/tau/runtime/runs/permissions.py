"""Permissions (`--permissions`): checks every tool call against rules, and asks the user where the rules say so.

The rules are read once, when the session is opened: a change that the agent makes to their file has no effect on it.
The decisions are in core/checks/permissions.py. This module resolves the paths, asks the user, and remembers what was
allowed for the session. Permissions fail closed: whatever goes wrong, the call does not run.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tau.core.agent.loop import error_outcome
from tau.core.checks.permissions import HARMLESS, BadRules, Call, Named, Rules, Verdict, named
from tau.core.text.terminal_text import escape_hidden
from tau.errors import Aborted, ToolError, UsageError, shortened
from tau.records.base import UNSET, BadRecord, UnsetType, decode, encode, replace, to_builtins
from tau.records.dialogs import Select
from tau.records.events import Outcome
from tau.records.messages import Text, ToolCall
from tau.records.permissions import Denial, PermissionDetails, Permissions, Rule
from tau.runtime.extensions.dialogs import ALLOW_ONCE, DENY, Dialogs, Refusal, dialog_id
from tau.runtime.runs.real_paths import can_be_followed, home, possible_paths, ways_to, with_link_targets
from tau.store.files import read_small
from tau.wire.comments import strip_comments
from tau.wire.position import line_of

MAX_SHOWN_BYTES = 4000  # bytes of a command or of arguments, in a dialog
MAX_REASON_BYTES = 200  # bytes of the reason why a command is asked about
MAX_CHECKED_WORDS = 1000  # words of a command that are checked as paths; a command with more is asked about
NO_CLIENT = "it needs confirmation, and no client can answer. Here only calls that a rule allows can run."
ADVICE = "Do not try to do the same in another way: continue without it, or explain why it is needed."

DeniedBy = Literal["rule", "user", "deadline", "nobody"]
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
_LATE, _ENDED = object(), object()


class LoadedRules(NamedTuple):
    """Rules and their source: `text` is the content of the file, as strict JSON."""

    rules: Rules
    deadline: float
    source: str
    text: str = ""
    path: str | None = None
    fixed_deadline: bool = False

    def location(self, place: str) -> str:
        """Describe the location of a rule, for people."""
        if self.path is None:
            return f"{place} of {self.source}"
        return f"{place} in {self.source}:{line_of(self.text, place)}"


def read_permissions(given: str | Mapping[str, Any], cwd: str) -> LoadedRules:
    """Read the rules. `given` is "ask", "rules FILE", or the content of such a file. Raises UsageError."""
    if not isinstance(given, str):
        return _parse("permissions", encode(dict(given)).decode(), cwd, None)
    kind, _, file = given.partition(" ")
    if given == "ask":
        return LoadedRules(Rules(HARMLESS, os.path.realpath(cwd), home()), HARMLESS.deadline, "--permissions ask")
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
    return LoadedRules(rules, shape.deadline, source, text, path, shape.fixed_deadline)


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


class Asked(NamedTuple):
    """A call that may need confirmation. `order` is that of the calls of the session."""

    call_id: str
    order: int
    arguments: Mapping[str, Any]
    verdict: Verdict


class TerminalQuestions(NamedTuple):
    """For a front end in this process, which shows more of a call than the text of the dialog.

    `preview` returns what an edit or a write would change. It blocks.
    """

    sandbox: str | None
    preview: Callable[[str, Mapping[str, Any]], str]


class Permits:
    """The PermissionGate of runtime/runs/tool_runner.py. `asks`: the client's protocol supports dialogs.

    `inside` resolves links inside the sandbox, where the tools run: its private /tmp is not visible to this process.
    """

    def __init__(
        self,
        loaded: LoadedRules,
        dialogs: Dialogs,
        cwd: str,
        in_thread: InThread,
        *,
        asks: bool,
        inside: Callable[[str], str] | None = None,
        terminal: TerminalQuestions | None = None,
    ) -> None:
        self._loaded = loaded
        self._dialogs = dialogs
        self._cwd = cwd
        self._in_thread = in_thread
        self._asks = asks
        self._inside = inside
        self._terminal = terminal
        self._order = count()
        self._granted: set[tuple[str, ...]] = set()  # what the user allowed for this session
        self._checked: dict[str, frozenset[str]] = {}  # real paths by call id, from its permission to its execution
        self.denials: list[str] = []

    def forget(self) -> None:
        """Start another conversation: what the user allowed applies to the previous one only."""
        self._granted.clear()
        self._checked.clear()

    def checked(self, call: ToolCall) -> Callable[[str], bool] | None:
        paths = self._checked.pop(call.id, None)
        if paths is None:
            return None
        # Some file systems ignore case: there the spelling of a path can differ from the name on disk.
        folded = {path.casefold() for path in paths}
        return lambda path: path in paths or path.casefold() in folded

    def withheld(self, tool: str, arguments: Mapping[str, Any]) -> Callable[[str], bool]:
        place = cache(lambda: self._resolve(tool, named(tool, arguments)))

        def is_withheld(path: str) -> bool:
            try:
                file = Call(tool, self._real([path]), ways=ways_to(path))
            except OSError:  # a link on the path cannot be read
                return True
            return self._loaded.rules.withholds(file, place())

        return is_withheld

    async def permit(self, call: ToolCall, arguments: dict[str, Any]) -> Outcome | None:
        name, order = call.name, next(self._order)
        mentions = named(name, arguments)
        resolved, verdict = await self._in_thread(lambda: self._judge(name, mentions))
        refused = await self._decide(resolved, mentions, Asked(call.id, order, arguments, verdict))
        if refused is None and not resolved.unknown:
            self._checked[call.id] = frozenset(resolved.paths)
        return refused

    async def _decide(self, resolved: Call, mentions: Named, asked: Asked) -> Outcome | None:
        verdict = asked.verdict
        if verdict.what == "allow":
            return None
        if verdict.what == "deny":
            return self._denied(resolved.tool, "rule", self._by_rule(verdict.place), verdict.place)
        key = _grant_key(resolved, mentions)
        if key in self._granted:
            return None
        if not self._asks or not self._dialogs.attended:
            return self._denied(resolved.tool, "nobody", NO_CLIENT, verdict.place)
        return await self._ask(resolved, asked, key)

    def _judge(self, tool: str, mentions: Named) -> tuple[Call, Verdict]:
        """Resolve the paths of a call and decide. The rules file itself may only be read. Blocks."""
        call = self._resolve(tool, mentions)
        if tool not in ("read", "grep", "find", "ls") and self._loaded.path in call.paths:
            return call, Verdict("deny", "")
        return call, self._loaded.rules.verdict(call)

    def _resolve(self, tool: str, mentions: Named) -> Call:
        """Return the call with the real path of everything it names. Blocks."""
        names: list[str] = []
        unknown = False
        for path in mentions.paths:
            try:
                names += possible_paths(path, self._cwd)
            except (ToolError, ValueError):
                unknown = True
        known = [name for name in names if can_be_followed(name)]
        unknown = unknown or len(known) < len(names)
        call = Call(tool, self._real(known), mentions.commands, unknown=unknown)
        if mentions.commands and self._loaded.rules.about_paths:
            words = [word for line in call.lines for word in line.words]
            parts = list(dict.fromkeys(part for word in words for part in (word, word.rpartition("=")[2]) if part))
            call.unknown = call.unknown or len(parts) > MAX_CHECKED_WORDS
            for part in parts[:MAX_CHECKED_WORDS]:
                with suppress(ToolError, ValueError):
                    names += possible_paths(part, self._cwd)
            known = [name for name in names if can_be_followed(name)]
            call.unknown = call.unknown or len(known) < len(names)
            call.mentioned = self._real(known)
        call.ways = list(dict.fromkeys(way for name in names for way in ways_to(name)))
        return call

    def _real(self, names: Sequence[str]) -> list[str]:
        """Resolve links. Raises ToolError if the sandbox does not answer: then the call does not run."""
        found = list(map(os.path.realpath, names))
        if self._inside is not None:
            found += map(self._inside, dict.fromkeys([*names, *found]))
        return list(dict.fromkeys(found))

    async def _ask(self, call: Call, asked: Asked, key: tuple[str, ...]) -> Outcome | None:
        for_session = f"Allow for this session: {_grant_text(call)}"
        deadline, place = self._loaded.deadline, asked.verdict.place
        title = _title(call, asked.arguments) + self._why_asked(asked.verdict)
        question = Select(dialog_id(), title, [ALLOW_ONCE, for_session, DENY], timeout=max(1, round(deadline * 1000)))
        details = await self._details(call, asked)
        answer = await self._dialogs.ask(question, late=_LATE, ended=_ENDED, details=details)
        if answer == ALLOW_ONCE:
            return None
        if answer == for_session:
            self._granted.add(key)
            return None
        if answer is _LATE:
            why = f"it needs confirmation, and no answer came within {deadline:g} s."
            return self._denied(call.tool, "deadline", why, place)
        if answer is _ENDED and self._dialogs.attended:
            return error_outcome(str(Aborted()))
        if answer is _ENDED:
            return self._denied(call.tool, "nobody", NO_CLIENT, place)
        if isinstance(answer, Refusal) and answer.reason:
            return self._denied(call.tool, "user", f"the user does not allow it and says: {answer.reason}", place, "")
        if answer in (None, DENY) or isinstance(answer, Refusal):
            return self._denied(call.tool, "user", "the user does not allow it.", place)
        why = f"the answer {shortened(str(answer), 100)!r} is not one of the options."
        return self._denied(call.tool, "user", why, place)

    async def _details(self, call: Call, asked: Asked) -> PermissionDetails | None:
        terminal = self._terminal
        if terminal is None:
            return None
        diff = await self._in_thread(lambda: terminal.preview(call.tool, asked.arguments))
        return PermissionDetails(
            call_id=asked.call_id,
            tool=call.tool,
            arguments=asked.arguments,
            commands=tuple(call.commands),
            paths=tuple(call.paths),
            cwd=self._cwd,
            sandbox=terminal.sandbox,
            asked_by=self._asked_by(asked.verdict),
            diff=diff,
            order=asked.order,
            can_stop_clock=not self._loaded.fixed_deadline,
        )

    def _asked_by(self, verdict: Verdict) -> str:
        loaded = self._loaded
        if verdict.uncertain:
            reason = f"{shortened(verdict.reason, MAX_REASON_BYTES)}: " if verdict.reason else ""
            return f"{reason}the rule {loaded.location(verdict.place)} may apply"
        if verdict.place != "otherwise":
            return f"the rule {loaded.location(verdict.place)}"
        return loaded.source if loaded.path is None else f"no rule of {loaded.source} allows it"

    def _why_asked(self, verdict: Verdict) -> str:
        """Return the end of the question about a call that a rule may apply to; empty for other calls."""
        if not verdict.uncertain:
            return ""
        # The reason may quote the command.
        reason = shortened(escape_hidden(verdict.reason), MAX_REASON_BYTES)
        because = f"because {reason}: " if reason else "because "
        return f"\n\nThis is asked {because}the rule {self._loaded.location(verdict.place)} may apply."

    def _by_rule(self, place: str) -> str:
        if not place:
            return f"{self._loaded.source} is the file with the rules, which tools may not change."
        if place == "otherwise":
            return f"no rule of {self._loaded.source} allows it."
        return f"the rule {self._loaded.location(place)} denies it."

    def _denied(self, tool: str, by: DeniedBy, why: str, place: str, advice: str = ADVICE) -> Outcome:
        rule: str | UnsetType = place if place and place != "otherwise" else UNSET
        denial = Denial(by, f"The call of {tool} was denied: {why}", rule)
        self.denials.append(denial.reason)
        return Outcome([Text(f"{denial.reason} {advice}".strip())], {"denied": to_builtins(denial)})


def _grant_key(call: Call, mentions: Named) -> tuple[str, ...]:
    """Return the key of a grant: the tool with exactly these commands and files; the tool alone if it has neither."""
    return call.tool, *mentions.commands, "\0", *sorted(call.paths), "\0", *(mentions.paths if call.unknown else ())


def _grant_text(call: Call) -> str:
    """Describe the grant of `_grant_key` for the person who decides."""
    if call.commands:
        return f"{call.tool} with exactly this command" + (" and these paths" if call.paths else "")
    if call.paths:
        return f"{call.tool} of {', '.join(_displayed(call.paths))}"
    return f"every call of {call.tool}"


def _title(call: Call, arguments: Mapping[str, Any]) -> str:
    shown = *(escape_hidden(one, "\n\t") for one in call.commands), *_displayed(call.paths)
    what = "\n".join(shown) or encode(dict(arguments)).decode()
    cut = shortened(what, MAX_SHOWN_BYTES)
    more = f"\n... and {len(what) - len(cut)} characters more" if cut != what else ""
    return f"Allow {call.tool}?\n\n{cut}{more}"


def _displayed(paths: Sequence[str]) -> list[str]:
    return [escape_hidden(path, "\t") for path in paths]
