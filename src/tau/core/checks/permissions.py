"""Permission rules for tool calls: which are allowed, which are denied, and which need an answer of the client.

Deny wins over ask, ask over allow, and allow over `otherwise`; the order of rules has no meaning. Rules that deny or
ask are interpreted loosely, rules that allow strictly: if it is uncertain whether an allow rule applies, the call
is not allowed by it. Paths passed to this module are real paths, with all links followed; a call has several if it is
uncertain which of them the tool will use.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from tau.core.shell.plain_command import plain
from tau.core.text.globs import BadGlob, compile_glob
from tau.records.base import UNSET, UnsetType, Value
from tau.records.permissions import Permissions, Rule, StringOrList

if TYPE_CHECKING:
    from tau.core.shell.lines import Line

What = Literal["allow", "ask", "deny"]

# `--permissions ask`: calls that only read, inside the working folder, need no answer.
HARMLESS = Permissions(allow=[Rule(tool=["read", "grep", "find", "ls"], path="**")])
SEARCHES = ("grep", "find", "ls")  # they search the working folder if they name no other
MAX_DEADLINE_S = 24 * 60 * 60

# Names of arguments, in lower case without "_" and "-", that carry the paths or commands of a tool call.
_PATHS = re.compile(
    r".*(paths?|files?|filenames?|dir|directory|directories|folders?|uri)|cwd|source|destination|target"
)
_COMMANDS = re.compile(r"commands?|cmd|commandline|script")
_PLACES = re.compile(r"\{([^}]*,)?(/|~|\*\*)")  # a glob for several places at once


class BadRules(ValueError):
    """Invalid rules. `place` is their location in the file."""

    def __init__(self, place: str, text: str) -> None:
        super().__init__(text)
        self.place = place


class Verdict(Value):
    """`place` is the rule that decides, in the terms of the file: deny[0], or otherwise.

    `uncertain`: it cannot be excluded that this rule applies, and `reason` says why if it is known.
    """

    what: What
    place: str
    uncertain: bool = False
    reason: str = ""


class Named(Value):
    """The paths and commands that the arguments of a call name, as the model wrote them."""

    paths: list[str]
    commands: list[str]


class Call:
    """A tool call to decide about: the tool, the real paths that it may touch, and its commands.

    `mentioned` are the paths of the words in the commands. `ways` are the other names of all these paths: as they
    were written, and with some of the links on the way followed. `unknown`: the call names a path that cannot be
    resolved.
    """

    def __init__(
        self,
        tool: str,
        paths: Sequence[str] = (),
        commands: Sequence[str] = (),
        mentioned: Sequence[str] = (),
        *,
        ways: Sequence[str] = (),
        unknown: bool = False,
    ) -> None:
        self.tool = tool
        self.paths = paths
        self.commands = commands
        self.mentioned = mentioned
        self.ways = ways
        self.unknown = unknown

    @cached_property
    def lines(self) -> list[Line]:
        """The commands, parsed. The parser is loaded only for rules that need it."""
        from tau.core.shell.lines import Line

        return [Line(command) for command in self.commands]


class Rules:
    """`cwd` is the real path of the working folder, `home` the user's. Raises BadRules."""

    def __init__(self, permissions: Permissions, cwd: str, home: str) -> None:
        if permissions.deadline is not UNSET and not 0 < permissions.deadline <= MAX_DEADLINE_S:
            raise BadRules("deadline", f"must be more than 0 seconds, and at most {MAX_DEADLINE_S}")
        self._otherwise = permissions.otherwise
        self._rules: dict[What, list[_Rule]] = {
            kind: [_Rule(rule, f"{kind}[{at}]", cwd, home) for at, rule in enumerate(rules)]
            for kind, rules in _kinds(permissions)
        }

    def verdict(self, call: Call) -> Verdict:
        for kind in ("deny", "ask"):
            for rule in self._rules[kind]:
                if rule.touches(call):
                    return Verdict(kind, rule.place)
        allowing = [rule for rule in self._rules["allow"] if rule.covers(call)]
        found = Verdict("allow", allowing[0].place) if allowing else Verdict(self._otherwise, "otherwise")
        allowed_by_command = any(rule.by == "command" for rule in allowing)
        if found.what == "allow" and (doubt := self._doubt(call, allowed_by_command=allowed_by_command)) is not None:
            return Verdict("ask", doubt, uncertain=True, reason=_reason(call))
        return found

    def withholds(self, file: Call, place: Call) -> bool:
        """True if a tool that searches many files in an allowed place must not see the content of this file.

        A file with an ask rule is hidden, unless the same rule already applied to the whole place.
        """
        return any(
            rule.by == "path" and rule.touches(file) and (kind == "deny" or not rule.touches(place))
            for kind in ("deny", "ask")
            for rule in self._rules[kind]
        )

    @cached_property
    def about_paths(self) -> bool:
        """True if the rules depend on which files the words of a command name."""
        return any(rule.by == "path" for kind in ("deny", "ask") for rule in self._rules[kind])

    def _doubt(self, call: Call, *, allowed_by_command: bool) -> str | None:
        """The rule that may apply to a call whose effects are not fully visible.

        `vouched`: a rule allows the program by name, so its use of its arguments is accepted.
        """
        rules = [rule for kind in ("deny", "ask") for rule in self._rules[kind] if rule.is_about(call.tool)]
        return next((rule.place for rule in rules if rule.may_touch(call, allowed_by_command=allowed_by_command)), None)


class _Rule:
    def __init__(self, rule: Rule, place: str, cwd: str, home: str) -> None:
        self.place = place
        self._cwd = cwd
        tools, paths, commands = (
            _listed(value, f"{place}.{name}")
            for name, value in (("tool", rule.tool), ("path", rule.path), ("command", rule.command))
        )
        if tools is None and paths is None and commands is None:
            raise BadRules(place, "a rule names a tool, a path or a command")
        if paths is not None and commands is not None:
            raise BadRules(place, "a rule has a path or a command, not both")
        self.by = "path" if paths is not None else "command" if commands is not None else "tool"
        self._loose = loose = not place.startswith("allow")
        if tools is not None and any(name != name.strip() for name in tools):
            raise BadRules(f"{place}.tool", "there is a space around the name of a tool, so this matches none")
        self._tools = [name.casefold() for name in tools] if tools is not None and loose else tools
        self._paths = [_Glob(glob, f"{place}.path", cwd, home, loose=loose) for glob in paths or ()]
        self._commands = [_prefix(text, f"{place}.command") for text in commands or ()]

    def is_about(self, tool: str) -> bool:
        tool = tool.casefold() if self._loose else tool
        return self._tools is None or any(fnmatchcase(tool, name) for name in self._tools)

    def touches(self, call: Call) -> bool:
        """True if the rule applies to anything in the call."""
        if not self.is_about(call.tool):
            return False
        if self.by == "path":
            paths = (*call.paths, *call.mentioned, *call.ways)
            return any(glob.touches(path) for glob in self._paths for path in paths)
        if self.by == "command":
            return any(line.begins(prefix) for line in call.lines for prefix in self._commands)
        return True

    def may_touch(self, call: Call, *, allowed_by_command: bool) -> bool:
        """True if it cannot be excluded that the rule applies to something in the call."""
        if self.by == "path":
            return call.unknown
        return any(
            bool(line.unclear)
            or any(
                line.may_begin(prefix) or (not allowed_by_command and line.hints_at(prefix))
                for prefix in self._commands
            )
            for line in call.lines
            if self.by == "command"
        )

    def covers(self, call: Call) -> bool:
        """True if the rule applies to everything in the call."""
        if not self.is_about(call.tool):
            return False
        if self.by == "path":
            known = bool(call.paths) and not call.unknown and not call.commands
            return known and all(any(glob.fits(path) for glob in self._paths) for path in call.paths)
        if self.by == "command":
            known = bool(call.commands) and not call.paths and not call.unknown
            return known and all(self._begins(plain(command)) for command in call.commands)
        return True

    def _begins(self, words: Sequence[str] | None) -> bool:
        return words is not None and any(words[: len(prefix)] == prefix for prefix in self._commands)


class _Glob:
    """A glob for real paths: relative to the working folder, unless it begins with / or ~/."""

    def __init__(self, glob: str, place: str, cwd: str, home: str, *, loose: bool) -> None:
        self._cwd = unicodedata.normalize("NFC", cwd.rstrip("/"))
        self._loose = loose
        text = f"{escaped(home)}{glob[1:]}" if glob == "~" or glob.startswith("~/") else glob
        text = unicodedata.normalize("NFC", text)
        if ".." in text.split("/"):
            raise BadRules(place, f"{glob}: a path is compared without '..' in it, so this matches nothing")
        if _PLACES.match(text):
            raise BadRules(place, f"{glob}: put a prefix such as /, ~/ or **/ before the braces, or use a list")
        self._absolute = text.startswith("/")
        text = "/" * self._absolute + "/".join(part for part in text.split("/") if part not in ("", ".")) or "."
        # A rule that denies "**/.env" means every such file, inside the working folder or not.
        self._anywhere = loose and text.startswith("**/")
        try:
            # "folder/**" includes the folder itself, for tools that list it.
            globs = [text, text[:-3]] if text.endswith("/**") and text != "/**" else [text]
            self._patterns = [compile_glob(pattern, ignore_case=loose, across=loose) for pattern in globs]
        except BadGlob as error:
            raise BadRules(place, f"{glob}: {error}") from None

    def fits(self, path: str) -> bool:
        path = unicodedata.normalize("NFC", path)
        return any(pattern.fullmatch(name) for pattern in self._patterns for name in self._names(path))

    def touches(self, path: str) -> bool:
        """True if the path, or a folder that contains it, matches."""
        path = unicodedata.normalize("NFC", path)
        while True:
            if self.fits(path):
                return True
            if path in ("", "/"):
                return False
            path = path.rpartition("/")[0] or "/"

    def _names(self, path: str) -> Iterator[str]:
        if self._absolute:
            yield path
            return
        inside, cwd = f"{path}/"[: len(self._cwd) + 1], f"{self._cwd}/"
        if inside == cwd or (self._loose and inside.casefold() == cwd.casefold()):
            yield path[len(cwd) :] or "."
        if self._anywhere:
            yield path.lstrip("/")


def _reason(call: Call) -> str:
    """Return why it is not certain what the commands of a call run; empty if it is."""
    return next((line.unclear for line in call.lines if line.unclear), "")


def named(tool: str, arguments: Mapping[str, Any]) -> Named:
    """Find the paths and commands of a call, by the usual names of such arguments."""
    found = Named([], [])
    _gather(arguments, None, found)
    if tool in SEARCHES and not arguments.get("path"):
        found.paths.append(".")
    return found


def _gather(value: Any, into: list[str] | None, found: Named) -> None:
    """Collect the strings of a value into `into`, the list that the name of its argument selects; None collects none.

    A mapping inside may have such names itself; if it has none, all of it is collected.
    """
    if isinstance(value, str):
        if into is not None:
            into.append(value)
    elif isinstance(value, Mapping):
        before = len(found.paths) + len(found.commands)
        for name, item in value.items():
            plain_name = re.sub("[_-]", "", str(name)).lower()
            if _COMMANDS.fullmatch(plain_name):
                texts = item if isinstance(item, list) and all(isinstance(text, str) for text in item) else None
                _gather(" ".join(map(_quoted, texts)) if texts else item, found.commands, found)
            else:
                _gather(item, found.paths if _PATHS.fullmatch(plain_name) else None, found)
        if into is not None and len(found.paths) + len(found.commands) == before:
            for name, item in value.items():
                into.append(str(name))
                _gather(item, into, found)
    elif isinstance(value, list):
        for item in value:
            _gather(item, into, found)


def _quoted(word: str) -> str:
    """Quote one word of a list that is executed without a shell, as a shell command would contain it."""
    return word if word and re.fullmatch(r"[\w@%+=:,./-]+", word) else "'" + word.replace("'", "'\"'\"'") + "'"


def _kinds(permissions: Permissions) -> list[tuple[What, list[Rule]]]:
    return [("deny", permissions.deny), ("ask", permissions.ask), ("allow", permissions.allow)]


def _listed(value: StringOrList | UnsetType, place: str) -> list[str] | None:
    if value is UNSET:
        return None
    texts = [value] if isinstance(value, str) else list(value)
    if not texts or not all(text.strip() for text in texts):
        raise BadRules(place, "must not be empty")
    return texts


def _prefix(text: str, place: str) -> list[str]:
    words = plain(text)
    if words is None or any(set(word) & set("*?[") for word in words):
        raise BadRules(place, f"{text}: must be the first words of one command, without shell syntax or globs")
    return words


def escaped(path: str) -> str:
    """Return a glob for exactly this path."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)
