"""Strict reader of command lines: for rules that allow.

The generous reader, for rules that deny or ask, is in lines.py.
"""

from __future__ import annotations

import re

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=")


def plain(text: str) -> list[str] | None:
    """Return the words of a line that is one simple command and cannot start another one; otherwise None.

    Quotes are understood, also around newlines. A backslash is rejected, since shells disagree about it.
    """
    words: list[str] = []
    word: str | None = None
    quote = ""
    for letter in text:
        if quote:
            if letter == quote:
                quote = ""
            elif letter == "\\" or (quote == '"' and letter in "$`"):
                return None
            else:
                word = (word or "") + letter
        elif letter in " \t":
            if word is not None:
                words.append(word)
            word = None
        elif letter in "'\"":
            quote, word = letter, word or ""
        elif letter in "\\;&|()<>`$" or not letter.isprintable() or (letter == "#" and word is None):
            return None
        else:
            word = (word or "") + letter
    if quote:
        return None
    if word is not None:
        words.append(word)
    return None if not words or _ASSIGNMENT.match(words[0]) else words
