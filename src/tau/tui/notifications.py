"""Notifications of the desktop through the terminal: OSC 9, 777 or 99, else the bell; in tmux passed through.

Values only; `Terminal.write` writes them.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

from tau.core.text.terminal_text import escape_for_display

BELL = b"\x07"
MAX_TEXT = 200
_OSC_777 = ("rxvt", "foot", "contour")
_OSC_9_PROGRAMS = {"iTerm.app", "WezTerm", "ghostty", "WarpTerminal", "rio"}


def notification(title: str, text: str, environment: Mapping[str, str], *, bell_only: bool = False) -> bytes:
    """The bytes that show a notification in the terminal that the environment names."""
    title, text = _clean(title), _clean(text)
    sequence = None if bell_only else _sequence(title, text, environment)
    if sequence is None:
        return BELL
    return _through_tmux(sequence) if environment.get("TMUX") else sequence


def _sequence(title: str, text: str, environment: Mapping[str, str]) -> bytes | None:
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if "kitty" in term or "KITTY_WINDOW_ID" in environment:
        payload = base64.b64encode(f"{title}: {text}".encode()).decode()
        return f"\x1b]99;e=1;{payload}\x1b\\".encode()
    if program in _OSC_9_PROGRAMS or "ghostty" in term or "wezterm" in term or "WT_SESSION" in environment:
        return f"\x1b]9;{title}: {text}\x1b\\".encode()
    if any(name in term for name in _OSC_777):
        return f"\x1b]777;notify;{title.replace(';', ',')};{text}\x1b\\".encode()
    return None


def _clean(text: str) -> str:
    """One line without anything that a terminal interprets."""
    return escape_for_display(" ".join(text.split()), "")[:MAX_TEXT].encode("utf-8", "replace").decode()


def _through_tmux(sequence: bytes) -> bytes:
    """tmux passes it on if its option allow-passthrough is on; the bell it always knows."""
    return b"\x1bPtmux;" + sequence.replace(b"\x1b", b"\x1b\x1b") + b"\x1b\\" + BELL
