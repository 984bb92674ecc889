"""What a terminal can do, in sentences, with the line to add where a setting would help.

For /terminal, which knows what the terminal has answered, and for `tau doctor`, which knows only the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from tau.screen.colors import color_depth, is_light

TMUX_OPTIONS = ("extended-keys", "set-clipboard", "focus-events", "allow-passthrough")
_NOT_SUPPORTED = ("0", "4")  # values of a mode that does not exist, or cannot be turned on
_DEPTHS = {"truecolor": "24 bits", "256": "256", "16": "the terminal's own 16", "none": "none"}
# What is lost while a tmux option is off, and the line for ~/.tmux.conf.
_TMUX_LOSSES = {
    "extended-keys": ("Shift+Enter and Ctrl+Shift+letter are not told apart", "set -s extended-keys on"),
    "set-clipboard": ("tmux keeps copied text for itself", "set -s set-clipboard on"),
    "focus-events": ("tau does not know when you look elsewhere, so it does not notify", "set -g focus-events on"),
    "allow-passthrough": ("notifications do not reach the terminal", "set -g allow-passthrough on"),
}


class TerminalNote(NamedTuple):
    good: bool  # False: something is lost, and the text says what to do
    text: str


def environment_notes(
    environment: Mapping[str, str], true_color: bool | Literal["auto"], tmux: Mapping[str, str]
) -> list[TerminalNote]:
    """What follows from the environment and from the options of tmux."""
    names = ("TERM", "COLORTERM", "TERM_PROGRAM", "NO_COLOR", "FORCE_COLOR", "TMUX", "SSH_CONNECTION")
    given = ", ".join(f"{name}={environment[name]}" for name in names if environment.get(name))
    depth = color_depth(environment, true_color)
    notes = [TerminalNote(True, given or "TERM is not set"), TerminalNote(True, f"Colours: {_DEPTHS[depth]}")]
    if environment.get("TMUX") and depth == "256" and true_color == "auto":
        advice = "set -as terminal-features ',*:RGB', and start with COLORTERM=truecolor"
        notes[-1] = TerminalNote(False, f"Colours: 256. If the terminal has more, add to ~/.tmux.conf: {advice}")
    return [*notes, *_tmux_notes(tmux)]


def _tmux_notes(tmux: Mapping[str, str]) -> list[TerminalNote]:
    notes = []
    for name, (loss, line) in _TMUX_LOSSES.items():
        value = tmux.get(name)
        if value == "off":
            notes.append(TerminalNote(False, f"tmux {name} is off: {loss}. Add to ~/.tmux.conf: {line}"))
        elif value:
            notes.append(TerminalNote(True, f"tmux {name}: {value}"))
    return notes


def answer_notes(answers: Mapping[str, str], *, complete: bool, extended_keys: bool) -> list[TerminalNote]:
    """What follows from the terminal's answers. `complete`: it answered the last question."""
    notes = [] if complete else [TerminalNote(False, "The terminal did not answer the questions; defaults are used.")]
    if "kittyFlags" in answers:
        notes.append(TerminalNote(True, "Keys: the kitty protocol, every key is told apart"))
    elif extended_keys:
        notes.append(TerminalNote(True, "Keys: as xterm sends them (modifyOtherKeys)"))
    else:
        lost = "Shift+Enter and Ctrl+Shift+letter are not sent. Ctrl+J, or a backslash before Enter, makes a new line"
        notes.append(TerminalNote(False, f"Keys: basic. {lost}"))
    synchronized = answers.get("mode 2026")
    state = "not known" if synchronized is None else "no" if synchronized in _NOT_SUPPORTED else "yes"
    notes.append(TerminalNote(True, f"Frames without flicker (synchronized updates): {state}"))
    light = is_light(answers.get("background", ""))
    scheme = answers.get("colorScheme") or ("not known" if light is None else "light" if light else "dark")
    notes.append(TerminalNote(True, f"Background: {scheme}"))
    if attributes := answers.get("secondaryAttributes"):
        notes.append(TerminalNote(True, f"Attributes: {attributes}"))
    return notes
