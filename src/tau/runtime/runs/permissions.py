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
from typing import Any, NamedTuple

from tau.core.agent.tool_results import error_outcome
from tau.core.checks.permissions import Call, Named, Verdict, named
from tau.core.text.terminal_text import escape_hidden
from tau.errors import Aborted, ToolError, shortened
from tau.records.base import UNSET, UnsetType, encode, to_builtins
from tau.records.dialogs import Select
from tau.records.events import Outcome
from tau.records.messages import Text, ToolCall
from tau.records.permissions import Denial, DeniedBy, PermissionDetails
from tau.runtime.extensions.dialogs import ALLOW_ONCE, DENY, Dialogs, Refusal, dialog_id
from tau.runtime.runs.permission_rules import LoadedRules
from tau.runtime.runs.real_paths import can_be_followed, possible_paths, ways_to

MAX_SHOWN_BYTES = 4000  # bytes of a command or of arguments, in a dialog
MAX_SHOWN_MCP_BYTES = 2048  # the same for a tool of an MCP server
MAX_CHECKED_WORDS = 1000  # words of a command that are checked as paths; a command with more is asked about
NO_CLIENT = "it needs confirmation, and no client can answer. Here only calls that a rule allows can run."
ADVICE = "Do not try to do the same in another way: continue without it, or explain why it is needed."

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
_LATE, _ENDED, _NOBODY = object(), object(), object()
_STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


class Asked(NamedTuple):
    """A call that may need confirmation. `order` is that of the calls of the session."""

    call_id: str
    order: int
    arguments: Mapping[str, Any]
    verdict: Verdict
    rules: LoadedRules  # that decide


class Grant(NamedTuple):
    """What the user allowed for this session."""

    id: int
    text: str


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
        self.rules = [loaded]  # the strictest of them decides
        self._dialogs = dialogs
        self.cwd = cwd
        self._in_thread = in_thread
        self._asks = asks
        self._inside = inside
        self._terminal = terminal
        self._order = count()
        self._granted: dict[tuple[str, ...], Grant] = {}  # what the user allowed for this session
        self._grant_ids = count(1)
        self._checked: dict[str, frozenset[str]] = {}  # real paths by call id, from its permission to its execution
        self.denials: list[str] = []
        self._asked_about: set[str] = set()  # ids of calls

    def was_asked(self, call: ToolCall) -> bool:
        return call.id in self._asked_about

    def forget(self) -> None:
        """Start another conversation: what the user allowed applies to the previous one only."""
        self._granted.clear()
        self._checked.clear()
        self._asked_about.clear()

    def grants(self) -> list[Grant]:
        """What the user allowed for this session, in the order of the answers."""
        return list(self._granted.values())

    def revoke(self, id: int) -> bool:
        """Ask again about what a grant allows. False if there is no such grant."""
        before = len(self._granted)
        self._granted = {key: grant for key, grant in self._granted.items() if grant.id != id}
        return len(self._granted) < before

    def revoke_tool(self, tool: str) -> None:
        """Ask again about a tool: it is no longer what the user has allowed."""
        self._granted = {key: grant for key, grant in self._granted.items() if key[0] != tool}

    @property
    def asks_only(self) -> bool:
        return all(loaded.source == "--permissions ask" for loaded in self.rules)

    def add_rules(self, loaded: LoadedRules) -> None:
        """Make the rules stricter: what the user allowed for this session is asked about again."""
        self.rules.append(loaded)
        self._granted.clear()

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
            return any(loaded.rules.withholds(file, place()) for loaded in self.rules)

        return is_withheld

    async def permit(self, call: ToolCall, arguments: dict[str, Any]) -> Outcome | None:
        name, order = call.name, next(self._order)
        mentions = named(name, arguments)
        resolved, verdict, rules = await self._in_thread(lambda: self._judge(name, mentions))
        refused = await self._decide(resolved, mentions, Asked(call.id, order, arguments, verdict, rules))
        if refused is None and not resolved.unknown:
            self._checked[call.id] = frozenset(resolved.paths)
        return refused

    async def refusal(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """Why the rules deny a call of the user; None if they allow it, or would ask the user."""
        mentions = named(tool, arguments)
        _, verdict, rules = await self._in_thread(lambda: self._judge(tool, mentions))
        return rules.why_denied(verdict.place) if verdict.what == "deny" else None

    async def _decide(self, resolved: Call, mentions: Named, asked: Asked) -> Outcome | None:
        verdict = asked.verdict
        if verdict.what == "allow":
            return None
        if verdict.what == "deny":
            return self._denied(resolved.tool, "rule", asked.rules.why_denied(verdict.place), verdict.place)
        key = _grant_key(resolved, mentions)
        if key in self._granted:
            return None
        if not self._asks or not self._dialogs.attended:
            return self._denied(resolved.tool, "nobody", NO_CLIENT, verdict.place)
        return await self._ask(resolved, asked, key)

    def _judge(self, tool: str, mentions: Named) -> tuple[Call, Verdict, LoadedRules]:
        """Resolve the paths of a call and decide. The rules files themselves may only be read. Blocks."""
        call = self._resolve(tool, mentions)
        reads = tool in ("read", "grep", "find", "ls")
        verdicts = [
            (Verdict("deny", "") if not reads and loaded.path in call.paths else loaded.rules.verdict(call), loaded)
            for loaded in self.rules
        ]
        verdict, loaded = max(verdicts, key=lambda found: _STRICTNESS[found[0].what])
        return call, verdict, loaded

    def _resolve(self, tool: str, mentions: Named) -> Call:
        """Return the call with the real path of everything it names. Blocks."""
        names: list[str] = []
        unknown = False
        for path in mentions.paths:
            try:
                names += possible_paths(path, self.cwd)
            except (ToolError, ValueError):
                unknown = True
        known = [name for name in names if can_be_followed(name)]
        unknown = unknown or len(known) < len(names)
        call = Call(tool, self._real(known), mentions.commands, unknown=unknown)
        if mentions.commands and any(loaded.rules.about_paths for loaded in self.rules):
            words = [word for line in call.lines for word in line.words]
            parts = list(dict.fromkeys(part for word in words for part in (word, word.rpartition("=")[2]) if part))
            call.unknown = call.unknown or len(parts) > MAX_CHECKED_WORDS
            for part in parts[:MAX_CHECKED_WORDS]:
                with suppress(ToolError, ValueError):
                    names += possible_paths(part, self.cwd)
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
        deadline, place = asked.rules.deadline or self._dialogs.answer_timeout_s, asked.verdict.place
        timeout = UNSET if deadline is None else max(1, round(deadline * 1000))
        title = _title(call, asked.arguments) + asked.rules.why_asked(asked.verdict)
        question = Select(dialog_id(), title, [ALLOW_ONCE, for_session, DENY], timeout=timeout)
        self._asked_about.add(asked.call_id)
        details = await self._details(call, asked, can_stop_clock=deadline is not None)
        answer = await self._dialogs.ask(
            question, on_timeout=_LATE, on_cancel=_ENDED, on_unattended=_NOBODY, details=details
        )
        if answer == ALLOW_ONCE:
            return None
        if answer == for_session:
            self._granted[key] = Grant(next(self._grant_ids), _grant_description(call))
            return None
        if answer is _LATE:
            why = f"it needs confirmation, and no answer came within {deadline:g} s."
            return self._denied(call.tool, "deadline", why, place)
        if answer is _ENDED and self._dialogs.attended:
            return error_outcome(str(Aborted()))
        if answer is _ENDED or answer is _NOBODY:
            return self._denied(call.tool, "nobody", NO_CLIENT, place)
        if isinstance(answer, Refusal) and answer.reason:
            return self._denied(call.tool, "user", f"the user does not allow it and says: {answer.reason}", place, "")
        if answer in (None, DENY) or isinstance(answer, Refusal):
            return self._denied(call.tool, "user", "the user does not allow it.", place)
        why = f"the answer {shortened(str(answer), 100)!r} is not one of the options."
        return self._denied(call.tool, "user", why, place)

    async def _details(self, call: Call, asked: Asked, *, can_stop_clock: bool) -> PermissionDetails | None:
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
            cwd=self.cwd,
            sandbox=terminal.sandbox,
            asked_by=asked.rules.asked_by(asked.verdict),
            diff=diff,
            order=asked.order,
            can_stop_clock=can_stop_clock and not asked.rules.fixed_deadline,
        )

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


def _grant_description(call: Call) -> str:
    """Like `_grant_text`, without the question that shows the command."""
    shown = "; ".join(escape_hidden(command) for command in call.commands)
    return f"{call.tool}: {shortened(shown, MAX_SHOWN_BYTES)}" if shown else _grant_text(call)


def _title(call: Call, arguments: Mapping[str, Any]) -> str:
    shown = *(escape_hidden(one, "\n\t") for one in call.commands), *_displayed(call.paths)
    foreign = call.tool.startswith("mcp__")  # the names of arguments do not say what a foreign tool does with them
    what = ("" if foreign else "\n".join(shown)) or escape_hidden(encode(dict(arguments)).decode())
    cut = shortened(what, MAX_SHOWN_MCP_BYTES if foreign else MAX_SHOWN_BYTES)
    more = f"\n... and {len(what) - len(cut)} characters more" if cut != what else ""
    return f"Allow {call.tool}?\n\n{cut}{more}"


def _displayed(paths: Sequence[str]) -> list[str]:
    return [escape_hidden(path, "\t") for path in paths]
