"""Strict reader of command lines: for rules that allow.

The loose reader, for rules that deny or ask, is in lines.py.
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
    for character in text:
        if quote:
            if character == quote:
                quote = ""
            elif character == "\\" or (quote == '"' and character in "$`"):
                return None
            else:
                word = (word or "") + character
        elif character in " \t":
            if word is not None:
                words.append(word)
            word = None
        elif character in "'\"":
            quote, word = character, word or ""
        elif character in "\\;&|()<>`$" or not character.isprintable() or (character == "#" and word is None):
            return None
        else:
            word = (word or "") + character
    if quote:
        return None
    if word is not None:
        words.append(word)
    return None if not words or _ASSIGNMENT.match(words[0]) else words
