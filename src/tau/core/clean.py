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


def visible(text: str, keep: str = "") -> str:
    """With all signs spelled out that a terminal would obey or not show, but for `keep`: who decides must see them."""
    return "".join(one if one.isprintable() or one in keep else one.encode("unicode_escape").decode() for one in text)
