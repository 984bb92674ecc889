"""What a command line would run, as far as that can be seen without running it.

Two readings, for two purposes. `plain` is narrow: it knows a line only if that is
one simple command with every word spelled out, so that a rule can vouch for it.
`Line` is generous: it finds every place where a command may begin, and says so if
it cannot be certain to have found them all. Neither is a shell. A command can run
others in ways that no reader of its text will see, so nothing here is a wall.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

# What runs the words that follow it, or one of them.
RUNNERS = frozenset(
    (
        *("builtin", "busybox", "chroot", "command", "coproc", "doas", "env", "exec", "find", "flock", "ionice"),
        *("nice", "nohup", "nsenter", "parallel", "pkexec", "runuser", "script", "setsid", "ssh", "stdbuf"),
        *("strace", "sudo", "taskset", "time", "timeout", "trap", "unshare", "watch", "xargs"),
    )
)
# What takes a text, or what is piped in, for commands.
SHELLS = frozenset(
    (".", "ash", "bash", "csh", "dash", "eval", "fish", "ksh", "mksh", "sh", "source", "su", "tcsh", "zsh")
)
RESERVED = frozenset(("!", "[[", "case", "do", "elif", "else", "for", "function", "if", "then", "until", "while"))

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=")
_BRACES = re.compile(r"\{[^}]*(,|\.\.)")
_CODE = re.compile(r"[\s;&|()<>`$\"'\\]")  # a word that may itself be a command line
# Everything between two words, for a line that cannot be read as the shell would.
_GAPS = re.compile(r"[\s;&|()<>{}`$=,]+")
_QUOTES = re.compile(r"[\"'\\]")


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


class Line:
    """A command line, read generously. `unclear`: it may run what is not found here."""

    def __init__(self, text: str) -> None:
        self._starts: list[tuple[Sequence[str], int]] = []  # where a command may begin, in which words
        self.words: list[str] = []  # all of them
        self.unclear = False
        text = text.replace("\\\n", "")
        tokens = _tokens(text)
        if tokens is not None and self._read(tokens):
            return
        self.unclear = True
        for view in (_QUOTES.sub(" ", text), _QUOTES.sub("", text)):
            words = [word for word in _GAPS.split(view) if word]
            self.words += words
            self._starts += [(words, at) for at in range(len(words))]

    def begins(self, prefix: Sequence[str]) -> bool:
        """Whether a command begins with these words; between them others may stand, and a path before the first."""
        first, *rest = prefix
        return any(_is(words[at], first) and _in_order(rest, words, at + 1) for words, at in self._starts)

    def _read(self, tokens: Sequence[Word | str]) -> bool:
        """False if it has to be read without understanding it."""
        for command in _commands(tokens):
            begin, runs, at = True, False, -1
            words = [word.text for word in command if isinstance(word, Word)]
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
                name = word.text.rpartition("/")[2]
                if name in SHELLS and not (runs and name == "."):
                    return False
                runs = runs or name in RUNNERS
                begin = word.text in RESERVED or bool(_ASSIGNMENT.match(word.text))
                self.unclear = self.unclear or not (begin or word.spelled)
        self.words = [word.text for word in tokens if isinstance(word, Word)]
        return True


def _is(word: str, name: str) -> bool:
    return word == name or word.rpartition("/")[2] == name


def _in_order(wanted: Sequence[str], words: Sequence[str], start: int) -> bool:
    """Whether all of them stand there, each after the one before it."""
    for one in wanted:
        try:
            start = words.index(one, start) + 1
        except ValueError:
            return False
    return True


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


def _tokens(text: str) -> list[Word | str] | None:
    """Words, and the characters that part commands; None for what only a shell can read."""
    tokens: list[Word | str] = []
    word, bare, begun, spelled, quote, at = "", "", False, True, "", 0  # `bare`: what of the word is not quoted

    def finish() -> None:
        nonlocal word, bare, begun, spelled
        if begun and word == bare and word in ("{", "}"):
            tokens.append(word)
        elif begun:
            known = spelled and (bare in ("[", "[[") or not (set(bare) & set("*?[") or _BRACES.search(bare)))
            tokens.append(Word(word, known))
        word, bare, begun, spelled = "", "", False, True

    while at < len(text):
        letter, after = text[at], text[at + 1 : at + 2]
        at += 1
        if quote:
            if letter == quote:
                quote = ""
                continue
            if quote == '"' and (letter == "`" or letter + after == "$("):
                return None
            if quote == '"' and letter == "\\" and after in ("$", '"', "\\", "`"):
                letter, at = after, at + 1
            elif quote == '"' and letter == "$":
                spelled = False
            word += letter
        elif letter == "`" or letter + after in ("$(", "$'", '$"', "<<"):
            return None
        elif letter in "'\"":
            quote, begun = letter, True
        elif letter == "\\":
            word, begun, at = word + after, True, at + 1
        elif letter == "#" and not begun:
            at = end if (end := text.find("\n", at)) >= 0 else len(text)
        elif letter in ";&|()<>\n":
            finish()
            tokens.append(letter)
        elif letter.isspace():
            finish()
        else:
            spelled = spelled and letter != "$"
            word, bare, begun = word + letter, bare + letter, True
    if quote:
        return None
    finish()
    return tokens
