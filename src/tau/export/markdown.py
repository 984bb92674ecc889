"""Markdown to HTML.

pyromark (pulldown-cmark) parses; its events are written as HTML here. Raw HTML in the text is shown as text: people who
talk about code mean it that way. An image becomes a link, because the page loads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tau.export.code import Highlighter
from tau.export.safe import SCHEMES, sanitize
from tau.export.text import esc, escape_text, valid_text

if TYPE_CHECKING:
    from pyromark import Markdown

# Hostile text can make the parser slow, so long texts are parsed in pieces. A piece that is still too long is not
# prose and is shown as plain text.
PIECE_CHARACTERS = 8_000
MAX_PIECE_CHARACTERS = 20_000

# A text without any of these consists of plain paragraphs.
_MARKUP = re.compile(r"[`*_\[\]<>~\\|&]|^[ \t]*(?:[-+#=]|\d{1,9}[.)])|^[ \t]|[ \t]$", re.MULTILINE)
_PARAGRAPH = re.compile(r"\n{2,}")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_URL_CHARACTERS = ";/?:@&=+$,-_.!~*'()#%"
_SCHEME = re.compile(r"[^/?#]*?:")

MAX_NESTING = 50  # levels; a text that is nested more deeply is shown as plain text

# Where the HTML that the parser itself writes is not used: links, code blocks, tables, and what is written differently.
_UNCOMMON = re.compile(r"<(?!/?(?:p|h[1-6]|blockquote|ul|ol|li|em|strong|code)>)|<li>\n<p>")
_NESTED_TAGS = ("<blockquote>", "<li>", "<em>", "<strong>")
MAX_NESTED_TAGS = 20  # with so many of them, even all in one another, a text is not nested too deeply


def render_markdown(text: str, code: Highlighter, *, breaks: bool = False) -> str:
    """Convert `text` to HTML. With `breaks`, line breaks are kept, as people who type a message expect."""
    text = valid_text(text).strip("\n")
    return "\n".join(_part(part, code, breaks) for part in _parts(text))


def _parts(text: str) -> Iterator[str]:
    """Split the text before paragraphs that are not part of a preceding block."""
    if len(text) <= MAX_PIECE_CHARACTERS:
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


def _part(text: str, code: Highlighter, breaks: bool) -> str:
    if len(text) > MAX_PIECE_CHARACTERS:
        return f'<p class="plain">{esc(text)}</p>'
    if not _MARKUP.search(text):
        paragraphs = [escape(part) for part in _PARAGRAPH.split(text) if part]
        return "\n".join(f"<p>{part.replace(chr(10), '<br>') if breaks else part}</p>" for part in paragraphs)
    try:
        html = (None if breaks else _common_html(text)) or _Writer(code, breaks).html(_parser().events(text))
        return sanitize(valid_text(html))
    except _TooDeep:
        return f'<p class="plain">{esc(text)}</p>'


def _common_html(text: str) -> str | None:
    """The HTML of a text with common markup only, in a third of the time. None if there is other markup."""
    if "<" in text:
        return None  # raw HTML, which we show as text
    html = _parser().html(text)
    if _UNCOMMON.search(html) or sum(map(html.count, _NESTED_TAGS)) > MAX_NESTED_TAGS:
        return None
    return html


@cache
def _parser() -> Markdown:
    from pyromark import Markdown, Options

    return Markdown(options=Options.ENABLE_TABLES | Options.ENABLE_STRIKETHROUGH | Options.ENABLE_TASKLISTS)


def _normalized(url: str) -> str:
    """Encode the characters that a URL cannot contain, among them those that browsers ignore, such as tabs."""
    return quote(url, safe=_URL_CHARACTERS, errors="replace")


def _allowed(url: str) -> bool:
    """True if a URL is shown as a link. safe.py removes the targets of relative links and embedded images."""
    scheme = _SCHEME.match(url)
    return scheme is None or scheme[0][:-1].lower() in SCHEMES or url.startswith("data:image/")


class _TooDeep(Exception):
    """A text is nested more deeply than MAX_NESTING."""


# Tags without attributes: the HTML at their start and at their end.
_TAGS = {
    "Paragraph": ("<p>", "</p>\n"),
    "HtmlBlock": ("<p>", "</p>\n"),
    "BlockQuote": ("<blockquote>\n", "</blockquote>\n"),
    "Item": ("<li>", "</li>\n"),
    "TableHead": ("<thead>\n<tr>\n", "</tr>\n</thead>\n<tbody>\n"),
    "TableRow": ("<tr>\n", "</tr>\n"),
    "Emphasis": ("<em>", "</em>"),
    "Strong": ("<strong>", "</strong>"),
    "Strikethrough": ("<s>", "</s>"),
}
_BLOCKS = frozenset({"Paragraph", "HtmlBlock", "BlockQuote", "List", "CodeBlock", "Heading", "Table"})
_ALIGNMENTS = {"Right": ' class="right"', "Center": ' class="center"'}


def _element(element: Any) -> tuple[str, Any]:
    """The name and the properties of an element."""
    if isinstance(element, str):
        return element, None
    [(name, value)] = element.items()
    return name, value


class _Writer:
    """Writes the events of one text as HTML.

    An event is the name of what has no content, or a dictionary with one item: its name and its content. `Start` and
    `End` contain such a value again, the name of an element and its properties.
    """

    def __init__(self, code: Highlighter, breaks: bool) -> None:
        self._code = code
        self._out: list[str] = []
        self._single = {"SoftBreak": "<br>\n" if breaks else "\n", "HardBreak": "<br>\n", "Rule": "<hr>\n"}
        self._depth = 0
        self._ends: list[str] = []  # of open links, which may be shown as text
        self._language: str | None = None  # of the open code block
        self._code_start = 0  # its place in the output
        self._images: list[tuple[int, str]] = []  # start in the output and address of open images
        self._alignments: tuple[str, ...] = ()
        self._column = 0
        self._cell = "td"

    def html(self, events: Iterable[Any]) -> str:
        out, single = self._out, self._single
        for event in events:
            if isinstance(event, str):
                out.append(single.get(event, ""))
                continue
            if (value := event.get("Text")) is not None:
                out.append(value if self._language is not None else escape_text(value))
                continue
            [(name, value)] = event.items()
            if name == "Start":
                self._start(value)
            elif name == "End":
                self._end(value)
            elif name == "Code":
                out.append(f"<code>{escape_text(value)}</code>")
            elif name == "TaskListMarker":
                self._mark_task(value)
            else:  # Html, InlineHtml: shown as text
                out.append(escape_text(value))
        return "".join(out)

    def _start(self, element: Any) -> None:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise _TooDeep
        name, value = _element(element)
        out = self._out
        if name in _BLOCKS and out and out[-1][-1:] != "\n" and name != "Paragraph" and not self._images:
            out.append("\n")
        if name in _TAGS:
            out.append(_TAGS[name][0])
            if name == "TableHead":
                self._cell, self._column = "th", 0
            elif name == "TableRow":
                self._column = 0
        elif name == "Heading":
            out.append(f"<{value['level'].lower()}>")
        elif name == "List":
            out.append("<ul>\n" if value is None else "<ol>\n" if value == 1 else f'<ol start="{value}">\n')
        elif name == "CodeBlock":
            words = value["Fenced"].split(maxsplit=1) if isinstance(value, dict) else []
            self._language, self._code_start = (words[0] if words else ""), len(out)
        elif name == "Link":
            self._start_link(value)
        elif name == "Image":
            self._images.append((len(out), _normalized(value["dest_url"])))
        elif name == "Table":
            self._alignments = value
            out.append("<table>\n")
        elif name == "TableCell":
            side = self._alignments[self._column] if self._column < len(self._alignments) else ""
            out.append(f"<{self._cell}{_ALIGNMENTS.get(side, '')}>")
            self._column += 1

    def _end(self, element: Any) -> None:
        self._depth -= 1
        name, value = _element(element)
        out = self._out
        if name in _TAGS:
            if name == "HtmlBlock" and out[-1].endswith("\n"):
                out[-1] = out[-1][:-1]
            out.append(_TAGS[name][1])
            if name == "TableHead":
                self._cell = "td"
        elif name == "Heading":
            out.append(f"</{value.lower()}>\n")
        elif name == "List":
            out.append("</ol>\n" if value else "</ul>\n")
        elif name == "CodeBlock":
            text = "".join(out[self._code_start :]).removesuffix("\n")
            lines = self._code.lines(text, self._language or "")
            out[self._code_start :] = [f"<pre><code>{chr(10).join(lines)}</code></pre>\n"]
            self._language = None
        elif name == "Link":
            out.append(self._ends.pop())
        elif name == "Image":
            self._end_image()
        elif name == "Table":
            out.append("</tbody>\n</table>\n")
        elif name == "TableCell":
            out.append(f"</{self._cell}>\n")

    def _start_link(self, link: Any) -> None:
        """A link with a scheme that is not allowed is shown as it was written."""
        url, title = _normalized(link["dest_url"]), link["title"]
        if link["link_type"] == "Email":
            url = f"mailto:{url}"
        if _allowed(url):
            self._out.append(f'<a href="{escape(url)}"' + (f' title="{escape(title)}">' if title else ">"))
            self._ends.append("</a>")
        elif link["link_type"] == "Autolink":
            self._out.append("&lt;")
            self._ends.append("&gt;")
        else:
            self._out.append("[")
            self._ends.append(f"]({escape(url)})")

    def _end_image(self) -> None:
        start, url = self._images.pop()
        text = _TAG.sub("", "".join(self._out[start:]))
        if _allowed(url):
            html = f'<a class="picture" href="{escape(url)}">{text or "picture"}</a>'
        else:
            html = f"![{text}]({escape(url)})"
        self._out[start:] = [html]

    def _mark_task(self, done: bool) -> None:
        """Turn `- [x] done` into a checkbox. The item has just started."""
        out = self._out
        item = next(at for at in range(len(out) - 1, -1, -1) if out[at] == "<li>")
        out[item] = '<li class="task">'
        out.append("☑ " if done else "☐ ")


_TAG = re.compile(r"<[^>]*>")
