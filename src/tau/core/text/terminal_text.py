"""Text of terminal programs: remove escape sequences, escape invisible characters.

The result does not depend on how the text was split into chunks: an unfinished sequence is held back, and of a long
one (a title, an inline image) only the beginning, so that memory stays small.

A title or image ends at its terminator or at the end of the line. Terminals wait longer, but here a stray ESC must
not swallow the rest of the output.
"""

from __future__ import annotations

import re

_CONTROL_SEQUENCE = r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}"
# Terminators (BEL, ESC \ and others) are not part of the match: they are removed as control characters or sequences.
_STRING = r"(?P<string>\x1b[\]PX^_])[^\x00-\x08\x0a-\x1f\x80-\x9f]*"
_SHORT = r"\x1b[ -/]{0,8}"

# Not compiled at import: most processes never see terminal text. `re` caches compiled patterns.
_SEQUENCE = f"{_CONTROL_SEQUENCE}[@-~]?|{_STRING}|{_SHORT}[0-~]?"
_UNFINISHED = rf"(?:{_CONTROL_SEQUENCE}|{_STRING}|{_SHORT})\Z"
_CONTROL_BYTES = bytes([*range(0x09), *range(0x0B, 0x20), 0x7F])
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufff9-\ufffb]"


class Cleaner:
    """Removes escape sequences and control characters, except tab and LF, from text that arrives in chunks."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        text = self._held + text
        self._held = ""
        # No sequence contains the beginning of another, so only the last one can be unfinished.
        last = max(text.rfind("\x1b"), text.rfind("\x9b"))
        if last < 0:
            return _without_controls(text)
        if unfinished := re.compile(_UNFINISHED).match(text, last):
            self._held = unfinished["string"] or unfinished[0]
            text = text[:last]
        return _without_controls(re.sub(_SEQUENCE, "", text))

    def end(self) -> str:
        """Discard the held-back part: half a sequence is not text. Always returns ""."""
        self._held = ""
        return ""


def _without_controls(text: str) -> str:
    # Most text is ASCII without controls, and that is seen many times faster in its bytes than by a regular expression.
    if text.isascii() and len(data := text.encode()) == len(data.translate(None, _CONTROL_BYTES)):
        return text
    return re.sub(_CONTROL, "", text)


# Characters without a glyph that str.isprintable() calls printable. Default_Ignorable_Code_Point of
# DerivedCoreProperties.txt, Unicode 14.0 (4174 code points), then the blank glyphs that do not have this property:
# Braille blank, Khitan filler, the blanks of Egyptian and of musical notation, and U+FFFC.
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_BLANK = "\u2800\ufffc\U00013441\U00013442\U00016fe4\U0001d159"
_INVISIBLE = f"[{_IGNORABLE}{_BLANK}]"
_EMOJI_SELECTOR = "\ufe0f"  # variation selector 16: the character before it is shown as an emoji
_REORDERING = "[\u202a-\u202e\u2066-\u2069]"  # embeddings, overrides and isolates of bidirectional text


def escape_hidden(text: str, keep: str = "") -> str:
    """Escape every character that a terminal would interpret or not show, except those in `keep`.

    For text that a person decides on, such as a command or a list of files: no two different texts look the same
    because of an invisible character. A combining mark without a letter, digit or symbol to combine with is escaped
    as well.
    """
    return _escape_invisible(text, keep, emoji=False)


def escape_for_display(text: str, keep: str = "\t") -> str:
    """Like `escape_hidden`, for text that is only read: the selector that makes a symbol an emoji is kept."""
    return _escape_invisible(text, keep, emoji=True)


def escape_message(text: str) -> str:
    """`escape_for_display` for text of several lines: every line but the first is indented.

    So a line feed in a name cannot start a line that looks like one of tau's own.
    """
    first, *more = escape_for_display(text, "\t\n").split("\n")
    return "\n".join([first, *(line if not line or line[0] in " \t" else f"  {line}" for line in more)])


def strip_controls(text: str) -> str:
    """A chunk of a model's answer, after a Cleaner: remove control characters, escape bidirectional reordering."""
    return re.sub(_REORDERING, lambda match: _escape(match[0]), re.sub(_CONTROL, "", text))


def _escape_invisible(text: str, keep: str, *, emoji: bool) -> str:
    if text.isascii() and text.isprintable():
        return text
    from unicodedata import category

    invisible = re.compile(_INVISIBLE)
    shown: list[str] = []
    before = " "  # the previous character, or a space after an escaped one
    for character in text:
        if character in keep:
            printable = True
        elif character == _EMOJI_SELECTOR and emoji:
            printable = not before.isascii() and not before.isalnum() and category(before)[0] != "M"
        elif not character.isprintable() or invisible.match(character):
            printable = False
        else:
            printable = category(character)[0] != "M" or not (before.isspace() or before in keep)
        shown.append(character if printable else _escape(character))
        before = character if printable else " "
    return "".join(shown)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
