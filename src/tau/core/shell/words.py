"""Reads one word of a bash line: removes the quotes and describes what expansions can turn it into.

The syntax tree gives the start and end of a word and the position of expansions in it. This reader goes over the same
characters by bash's quoting rules, and rejects a word if the tree and the rules disagree about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tau.core.shell.tree import Node, unicode

ANYTHING, ONE_CHARACTER = "\0", "\1"  # placeholders in a shape for a glob or an expansion; never in a command
MAX_COMPARISONS = 100_000  # a longer shape counts as matching
METACHARACTERS = frozenset(" \t\n;&|()<>")
EXPANSIONS = frozenset(
    ("command_substitution", "process_substitution", "arithmetic_expansion", "expansion", "simple_expansion")
)
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=")
_NUMBERS = frozenset(("$(nproc)", "`nproc`", "$?", "$#"))  # these expand to a number in any case
_SPELLED = re.compile(r"[A-Za-z0-9_./:=@%+,-]+")  # characters without a meaning for the shell
_AFTER_DOLLAR = frozenset("_({[@*#?-!$")  # besides letters and digits: a dollar before these starts an expansion
_BRACES = re.compile(r"\{[^{}]*(,|\.\.)[^{}]*\}")
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|c(.)|(.))", re.S)
_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class NotUnderstood(ValueError):
    """The line, or a part of it, is not understood. The text gives the reason."""


class Word(NamedTuple):
    """A word of the line.

    `text` is the word without quotes, with ANYTHING for expansions and with globs as they are written. `shape` is
    what it can become: globs and braces are replaced as well. `spelled`: the word is literal and cannot become
    anything else. `variables` are the names of variables in it. `runs`: it contains a command substitution.
    """

    text: str
    shape: str
    spelled: bool = True
    variables: tuple[str, ...] = ()
    runs: bool = False
    quoted: bool = False  # at least partly quoted: it cannot become several words or none, unless it has "$@"
    raw: str = ""

    @property
    def name(self) -> str:
        """The last part of a path, in lower case: some file systems ignore case."""
        return self.text.rpartition("/")[2].casefold()

    @property
    def may_vanish(self) -> bool:
        return not self.quoted and not self.shape.strip(ANYTHING)

    def may_be(self, text: str) -> bool:
        return matches(self.shape, text)

    def may_begin_with(self, text: str) -> bool:
        """True if it can become a word that begins with these characters."""
        for at, character in enumerate(text):
            if at >= len(self.shape):
                return False
            if self.shape[at] == ANYTHING:
                return True
            if self.shape[at] not in (character, ONE_CHARACTER):
                return False
        return True


def literal(text: str) -> Word:
    return Word(text, text, raw=text)


def split_assignment(word: Word) -> tuple[str, Word] | None:
    """The name and the value in `name=value`."""
    if not (found := ASSIGNMENT.match(word.text)):
        return None
    shape = word.shape.partition("=")[2] if "=" in word.shape else ANYTHING
    return found[0].rstrip("+="), word._replace(text=word.text[found.end() :], shape=shape)


def matches(shape: str, text: str) -> bool:
    """True if a shape can become the text."""
    if ANYTHING not in shape and ONE_CHARACTER not in shape:
        return shape == text
    if len(shape) * len(text) > MAX_COMPARISONS:
        return True
    # A regular expression would backtrack for every placeholder; only the last one can matter.
    at = read = 0
    last, resume = -1, 0
    while read < len(text):
        if at < len(shape) and shape[at] == ANYTHING:
            last, resume = at, read
            at += 1
        elif at < len(shape) and shape[at] in (text[read], ONE_CHARACTER):
            at += 1
            read += 1
        elif last >= 0:
            resume += 1
            at, read = last + 1, resume
        else:
            return False
    return not shape[at:].strip(ANYTHING)


def expansions_in(node: Node) -> Iterator[Node]:
    """The outermost expansions of a word."""
    if node.kind in EXPANSIONS:
        yield node
    else:
        for child in node.children:
            yield from expansions_in(child)


def read_word(source: str, nodes: Sequence[Node]) -> Word:
    """The word that these adjacent nodes form. Raises NotUnderstood."""
    if _SPELLED.fullmatch(source, nodes[0].start, nodes[-1].end):
        return literal(source[nodes[0].start : nodes[-1].end])
    expansions = {expansion.start: expansion for node in nodes for expansion in expansions_in(node)}
    return _Reader(source, nodes[0].start, nodes[-1].end, expansions).word()


class _Reader:
    def __init__(self, source: str, start: int, end: int, expansions: Mapping[int, Node]) -> None:
        self._source = source
        self._start = self._at = start
        self._end = end
        self._expansions = expansions
        self._text: list[str] = []
        self._shape: list[str] = []
        self._variables: list[str] = []
        self._runs = self._quoted = self._filled = self._many = self._loose = False
        self._bare = ""  # the unquoted part, to find braces

    def word(self) -> Word:
        source, end = self._source, self._end
        if source[self._start : self._start + 1] == "#":
            raise NotUnderstood("a comment stands where a word was expected")
        while self._at < end:
            character = source[self._at]
            if self._at in self._expansions:
                self._expansion(quoted=False)
            elif character == "'":
                self._single()
            elif character == '"':
                self._double()
            elif character == "$" and source[self._at + 1 : self._at + 2] == "'" and self._at + 1 < end:
                self._ansi()
            elif character == "$" and source[self._at + 1 : self._at + 2] == '"' and self._at + 1 < end:
                self._at += 1
                self._double()
            elif character == "\\":
                self._escape()
            else:
                self._plain(character)
        return self._made()

    def _made(self) -> Word:
        text, shape = unicode("".join(self._text)), "".join(self._shape)
        if _BRACES.search(self._bare):
            before = shape.partition("{")[0]
            shape, self._filled = before + ANYTHING, True
        return Word(
            text,
            unicode(shape),
            not self._filled,
            tuple(self._variables),
            self._runs,
            self._quoted and not self._many,
            unicode(self._source[self._start : self._end]),
        )

    def _add(self, text: str) -> None:
        self._text.append(text)
        if not self._loose:
            self._shape.append(text)

    def _plain(self, character: str) -> None:
        after = self._source[self._at + 1 : self._at + 2] if self._at + 1 < self._end else ""
        if (
            character in METACHARACTERS
            or character == "`"
            or (character == "$" and (after.isalnum() or after in _AFTER_DOLLAR))
        ):
            raise NotUnderstood(f"{character!r} stands in the middle of a word")
        self._bare += character
        self._at += 1
        if character in "*?" or (character == "[" and "]" in self._source[self._at : self._end]):
            self._text.append(character)
            self._fill(ONE_CHARACTER if character == "?" else ANYTHING)
            # The end of a bracket expression depends on its content, so the shape is not followed any further.
            self._loose = self._loose or character == "["
        else:
            self._add(character)

    def _fill(self, shape: str) -> None:
        self._filled = True
        if not self._loose:
            self._shape.append(shape)

    def _escape(self) -> None:
        after = self._source[self._at + 1 : self._at + 2]
        if self._at + 1 >= self._end or after == "\n":
            raise NotUnderstood("a line is continued in the middle of a word")
        self._quoted = True
        self._add(after)
        self._at += 2

    def _single(self) -> None:
        close = self._source.find("'", self._at + 1, self._end)
        if close < 0:
            raise NotUnderstood("a quote does not end")
        self._quoted = True
        self._add(self._source[self._at + 1 : close])
        self._at = close + 1

    def _double(self) -> None:
        source, end = self._source, self._end
        self._quoted = True
        self._at += 1
        while self._at < end:
            character, after = source[self._at], source[self._at + 1 : self._at + 2]
            if self._at in self._expansions:
                self._expansion(quoted=True)
            elif character == '"':
                self._at += 1
                return
            elif character == "\\" and after == "\n":
                self._at += 2
            elif character == "\\" and after and after in '$`"\\':
                self._add(after)
                self._at += 2
            elif character == "`" or (character == "$" and (after.isalnum() or after in _AFTER_DOLLAR)):
                raise NotUnderstood(f"{character!r} in quotes is read in more than one way")
            else:
                self._add(character)
                self._at += 1
        raise NotUnderstood("a quote does not end")

    def _ansi(self) -> None:
        at = self._at + 2
        while at < self._end and self._source[at] != "'":
            at += 2 if self._source[at] == "\\" else 1
        if at >= self._end:
            raise NotUnderstood("a quote does not end")
        self._quoted = True
        self._add(_ESCAPE.sub(_escaped, self._source[self._at + 2 : at]).partition("\0")[0])
        self._at = at + 1

    def _expansion(self, *, quoted: bool) -> None:
        expansion = self._expansions[self._at]
        if expansion.end > self._end:
            raise NotUnderstood("an expansion does not end in its word")
        if expansion.kind in ("simple_expansion", "expansion"):
            names = [_source(self._source, child) for child in _names(expansion)]
            self._variables += names
            self._many = self._many or "@" in self._source[expansion.start : expansion.end]
        else:
            self._runs = self._runs or expansion.kind != "arithmetic_expansion"
            self._many = self._many and quoted
        text = self._source[expansion.start : expansion.end]
        self._at = expansion.end
        if text in _NUMBERS:
            self._add("1")
            return
        if expansion.kind == "process_substitution":
            self._add("/dev/fd/")
        self._text.append(ANYTHING)
        self._fill(ANYTHING)


def _names(node: Node) -> Iterator[Node]:
    if node.kind in ("variable_name", "special_variable_name"):
        yield node
    for child in node.children:
        if child.kind != "command_substitution":
            yield from _names(child)


def _source(source: str, node: Node) -> str:
    return source[node.start : node.end]


def _escaped(found: re.Match[str]) -> str:
    hexadecimal, octal, short, long, control, character = found.groups()
    if hexadecimal:
        return chr(int(hexadecimal, 16))
    if octal:
        return chr(int(octal, 8) & 0xFF)
    if short or long:
        number = int(short or long, 16)
        text = chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else ANYTHING
        return text.encode().decode("latin-1")
    if control:
        return chr(ord(control) & 0x1F)
    if character == "x" and found.string.startswith("{", found.end()):
        raise NotUnderstood("an escape sequence is not understood")
    return _LETTERS.get(character) or (character if character in "\\'\"?" else f"\\{character}")
