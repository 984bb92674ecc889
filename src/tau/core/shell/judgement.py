"""Findings about a bash line, and the questions that the judges of single programs share."""

from __future__ import annotations

import posixpath
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence

from tau.core.shell.files import Run, Write
from tau.core.shell.parts import NAME, Command
from tau.core.shell.syntax import Script
from tau.core.shell.tables import INERT
from tau.core.shell.words import ANYTHING, Word

_META = re.compile(r"[$`!;&|<>#\n]")
_STDIN = re.compile(r"-|(.*/)?stdin|/dev/fd/.*|(.*/)?fd/\d+|/proc/.*|/dev/tty", re.DOTALL | re.IGNORECASE)
_STDIN_PATHS = ("/dev/stdin", "stdin", "/dev/fd/0", "/proc/self/fd/0")


class Findings:
    """Result of judging a line.

    `runs` are the commands of a line, also behind wrappers and in code for a shell. `doubt` is the reason why it may
    run others; it is empty if it does not. `hints` are words and texts passed to a program that may take them for a
    command. `words` are all words. `writes` are the files that it writes.
    """

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.hints: list[str] = []
        self.words: list[str] = []
        self.doubt = ""
        self.writes: list[Write] = []


class Judgement(ABC):
    def __init__(self, script: Script) -> None:
        self.findings = Findings()
        self.script = script
        self._feeders: dict[int, list[Command]] = {}
        for command in script.commands:
            for reader in command.sink.commands if command.sink.kind == "pipe" else ():
                self._feeders.setdefault(id(reader), []).append(command)

    @abstractmethod
    def invoke(self, words: Sequence[Word], command: Command | None, stdin: str = "") -> None:
        """Judge a command. `command` is its place in the line, and None for a command inside another one."""

    @abstractmethod
    def code(self, text: str, name: str, stdin: str) -> None:
        """Judge literal shell code that a program runs. `stdin` is that of the program."""

    def doubt(self, reason: str) -> None:
        self.findings.doubt = self.findings.doubt or reason

    def hint(self, words: Sequence[Word], texts: Sequence[str] = ()) -> None:
        self.findings.hints += [word.text for word in words]
        self.findings.hints += texts

    def feeders(self, command: Command | None) -> list[Command]:
        """The commands whose output a command reads."""
        return [feeder for feeder in self._feeders.get(id(command), ()) if feeder.words]

    def is_chosen(self, word: Word) -> bool:
        """True if the line determines what an expansion becomes, in a way that is not followed here."""
        if word.spelled:
            return False
        if word.runs or any(not (name[0].isalpha() or name[0] == "_") for name in word.variables):
            return True
        return any(
            value is None or (not value.spelled and value.may_begin_with("-")) or value.text.startswith("-")
            for value in self._assigned(word)
        )

    def may_add_option(self, words: Sequence[Word]) -> bool:
        """True if the line puts an option in the place of an expansion."""
        return any(self.is_chosen(word) and word.may_begin_with("-") for word in words)

    def is_own(self, word: Word) -> bool:
        """True if an expansion in code is something that the line itself assigns, and that may be code."""
        if word.spelled:
            return False
        return (
            self.is_chosen(word)
            or not word.text.strip(ANYTHING)
            or any(
                value is None or not value.spelled or not re.fullmatch(r"[\w./:@-]*", value.text)
                for value in self._assigned(word)
            )
        )

    def is_computed(self, word: Word) -> bool:
        """True if the line determines what an expansion becomes."""
        return not word.spelled and (
            word.runs or any(name in self.script.variables or not NAME.fullmatch(name) for name in word.variables)
        )

    def may_hold_code(self, word: Word) -> bool:
        """True if the word, or what the line assigns to its variables, has characters with a meaning for a shell."""
        return bool(_META.search(word.text)) or any(
            value is None or _META.search(value.text) for value in self._assigned(word)
        )

    def may_have_index(self, word: Word) -> bool:
        """True if the line assigns the name of an array element to a variable in the word."""
        return any(value is not None and "[" in value.text for value in self._assigned(word))

    def is_stdin(self, word: Word) -> bool:
        """True if a file is stdin, another descriptor, the output of a command, or determined by the line."""
        return names_stdin(word) or word.text.isdecimal() or self.is_chosen(word)  # cd /dev/fd; bash 0

    def shows_only(self, command: Command | None, seen: frozenset[int] = frozenset()) -> bool:
        """True if the output of an inert command reaches no program that may run it."""
        if command is None or id(command) in seen:
            return False
        sink = command.sink
        if sink.kind == "terminal":
            return True
        if sink.kind == "file":
            return all(not other.words or is_inert(other) for other in self.script.commands)
        seen |= {id(command)}
        return bool(sink.commands) and all(
            not other.words or (is_inert(other) and self.shows_only(other, seen)) for other in sink.commands
        )

    def _assigned(self, word: Word) -> list[Word | None]:
        return [value for name in word.variables for value in self.script.variables.get(name, ())]


def names_stdin(word: Word) -> bool:
    """True if a path leads to a descriptor, in any spelling. A relative one counts: the line may change the folder."""
    if word.text and _STDIN.fullmatch(re.sub("^/+", "/", posixpath.normpath(word.text))):
        return True
    is_glob = not (word.spelled or word.variables or word.runs)
    return is_glob and any(map(word.may_be, _STDIN_PATHS))


def is_inert(command: Command) -> bool:
    return bool(command.words) and command.words[0].spelled and command.words[0].name in INERT
