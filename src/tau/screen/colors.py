"""Colours of a terminal: how many it has, and a colour as the parameters of SGR for that many."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

Depth = Literal["truecolor", "256", "16", "none"]
Color = int | str  # an index of the 256 colours, "#rrggbb", or "" for the terminal's default

_FORCED: dict[str, Depth] = {"0": "none", "false": "none", "2": "256", "3": "truecolor"}
_TRUE_COLOR_TERMS = ("-direct", "kitty", "ghostty", "alacritty", "wezterm", "foot", "contour", "rio")
_TRUE_COLOR_PROGRAMS = {"iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio", "WarpTerminal"}


def color_depth(environment: Mapping[str, str], true_color: bool | Literal["auto"] = "auto") -> Depth:
    """The colours to use: FORCE_COLOR, then NO_COLOR, then the setting `terminal.trueColor`, then what TERM says."""
    forced = environment.get("FORCE_COLOR")
    if forced is not None and forced in _FORCED:
        return _FORCED[forced]
    detected = _detected(environment, true_color)
    if forced is not None:
        return "16" if detected == "none" else detected
    return "none" if environment.get("NO_COLOR") else detected


def _detected(environment: Mapping[str, str], true_color: bool | Literal["auto"]) -> Depth:
    term = environment.get("TERM", "")
    if term in ("", "dumb"):
        return "none"
    if true_color != "auto":
        return "truecolor" if true_color else "256"
    if environment.get("COLORTERM") in ("truecolor", "24bit") or "WT_SESSION" in environment:
        return "truecolor"
    if environment.get("TERM_PROGRAM") in _TRUE_COLOR_PROGRAMS and not environment.get("TMUX"):
        return "truecolor"
    if any(name in term for name in _TRUE_COLOR_TERMS):
        return "truecolor"
    return "256" if "256" in term or environment.get("TERM_PROGRAM") == "Apple_Terminal" else "16"


def color_parameters(color: Color, depth: Depth, *, background: bool) -> str:
    """Parameters of SGR; "" for the default colour."""
    if color == "" or depth == "none":
        return ""
    base = 48 if background else 38
    if isinstance(color, int):
        if color < 16:
            return _of_sixteen(color, background)
        return _of_sixteen(_nearest_of_16(*_rgb_of_index(color)), background) if depth == "16" else f"{base};5;{color}"
    red, green, blue = rgb(color)
    if depth == "truecolor":
        return f"{base};2;{red};{green};{blue}"
    if depth == "256":
        return f"{base};5;{_nearest_of_256(red, green, blue)}"
    return _of_sixteen(_nearest_of_16(red, green, blue), background)


def rgb(color: str) -> tuple[int, int, int]:
    """The components of "#rrggbb"."""
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def is_light(background: str) -> bool | None:
    """Whether an answer to OSC 11 ("rgb:ffff/ffff/ffff") is a light colour; None if it is not understood."""
    kind, _, values = background.partition(":")
    parts = values.split("/")
    try:
        components = [int(part, 16) / (16 ** len(part) - 1) for part in parts[:3]]
    except (ValueError, ZeroDivisionError):
        return None
    if kind not in ("rgb", "rgba") or len(components) < 3:
        return None
    return bool(0.2126 * components[0] + 0.7152 * components[1] + 0.0722 * components[2] > 0.5)


def _of_sixteen(index: int, background: bool) -> str:
    first = (30 if index < 8 else 82) + (10 if background else 0)
    return str(first + index)


_CUBE = (0, 95, 135, 175, 215, 255)
# xterm's; terminals differ, which only matters for the choice of the nearest.
_SIXTEEN = (
    *((0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0), (0, 0, 238), (205, 0, 205), (0, 205, 205), (229, 229, 229)),
    *((127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0), (92, 92, 255), (255, 0, 255), (0, 255, 255)),
    (255, 255, 255),
)


def _rgb_of_index(index: int) -> tuple[int, int, int]:
    if index < 16:
        return _SIXTEEN[index]
    if index >= 232:
        grey = 8 + 10 * (index - 232)
        return grey, grey, grey
    index -= 16
    return _CUBE[index // 36], _CUBE[index // 6 % 6], _CUBE[index % 6]


@lru_cache(512)
def _nearest_of_256(red: int, green: int, blue: int) -> int:
    """Among the cube and the greys: the first 16 differ between terminals."""
    return min(range(16, 256), key=lambda index: _distance(_rgb_of_index(index), (red, green, blue)))


@lru_cache(512)
def _nearest_of_16(red: int, green: int, blue: int) -> int:
    return min(range(16), key=lambda index: _distance(_SIXTEEN[index], (red, green, blue)))


def _distance(one: tuple[int, int, int], other: tuple[int, int, int]) -> int:
    """Weighted by how well the eye tells the components apart."""
    return 2 * (one[0] - other[0]) ** 2 + 4 * (one[1] - other[1]) ** 2 + 3 * (one[2] - other[2]) ** 2
