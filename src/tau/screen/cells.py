"""Widths of text in terminal cells, and wrapping and clipping of lines."""

from __future__ import annotations

import re

from tau.screen.lines import Line, Span


def text_width(text: str) -> int:
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    width = wcswidth(text)
    return width if width >= 0 else len(text)


def line_width(line: Line) -> int:
    return sum(text_width(span.text) for span in line)


def graphemes(text: str) -> list[str]:
    if text.isascii():
        return list(text)
    from wcwidth import iter_graphemes

    return list(iter_graphemes(text))


def clip_line(line: Line, width: int, ellipsis: str = "…") -> Line:
    if line_width(line) <= width:
        return line
    room = max(width - text_width(ellipsis), 0)
    out: list[Span] = []
    for span in line:
        kept = ""
        for cluster in graphemes(span.text):
            if (cells := text_width(cluster)) > room:
                out.append(span._replace(text=kept + ellipsis))
                return tuple(out)
            kept += cluster
            room -= cells
        out.append(span)
    return tuple(out)


_WORDS = re.compile(r" +|[^ ]+")


def wrap_line(line: Line, width: int, indent: str = "") -> list[Line]:
    if width <= 0 or line_width(line) <= width:
        return [line]
    lines: list[Line] = []
    row: list[Span] = []
    used = 0
    word: list[Span] = []
    word_width = 0

    def end_row() -> None:
        nonlocal row, used
        while row and not row[-1].text.strip(" "):
            row.pop()
        if row:
            row[-1] = row[-1]._replace(text=row[-1].text.rstrip(" "))
        lines.append(tuple(row))
        row, used = ([Span(indent)], text_width(indent)) if indent else ([], 0)

    def place_word() -> None:
        nonlocal used, word, word_width
        if used + word_width > width and used > len(indent):
            end_row()
        for span in word:
            for cluster in graphemes(span.text):
                cells = text_width(cluster)
                if used + cells > width and used > len(indent):
                    end_row()
                if row and row[-1].style == span.style and row[-1].link == span.link and used:
                    row[-1] = row[-1]._replace(text=row[-1].text + cluster)
                else:
                    row.append(span._replace(text=cluster))
                used += cells
        word, word_width = [], 0

    for span in line:
        for part in _WORDS.findall(span.text):
            if part[0] == " ":
                place_word()
                if used or not lines:
                    row.append(span._replace(text=part))
                    used += len(part)
            else:
                word.append(span._replace(text=part))
                word_width += text_width(part)
    place_word()
    if row:
        end_row()
    return lines
