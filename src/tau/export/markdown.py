"""Markdown to HTML. The only module that imports markdown-it.

Raw HTML in the text is shown as text: people who talk about code mean it that way. An image becomes a link, because
the page loads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from tau.export.code import Highlighter
from tau.export.safe import SCHEMES, sanitize
from tau.export.text import esc, valid_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

# Hostile text can make the parser slow, so long texts are parsed in pieces. A piece that is still too long is not
# prose and is shown as plain text.
PIECE_CHARACTERS = 8_000
MAX_PIECE_CHARACTERS = 20_000

# A text without any of these consists of plain paragraphs.
_MARKUP = re.compile(r"[`*_\[\]<>~\\|&]|^[ \t]*(?:[-+#=]|\d{1,9}[.)])|^[ \t]|[ \t]$", re.MULTILINE)
_PARAGRAPH = re.compile(r"\n{2,}")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_SCHEME = re.compile(r"[^/?#]*?:")
_TASK = re.compile(r"\[([ xX])\]\s")


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
        paragraphs = [esc(part) for part in _PARAGRAPH.split(text) if part]
        return "\n".join(f"<p>{part.replace(chr(10), '<br>') if breaks else part}</p>" for part in paragraphs)
    return sanitize(_parser(breaks).render(text, {"code": code}))


@cache
def _parser(breaks: bool) -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "breaks": breaks}).enable(["table", "strikethrough"])
    parser.validateLink = _allowed  # type: ignore[method-assign]
    parser.core.ruler.push("tasks", _mark_tasks)
    for name, rule in _RULES.items():
        parser.add_render_rule(name, rule)
    return parser


def _allowed(url: str) -> bool:
    """True if a URL is parsed as a link. safe.py removes the targets of relative links and embedded images."""
    scheme = _SCHEME.match(url)
    return scheme is None or scheme[0][:-1].lower() in SCHEMES or url.startswith("data:image/")


def _mark_tasks(state: Any) -> None:
    """Turn `- [x] done` into a checkbox. An item's text is the third token: list_item_open, paragraph_open, inline."""
    for index in range(2, len(state.tokens)):
        token = state.tokens[index]
        if token.type == "inline" and state.tokens[index - 2].type == "list_item_open" and _TASK.match(token.content):
            first = token.children[0]
            if first.type == "text" and (mark := _TASK.match(first.content)):
                first.content = ("☐ " if mark[1] == " " else "☑ ") + first.content[mark.end() :]
                state.tokens[index - 2].attrJoin("class", "task")


def _fence(self: Any, tokens: Sequence[Token], index: int, options: Any, env: MutableMapping[str, Any]) -> str:
    token = tokens[index]
    words = token.info.split(maxsplit=1)
    lines = env["code"].lines(token.content.removesuffix("\n"), words[0] if words else "")
    return f"<pre><code>{chr(10).join(lines)}</code></pre>\n"


def _image(self: Any, tokens: Sequence[Token], index: int, options: Any, env: MutableMapping[str, Any]) -> str:
    token = tokens[index]
    url = str(token.attrs.get("src", ""))
    return f'<a class="picture" href="{esc(url)}">{esc(token.content or "picture")}</a>'


def _cell(self: Any, tokens: Sequence[Token], index: int, options: Any, env: MutableMapping[str, Any]) -> str:
    token = tokens[index]
    side = str(token.attrs.get("style", "")).rpartition(":")[2]
    return f'<{token.tag} class="{side}">' if side in ("right", "center") else f"<{token.tag}>"


_RULES = {"fence": _fence, "code_block": _fence, "image": _image, "th_open": _cell, "td_open": _cell}
