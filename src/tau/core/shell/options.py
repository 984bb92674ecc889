"""Options and operands of a command whose words may contain expansions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tau.core.shell.words import Word


class Options(NamedTuple):
    """Options of a program, usually those that take a value: `short` has their letters, `long` their names."""

    short: str = ""
    long: frozenset[str] = frozenset()

    def __or__(self, other: Options) -> Options:
        return Options(self.short + other.short, self.long | other.long)

    def named(self, name: str) -> list[str]:
        """The long options that a name, which may be abbreviated, stands for."""
        return [name] if name in self.long else [one for one in sorted(self.long) if name and one.startswith(name)]


def options(short: str = "", long: str = "") -> Options:
    return Options(short, frozenset(long.split()))


class ParsedOptions:
    """The options and operands of one command.

    `rest` are all words from the first operand on. `unsure`: an expansion stands where an option may be, or it may
    expand to nothing. `permuted`: options may follow operands.
    """

    def __init__(self, words: Sequence[Word], takes_value: Options, *, permuted: bool = False) -> None:
        self.options: list[tuple[str, Word | None]] = []
        self.operands: list[Word] = []
        self.rest: list[Word] = []
        self.unsure = False
        self._takes_value = takes_value
        self._read(list(words), permuted=permuted)

    def _read(self, words: list[Word], *, permuted: bool) -> None:
        words.reverse()
        while words:
            word = words.pop()
            text = word.text
            if not word.spelled and (word.may_begin_with("-") or word.may_vanish):
                self.unsure = True
            if text == "--":
                self.operands += words[::-1]
                self.rest = self.rest or words[::-1]
                return
            if not text.startswith("-") or text == "-":
                self.rest = self.rest or [word, *words[::-1]]
                self.operands.append(word)
                if not permuted:
                    self.operands += words[::-1]
                    return
            elif text.startswith("--"):
                self._long(word, words)
            else:
                self._cluster(word, words)

    def _long(self, word: Word, words: list[Word]) -> None:
        name, equals, value = word.text[2:].partition("=")
        found: Word | None
        names = self._takes_value.named(name)
        if equals:
            found = word._replace(text=value, shape=word.shape.partition("=")[2])
        else:
            found = words.pop() if names and words else None
        self.options += [(one, found) for one in names or [name]]

    def _cluster(self, word: Word, words: list[Word]) -> None:
        text = word.text
        if text[1:] in self._takes_value.long and words:  # gdb -ex, erl -eval
            self.options.append((text[1:], words.pop()))
            return
        for at, character in enumerate(text[1:], 1):
            if character in self._takes_value.short:
                value = word._replace(text=text[at + 1 :], shape=word.shape[at + 1 :])
                self.options.append((character, value if text[at + 1 :] else words.pop() if words else None))
                return
            self.options.append((character, None))

    def values(self, names: Options) -> Iterator[Word | None]:
        """The values of options with these names. Long names may be abbreviated."""
        for name, value in self.options:
            short = len(name) == 1 and name in names.short
            if short or (len(name) > 1 and names.named(name)):
                yield value

    def unknown(self, flags: Options) -> bool:
        """True if there is an option that neither takes a value nor is one of these."""
        return not all(
            name in self._takes_value.short + flags.short
            if len(name) == 1
            else self._takes_value.named(name) or flags.named(name)
            for name, _ in self.options
        )

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)
