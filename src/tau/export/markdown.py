"""Markdown to HTML: the blocks that the terminal shows, too, written as tags.

Raw HTML in the text is shown as text: people who talk about code mean it that way. An image becomes a link, because the
page loads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from operator import attrgetter
from urllib.parse import quote

from tau.core.text.highlight import language_of_fence
from tau.core.text.markup import (
    MAX_CHARACTERS,
    Block,
    CodeBlock,
    Heading,
    Inline,
    Inlines,
    ListBlock,
    ListItem,
    Paragraph,
    Quote,
    Rule,
    Table,
    parse_markdown,
)
from tau.export.code import HtmlCode
from tau.export.safe import SCHEMES, sanitize
from tau.export.text import escape_text, valid_text

PIECE_CHARACTERS = 8_000  # a text that is too long for the parser is read in such pieces

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_URL_CHARACTERS = ";/?:@&=+$,-_.!~*'()#%"
_SCHEME = re.compile(r"[^/?#]*?:")
_TAGS = {"bold": "strong", "italic": "em", "strike": "s", "code": "code"}


def render_markdown(text: str, code: HtmlCode, *, breaks: bool = False) -> str:
    """Convert `text` to HTML. With `breaks`, line breaks are kept, as people who type a message expect."""
    writer = _Writer(code, breaks)
    parts = _parts(valid_text(text).strip("\n"))
    html = "\n".join(writer.blocks(parse_markdown(part, references=True)) for part in parts)
    return sanitize(valid_text(html))


def _parts(text: str) -> Iterator[str]:
    """Split the text before paragraphs that are not part of a preceding block."""
    if len(text) <= MAX_CHARACTERS:
        yield text
        return
    start = position = 0
    fence = ""
    for line in text.splitlines(keepends=True):
        if (
            not fence
            and position - start > PIECE_CHARACTERS
            and text[position - 2 : position] == "\n\n"
            and line[0] not in " \t"
        ):
            yield text[start:position]
            start = position
        if mark := _FENCE.match(line):
            fence = "" if fence and mark[1].startswith(fence) else fence or mark[1]
        position += len(line)
    yield text[start:]


class _Writer:
    def __init__(self, code: HtmlCode, breaks: bool) -> None:
        self._code = code
        self._soft_break = "<br>\n" if breaks else "\n"

    def blocks(self, blocks: Sequence[Block]) -> str:
        return "\n".join([self._block(block) for block in blocks])

    def _block(self, block: Block) -> str:
        match block:
            case Paragraph(content=content):
                return f"<p>{self._inlines(content)}</p>"
            case Heading(level=level, content=content):
                return f"<h{level}>{self._inlines(content)}</h{level}>"
            case CodeBlock(info=info, text=text):
                lines = "\n".join(self._code.lines(text, language_of_fence(info)))
                return f"<pre><code>{lines}</code></pre>"
            case Quote(blocks=blocks):
                return f"<blockquote>\n{self.blocks(blocks)}\n</blockquote>"
            case ListBlock(start=start, items=items):
                name = "ul" if start is None else "ol"
                head = "ul" if start is None else "ol" if start == 1 else f'ol start="{start}"'
                return "\n".join([f"<{head}>", *map(self._item, items), f"</{name}>"])
            case Table():
                return self._table(block)
            case Rule():
                return "<hr>"

    def _item(self, item: ListItem) -> str:
        """Its first paragraph is not a block of its own, whether there are empty lines between the items or not."""
        blocks = item.blocks
        html = ""
        if blocks and isinstance(blocks[0], Paragraph):
            html, blocks = self._inlines(blocks[0].content), blocks[1:]
        if blocks:
            html += f"\n{self.blocks(blocks)}\n"
        if item.checked is None:
            return f"<li>{html}</li>"
        return f'<li class="task">{"☑" if item.checked else "☐"} {html}</li>'

    def _table(self, table: Table) -> str:
        sides = [f' class="{side}"' if side in ("right", "center") else "" for side in table.alignments]

        def row(cells: Sequence[Inlines], name: str) -> str:
            found = zip(sides, cells, strict=False)
            return "".join(
                ["<tr>", *[f"<{name}{side}>{self._inlines(cell)}</{name}>" for side, cell in found], "</tr>"]
            )

        body = [row(cells, "td") for cells in table.rows]
        return "\n".join(
            ["<table>", "<thead>", row(table.head, "th"), "</thead>", "<tbody>", *body, "</tbody>", "</table>"]
        )

    def _inlines(self, content: Inlines) -> str:
        out: list[str] = []
        for url, pieces in groupby(content, attrgetter("url")):
            html = "".join([self._inline(piece) for piece in pieces])
            out.append(_link(url, html) if url else html)
        return "".join(out)

    def _inline(self, piece: Inline) -> str:
        if piece.text == "\n":
            return "<br>\n" if piece.marks else self._soft_break
        html = escape_text(piece.text)
        for mark in reversed(piece.marks.split()):
            html = f"<{_TAGS[mark]}>{html}</{_TAGS[mark]}>"
        return html


def _link(url: str, html: str) -> str:
    """A link with a scheme that is not allowed is shown as it was written.

    safe.py removes the targets of relative links and embedded images. Characters that a URL cannot contain are encoded,
    among them those that browsers ignore, such as tabs.
    """
    url = quote(url, safe=_URL_CHARACTERS, errors="replace")
    scheme = _SCHEME.match(url)
    if scheme is None or scheme[0][:-1].lower() in SCHEMES or url.startswith("data:image/"):
        return f'<a href="{escape(url)}">{html}</a>'
    return f"[{html}]({escape(url)})"
