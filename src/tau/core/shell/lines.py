"""The commands that a bash line would run, as far as its text shows: for rules that deny or ask.

`Line` finds the commands that a line certainly runs, and reports if it may run others. This is not a security
boundary: a program that runs can start others. The parser is loaded with the first line, so this module is imported
late.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from tau.core.shell.judgement import Findings
from tau.core.shell.policy import judge
from tau.core.shell.tables import SUBCOMMANDS
from tau.core.shell.words import ANYTHING, NotUnderstood, Word

_GAPS = re.compile(r"[\s;&|()<>{}`$=,]+")  # between words, in a line that is not understood
_QUOTES = re.compile(r"[\"'\\]")
_NAMES = re.compile(r"[\w.@%+:-]+")  # substrings of a text that may be the name of a program, or an option
_PATH = re.compile(r"[\w.@%+:/~-]*")


class Line:
    """A command line. `unclear`: why it may run commands that are not found here; empty if it does not."""

    def __init__(self, text: str) -> None:
        self._text = text
        try:
            self._found = judge(text)
            self.unclear = self._found.doubt
        except NotUnderstood as error:
            self._found = Findings()
            self._found.hints = [text]
            self.unclear = str(error)

    @cached_property
    def words(self) -> list[str]:
        """All words of the line; if the line is not understood, everything that could be a word."""
        if not self.unclear:
            return self._found.words
        text = self._text.replace("\\\n", "")
        views = (_QUOTES.sub(" ", text), _QUOTES.sub("", text))
        return [*self._found.words, *(word for view in views for word in _GAPS.split(view) if word)]

    def begins(self, prefix: Sequence[str]) -> bool:
        """True if a command begins with these words; others may stand between them, and a path before the first."""
        return any(_begins(prefix, words) for words, *_ in self._found.runs)

    def may_begin(self, prefix: Sequence[str]) -> bool:
        """True if a command would begin with them, given the right value for a variable or a glob."""
        return any(
            _is(words[0].text, prefix[0]) and not _is_other(prefix, words) and _may_follow(prefix[1:], words[1:])
            for words, *_ in self._found.runs
            if not all(word.spelled for word in words)
        )

    def hints_at(self, prefix: Sequence[str]) -> bool:
        """True if the words are given to a program that may run them: awk 'BEGIN{system("rm")}'."""
        first, *rest = prefix
        wanted = first.casefold()
        for at, text in enumerate(self._found.hints):
            mentioned = wanted in text.casefold() or _QUOTES.search(text)
            if mentioned and any(_is(part, first) for part in _parts(text)):
                return not rest or _in_order(rest, [part for hint in self._found.hints[at:] for part in _parts(hint)])
        return False


def _begins(prefix: Sequence[str], words: Sequence[Word]) -> bool:
    if not words[0].spelled:
        return False
    if len(prefix) > 1 and _is(words[0].text, "-".join(prefix[:2])):  # `git push` runs git-push
        return _in_order(prefix[2:], [word.text for word in words[1:] if word.spelled])
    if not _is(words[0].text, prefix[0]) or _is_other(prefix, words):
        return False
    return _in_order(prefix[1:], [word.text for word in words[1:] if word.spelled])


def _is_other(prefix: Sequence[str], words: Sequence[Word]) -> bool:
    """True if the program gets another subcommand than the rule names: `git stash push` is not `git push`."""
    if len(prefix) < 2 or words[0].name not in SUBCOMMANDS:
        return False
    rest = list(words[1:])
    while (
        words[0].name == "git" and len(rest) > 2 and rest[0].text in ("-C", "-c") and rest[1].quoted | rest[1].spelled
    ):
        del rest[:2]
    while rest and rest[0].text.startswith("+"):  # cargo +nightly publish
        del rest[0]
    return bool(rest) and rest[0].spelled and not rest[0].text.startswith("-") and rest[0].text != prefix[1]


def _parts(text: str) -> Iterator[str]:
    """Possible command words in a text: the text itself, and the names in it if it is more than a path."""
    yield text
    if not _PATH.fullmatch(text):
        for view in (_QUOTES.sub("", text), _QUOTES.sub(" ", text)):
            yield from _NAMES.findall(view.replace("/", " "))


def _is(word: str, name: str) -> bool:
    """Compare a program's name, ignoring case: some file systems do."""
    word, name = word.casefold(), name.casefold()
    return word == name or word.rpartition("/")[2] == name


def _in_order(wanted: Sequence[str], words: Sequence[str]) -> bool:
    """True if all of them occur, in this order."""
    start = 0
    for item in wanted:
        try:
            start = words.index(item, start) + 1
        except ValueError:
            return False
    return True


def _may_follow(wanted: Sequence[str], words: Sequence[Word]) -> bool:
    """The same, where a word that is not literal matches anything that it can become, also several words."""
    remaining = list(wanted)
    for word in words:
        if not remaining:
            break
        if word.text == remaining[0] or (not word.spelled and word.may_be(remaining[0])):
            del remaining[0]
        while remaining and word.shape == ANYTHING and not word.quoted:
            del remaining[0]
    return not remaining
