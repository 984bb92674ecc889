"""Modes of the terminal that the interface turns on, each with the sequence that undoes it, and the questions it asks.

Values only; terminal.py writes them.
"""

from __future__ import annotations

from collections.abc import Mapping

from tau.records.base import Value


class Mode(Value):
    name: str
    enable: bytes
    undo: bytes


BRACKETED_PASTE = Mode("bracketedPaste", b"\x1b[?2004h", b"\x1b[?2004l")
FOCUS_EVENTS = Mode("focusEvents", b"\x1b[?1004h", b"\x1b[?1004l")
COLOR_SCHEME_EVENTS = Mode("colorSchemeEvents", b"\x1b[?2031h", b"\x1b[?2031l")
# Flags 1 (keys that are ambiguous in the old encoding) and 4 (the key's place on a Latin keyboard: Ctrl+C works on a
# Cyrillic one).
KITTY_KEYS = Mode("kittyKeys", b"\x1b[>5u", b"\x1b[<u")
OTHER_KEYS = Mode("modifyOtherKeys", b"\x1b[>4;2m", b"\x1b[>4;0m")
# The keys of the kitty protocol are set for each screen.
ALTERNATE_SCREEN = Mode("alternateScreen", b"\x1b[?1049h\x1b[H", b"\x1b[?1049l")
ALTERNATE_SCREEN_KITTY = Mode("alternateScreen", b"\x1b[?1049h\x1b[H\x1b[>5u", b"\x1b[<u\x1b[?1049l")
PROGRESS = Mode("progress", b"\x1b]9;4;3\x1b\\", b"\x1b]9;4;0\x1b\\")
SAVED_TITLE = Mode("title", b"\x1b[22;2t", b"\x1b[23;2t")

# Ends a sequence that was cut in the middle, then a style, a link and a synchronized update that may be open.
ABORT_FRAME = b"\x18\x1b[m\x1b]8;;\x1b\\"
END_FRAME = b"\x1b[?2026l\x1b[?25h"

_KITTY_QUESTION = b"\x1b[?u"
_BACKGROUND_QUESTION = b"\x1b]11;?\x1b\\"
_MODE_QUESTIONS = b"\x1b[?2026$p\x1b[?2004$p"
_SECONDARY_ATTRIBUTES = b"\x1b[>c"
_PRIMARY_ATTRIBUTES = b"\x1b[c"  # answered by every terminal, and last

# The Linux console prints parts of what it does not know.
_BASIC_TERMS = frozenset({"linux", "dumb", "vt100", "vt220"})


def first_modes(environment: Mapping[str, str]) -> tuple[Mode, ...]:
    if environment.get("TERM") in _BASIC_TERMS:
        return (BRACKETED_PASTE,)
    return (BRACKETED_PASTE, FOCUS_EVENTS, COLOR_SCHEME_EVENTS)


def questions(environment: Mapping[str, str]) -> bytes:
    """Asked once; the answers arrive as events of the input, in this order."""
    if environment.get("TERM") in _BASIC_TERMS:
        return _PRIMARY_ATTRIBUTES
    return _KITTY_QUESTION + _BACKGROUND_QUESTION + _MODE_QUESTIONS + _SECONDARY_ATTRIBUTES + _PRIMARY_ATTRIBUTES


def escape_timeout(environment: Mapping[str, str]) -> float:
    """Seconds after which ESC without more bytes is the Escape key."""
    milliseconds = environment.get("PI_TUI_ESC_TIMEOUT", "")
    if milliseconds.isascii() and milliseconds.isdigit():
        return int(milliseconds) / 1000
    return 0.1 if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY") else 0.025


def resize_delay(environment: Mapping[str, str]) -> float:
    """Seconds without a change of the size before the interface is drawn again.

    tmux changes its grid at once and tells the program up to 250 ms later; what is drawn in between destroys rows.
    """
    return 0.35 if environment.get("TMUX") else 0.06


class ModeList:
    """The modes that are on, in the order they were turned on."""

    def __init__(self) -> None:
        self._active: list[Mode] = []

    def enable(self, *modes: Mode) -> bytes:
        """The bytes that turn on those that are off."""
        added = [mode for mode in modes if mode not in self._active]
        self._active.extend(added)
        return b"".join(mode.enable for mode in added)

    def has(self, mode: Mode) -> bool:
        return mode in self._active

    def disable(self, mode: Mode) -> bytes:
        if mode not in self._active:
            return b""
        self._active.remove(mode)
        return mode.undo

    def undo(self) -> bytes:
        """The bytes that turn off all, last first. The list stays, for `redo`."""
        return b"".join(mode.undo for mode in reversed(self._active))

    def redo(self) -> bytes:
        """The bytes that turn them on again."""
        return b"".join(mode.enable for mode in self._active)
