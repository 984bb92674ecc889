from __future__ import annotations

import pytest

from support.entry_builder import MODEL, answer, call
from tau.core.conversation.summaries import (
    BRANCH_PROMPT,
    HISTORY_PROMPT,
    SUMMARY_SYSTEM_PROMPT,
    TURN_PREFIX_PROMPT,
    UPDATE_PROMPT,
    TouchedFiles,
    conversation_text,
    files_in_details,
    files_in_messages,
    output_limit,
    strip_file_lists,
    summary_input,
    summary_request,
    summary_text,
)
from tau.errors import ModelError
from tau.records.base import replace
from tau.records.messages import (
    Assistant,
    BashExecution,
    BranchSummary,
    CompactionSummary,
    Custom,
    Image,
    Other,
    StoredMessage,
    Text,
    Thinking,
    ToolResult,
    User,
)

IMAGE = Image("AAAA", "image/png")

# The conversation as text.


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (User("hi", 0), "[User]: hi"),
        (User([Text("look"), IMAGE, Text("here")], 0), "[User]: look\nhere"),
        (User([IMAGE], 0), "[User]: (image)"),
        (User("  \n", 0), ""),
        (Custom("x", "note", True), "[User]: note"),
        (answer("one", "two"), "[Assistant]: one\ntwo"),
        (answer(Thinking("hm"), "so"), "[Assistant]: so"),
        (answer(Thinking("hm")), ""),
        (
            answer("I look.", call("1", "read", path="a.txt", limit=5), call("2", "ls")),
            '[Assistant]: I look.\n\n[Assistant tool calls]: read(path="a.txt", limit=5); ls()',
        ),
        (
            answer(call("1", "write", path="ä", content="a\nb")),
            '[Assistant tool calls]: write(path="ä", content="a\\nb")',
        ),
        (answer("half", stop="aborted"), ""),
        (answer("half", error="529"), ""),
        (ToolResult("1", "bash", [Text("a"), Text("b")]), "[Tool result]: a\nb"),
        (ToolResult("1", "read", [IMAGE]), "[Tool result]: (image)"),
        (ToolResult("1", "bash", []), ""),
        (BashExecution("ls", "a", 0), "[User]: Ran `ls`\n```\na\n```"),
        (BashExecution("ls", "a", 0, exclude_from_context=True), ""),
        (
            CompactionSummary("S", 0),
            "[User]: The earlier part of this conversation was replaced by the following summary:"
            "\n\n<summary>\nS\n</summary>",
        ),
        (
            BranchSummary("S", "e1"),
            "[User]: The user followed another branch of the conversation and then came back here. Its summary:"
            "\n\n<summary>\nS\n</summary>",
        ),
        (Other("system"), ""),
    ],
)
def test_each_kind_of_message_is_rendered_in_its_way(message: StoredMessage, text: str) -> None:
    assert summary_input(message) == text


def test_messages_are_rendered_with_a_blank_line_between() -> None:
    assert conversation_text([User("hi", 0), answer(), answer("hello")]) == "[User]: hi\n\n[Assistant]: hello"


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (2000, "[Tool result]: " + "x" * 2000),
        (2001, "[Tool result]: " + "x" * 2000 + "\n\n[1 more characters are left out]"),
        (50_000, "[Tool result]: " + "x" * 2000 + "\n\n[48000 more characters are left out]"),
    ],
)
def test_long_results_are_cut(length: int, text: str) -> None:
    assert summary_input(ToolResult("1", "bash", [Text("x" * length)])) == text


def test_lone_surrogates_are_rendered_too() -> None:
    assert (
        summary_input(answer(call("1", "bash", command="\ud800"))) == '[Assistant tool calls]: bash(command="\\ud800")'
    )


# What is asked.


def asked(instruction: str, **other: str) -> str:
    return summary_request(instruction, [User("hi", 0)], title="T", max_tokens=1, thinking="off", **other).prompt


def test_the_conversation_comes_first_and_the_focus_last() -> None:
    assert asked("Do it.") == "<conversation>\n[User]: hi\n</conversation>\n\nDo it."
    assert asked("Do it.", previous="S", focus=" tests ") == (
        "<conversation>\n[User]: hi\n</conversation>\n\n"
        "<previous-summary>\nS\n</previous-summary>\n\n"
        "Do it.\n\n"
        "Additional focus: tests"
    )
    assert asked("Do it.", focus="  ") == asked("Do it.")


STRUCTURE = [
    "## Goal",
    "## Constraints & Preferences",
    "## Progress",
    "### Done",
    "### In Progress",
    "### Blocked",
    "## Key Decisions",
    "## Next Steps",
]


@pytest.mark.parametrize(
    ("instruction", "headings"),
    [
        (HISTORY_PROMPT, [*STRUCTURE, "## Critical Context"]),
        (UPDATE_PROMPT, [*STRUCTURE, "## Critical Context"]),
        (TURN_PREFIX_PROMPT, ["## Original Request", "## Early Progress", "## Context for Suffix"]),
        (BRANCH_PROMPT, STRUCTURE),
    ],
)
def test_every_summary_has_its_headings(instruction: str, headings: list[str]) -> None:
    assert [line for line in instruction.splitlines() if line.startswith("#")] == headings


def test_the_model_is_told_not_to_take_part() -> None:
    made = summary_request(HISTORY_PROMPT, [User("hi", 0)], title="T", max_tokens=1, thinking="off")
    assert made.system == SUMMARY_SYSTEM_PROMPT
    assert "Do not continue the conversation" in SUMMARY_SYSTEM_PROMPT


@pytest.mark.parametrize(
    ("reserve", "percent", "most", "limit"),
    [(16384, 80, 64_000, 13107), (16384, 50, 64_000, 8192), (16384, 80, 8192, 8192), (0, 80, 64_000, 1024)],
)
def test_a_summary_has_a_part_of_the_reserve(reserve: int, percent: int, most: int, limit: int) -> None:
    assert output_limit(replace(MODEL, max_tokens=most), reserve, percent) == limit


# What is made of the answer.


def test_the_text_of_the_answer_is_the_summary() -> None:
    assert summary_text(answer(Thinking("hm"), "\n## Goal\n", "all\n")) == "## Goal\n\nall"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (answer(), "The model answered without a summary."),
        (answer(" \n"), "The model answered without a summary."),
        (answer(Thinking("hm")), "The model answered without a summary."),
        (answer("## Goal\nto", stop="length"), "The summary was cut off at its length limit."),
    ],
)
def test_no_summary_is_better_than_half_of_one(said: Assistant, why: str) -> None:
    with pytest.raises(ModelError, match=why):
        summary_text(said)


# Files.


def test_what_was_modified_is_not_listed_as_read() -> None:
    files = files_in_messages(
        [
            answer(call("1", "read", path="b"), call("2", "read", path="a"), call("3", "read", path="c")),
            User("no path here", 0),
            answer(call("4", "edit", path="b"), call("5", "write", path="d")),
            answer(call("6", "edit", path="never"), stop="aborted"),
        ]
    )
    assert files.details == {"readFiles": ["a", "c"], "modifiedFiles": ["b", "d"]}
    assert files.list_text == "\n\n<read-files>\na\nc\n</read-files>\n\n<modified-files>\nb\nd\n</modified-files>"


def test_lists_without_files_are_left_out() -> None:
    assert TouchedFiles().list_text == ""
    assert TouchedFiles(frozenset("a")).list_text == "\n\n<read-files>\na\n</read-files>"
    assert TouchedFiles(modified=frozenset("a")).list_text == "\n\n<modified-files>\na\n</modified-files>"


@pytest.mark.parametrize("details", [None, 7, [], {}, {"readFiles": 7}, {"readFiles": [7], "modifiedFiles": {"a": 1}}])
def test_strange_details_hold_no_files(details: object) -> None:
    assert files_in_details(details) == TouchedFiles()


def test_the_files_of_an_earlier_summary_are_read_back() -> None:
    files = TouchedFiles(frozenset({"a", "b"}), frozenset({"c"}))
    assert files_in_details(files.details) == files


@pytest.mark.parametrize(
    "lists", ["", *(TouchedFiles(frozenset(r), frozenset(m)).list_text for r, m in ("a ", " b", "ab", "  "))]
)
def test_an_earlier_summary_is_handed_on_without_its_lists(lists: str) -> None:
    assert strip_file_lists(f"## Goal\n<read-files>{lists}") == "## Goal\n<read-files>"


def test_only_the_lists_at_the_end_are_taken_off() -> None:
    text = "a\n\n<read-files>\nx\n</read-files>\n\nb"
    assert strip_file_lists(text) == text
