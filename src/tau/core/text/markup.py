"""Markdown as values: blocks and styled pieces of text. The terminal shows them, and the HTML export.

pyromark (pulldown-cmark) parses; it is loaded by the first text that contains markup. Raw HTML is text. The caller
passes texts of a few thousand characters: hostile text can make the parser slow (MAX_CHARACTERS).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyromark import Markdown

MAX_CHARACTERS = 20_000  # a longer text is shown as it is
MAX_NESTING = 50  # levels; a text that is nested more deeply is shown as it is


class Inline(NamedTuple):
    """A piece of text. `marks` are words: bold, italic, strike, code.

    A line break is the text "\\n"; it has the mark "hard" if it is more than the end of a line in the source.
    """

    text: str
    marks: str = ""
    url: str = ""


Inlines = tuple[Inline, ...]
SOFT_BREAK, HARD_BREAK = Inline("\n"), Inline("\n", "hard")


class Paragraph(NamedTuple):
    content: Inlines


class Heading(NamedTuple):
    level: int
    content: Inlines


class CodeBlock(NamedTuple):
    info: str  # what follows the fence: the language, perhaps more
    text: str  # without the last line feed
    fenced: bool = True


class Quote(NamedTuple):
    blocks: tuple[Block, ...]


class ListItem(NamedTuple):
    checked: bool | None  # None: the item is not a task
    blocks: tuple[Block, ...]


class ListBlock(NamedTuple):
    start: int | None  # None: the list is not numbered
    items: tuple[ListItem, ...]


class Table(NamedTuple):
    alignments: tuple[str, ...]  # "", "left", "center", "right"
    head: tuple[Inlines, ...]
    rows: tuple[tuple[Inlines, ...], ...]


class Rule(NamedTuple):
    pass


Block = Paragraph | Heading | CodeBlock | Quote | ListBlock | Table | Rule

# A text without any of these consists of plain paragraphs.
_MARKUP = re.compile(r"[`*_\[\]<>~\\|&]|^[ \t]*(?:[-+#=]|\d{1,9}[.)])|^ {4}|^ *\t| {2}$", re.MULTILINE)
# A link reference definition. It is shown, because the references to it are not resolved.
_DEFINITION = re.compile(r"(?<![^\n])\[[^\]\n]+\]:", re.MULTILINE)
_CODE = re.compile(r"^ *(?:```|~~~)|^ {4}", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")


def parse_markdown(text: str, *, references: bool = False) -> tuple[Block, ...]:
    """The blocks of a text. Line breaks inside a paragraph are kept; link references are resolved on request."""
    text = text.strip("\n")
    if len(text) > MAX_CHARACTERS:
        return (CodeBlock("", text, fenced=False),)
    if not _MARKUP.search(text):
        return tuple(Paragraph(_plain(part)) for part in _BLANK_LINES.split(text) if part.strip())
    if not references and _DEFINITION.search(text) and not _CODE.search(text):
        text = _DEFINITION.sub(r"\\\g<0>", text)
    try:
        return _Reader().read(_parser().events(text))
    except _TooDeep:
        return (CodeBlock("", text, fenced=False),)


def _plain(text: str) -> Inlines:
    first, *others = [line.strip() for line in text.split("\n")]
    pieces = [Inline(first)] if first else []
    for line in others:
        pieces.append(SOFT_BREAK)
        if line:
            pieces.append(Inline(line))
    return tuple(pieces)


@cache
def _parser() -> Markdown:
    from pyromark import Markdown, Options

    return Markdown(options=Options.ENABLE_TABLES | Options.ENABLE_STRIKETHROUGH | Options.ENABLE_TASKLISTS)


class _TooDeep(Exception):
    """A text is nested more deeply than MAX_NESTING."""


class _Open:
    """An open element: its name, its properties, the inline pieces and the blocks inside it so far."""

    __slots__ = ("blocks", "checked", "items", "name", "pieces", "value")

    def __init__(self, name: str, value: Any = None) -> None:
        self.name = name
        self.value = value
        self.pieces: list[Inline] = []
        self.blocks: list[Block] = []
        self.items: list[Any] = []  # of a list, a row or a table
        self.checked: bool | None = None

    def close_text(self) -> None:
        """Text directly in an item or a quote is a paragraph."""
        if self.pieces:
            self.blocks.append(Paragraph(tuple(self.pieces)))
            self.pieces = []


_MARKS = {"Emphasis": "italic", "Strong": "bold", "Strikethrough": "strike"}
_CONTAINERS = frozenset({"Document", "Item", "BlockQuote"})
_ALIGNMENTS = {"None": "", "Left": "left", "Center": "center", "Right": "right"}


class _Reader:
    """Builds blocks from the events of one text."""

    def __init__(self) -> None:
        self._stack = [_Open("Document")]
        self._marks: list[str] = []
        self._urls: list[str] = []

    def read(self, events: Iterable[Any]) -> tuple[Block, ...]:
        for event in events:
            if isinstance(event, str):
                if event == "Rule":
                    self._add_block(Rule())
                else:
                    self._stack[-1].pieces.append(HARD_BREAK if event == "HardBreak" else SOFT_BREAK)
                continue
            [(name, value)] = event.items()
            if name == "Start":
                self._start(*_element(value))
            elif name == "End":
                self._end(_element(value)[0])
            elif name == "TaskListMarker":
                next(opened for opened in reversed(self._stack) if opened.name == "Item").checked = value
            else:  # Text, Code, Html, InlineHtml
                self._add_text(value, name)
        document = self._stack[0]
        document.close_text()
        return tuple(document.blocks)

    def _add_text(self, text: str, kind: str) -> None:
        opened = self._stack[-1]
        if opened.name in ("CodeBlock", "HtmlBlock"):
            opened.items.append(text)
            return
        marks = " ".join([*self._marks, "code"] if kind == "Code" else self._marks)
        opened.pieces.append(Inline(text, marks, self._urls[-1] if self._urls else ""))

    def _start(self, name: str, value: Any) -> None:
        if len(self._stack) + len(self._marks) > MAX_NESTING:
            raise _TooDeep
        if name in _MARKS:
            self._marks.append(_MARKS[name])
        elif name in ("Link", "Image"):
            self._urls.append(("mailto:" if value["link_type"] == "Email" else "") + value["dest_url"])
        else:
            if self._stack[-1].name in _CONTAINERS:
                self._stack[-1].close_text()
            self._stack.append(_Open(name, value))

    def _end(self, name: str) -> None:
        if name in _MARKS:
            self._marks.pop()
        elif name in ("Link", "Image"):
            url = self._urls.pop()
            pieces = self._stack[-1].pieces
            if name == "Image" and (not pieces or pieces[-1].url != url):
                pieces.append(Inline("picture", url=url))
        else:
            self._close(self._stack.pop())

    def _close(self, opened: _Open) -> None:
        pieces = tuple(opened.pieces)
        parent = self._stack[-1]
        match opened.name:
            case "Paragraph":
                self._add_block(Paragraph(pieces))
            case "Heading":
                self._add_block(Heading(int(opened.value["level"][1]), pieces))
            case "CodeBlock":
                fenced = isinstance(opened.value, dict)
                text = "".join(opened.items).removesuffix("\n")
                self._add_block(CodeBlock(opened.value["Fenced"] if fenced else "", text, fenced))
            case "HtmlBlock":
                self._add_block(Paragraph(_plain("".join(opened.items).strip("\n"))))
            case "BlockQuote":
                opened.close_text()
                self._add_block(Quote(tuple(opened.blocks)))
            case "Item":
                opened.close_text()
                parent.items.append(ListItem(opened.checked, tuple(opened.blocks)))
            case "List":
                self._add_block(ListBlock(opened.value, tuple(opened.items)))
            case "TableCell":
                parent.items.append(pieces)
            case "TableHead" | "TableRow":
                parent.items.append(tuple(opened.items))
            case "Table":
                head, *rows = opened.items or [()]
                self._add_block(Table(tuple(_ALIGNMENTS.get(side, "") for side in opened.value), head, tuple(rows)))

    def _add_block(self, block: Block) -> None:
        self._stack[-1].blocks.append(block)


def _element(element: Any) -> tuple[str, Any]:
    """The name and the properties of an element."""
    if isinstance(element, str):
        return element, None
    [(name, value)] = element.items()
    return name, value
