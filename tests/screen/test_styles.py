"""Styles become SGR for the theme and the colours of the terminal."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau.screen.colors import Depth, color_depth, color_parameters, is_light
from tau.screen.lines import Line, Span, line
from tau.screen.styles import Palette
from tau.screen.themes import ANSI, BUILT_IN, DARK, OPTIONAL_ROLES, ROLES, Theme, chosen_theme, parse_theme

THEME = Theme("test", {**DARK.colors, "accent": "#ff8800", "error": 1, "text": "", "selectedBg": 238})


@pytest.mark.parametrize(
    ("style", "sgr"),
    [
        ("", ""),
        ("bold", "\x1b[1m"),
        ("accent", "\x1b[38;2;255;136;0m"),
        ("bold accent underline", "\x1b[1;38;2;255;136;0;4m"),
        ("error bg:selectedBg", "\x1b[31;48;5;238m"),
        ("text", ""),
        ("dim italic strike inverse", "\x1b[2;3;9;7m"),
        ("fg=9 bg=4", "\x1b[91;44m"),
        ("fg=200", "\x1b[38;5;200m"),
        ("fg=#102030", "\x1b[38;2;16;32;48m"),
        ("fg=999 bg=#12 unknown bg:unknown fg=²", ""),
    ],
)
def test_a_style_is_sgr(style: str, sgr: str) -> None:
    assert Palette(THEME).sgr(style) == sgr


@pytest.mark.parametrize(
    ("depth", "parameters"), [("truecolor", "38;2;255;136;0"), ("256", "38;5;208"), ("16", "33"), ("none", "")]
)
def test_colours_are_brought_to_the_depth_of_the_terminal(depth: Depth, parameters: str) -> None:
    assert color_parameters("#ff8800", depth, background=False) == parameters


def test_the_sixteen_colours_stay_those_of_the_terminal() -> None:
    assert [color_parameters(index, "256", background=False) for index in (0, 7, 8, 15)] == ["30", "37", "90", "97"]
    assert [color_parameters(index, "16", background=True) for index in (0, 7, 8, 15)] == ["40", "47", "100", "107"]
    assert color_parameters(196, "16", background=False) == "91"
    assert color_parameters(250, "16", background=False) == "37"


def test_attributes_stay_without_colours() -> None:
    palette = Palette(THEME, "none")
    assert palette.sgr("bold accent bg:selectedBg fg=1") == "\x1b[1m"


def test_a_line_begins_and_ends_in_the_default_style() -> None:
    spans = (Span("a", "bold"), Span("b"), Span("c", "bold"), Span("d", "italic"), Span("", "dim"))
    assert Palette(THEME).render(spans) == "\x1b[1ma\x1b[mb\x1b[1mc\x1b[0;3md\x1b[m"


def test_links_are_hyperlinks() -> None:
    spans = (Span("see "), Span("this", "", "https://a.b/c?d=1;2"), Span(".", "bold", "https://a.b/c?d=1;2"), Span("!"))
    assert Palette(THEME).render(spans) == ("see \x1b]8;;https://a.b/c?d=1;2\x1b\\this\x1b[1m.\x1b]8;;\x1b\\\x1b[m!")
    assert Palette(THEME, links=False).render(spans[1:2]) == "this"


@pytest.mark.parametrize("target", ["a b", "\x1b]0;x\x07", "https://a/\x07", "é", "x" * 3000, "\x9c"])
def test_a_link_with_a_strange_target_is_text(target: str) -> None:
    assert Palette(THEME).render((Span("text", "", target),)) == "text"


spans = st.lists(
    st.builds(Span, st.text(max_size=6), st.sampled_from(["", "bold", "accent bg:selectedBg"]), st.text(max_size=4)),
    max_size=4,
).map(tuple)
ALLOWED = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;;[!-~]*\x1b\\")


@given(spans)
def test_no_control_character_of_a_text_is_rendered(row: Line) -> None:
    rendered = ALLOWED.sub("", Palette(THEME).render(row))
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]", rendered)


def test_every_control_character_is_dropped_and_the_rest_kept() -> None:
    controls = "".join(map(chr, [*range(32), *range(127, 160), 0x202E, 0x2066, 0x2028, 0xD800]))
    assert Palette(THEME).render(line(f"a{controls}é👩‍👧\u00a0z")) == "aé👩‍👧\u00a0z"


@pytest.mark.parametrize(
    ("environment", "depth"),
    [
        ({}, "none"),
        ({"TERM": "dumb", "COLORTERM": "truecolor"}, "none"),
        ({"TERM": "xterm"}, "16"),
        ({"TERM": "linux"}, "16"),
        ({"TERM": "screen"}, "16"),
        ({"TERM": "xterm-256color"}, "256"),
        ({"TERM": "tmux-256color"}, "256"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "truecolor"),
        ({"TERM": "xterm", "COLORTERM": "24bit"}, "truecolor"),
        ({"TERM": "xterm-kitty"}, "truecolor"),
        ({"TERM": "xterm-direct"}, "truecolor"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "truecolor"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, "256"),
        ({"TERM": "screen-256color", "TERM_PROGRAM": "iTerm.app", "TMUX": "/tmp/t"}, "256"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "none"),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, "256"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1", "FORCE_COLOR": "3"}, "truecolor"),
        ({"TERM": "xterm-256color", "FORCE_COLOR": "0"}, "none"),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, "16"),
        ({"TERM": "dumb", "FORCE_COLOR": "2"}, "256"),
        ({"TERM": "xterm-256color", "FORCE_COLOR": ""}, "256"),
    ],
)
def test_colours_of_the_terminal_follow_the_environment(environment: dict[str, str], depth: Depth) -> None:
    assert color_depth(environment) == depth


def test_the_setting_decides_about_true_colour() -> None:
    assert color_depth({"TERM": "xterm"}, True) == "truecolor"
    assert color_depth({"TERM": "xterm", "COLORTERM": "truecolor"}, False) == "256"
    assert color_depth({"TERM": "xterm", "NO_COLOR": "1"}, True) == "none"


def test_built_in_themes_have_every_role() -> None:
    assert len(ROLES) == 56
    assert all(set(theme.colors) == ROLES for theme in BUILT_IN.values())
    assert sorted(BUILT_IN) == ["ansi", "dark", "light"]
    assert all(color == "" or (isinstance(color, int) and color < 16) for color in ANSI.colors.values())


def theme_file(**colors: object) -> dict[str, object]:
    return {"name": "mine", "vars": {"blue": "#0000ff", "link": "blue"}, "colors": {**dict(DARK.colors), **colors}}


def test_a_theme_of_pi_has_four_forms_of_colour() -> None:
    theme, warnings = parse_theme(json.loads(json.dumps(theme_file(accent="link", error=196, text="", dim="#ABCDEF"))))
    assert theme is not None and warnings == []
    assert [theme.colors[role] for role in ("accent", "error", "text", "dim")] == ["#0000ff", 196, "", "#ABCDEF"]


def test_roles_that_are_optional_are_like_another() -> None:
    content = theme_file(muted=1, text=2, selectedBg=3, thinkingXhigh=4)
    colors = content["colors"]
    assert isinstance(colors, dict)
    for role in OPTIONAL_ROLES:
        del colors[role]
    theme, warnings = parse_theme(content)
    assert theme is not None and warnings == []
    assert [theme.colors[role] for role in OPTIONAL_ROLES] == [1, 2, 3, 2, 4]


def test_errors_of_a_theme_name_the_field_and_leave_the_rest() -> None:
    content = theme_file(accent="nowhere", error=256, dim="#12345", warning=True, shadow=1, border="#123456")
    content["vars"] = {"a": "b", "b": "a"}
    colors = content["colors"]
    assert isinstance(colors, dict)
    colors["muted"] = "a"
    del colors["success"]
    theme, warnings = parse_theme(content)
    assert theme is not None
    assert theme.colors["border"] == "#123456"
    assert theme.colors["accent"] == DARK.colors["accent"]
    form = 'must be "#rrggbb", 0 to 255, a name of vars, or ""'
    assert sorted(warnings) == [
        'colors.accent: there is no variable "nowhere"',
        f"colors.dim: {form}",
        f"colors.error: {form}",
        'colors.muted: the variable "a" refers to itself',
        "colors.shadow: unknown role",
        "colors.success: missing",
        f"colors.warning: {form}",
    ]


@pytest.mark.parametrize(
    ("content", "warning"),
    [
        ([], "a theme must be an object"),
        ({"colors": {}}, "name: must be a text without /"),
        ({"name": "a/b", "colors": {}}, "name: must be a text without /"),
        ({"name": "a"}, "colors: must be an object"),
    ],
)
def test_a_file_that_is_not_a_theme_is_refused(content: object, warning: str) -> None:
    assert parse_theme(content) == (None, [warning])


def test_a_theme_can_follow_the_background() -> None:
    assert chosen_theme("mine", True) == "mine"
    assert [chosen_theme("light/dark", light) for light in (True, False, None)] == ["light", "dark", "dark"]


@pytest.mark.parametrize(
    ("answer", "light"),
    [
        ("rgb:ffff/ffff/ffff", True),
        ("rgb:0000/0000/0000", False),
        ("rgb:1e/1e/2e", False),
        ("rgba:fafa/f5f5/e0e0/ffff", True),
        ("#ffffff", None),
        ("rgb:", None),
        ("rgb:zz/00/00", None),
    ],
)
def test_the_background_is_light_or_dark(answer: str, light: bool | None) -> None:
    assert is_light(answer) is light
