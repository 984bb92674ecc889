"""What the terminal has answered, and what follows from that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tau.screen.colors import is_light
from tau.screen.input_events import Focus, Reply

# Terminals that cut lines instead of reflowing them when they get narrower, by the first number of their secondary
# attributes: xterm, screen, rxvt.
_WITHOUT_REFLOW = frozenset({"41", "83", "85"})
_TERMS_WITHOUT_REFLOW = ("linux", "st", "eterm", "dvtm", "vt")
_NOT_SUPPORTED = frozenset({"0", "4"})  # values of a mode that does not exist, or cannot be turned on


_HYPERLINK_TERMS = ("kitty", "ghostty", "alacritty", "wezterm", "foot", "contour", "rio")
_HYPERLINK_PROGRAMS = {"iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio", "WarpTerminal"}
_VTE_WITH_HYPERLINKS = 5000


def supports_hyperlinks(environment: Mapping[str, str]) -> bool:
    """Whether the terminal is known to show OSC 8 as links. Others would hide the address of a link."""
    if environment.get("TMUX") or environment.get("TERM", "").startswith("screen"):
        return False
    vte = environment.get("VTE_VERSION", "")
    return (
        any(name in environment.get("TERM", "") for name in _HYPERLINK_TERMS)
        or environment.get("TERM_PROGRAM") in _HYPERLINK_PROGRAMS
        or "WT_SESSION" in environment
        or "KONSOLE_VERSION" in environment
        or (vte.isascii() and vte.isdigit() and int(vte) >= _VTE_WITH_HYPERLINKS)
    )


class TerminalFacts:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.answers: dict[str, str] = {}  # by the name of the reply; modes as "mode 2026"
        self.complete = False  # the answer to the last question is there
        self.reflow_setting: bool | Literal["auto"] = "auto"
        self.focused = True  # until the terminal says otherwise

    def learn(self, reply: Reply | Focus) -> None:
        if isinstance(reply, Focus):
            self.focused = reply.gained
            return
        if reply.name == "mode":
            number, _, value = reply.value.partition(";")
            self.answers[f"mode {number}"] = value
        else:
            self.answers[reply.name] = reply.value
        self.complete = self.complete or reply.name == "primaryAttributes"

    @property
    def synchronized(self) -> bool:
        """Whether frames may be put into synchronized updates; assumed until the terminal says no."""
        return self.answers.get("mode 2026") not in _NOT_SUPPORTED

    @property
    def kitty_keys(self) -> bool:
        return "kittyFlags" in self.answers

    @property
    def extended_keys(self) -> bool:
        """Whether the terminal distinguishes all keys: by the kitty protocol, or as xterm does when it is asked to."""
        return self.kitty_keys or self.answers.get("secondaryAttributes", "").partition(";")[0] == "41"

    @property
    def light_background(self) -> bool | None:
        """None if the terminal has not said."""
        if scheme := self.answers.get("colorScheme"):
            return scheme == "light"
        return is_light(self.answers.get("background", ""))

    @property
    def reflows(self) -> bool:
        """Whether the terminal wraps lines again when its width changes."""
        if self.reflow_setting != "auto":
            return self.reflow_setting
        if self._environment.get("TMUX"):
            return True
        if self._environment.get("TERM", "").partition("-")[0].rstrip("0123456789") in _TERMS_WITHOUT_REFLOW:
            return False
        return self.answers.get("secondaryAttributes", "").partition(";")[0] not in _WITHOUT_REFLOW
