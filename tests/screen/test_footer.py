"""The footer: two lines that drop parts in a fixed order."""

from __future__ import annotations

import pytest

from tau.records.base import replace
from tau.screen.cells import line_width
from tau.screen.footer import FooterState, Totals, count_text, footer_lines, short_folder
from tau.screen.lines import plain_text

STATE = FooterState(
    cwd="~/code/project",
    branch="main",
    name="parser",
    totals=Totals(12_345, 2_345, 1_234_567, 999, 0.1234),
    context_percent=12.34,
    context_window=200_000,
    auto_compact=True,
    provider="anthropic",
    model="claude-x",
    level="high",
    flags=("ask", "sandbox: workspace", "offline"),
)


def texts(state: FooterState, width: int) -> list[str]:
    return [plain_text(line) for line in footer_lines(state, width)]


def test_both_lines_with_all_their_parts() -> None:
    assert texts(STATE, 80) == [
        "~/code/project (main) • parser                ask · sandbox: workspace · offline",
        "↑12k ↓2.3k R1.2M W999 $0.123 12.3%/200k (auto)       (anthropic) claude-x • high",
    ]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *((0, "0"), (999, "999"), (1000, "1.0k"), (1234, "1.2k"), (9949, "9.9k"), (9950, "10k"), (12_345, "12k")),
        *((999_499, "999k"), (999_500, "1.0M"), (1_234_567, "1.2M"), (12_345_678, "12M"), (5_000_000_000, "5000M")),
    ],
)
def test_numbers_are_short(number: int, text: str) -> None:
    assert count_text(number) == text


def test_narrow_screens_drop_parts_in_a_fixed_order() -> None:
    order = ["(anthropic)", "W999", "R1.2M", "↑12k", "↓2.3k", "(auto)", "$0.123", "high", "claude-x"]
    missing: list[str] = []
    for width in range(120, 9, -1):
        second = texts(STATE, width)[1]
        now = [part for part in order if part not in second]
        assert now == order[: len(now)]
        assert len(now) >= len(missing)
        missing = now
        assert "12.3%/200k" in second
    assert missing == order


def test_the_first_line_drops_name_then_branch_then_shortens_the_folder() -> None:
    assert texts(STATE, 60)[0] == "~/code/project (main)     ask · sandbox: workspace · offline"
    assert texts(STATE, 52)[0] == "~/code/project    ask · sandbox: workspace · offline"
    assert texts(STATE, 47)[0] == "…/project    ask · sandbox: workspace · offline"
    assert texts(STATE, 40)[0] == "~/code/project  ask · sandbox: workspace"
    assert texts(STATE, 20)[0] == "~/code/project   ask"


@pytest.mark.parametrize("width", range(1, 120))
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    state = replace(STATE, statuses={"b": "日本語" * 30, "a": "x"}, cwd="~/日本語/" + "長い名前" * 9)
    assert all(line_width(line) <= width for line in footer_lines(state, width))


def test_the_context_is_unknown_after_a_compaction_and_warns_when_it_is_full() -> None:
    assert "?/200k" in texts(replace(STATE, context_percent=None), 80)[1]
    for percent, style in ((70.0, "dim"), (70.1, "warning"), (90.1, "error")):
        line = footer_lines(replace(STATE, context_percent=percent), 80)[1]
        assert [span.style for span in line if "%" in span.text] == [style]


def test_thinking_that_is_off_is_said_for_models_that_can() -> None:
    assert texts(replace(STATE, level="off"), 90)[1].endswith("claude-x • thinking off")
    assert texts(replace(STATE, level=""), 90)[1].endswith("claude-x")


def test_statuses_of_extensions_are_one_line_sorted_by_key() -> None:
    lines = texts(replace(STATE, statuses={"b": "two\x1b[2J\n2", "a": "one"}), 80)
    assert lines[2] == "one two\\x1b[2J 2"


def test_an_empty_session() -> None:
    assert texts(FooterState("~"), 40) == ["~", "?/0                             no model"]


def test_the_home_folder_is_a_tilde() -> None:
    assert [short_folder(path, "/home/me") for path in ("/home/me", "/home/me/x", "/home/meow", "/")] == [
        "~", "~/x", "/home/meow", "/",
    ]  # fmt: skip
