"""Markdown blocks as lines."""

from __future__ import annotations

from collections.abc import Sequence

from tau.core.text.markup import (
    Block,
    CodeBlock,
    Heading,
    Inlines,
    ListBlock,
    ListItem,
    Paragraph,
    Quote,
    Rule,
    Table,
)
from tau.screen.cells import clip_line
from tau.screen.code import code_rows
from tau.screen.lines import Line, Span
from tau.screen.look import Look, wrap
from tau.screen.tables import table_lines

MAX_RULE_COLUMNS = 80
MIN_TEXT_COLUMNS = 6  # text is not indented further if less is left for it
LINK_SCHEMES = ("http://", "https://", "mailto:")


def block_lines(blocks: Sequence[Block], look: Look, style: str = "", *, tight: bool = False) -> list[Line]:
    """The rows of blocks, with an empty row between two; `tight` leaves it out around lists and code."""
    rows: list[Line] = []
    for number, block in enumerate(blocks):
        if number and not (tight and isinstance(block, ListBlock | CodeBlock)):
            rows.append(())
        rows += _block(block, look, style)
    return rows


def _block(block: Block, look: Look, style: str) -> list[Line]:
    match block:
        case Paragraph(content=content):
            return text_rows(content, look, style)
        case Heading(level=level, content=content):
            return _heading(level, content, look)
        case CodeBlock(info=info, text=text, fenced=fenced):
            rows = code_rows(text, info, look)
            return [clip_line(_fence(info), look.width), *rows, _fence()] if fenced and not look.plain else rows
        case Quote(blocks=blocks):
            if not look.plain and look.width < MIN_TEXT_COLUMNS:
                return block_lines(blocks, look, merge(style, "mdQuote italic"))
            inside = block_lines(blocks, look.narrower(2), merge(style, "mdQuote italic"))
            return prefixed(inside, (Span("> " if look.plain else "│ ", "mdQuoteBorder"),))
        case ListBlock(start=start, items=items):
            return _list(start, items, look, style)
        case Table():
            return table_lines(block, look, lambda content: inline_lines(content, look, style))
        case Rule():
            return [(Span("---" if look.plain else "─" * min(look.width, MAX_RULE_COLUMNS), "mdHr"),)]


def _fence(info: str = "") -> Line:
    return (Span(f"```{info}", "mdCodeBlockBorder"),)


def _heading(level: int, content: Inlines, look: Look) -> list[Line]:
    style = "mdHeading bold underline" if level == 1 else "mdHeading bold"
    if look.plain or (level > 2 and look.width > 2 * MIN_TEXT_COLUMNS):
        rows = text_rows(content, look.narrower(level + 1), style)
        return prefixed(rows, (Span("#" * level + " ", style),), (Span(" " * (level + 1)),))
    return text_rows(content, look, style)


def _list(start: int | None, items: Sequence[ListItem], look: Look, style: str) -> list[Line]:
    rows: list[Line] = []
    for number, item in enumerate(items):
        marker = "- " if start is None else f"{start + number}. "
        first: Line = (Span(marker, "mdListBullet"),)
        if item.checked is not None:
            first += (Span("[x] " if item.checked else "[ ] ", "mdListBullet"),)
        columns = sum(len(span.text) for span in first)
        if not look.plain and look.width - columns < MIN_TEXT_COLUMNS:  # the text stands below its marker
            rows += [clip_line(first, look.width), *block_lines(item.blocks, look, style, tight=True)]
            continue
        inside = block_lines(item.blocks, look.narrower(columns), style, tight=True)
        rows += prefixed(inside or [()], first, (Span(" " * len(marker)),))
    return rows


def prefixed(rows: Sequence[Line], first: Line, others: Line | None = None) -> list[Line]:
    """Rows with a prefix: that of the first row, and that of all others (the same if None)."""
    rest = first if others is None else others
    return [(first if not number else rest) + row if row or rest is first else row for number, row in enumerate(rows)]


def text_rows(content: Inlines, look: Look, style: str = "") -> list[Line]:
    """The lines of a paragraph, wrapped."""
    return [row for line in inline_lines(content, look, style) for row in wrap(line, look.width)]


def inline_lines(content: Inlines, look: Look, style: str = "") -> list[Line]:
    """The lines of a paragraph, as they were written."""
    lines: list[Line] = []
    spans: list[Span] = []
    for number, piece in enumerate(content):
        if piece.text == "\n":
            lines.append(tuple(spans))
            spans = []
            continue
        link = piece.url if piece.url.startswith(LINK_SCHEMES) and piece.url.isprintable() else ""
        text = piece.text.replace("\n", " ")
        spans.append(Span(text, _style(style, piece.marks, bool(piece.url)), link))
        ends = number + 1 == len(content) or content[number + 1].url != piece.url
        if piece.url and ends and not (look.hyperlinks and link) and piece.url.removeprefix("mailto:") != text:
            spans.append(Span(f" ({_address(piece.url)})", "mdLinkUrl", link))
    lines.append(tuple(spans))
    return lines


def _address(url: str) -> str:
    return "".join(character if character.isprintable() else "�" for character in url)


def _style(base: str, marks: str, is_link: bool) -> str:
    if not marks and not is_link:
        return base
    words = [word for word in marks.split() if word != "code"]
    if "code" in marks:
        words.append("mdCode")
    elif is_link:
        words += ["mdLink", "underline"]
    return merge(base, " ".join(dict.fromkeys(words)))


ROLE_FREE = frozenset({"bold", "dim", "italic", "underline", "strike", "inverse"})


def merge(base: str, style: str) -> str:
    """The words of both styles; a role of `style` replaces that of `base`."""
    if not base or not style:
        return style or base
    words = style.split()
    if any(_is_role(word) for word in words):
        words = [word for word in base.split() if not _is_role(word)] + words
    else:
        words = base.split() + words
    return " ".join(dict.fromkeys(words))


def _is_role(word: str) -> bool:
    return word not in ROLE_FREE and not word.startswith(("bg:", "bg="))
