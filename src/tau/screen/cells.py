"""Text cells: display width and grapheme clusters. ASCII needs no table; wcwidth is loaded for other text."""

from __future__ import annotations


def text_width(text: str) -> int:
    if text.isascii():
        return len(text)
    import wcwidth

    return wcwidth.width(text)


def graphemes(text: str) -> list[str]:
    if text.isascii():
        return list(text)
    import wcwidth

    return list(wcwidth.iter_graphemes(text))
