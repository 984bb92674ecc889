from __future__ import annotations

import pytest

from kit import MODEL, assistant, call, user
from tau.core.convert import Spoken, bash_text, for_model
from tau.records.base import replace
from tau.records.messages import (
    AnyMessage,
    Assistant,
    BashExecution,
    BranchSummary,
    CompactionSummary,
    Custom,
    Image,
    Other,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)

OTHER = replace(MODEL, id="m-2")
BLIND = replace(MODEL, input=["text"])
PICTURE = Image("QUJD", "image/png")
LS = call("ls")


def spoken(*messages: AnyMessage) -> list[Spoken]:
    return for_model(messages, MODEL)


def result(called: ToolCall, text: str = "done") -> ToolResult:
    return ToolResult(called.id, called.name, [Text(text)])


def no_result(called: ToolCall) -> ToolResult:
    return ToolResult(called.id, called.name, [Text("No result provided")], {}, True)


def test_what_was_said_is_passed_on() -> None:
    said = [user("hi"), assistant("yes", LS), result(LS), assistant("done")]
    assert spoken(*said) == said


def test_a_plain_string_becomes_a_block() -> None:
    assert spoken(User("hi", 0)) == [user("hi")]


# The client's commands.


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (BashExecution("ls", "a\nb", 0), "Ran `ls`\n```\na\nb\n```"),
        (BashExecution("true", "", 0), "Ran `true`\n(no output)"),
        (BashExecution("false", "", 1), "Ran `false`\n(no output)\n\nCommand exited with code 1"),
        (BashExecution("sleep", "a", cancelled=True), "Ran `sleep`\n```\na\n```\n\n(command cancelled)"),
        (
            BashExecution("yes", "y", 2, truncated=True, full_output_path="/tmp/x.log"),
            "Ran `yes`\n```\ny\n```\n\nCommand exited with code 2\n\n[Output truncated. Full output: /tmp/x.log]",
        ),
        (BashExecution("yes", "y", 0, truncated=True), "Ran `yes`\n```\ny\n```"),
    ],
)
def test_a_command_of_the_client_is_told_in_the_documented_form(message: BashExecution, text: str) -> None:
    assert bash_text(message) == text
    assert spoken(message) == [user(text)]


def test_a_command_may_be_kept_from_the_model() -> None:
    assert spoken(BashExecution("ls", "a", 0, exclude_from_context=True)) == []
    assert len(spoken(BashExecution("ls", "a", 0, exclude_from_context=False))) == 1


# Others who speak.


def test_extensions_and_summaries_speak_as_the_user() -> None:
    compacted, branched = CompactionSummary("long ago", 9), BranchSummary("elsewhere", "id")
    said = spoken(Custom("note", "n", False), Custom("note", [Text("m"), PICTURE], True), compacted, branched)
    assert said[:2] == [user("n"), User([Text("m"), PICTURE], 0)]
    long_ago, elsewhere = [message.content[0].text for message in said[2:]]  # type: ignore[union-attr]
    assert long_ago.endswith("\n\n<summary>\nlong ago\n</summary>")
    assert elsewhere.endswith("\n\n<summary>\nelsewhere</summary>")


def test_a_role_of_another_program_is_left_out() -> None:
    assert spoken(user("hi"), Other("system")) == [user("hi")]  # type: ignore[arg-type]


# Pairs.


def test_a_failed_answer_is_left_out_with_its_calls_and_their_results() -> None:
    for stop in ("error", "aborted"):
        failed = assistant("half", LS, stop=stop)  # type: ignore[arg-type]
        assert spoken(user("hi"), failed, result(LS), user("again")) == [user("hi"), user("again")]


def test_a_call_without_a_result_gets_one() -> None:
    one, two = call("one"), call("two")
    assert spoken(assistant(one, two), result(two), user("go on")) == [
        assistant(one, two),
        result(two),
        no_result(one),
        user("go on"),
    ]
    assert spoken(assistant(one), assistant("next")) == [assistant(one), no_result(one), assistant("next")]
    assert spoken(assistant(one)) == [assistant(one), no_result(one)]


def test_a_result_without_a_call_is_dropped() -> None:
    assert spoken(user("hi"), result(LS)) == [user("hi")]
    assert spoken(assistant(LS), result(LS, "1"), result(LS, "2")) == [assistant(LS), result(LS, "1")]


def test_a_result_that_comes_too_late_is_dropped() -> None:
    assert spoken(assistant(LS), user("hey"), result(LS)) == [assistant(LS), no_result(LS), user("hey")]


def test_calls_with_the_same_id_get_a_result_each() -> None:
    first, second = ToolCall("same", "ls", {"n": 1}), ToolCall("same", "ls", {"n": 2})
    said = [assistant(first, second), result(first, "1"), result(second, "2")]
    assert spoken(*said) == said
    assert spoken(*said[:2]) == [*said[:2], no_result(second)]


# What a model cannot read.


def test_the_same_model_gets_its_thinking_back() -> None:
    answer = assistant(Thinking("hm", "sig"), Thinking("[Reasoning redacted]", "payload", True), Text("yes", "sig"))
    assert for_model([answer], MODEL) == [answer]


def test_another_model_gets_thinking_as_text_and_no_signatures() -> None:
    signed = ToolCall("1", "ls", {"a": 1}, "sig")
    content = [Thinking("hm", "sig"), Thinking("[r]", "payload", True), Thinking(" "), Text("yes", "sig"), signed]
    (answer, _) = for_model([assistant(*content)], OTHER)
    assert isinstance(answer, Assistant)
    assert answer.content == [Text("hm"), Text("yes"), ToolCall("1", "ls", {"a": 1})]


@pytest.mark.parametrize("change", [{"id": "x"}, {"provider": "x"}, {"api": "x"}])
def test_a_model_is_the_same_only_in_name_provider_and_api(change: dict[str, str]) -> None:
    (answer,) = for_model([assistant(Thinking("hm", "sig"))], replace(MODEL, **change))
    assert isinstance(answer, Assistant) and answer.content == [Text("hm")]


def test_a_model_without_eyes_gets_no_images() -> None:
    shown = ToolResult(LS.id, "read", [PICTURE])
    mixed = ToolResult(LS.id, "read", [Text("a"), PICTURE])
    assert for_model([User([Text("look"), PICTURE], 0)], BLIND) == [user("look")]
    assert for_model([assistant(LS), mixed], BLIND)[1] == ToolResult(LS.id, "read", [Text("a")])
    told = for_model([assistant(LS), shown], BLIND)[1]
    assert isinstance(told, ToolResult) and all(isinstance(block, Text) and block.text for block in told.content)


def test_a_model_with_eyes_gets_them() -> None:
    said = [User([Text("look"), PICTURE], 0), assistant(LS), ToolResult(LS.id, "read", [PICTURE])]
    assert for_model(said, MODEL) == said


def test_an_empty_result_stays_empty() -> None:
    assert for_model([assistant(LS), ToolResult(LS.id, "ls", [])], BLIND)[1] == ToolResult(LS.id, "ls", [])
