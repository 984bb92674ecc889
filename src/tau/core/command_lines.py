"""What a command line would run, as far as that can be seen without running it.

Two readings, for two purposes. `plain` is narrow: it knows a line only if that is
one simple command with every word spelled out, so that a rule can vouch for it.
`Line` is generous: it finds every place where a command may begin, and says so if
it cannot be certain to have found them all. Neither is a shell. A command can run
others in ways that no reader of its text will see, so nothing here is a wall.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")

# What runs the words that follow it, or one of them.
RUNNERS = frozenset(
    (
        *("builtin", "busybox", "bwrap", "capsh", "chroot", "chrt", "command", "compgen", "coproc", "doas", "env"),
        *("exec", "fakeroot", "find", "firejail", "flock", "ionice", "linux32", "linux64", "ltrace", "mapfile"),
        *("nice", "nocorrect", "noglob", "nohup", "nsenter", "numactl", "parallel", "pkexec", "prlimit", "readarray"),
        *("runuser", "script", "setarch", "setpriv", "setsid", "sg", "ssh", "start-stop-daemon", "stdbuf", "strace"),
        *("sudo", "systemd-run", "taskset", "time", "timeout", "toybox", "trap", "unbuffer", "unshare", "valgrind"),
        *("watch", "xargs"),
    )
)
# What takes a text, or what is piped in, for commands.
SHELLS = frozenset(
    (
        *(".", "ash", "bash", "csh", "dash", "eval", "fish", "ksh", "mksh", "nu", "pwsh", "rbash", "rksh", "sh"),
        *("source", "su", "tcsh", "yash", "zsh"),
    )
)
RESERVED = frozenset(
    ("!", "[[", "case", "do", "elif", "else", "for", "function", "if", "select", "then", "until", "while")
)
# A name stands between these and the next place where a command may begin: `for x do ...`.
NAMING = frozenset(("for", "function", "select"))
# What in the shell itself takes a word for an expression, and runs the $(...) that stands in its quotes.
EVALUATING = frozenset(
    (
        *("[", "[[", "declare", "export", "let", "local", "printf", "read", "readonly", "test", "typeset", "unset"),
        *("wait",),
    )
)
# What does nothing with its words but to look them up, or to show them: whose words are no hint.
INERT = frozenset(
    (
        *(":", "basename", "cat", "cd", "chmod", "chown", "cmp", "cut", "date", "diff", "dirname", "echo", "egrep"),
        *("exit", "false", "fgrep", "file", "grep", "head", "kill", "ls", "mkdir", "pwd", "readlink", "realpath"),
        *("rmdir", "seq", "sleep", "stat", "tail", "touch", "tr", "true", "type", "uniq", "wc", "which"),
    )
)

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=")
_BRACES = re.compile(r"\{[^}]*(,|\.\.)")
_CODE = re.compile(r"[\s;&|()<>`$\"'\\]")  # a word that may itself be a command line
# What signs that are not quoted can become, in the shape of a word, and the shape as a regular expression. No command
# has the first of them in it, and the second is none that anybody writes.
ANYTHING, ONE_LETTER = "\0", "\1"
_FILLED = {"*": ANYTHING, "?": ONE_LETTER, "[": ANYTHING, "{": ANYTHING}
_SHAPES = {ANYTHING: ".*", ONE_LETTER: "."}
# Everything between two words, for a line that cannot be read as the shell would.
_GAPS = re.compile(r"[\s;&|()<>{}`$=,]+")
_QUOTES = re.compile(r"[\"'\\]")
_NAMES = re.compile(r"[\w.@%+:-]+")  # what in a text may be the name of a program, or an option
_NEW_SHELL = re.compile(r"\$\{[\s|]")  # ${ rm; } is what $(rm) is
_PATH = re.compile(r"[\w.@%+:/~-]*")


def plain(text: str) -> list[str] | None:
    """The words of a line that is one simple command, with nothing in it that could start another; else None.

    Quotes are known, also around newlines. A backslash is refused, since shells do not agree about those.
    """
    words: list[str] = []
    word: str | None = None
    quote = ""
    for letter in text:
        if quote:
            if letter == quote:
                quote = ""
            elif letter == "\\" or (quote == '"' and letter in "$`"):
                return None
            else:
                word = (word or "") + letter
        elif letter in " \t":
            if word is not None:
                words.append(word)
            word = None
        elif letter in "'\"":
            quote, word = letter, word or ""
        elif letter in "\\;&|()<>`$" or not letter.isprintable() or (letter == "#" and word is None):
            return None
        else:
            word = (word or "") + letter
    if quote:
        return None
    if word is not None:
        words.append(word)
    return None if not words or _ASSIGNMENT.match(words[0]) else words


class Word(NamedTuple):
    text: str
    spelled: bool = True  # no variable, glob or brace in it that the shell would replace
    shape: str = ""  # if there is: what it can become, as a regular expression


class Line:
    """A command line, read generously. `unclear`: it may run what is not found here."""

    def __init__(self, text: str) -> None:
        self._starts: list[tuple[Sequence[str], int]] = []  # where a command may begin, in which words
        self._open: list[tuple[Sequence[Word], int]] = []  # the same, where what follows is not all spelled out
        self._hints: list[Sequence[str]] = []  # words that are no start of a command as far as we know
        self.words: list[str] = []  # all of them
        self.unclear = False
        tokens = _tokens(text)
        if tokens is not None and self._read(tokens):
            return
        self.unclear = True
        text = text.replace("\\\n", "")
        for view in (_QUOTES.sub(" ", text), _QUOTES.sub("", text)):
            words = [word for word in _GAPS.split(view) if word]
            self.words += words
            self._starts += [(words, at) for at in range(len(words))]

    def begins(self, prefix: Sequence[str]) -> bool:
        """Whether a command begins with these words; between them others may stand, and a path before the first."""
        first, *rest = prefix
        return any(_in_order(rest, words, at + 1) for words, at in _firsts(self._starts, lambda word: _is(word, first)))

    def may_begin(self, prefix: Sequence[str]) -> bool:
        """Whether one would, if what the shell puts in the place of a variable or a glob were the right thing."""
        first, *rest = prefix
        found = _firsts(self._open, lambda word: _is(word.text, first))
        return any(_may_follow(rest, words[at + 1 :]) for words, at in found)

    def hints_at(self, prefix: Sequence[str]) -> bool:
        """Whether the words stand in what a program is given that may well run them: awk 'BEGIN{system("rm")}'."""
        first, *rest = prefix
        for words in self._hints:
            at = next((at for at, word in enumerate(words) if _is(word, first)), None)
            if at is not None and _in_order(rest, words, at + 1):
                return True
        return False

    def _read(self, tokens: Sequence[Word | str]) -> bool:
        """False if it has to be read without understanding it."""
        for command in _commands(tokens):
            begin, runs, naming, at, program = True, False, False, -1, ""
            given = [word for word in command if isinstance(word, Word)]
            words = [word.text for word in given]
            is_open = not all(word.spelled for word in given)
            # Some expansions take a text for an expression, and run what stands in its quotes: ${x:'a[$(rm)]'}
            if any(not word.spelled and _runs(word.text) for word in given) or _is_fed(words):
                return False
            for word in command:
                if not isinstance(word, Word):
                    begin = True
                    continue
                at += 1
                if runs and (not word.spelled or (word.text != ";" and _CODE.search(word.text))):
                    return False
                if not begin and not runs:
                    continue
                self._starts.append((words, at))
                if is_open:
                    self._open.append((given, at))
                name = word.text.rpartition("/")[2]
                if name in SHELLS and not (runs and name == "."):
                    return False
                runs = runs or name in RUNNERS
                assigns = bool(_ASSIGNMENT.match(word.text))
                if (assigns or name in EVALUATING) and any(map(_runs, words[at:])):
                    return False
                begin = word.text in RESERVED or assigns or naming
                naming = word.text in NAMING
                program = program or ("" if begin else name)
                self.unclear = self.unclear or not (begin or word.spelled)
            if program not in INERT or _ASSIGNMENT.match(words[0]):
                self._hints.append([part for text in words for part in _parts(text)])
        self.words = [word.text for word in tokens if isinstance(word, Word)]
        return True


def _firsts(starts: Sequence[tuple[Sequence[T], int]], fits: Callable[[T], bool]) -> Iterator[tuple[Sequence[T], int]]:
    """Of the places in the same words the first that fits: what does not follow there does not follow later on."""
    done: set[int] = set()
    for words, at in starts:
        if id(words) not in done and fits(words[at]):
            done.add(id(words))
            yield words, at


def _runs(text: str) -> bool:
    return "$(" in text or "`" in text


def _is_fed(words: Sequence[str]) -> bool:
    """Whether the command to run is what is piped in: `xargs env`, `parallel`."""
    names = [name for word in words if (name := word.rpartition("/")[2]) in RUNNERS]
    return bool(names) and words[-1].endswith(names[-1]) and (len(names) > 1 or names[-1] == "parallel")


def _parts(text: str) -> Iterator[str]:
    """What in a word may be words of a command: itself, and the names in it if it is more than a path."""
    yield text
    if not _PATH.fullmatch(text):
        yield from _NAMES.findall(_QUOTES.sub("", text))
        yield from _NAMES.findall(_QUOTES.sub(" ", text))


def _is(word: str, name: str) -> bool:
    """Some file systems make no difference between upper and lower case."""
    word, name = word.casefold(), name.casefold()
    return word == name or word.rpartition("/")[2] == name


def _in_order(wanted: Sequence[str], words: Sequence[str], start: int) -> bool:
    """Whether all of them stand there, each after the one before it."""
    for one in wanted:
        try:
            start = words.index(one, start) + 1
        except ValueError:
            return False
    return True


def _may_follow(wanted: Sequence[str], words: Sequence[Word]) -> bool:
    """The same, with every word that is not spelled out taken for what it can become: that may be several words."""
    left = list(wanted)
    for word in words:
        if not left:
            break
        if word.text == left[0] or (not word.spelled and re.fullmatch(word.shape, left[0], re.DOTALL)):
            del left[0]
    return not left


def _commands(tokens: Sequence[Word | str]) -> Iterator[list[Word | str]]:
    """Simple commands; in them, an empty text stands where one may begin again: after a redirection."""
    command: list[Word | str] = []
    redirected = False
    for token in tokens:
        if isinstance(token, Word):
            command.append(token)
            if redirected:
                command.append("")
            redirected = False
        elif token in "<>" or (redirected and token in "&|"):
            redirected = True
        else:
            yield command
            command, redirected = [], False
    yield command


class _Word:
    """A word that is being read. `bare` is what of it is not quoted."""

    def __init__(self) -> None:
        self.text = self.bare = self._shape = ""
        self.begun, self._spelled, self._loose = False, True, False

    def add(self, letter: str) -> None:
        """A letter that stands for itself."""
        self.text += letter
        self.begun = True
        if not self._loose:
            self._shape += letter

    def add_bare(self, letter: str) -> None:
        if letter == "$":
            self.add_variable()
        if not self._loose:
            self._shape += _FILLED.get(letter, letter)
            self._loose = letter in "[{"
        self.text += letter
        self.bare += letter
        self.begun = True

    def add_variable(self) -> None:
        """From here on it may become anything."""
        if not self._loose:
            self._shape += ANYTHING
        self._spelled, self._loose = False, True

    def token(self) -> Word | str:
        if self.text == self.bare and self.text in ("{", "}"):
            return self.text
        bare = self.bare
        if self._spelled and (bare in ("[", "[[") or not (set(bare) & set("*?[") or _BRACES.search(bare))):
            return Word(self.text)
        return Word(self.text, False, "".join(_SHAPES.get(letter) or re.escape(letter) for letter in self._shape))


def _tokens(text: str) -> list[Word | str] | None:
    """Words, and the characters that part commands; None for what only a shell can read."""
    tokens: list[Word | str] = []
    word, quote, at = _Word(), "", 0
    while at < len(text):
        letter, after = text[at], text[at + 1 : at + 2]
        at += 1
        if letter + after == "\\\n" and quote != "'":  # a comment does not go on behind it, see below
            at += 1
        elif quote != "'" and (letter == "`" or letter + after == "$(" or _NEW_SHELL.match(text, at - 1)):
            return None
        elif quote:
            if letter == quote:
                quote = ""
                continue
            if quote == '"' and letter == "\\" and after in ("$", '"', "\\", "`"):
                letter, at = after, at + 1
            elif quote == '"' and letter == "$":
                word.add_variable()
            word.add(letter)
        elif letter + after in ("$'", '$"', "<<"):
            return None
        elif letter in "'\"":
            quote, word.begun = letter, True
        elif letter == "\\":
            word.add(after)
            at += 1
        elif letter == "#" and not word.begun:
            at = end if (end := text.find("\n", at)) >= 0 else len(text)
        elif letter in " \t;&|()<>\n":
            if word.begun:
                tokens.append(word.token())
                word = _Word()
            if letter not in " \t":
                tokens.append(letter)
        elif letter.isspace():  # to one shell a part of the word, to another its end
            return None
        else:
            word.add_bare(letter)
    if quote:
        return None
    return [*tokens, word.token()] if word.begun else tokens
