"""Text from a terminal program, without what only a terminal understands.

The same text comes out however it was cut into portions: a sequence that is not
finished yet is held back, and of a long one (a title, an inline picture) only
the beginning, so that memory stays small.

A title or picture ends at its terminator or at the end of the line. Terminals
wait longer, but there a stray ESC must not eat the rest of the output.
"""

from __future__ import annotations

import re

_CONTROL_SEQUENCE = r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}"
# Its terminators (BEL, ESC \ and others) are not part of it: each is removed for what it is.
_STRING = r"(?P<string>\x1b[\]PX^_])[^\x00-\x08\x0a-\x1f\x80-\x9f]*"
_SHORT = r"\x1b[ -/]{0,8}"

# Not compiled yet: most starts never see a terminal's text. `re` keeps what it has compiled.
_SEQUENCE = f"{_CONTROL_SEQUENCE}[@-~]?|{_STRING}|{_SHORT}[0-~]?"
_UNFINISHED = rf"(?:{_CONTROL_SEQUENCE}|{_STRING}|{_SHORT})\Z"
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufff9-\ufffb]"


class Cleaner:
    """Removes escape sequences and control characters, except tab and LF, from text that comes in portions."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        text = self._held + text
        self._held = ""
        # No sequence contains the beginning of another, so only the last one can be unfinished.
        last = max(text.rfind("\x1b"), text.rfind("\x9b"))
        if last < 0:
            return re.sub(_CONTROL, "", text)
        if unfinished := re.compile(_UNFINISHED).match(text, last):
            self._held = unfinished["string"] or unfinished[0]
            text = text[:last]
        return re.sub(_CONTROL, "", re.sub(_SEQUENCE, "", text))

    def end(self) -> str:
        """What was held back; nothing, because half a sequence is no text either."""
        self._held = ""
        return ""


# Characters without a glyph of their own that str.isprintable() takes for printable. Default_Ignorable_Code_Point of
# DerivedCoreProperties.txt, Unicode 14.0 (4174 code points), then the blank glyphs that do not have this property:
# Braille blank, Khitan filler, the blanks of Egyptian and of musical notation, and U+FFFC.
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_BLANK = "\u2800\ufffc\U00013441\U00013442\U00016fe4\U0001d159"
_UNSEEN = f"[{_IGNORABLE}{_BLANK}]"
_EMOJI_STYLE = "\ufe0f"  # variation selector 16: the character before it is shown as an emoji
_REORDERING = "[\u202a-\u202e\u2066-\u2069]"  # embeddings, overrides and isolates of bidirectional text


def visible(text: str, keep: str = "") -> str:
    """Spell out every character that a terminal would obey or not show, except those in `keep`.

    For text that somebody decides on, such as a command or a list of files: no two different
    texts look the same because of a character without a glyph. A combining mark that has no
    letter, digit or symbol to combine with is spelled out as well.
    """
    return _spelled_out(text, keep, emoji=False)


def displayed(text: str, keep: str = "\t") -> str:
    """The same for text that is only read. The selector that makes a symbol an emoji stays where it is."""
    return _spelled_out(text, keep, emoji=True)


def message(text: str) -> str:
    """`displayed` for a text of several lines: every line but the first is indented.

    So a line feed in a name cannot begin a line that looks like one of ours.
    """
    first, *more = displayed(text, "\t\n").split("\n")
    return "\n".join([first, *(line if not line or line[0] in " \t" else f"  {line}" for line in more)])


def answer(text: str) -> str:
    """A piece of a model's answer for a terminal, after a Cleaner: without control characters and reordering."""
    return re.sub(_REORDERING, lambda found: _escape(found[0]), re.sub(_CONTROL, "", text))


def _spelled_out(text: str, keep: str, *, emoji: bool) -> str:
    if text.isascii() and text.isprintable():
        return text
    from unicodedata import category

    unseen = re.compile(_UNSEEN)
    shown: list[str] = []
    before = " "  # the last character, or a space after one that was spelled out
    for one in text:
        if one in keep:
            seen = True
        elif one == _EMOJI_STYLE and emoji:
            seen = not before.isascii() and not before.isalnum() and category(before)[0] != "M"
        elif not one.isprintable() or unseen.match(one):
            seen = False
        else:
            seen = category(one)[0] != "M" or not (before.isspace() or before in keep)
        shown.append(one if seen else _escape(one))
        before = one if seen else " "
    return "".join(shown)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
