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
from tau.core.shell.options import Options, ParsedOptions
from tau.core.shell.parts import Command, is_write
from tau.core.shell.programs import INTERPRETERS, SHELLS, WRAPPERS
from tau.core.shell.syntax import Script
from tau.core.shell.tables import (
    CODE_FILE,
    COPIERS,
    DATA_FILE,
    DOWNLOADERS,
    EXECUTING,
    INERT,
    PRODUCERS,
    READERS,
    UNPACKERS,
    WRITING,
)
from tau.core.shell.words import ANYTHING, Word, matches

_PLAIN = re.compile(r"[\w\s=:/.,@+#-]*")
_KNOWN = INERT | READERS | COPIERS | DOWNLOADERS | UNPACKERS
_SAFE = frozenset(("cd", "echo", "ls", "cat", "grep", "test", "chmod", "mkdir", "touch", "exit", "true", "printf"))


class Write(NamedTuple):
    at: int
    name: str  # the shape of the last part of the path
    code: bool  # it may be code for a program whose command line does not name it
    placed: bool = False  # in a folder given by an absolute path


def written(script: Script, before: Sequence[Write]) -> list[Write]:
    """The files that a line writes; `before` are those written by code in it."""
    writes = [write._replace(at=-1) for write in before]
    for at, command in enumerate(script.commands):
        writes += _writes(script, command, at, {write.name for write in writes})
    return writes


def conflict(script: Script, writes: Sequence[Write]) -> str:
    """Return why the line may run a file that it has written; empty if it does not."""
    if not writes:
        return ""
    path_changed = "PATH" in script.variables or any(
        word.text.startswith("PATH=") for command in script.commands for word in command.words
    )
    for at, command in enumerate(script.commands):
        before = [write for write in writes if write.at < at or command.repeated or script.functions]
        if before and (reason := _runs(command, before, path_changed)):
            return reason
    return ""


def _runs(command: Command, writes: Sequence[Write], path_changed: bool) -> str:
    """Return why a command may run one of the files; empty if it does not."""
    words = unwrapped(command)
    if not words:
        return ""
    program = words[0].name
    values = [value for _, value in command.assignments] + [
        word._replace(shape=word.shape.partition("=")[2]) for word in command.words if re.match(r"\w+=", word.text)
    ]
    if any(_last(value) and _same(write.name, _last(value)) for write in writes for value in values):
        return "a variable names a file that the line writes"
    if program in _SAFE and not path_changed:
        return ""
    if program in ("xargs", "find", "gfind") and any(_runs_scripts(word.name) for word in words):
        return "the line runs files that it may have written"
    for at, word in enumerate(words):
        name = re.split("[/=]", word.shape)[-1] if at else word.shape.rpartition("/")[2]
        searching = program in ("xargs", "find", "gfind") and "/" in word.text
        runs = "/" in word.text if at == 0 else searching or _takes_files(words) or _is_program(words, at)
        if runs and any(_same(write.name, name) for write in writes):
            return "the line runs a file that it writes"
    for write in writes:
        named = write.name == words[0].shape if ANYTHING not in write.name else write.placed
        if (named and program not in _KNOWN) or (path_changed and _same(write.name, words[0].shape)):
            return "the line runs a program that it writes"
    if any(write.code for write in writes) and (program not in INERT | READERS or program == "git"):
        return "the line writes a file that a later command may run"
    return ""


def _is_program(words: list[Word], at: int) -> bool:
    """True if a word is the value of an option that names a program."""
    if words[0].name in EXECUTING and re.match(r"--[\w-]+=", words[at].text):
        return True
    return words[0].name in EXECUTING and bool(
        re.fullmatch(r"-[SeIPBx]|--rsh|--pre|-exec|-wrapper", words[at - 1].text)
    )


def _takes_files(words: list[Word]) -> bool:
    """True if a word of the command may be a script that it runs."""
    name, texts = words[0].name, [word.text for word in words]
    if name in ("xargs", "find", "gfind"):
        return any(_runs_scripts(word.name) for word in words)
    if name in ("awk", "gawk", "mawk", "sed", "gsed"):
        return any(re.match(r"-\w*f|--file", text) for text in texts)
    return _runs_scripts(name)


def _runs_scripts(name: str) -> bool:
    return name in SHELLS or name.rstrip("0123456789.") in INTERPRETERS or name in ("source", ".", "make", "gmake")


def unwrapped(command: Command) -> list[Word]:
    """The words without wrappers such as sudo before them."""
    words = list(command.words)
    while len(words) > 1 and words[0].name in WRAPPERS:
        words.pop(0)
        while len(words) > 1 and re.match(r"-|\w+=|\d+[smh]?$", words[0].text):
            words.pop(0)
    return words


def _same(shape: str, other: str) -> bool:
    if ANYTHING in shape and ANYTHING in other:
        return True
    return matches(shape, other) or matches(other, shape)


def _writes(script: Script, command: Command, at: int, written: set[str]) -> list[Write]:
    found = [
        Write(at, _last(one.word), _may_be_code(command, one.word, script))
        for one in command.redirects
        if is_write(one) and not one.word.text.startswith("/dev/")
        if not _is_elsewhere(script, one.word)
        if _authors(script, command)
    ]
    words = unwrapped(command)
    if not words:
        return found
    name = words[0].name
    operands = [word for word in words[1:] if not word.text.startswith("-")]
    if name == "tee":
        found += [
            Write(at, _last(word), _may_be_code(command, word, script))
            for word in operands
            if not _is_elsewhere(script, word)
        ]
    elif name in COPIERS:
        found += _copied(script, words, operands, at, written)
    elif name in DOWNLOADERS:
        found += _downloaded(words, operands, at)
    elif name in UNPACKERS and _unpacks(name, words) and _makes_archives(script):
        found.append(Write(at, ANYTHING, False, any(word.text.startswith(("/", "~", ANYTHING)) for word in operands)))
    elif name in ("sed", "perl", "gsed") and any(re.match(r"-\w*i|--in-place", word.text) for word in words[1:]):
        found += [Write(at, _last(word), "\\x" in " ".join(one.text for one in words)) for word in operands[-1:]]
    elif (
        (name in ("awk", "gawk", "mawk") and any(writes_files_in_awk(word.text) for word in operands[:1]))
        or (name in ("split", "csplit", "find") and any(word.text.startswith(("-fprint", "-fls")) for word in words))
        or name == "split"
        or (
            name in ("sort", "uniq", "xxd", "openssl", "iconv", "jq", "base64", "gpg")
            and any(word.text.startswith(("-o", "--out")) for word in words)
        )
    ):
        found.append(Write(at, ANYTHING, True))
    elif name in ("uniq", "xxd") and len(operands) + ("-" in [word.text for word in words]) > 1:
        found.append(Write(at, _last(operands[-1]), True))
    elif name in ("truncate", "patch", "ed", "ex"):
        found.append(Write(at, ANYTHING, name != "truncate"))
    if name in ("xargs", "find") and any(word.name in COPIERS | {"tee"} for word in words):
        found.append(Write(at, ANYTHING, False))
    return found


def _authors(script: Script, command: Command) -> bool:
    """True if the line itself determines the output of a command, rather than an existing program."""
    if not command.words or command.texts or command.words[0].text in script.functions:
        return True
    name = command.words[0].name
    return name in INERT | READERS | DOWNLOADERS | {"printf", "awk", "sed", "perl", "openssl", "find"} or (
        name in WRAPPERS or name.rstrip("0123456789.") in INTERPRETERS
    )


def _may_be_code(command: Command, target: Word, script: Script) -> bool:
    """True if a later program may read the file as code although its command line does not name it."""
    name = _last(target)
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
    """True for a file that an environment variable names, such as $GITHUB_ENV: the line does not create it."""
    return (
        target.shape == ANYTHING
        and not target.runs
        and bool(target.variables)
        and all(re.fullmatch(r"[A-Z][A-Z_]+", name) and name not in script.variables for name in target.variables)
    )


def _last(word: Word) -> str:
    return word.shape.rstrip("/").rpartition("/")[2]


def _copied(script: Script, words: list[Word], operands: list[Word], at: int, written: set[str]) -> list[Write]:
    """The files that a copy writes. Copies of plain files of the project do not count as written by the line."""
    moved = any(
        other.words
        and other.words[0].name in ("cd", "pushd")
        and not all(word.spelled and not word.text.startswith(("/", "..", "~")) for word in other.words[1:])
        for other in script.commands
    )
    if words[0].name == "dd":
        targets = [word for word in words[1:] if word.text.startswith("of=")]
        return [Write(at, _last(word).removeprefix("of="), True) for word in targets]
    *sources, target = operands or [words[0]]
    unclear = [
        word
        for word in (sources or operands)
        if ANYTHING in word.text
        or word.text.startswith(("/", "~"))
        or moved
        or any(part == ".." or any(_same(name, part) for name in written) for part in word.shape.split("/"))
    ]
    if any(word.text.startswith(("-t", "--target")) for word in words):
        unclear, target = operands, Word(ANYTHING, ANYTHING, False)
    if not unclear:
        return []
    absolute = target.text.startswith(("/", "~", ANYTHING))
    names = {_last(target), *map(_last, unclear)}
    return [Write(at, name, bool(CODE_FILE.fullmatch(name)), absolute) for name in names]


def _downloaded(words: list[Word], operands: list[Word], at: int) -> list[Write]:
    name = words[0].name
    targets = WRITING.get(name, Options())
    parsed = ParsedOptions(words[1:], targets, permuted=True)
    values = [value for value in parsed.values(targets) if value is not None]
    named = [value for value in values if value.text != "-"]
    if name == "curl" and not named and not parsed.has("O", "remote-name", "remote-name-all"):
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


def _makes_archives(script: Script) -> bool:
    """True if the line creates or fetches what it unpacks."""
    return any(
        word.name in PRODUCERS
        for command in script.commands
        for word in command.words[:2]
        if not ((word.name in UNPACKERS and _unpacks(word.name, command.words)) or word.name == "git")
    )
