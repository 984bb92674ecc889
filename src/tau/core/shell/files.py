"""Files that a bash line writes and then runs.

A copy of a program under another name, or a script that the line itself writes, cannot be recognised by its name. So
a line is in doubt if it writes a file and runs one of that name, or writes a file that a later program may take for
code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tau.core.shell.code import writes_files_in_awk
from tau.core.shell.options import Options, ParsedOptions, options
from tau.core.shell.parts import Command, is_write
from tau.core.shell.programs import INTERPRETERS, RUNNERS, SHELLS, WRAPPERS
from tau.core.shell.syntax import Script
from tau.core.shell.tables import (
    AWKS,
    CODE_FILE,
    COPIERS,
    DATA_FILE,
    DOWNLOADERS,
    EXECUTING,
    INERT,
    ORDINARY,
    PRODUCERS,
    READERS,
    SCRIPT_OPTIONS,
    TARGET_LISTS,
    UNPACKERS,
    WRITING,
)
from tau.core.shell.words import ANYTHING, Word, matches, split_assignment

_PLAIN = re.compile(r"[\w\s=:/.,@+#-]*")
KNOWN = INERT | READERS | COPIERS | DOWNLOADERS | UNPACKERS | ORDINARY | EXECUTING.keys() | WRAPPERS.keys() | RUNNERS
# What these write, they write to stdout, or another run does.
_SILENT = INERT | WRAPPERS.keys() | {*AWKS, "find", "gfind", "gxargs", "xargs"}
_WRITERS = frozenset(("less", "more", "sort", "uniq", "xxd"))  # among those that otherwise only show
MAX_LETTERS = 40  # of an option whose letters are all looked at
_SAFE = frozenset(("cd", "echo", "ls", "cat", "grep", "test", "chmod", "mkdir", "touch", "exit", "true", "printf"))


class Run(NamedTuple):
    """A command that a line runs; `command` is its place in the line, if it has one of its own."""

    words: list[Word]
    order: int
    command: Command | None

    @property
    def program(self) -> str:
        return self.words[0].name


class Write(NamedTuple):
    order: int
    name: str  # the shape of the last part of the path
    code: bool  # it may be code for a program whose command line does not name it
    placed: bool = False  # in a folder given by an absolute path
    by: object = None  # the run or the command that writes it


def written(script: Script, runs: Sequence[Run], before: Sequence[Write]) -> list[Write]:
    """The files that a line writes; `before` are those written by code in it."""
    writes = [
        Write(command.order, _last(redirect.word), _may_be_code(command, redirect.word), by=command)
        for command in script.commands
        for redirect in command.redirects
        if is_write(redirect)
        and not redirect.word.text.startswith("/dev/")
        and not _is_elsewhere(script, redirect.word)
    ]
    for run in runs:
        found = _writes(script, run, runs, {write.name for write in (*before, *writes)})
        writes += [write._replace(by=run) for write in found]
    return writes


def conflict(script: Script, runs: Sequence[Run], writes: Sequence[Write]) -> str:
    """Return why the line may run a file that it has written; empty if it does not."""
    for run in runs if writes else ():
        others = [write for write in writes if write.by is not run and write.by is not (run.command or run)]
        before = [write for write in others if write.order <= run.order or script.unordered]
        if before and (reason := _runs(script, run, before, "PATH" in script.variables)):
            return reason
    return ""


def _runs(script: Script, run: Run, writes: Sequence[Write], path_changed: bool) -> str:
    """Return why a command may run one of the files; empty if it does not."""
    words, program = run.words, run.program
    assigned = [value for _, value in run.command.assignments] if run.command is not None else []
    if program not in COPIERS:  # dd of=file
        assigned += [found[1] for word in words if (found := split_assignment(word))]
    if any(_last(value) and _same(write.name, _last(value)) for write in writes for value in assigned):
        return "a variable names a file that the line writes"
    if program in _SAFE and not path_changed:
        return ""
    files = _scripts(script, words)
    if any(_same(write.name, name) for write in writes for name in files):
        return "the line runs a file that it writes"
    for write in writes:
        named = write.name == words[0].shape if ANYTHING not in write.name else write.placed
        if (named and program not in KNOWN) or (path_changed and _same(write.name, words[0].shape)):
            return "the line runs a program that it writes"
    earlier = [write for write in writes if write.code and write.order < run.order]
    if earlier and (program not in INERT | READERS or program == "git"):
        return "the line writes a file that a later command may run"
    return ""


def _scripts(script: Script, words: list[Word]) -> set[str]:
    """The names of the files that a command may run."""
    program = words[0].name
    found = {_last(words[0])} if "/" in words[0].text else set()
    if _runs_scripts(program) or not (program in KNOWN or is_in_project(script, words[0])):
        return found.union(*map(_names, words[1:]))
    takes_script = SCRIPT_OPTIONS.get(program) or EXECUTING.get(program) or Options()
    parsed = ParsedOptions(words[1:], takes_script, permuted=True)
    return found.union(*(_names(value) for value in parsed.values(takes_script) if value is not None))


def _names(word: Word) -> set[str]:
    """The last parts of all paths in a word, also behind the letter of an option."""
    parts = set(re.split(r"[^\w.@%+~\0\1-]", word.shape))
    return parts | {part[at:] for part in parts if part.startswith("-") for at in range(2, min(len(part), MAX_LETTERS))}


def is_in_project(script: Script, program: Word) -> bool:
    """True for a program of the working folder, or a function of the line."""
    path = program.text
    inside = "/" in path and not path.startswith(("/", "~", ANYTHING)) and ".." not in path
    return path in script.functions or (inside and not _moves(script))


def _moves(script: Script) -> bool:
    """True if the line may go to a folder outside of the working folder."""
    return any(
        command.words
        and command.words[0].name in ("cd", "pushd")
        and not all(word.spelled and not word.text.startswith(("/", "..", "~")) for word in command.words[1:])
        for command in script.commands
    )


def _runs_scripts(name: str) -> bool:
    return name in SHELLS or name.rstrip("0123456789.") in INTERPRETERS or name in ("source", ".", "make", "gmake")


def _same(shape: str, other: str) -> bool:
    if ANYTHING in shape and ANYTHING in other:
        return True
    return matches(shape, other) or matches(other, shape)


def _writes(script: Script, run: Run, runs: Sequence[Run], written: set[str]) -> list[Write]:
    """The files that a command may write, apart from redirections."""
    words, order, name = run.words, run.order, run.program
    operands = [word for word in words[1:] if not word.text.startswith("-")]
    if name == "tee":
        return [
            Write(order, _last(word), run.command is None or _may_be_code(run.command, word))
            for word in operands
            if not _is_elsewhere(script, word)
        ]
    if name in COPIERS:
        return _copied(script, words, operands, order, written)
    if name in DOWNLOADERS:
        return _downloaded(words, operands, order)
    if name in UNPACKERS and _unpacks(name, words) and _makes_archives(runs):
        placed = any(word.text.startswith(("/", "~", ANYTHING)) for word in operands)
        return [Write(order, ANYTHING, False, placed)]
    in_place = [word.text for word in words[1:] if re.match(r"-\w*i|--in-place", word.text)]
    if name in ("sed", "perl", "gsed") and in_place:
        suffix = not all(re.fullmatch(r"-\w*i|--in-place", text) for text in in_place)  # of the old file
        escapes = any("\\x" in word.text for word in words)
        return [Write(order, one, escapes) for one in (*map(_last, operands), *([ANYTHING] if suffix else ()))]
    if (
        (name in AWKS and any(writes_files_in_awk(word.text) for word in words[1:]))
        or (name == "find" and any(word.text.startswith(("-fprint", "-fls")) for word in words))
        or name in ("split", "patch", "ed", "ex")
    ):
        return [Write(order, ANYTHING, True)]
    if (name in _SILENT and name not in _WRITERS) or words[0].text in script.functions or len(words) < 2:
        return []
    names = set[str]().union(*map(_names, words[1:]))
    fed = run.command is not None and (run.command.stdin != "no" or bool(run.command.texts))
    reads_written = fed or any(_same(one, part) for one in written if one.strip(ANYTHING) for part in names)
    ordinary = name in ORDINARY or is_in_project(script, words[0]) or _runs_scripts(name)
    if name == "git" and any(re.match(r"mv$|--output|--prefix|-o", word.text) for word in words[1:]):
        ordinary = False
    found = [] if ordinary else [Write(order, one, _is_code(one, reads_written)) for one in sorted(names)]
    if reads_written or not (ordinary or name in KNOWN):
        found.append(Write(order, ANYTHING, False))
    return found


def _is_code(name: str, reads_written: bool) -> bool:
    """The same for a copy, or for what is made of other files."""
    return bool(CODE_FILE.fullmatch(name)) or (reads_written and "." in name and not DATA_FILE.fullmatch(name))


def _may_be_code(command: Command, target: Word) -> bool:
    """True if a later program may read the file as code although its command line does not name it."""
    name = _last(target)
    if command.words and not command.texts and command.words[0].name in ORDINARY:
        return False
    hidden = re.search(r"(^|/)\.\w+/|hooks/", target.text)
    if not hidden and not CODE_FILE.fullmatch(name) and (DATA_FILE.fullmatch(name) or DATA_FILE.fullmatch(target.text)):
        return False
    if command.words and command.words[0].text in ("echo", "cat", "printf", "tee") and command.stdin != "inherited":
        texts = [*(word.text for word in command.words[1:]), *command.texts]
        piped = command.stdin == "direct" and not command.texts
        if not piped and all(_PLAIN.fullmatch(text) for text in texts) and all(word.spelled for word in command.words):
            return command.words[0].text == "cat" and not command.texts
    return True


def _is_elsewhere(script: Script, target: Word) -> bool:
    """True for a file that the environment of a CI names, such as $GITHUB_ENV, if the line does not use it again."""
    again = [
        name
        for command in script.commands
        if command.words and command.words[0].name not in INERT
        for word in command.words
        for name in word.variables
    ]
    return (
        target.shape == ANYTHING
        and not target.runs
        and bool(target.variables)
        and all(name.startswith("GITHUB_") and name not in (*script.variables, *again) for name in target.variables)
    )


def _last(word: Word) -> str:
    return word.shape.rstrip("/").rpartition("/")[2]


def _copied(script: Script, words: list[Word], operands: list[Word], at: int, written: set[str]) -> list[Write]:
    """The files that a copy writes. Copies of plain files of the project do not count as written by the line."""
    if words[0].name == "dd":
        targets = [word for word in words[1:] if word.text.startswith("of=")]
        return [Write(at, _last(word).removeprefix("of="), True) for word in targets]
    *sources, target = operands or [words[0]]
    unclear = [
        word
        for word in (sources or operands)
        if ANYTHING in word.text
        or word.text.startswith(("/", "~"))
        or _moves(script)
        or any(part == ".." or any(_same(name, part) for name in written) for part in word.shape.split("/"))
    ]
    if written and any(re.match(r"-\w*[bS]|--b|--suf", word.text) for word in words):  # keeps a copy of the target
        return [Write(at, ANYTHING, False)]
    if any(word.text.startswith(("-t", "--target")) for word in words):
        unclear, target = operands, Word(ANYTHING, ANYTHING, False)
    if not unclear:
        return []
    absolute = target.text.startswith(("/", "~", ANYTHING))
    names = {_last(target), *map(_last, unclear)}
    reads_written = any(_same(name, part) for word in unclear for part in _names(word) for name in written)
    return [Write(at, name, _is_code(name, reads_written), absolute) for name in names]


def _downloaded(words: list[Word], operands: list[Word], at: int) -> list[Write]:
    name = words[0].name
    targets, lists = WRITING.get(name, Options()), TARGET_LISTS.get(name, Options())
    parsed = ParsedOptions(words[1:], targets | lists, permuted=True)
    if any(True for _ in parsed.values(lists)):
        return [Write(at, ANYTHING, False)]
    values = [value for value in parsed.values(targets) if value is not None]
    named = [value for value in values if value.text != "-"]
    if name == "curl" and not named and not any(True for _ in parsed.values(options("OT", "remote-name upload-file"))):
        return []
    if name == "gh" and [word.text for word in words[1:3]] != ["release", "download"]:
        return []
    if values and not named:
        return []
    names = {_last(word) for word in (*named, *operands)}
    return [Write(at, name, bool(CODE_FILE.fullmatch(name))) for name in names]


def _unpacks(name: str, words: list[Word]) -> bool:
    if name == "tar":
        return any(re.match(r"-?\w*x|--extract", word.text) for word in words[1:])
    if name == "git":
        return any(word.text in ("apply", "am", "archive") for word in words[1:2])
    return True


def _makes_archives(runs: Sequence[Run]) -> bool:
    """True if the line creates or fetches what it unpacks."""
    return any(
        run.program in PRODUCERS and not (run.program in UNPACKERS and _unpacks(run.program, run.words))
        for run in runs
        if run.program != "git"
    )
