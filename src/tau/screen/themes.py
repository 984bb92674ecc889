"""Themes in pi's format: `name`, `vars`, `colors`, where a role has a hex colour, an index, a variable or ""."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tau.records.base import Value
from tau.screen.colors import Color

# Roles that a theme may leave out, and the role they are then like.
OPTIONAL_ROLES = {
    "scrollbarTrack": "muted",
    "scrollbarThumb": "text",
    "searchMatchBg": "selectedBg",
    "searchMatchText": "text",
    "thinkingMax": "thinkingXhigh",
}
_HEX = re.compile(r"#[0-9a-fA-F]{6}")


class Theme(Value):
    name: str
    colors: Mapping[str, Color]  # every role of ROLES


def _theme(name: str, roles: str) -> Theme:
    """From lines of `colour role role …`; "-" is the default colour, a number an index."""
    colors: dict[str, Color] = {}
    for row in roles.strip().splitlines():
        color, *names = row.split()
        value: Color = "" if color == "-" else int(color) if color.isdigit() else color
        colors.update(dict.fromkeys(names, value))
    return Theme(name, {role: colors[role] for role in sorted(colors)})


DARK = _theme(
    "dark",
    """
    #7fb4ca accent borderAccent customMessageLabel mdListBullet mdLink syntaxFunction
    #54617a border borderMuted mdCodeBlockBorder mdQuoteBorder mdHr scrollbarTrack thinkingOff
    #98bb6c success toolDiffAdded syntaxString bashMode
    #e46876 error toolDiffRemoved
    #e6c384 warning mdHeading syntaxType
    #8a93a5 muted toolOutput toolDiffContext thinkingText mdQuote mdLinkUrl syntaxPunctuation scrollbarThumb
    #667085 dim syntaxComment
    - text userMessageText customMessageText toolTitle mdCodeBlock syntaxVariable searchMatchText
    #2d4f67 selectedBg searchMatchBg
    #2a2e3a userMessageBg
    #2b2838 customMessageBg
    #24272f toolPendingBg
    #212b26 toolSuccessBg
    #35232a toolErrorBg
    #7aa89f mdCode syntaxOperator
    #957fb8 syntaxKeyword
    #d27e99 syntaxNumber
    #727169 thinkingMinimal
    #658594 thinkingLow
    #7e9cd8 thinkingMedium
    #957fb8 thinkingHigh
    #d27e99 thinkingXhigh
    #ff5d62 thinkingMax
    """,
)
LIGHT = _theme(
    "light",
    """
    #1f6f8b accent borderAccent customMessageLabel mdListBullet mdLink syntaxFunction
    #a3a9b5 border borderMuted mdCodeBlockBorder mdQuoteBorder mdHr scrollbarTrack thinkingOff
    #3f7d20 success toolDiffAdded syntaxString bashMode
    #b3243c error toolDiffRemoved
    #8a5a00 warning mdHeading syntaxType
    #5b6472 muted toolOutput toolDiffContext thinkingText mdQuote mdLinkUrl syntaxPunctuation scrollbarThumb
    #7d8592 dim syntaxComment
    - text userMessageText customMessageText toolTitle mdCodeBlock syntaxVariable searchMatchText
    #cfe3ec selectedBg searchMatchBg
    #eceef2 userMessageBg
    #efeaf5 customMessageBg
    #f1f2f4 toolPendingBg
    #e8f2e6 toolSuccessBg
    #f8e6e8 toolErrorBg
    #2c7a6b mdCode syntaxOperator
    #6d3fa0 syntaxKeyword
    #b0386f syntaxNumber
    #8d8a80 thinkingMinimal
    #4f7a8c thinkingLow
    #2f5fae thinkingMedium
    #6d3fa0 thinkingHigh
    #b0386f thinkingXhigh
    #c41c2b thinkingMax
    """,
)
ANSI = _theme(
    "ansi",
    """
    6 accent borderAccent customMessageLabel mdListBullet mdLink syntaxFunction mdCode
    8 border borderMuted mdCodeBlockBorder mdQuoteBorder mdHr scrollbarTrack thinkingOff thinkingMinimal
    2 success toolDiffAdded syntaxString bashMode
    1 error toolDiffRemoved thinkingMax
    3 warning mdHeading syntaxType
    8 muted dim toolDiffContext thinkingText mdLinkUrl syntaxComment
    - text userMessageText customMessageText toolTitle toolOutput mdQuote mdCodeBlock syntaxVariable
    - searchMatchText syntaxPunctuation syntaxOperator scrollbarThumb
    - userMessageBg customMessageBg toolPendingBg toolSuccessBg toolErrorBg
    4 selectedBg searchMatchBg thinkingMedium
    5 syntaxKeyword syntaxNumber thinkingHigh
    6 thinkingLow
    13 thinkingXhigh
    """,
)
BUILT_IN = {theme.name: theme for theme in (DARK, LIGHT, ANSI)}
ROLES = frozenset(DARK.colors)


def parse_theme(content: Any) -> tuple[Theme | None, list[str]]:
    """A theme file's content -> the theme and warnings. A role with an error has the built-in dark theme's colour."""
    if not isinstance(content, Mapping):
        return None, ["a theme must be an object"]
    name = content.get("name")
    if not isinstance(name, str) or not name or "/" in name:
        return None, ["name: must be a text without /"]
    colors, variables = content.get("colors"), content.get("vars", {})
    if not isinstance(colors, Mapping):
        return None, ["colors: must be an object"]
    warnings: list[str] = []
    if not isinstance(variables, Mapping):
        warnings.append("vars: must be an object")
        variables = {}
    found: dict[str, Color] = {}
    for role, value in colors.items():
        if role not in ROLES:
            warnings.append(f"colors.{role}: unknown role")
            continue
        color = _resolve(value, variables)
        if isinstance(color, _Problem):
            warnings.append(f"colors.{role}: {color.text}")
        else:
            found[role] = color
    return Theme(name, _complete(found, warnings, colors)), warnings


def _complete(found: dict[str, Color], warnings: list[str], given: Mapping[str, Any]) -> dict[str, Color]:
    for role in sorted(ROLES - found.keys() - OPTIONAL_ROLES.keys()):
        if role not in given:
            warnings.append(f"colors.{role}: missing")
        found[role] = DARK.colors[role]
    for role, like in OPTIONAL_ROLES.items():
        found.setdefault(role, found[like])
    return found


class _Problem(Value):
    text: str


def _resolve(value: Any, variables: Mapping[str, Any]) -> Color | _Problem:
    visited: set[str] = set()
    while isinstance(value, str) and value and not value.startswith("#"):
        if value in visited:
            return _Problem(f'the variable "{value}" refers to itself')
        if value not in variables:
            return _Problem(f'there is no variable "{value}"')
        visited.add(value)
        value = variables[value]
    if value == "" and isinstance(value, str):
        return ""
    if isinstance(value, str) and _HEX.fullmatch(value):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 255:
        return value
    return _Problem('must be "#rrggbb", 0 to 255, a name of vars, or ""')


def chosen_theme(setting: str, background_is_light: bool | None) -> str:
    """The name in the setting `theme`; of "light/dark" the one that suits the terminal's background."""
    light, slash, dark = setting.partition("/")
    return (light if background_is_light else dark) if slash else setting
