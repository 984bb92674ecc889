from __future__ import annotations

import re

import pytest

from support.loop_kit import MODEL, assistant, call, for_model, user
from tau.core.conversation.provider_messages import (
    ID_RULES,
    ModelMessage,
    bash_text,
    strip_surrogates,
    strip_surrogates_in,
)
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


def spoken(*messages: AnyMessage) -> list[ModelMessage]:
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


def test_another_model_gets_no_thinking_and_no_signatures() -> None:
    signed = ToolCall("1", "ls", {"a": 1}, "sig")
    content = [Thinking("hm", "sig"), Thinking("[r]", "payload", True), Thinking(" "), Text("yes", "sig"), signed]
    (answer, _) = for_model([assistant(*content)], OTHER)
    assert isinstance(answer, Assistant)
    assert answer.content == [Text("yes"), ToolCall("1", "ls", {"a": 1})]


@pytest.mark.parametrize("change", [{"id": "x"}, {"provider": "x"}, {"api": "x"}])
def test_a_model_is_the_same_only_in_name_provider_and_api(change: dict[str, str]) -> None:
    (answer,) = for_model([assistant(Thinking("hm", "sig"))], replace(MODEL, **change))
    assert isinstance(answer, Assistant) and answer.content == []


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


def test_a_picture_without_words_leaves_word_of_itself() -> None:
    told = [user("(image omitted: the model cannot see images)")]
    assert for_model([User([PICTURE, PICTURE], 0)], BLIND) == told
    assert for_model([User([Text(" "), PICTURE], 0)], BLIND) == told


def test_the_user_may_forbid_images() -> None:
    blocked = Text("Image reading is disabled.")
    said = [
        User([PICTURE, PICTURE, Text("look"), PICTURE], 0),
        assistant(LS),
        ToolResult(LS.id, "read", [PICTURE, Text("a")]),
    ]
    assert for_model(said, MODEL, block_images=True) == [
        User([blocked, Text("look"), blocked], 0),
        assistant(LS),
        ToolResult(LS.id, "read", [blocked, Text("a")]),
    ]


def test_the_same_words_said_twice_by_the_user_are_no_images() -> None:
    twice = User([Text("Image reading is disabled."), Text("Image reading is disabled.")], 0)
    assert for_model([twice], MODEL, block_images=True) == [twice]


def test_an_empty_thought_is_kept_only_if_it_is_signed() -> None:
    (answer,) = for_model([assistant(Thinking(""), Thinking(" "), Thinking("", "sig"), "yes")], MODEL)
    assert isinstance(answer, Assistant) and answer.content == [Thinking("", "sig"), Text("yes")]


# Ids of tool calls.


def ids(api: str, *given: str, same: bool = False, **model: str) -> list[str]:
    """How the ids of one answer are told to a model of `api`; its results must follow."""
    target = replace(MODEL, api=api, **model)
    answer = assistant(*(ToolCall(id, "ls", {"n": at}) for at, id in enumerate(given)))
    if same:
        answer = replace(answer, api=target.api, provider=target.provider, model=target.id)
    results = [ToolResult(id, "ls", [Text(str(at))]) for at, id in enumerate(given)]
    said, *heard = for_model([answer, *results], target)
    assert isinstance(said, Assistant)
    assert [(one.tool_call_id, one.content) for one in heard if isinstance(one, ToolResult)] == [
        (call.id, [Text(str(at))]) for at, call in enumerate(said.tool_calls)
    ]
    return [call.id for call in said.tool_calls]


@pytest.mark.parametrize("api", ["anthropic-messages", "bedrock-converse-stream", "bedrock-anthropic-messages"])
def test_ids_for_claude_are_plain_and_short(api: str) -> None:
    assert ids(api, "call_1|fc_2", "é" * 70, "ok-1_2", "") == ["call_1_fc_2", "_" * 64, "ok-1_2", "call"]


def test_ids_for_chat_keep_what_they_had_before_the_pipe() -> None:
    given = ["call_1|fc_2", "x" * 50, "a.b:c"]
    assert ids("openai-completions", *given) == ["call_1", "x" * 50, "a.b:c"]
    assert ids("openai-completions", *given, provider="openai") == ["call_1", "x" * 40, "a.b:c"]
    assert ids("openai-completions", "c.d|fc_2", "y" * 50 + "|fc") == ["c_d", "y" * 40]


@pytest.mark.parametrize("api", ["openai-responses", "azure-openai-responses"])
def test_ids_of_items_are_for_the_model_that_made_them(api: str) -> None:
    given = ["call_1|fc_2", "call.3|item_4", "call_5", "x" * 70 + "|fc_" + "y" * 70, "z__|fc_9__"]
    assert ids(api, *given) == ["call_1", "call_3", "call_5", "x" * 64, "z"]
    assert ids(api, *given, same=True) == [
        "call_1|fc_2",
        "call_3|fc_item_4",
        "call_5",
        f"{'x' * 64}|fc_{'y' * 61}",
        "z|fc_9",
    ]


@pytest.mark.parametrize("api", ["google-generative-ai", "google-vertex"])
def test_ids_for_gemini_stay_as_they_are_and_others_behind_it_get_plain_ones(api: str) -> None:
    assert ids(api, "call_1|fc_2", "a.b") == ["call_1|fc_2", "a.b"]
    assert ids(api, "call_1|fc_2", "a.b", id="claude-x") == ["call_1_fc_2", "a_b"]
    assert ids(api, "call_1|fc_2", "a.b", id="gpt-oss-x") == ["call_1_fc_2", "a_b"]


@pytest.mark.parametrize(("api", "provider"), [("mistral-conversations", "mistral"), ("openai-completions", "mistral")])
def test_ids_for_mistral_have_nine_letters_and_digits(api: str, provider: str) -> None:
    given = ["abcDEF123", "call_1|fc_2", "", "abcDEF123"]
    kept, *made = ids(api, *given, provider=provider)
    assert kept == "abcDEF123"
    assert all(re.fullmatch(r"[A-Za-z0-9]{9}", id) for id in made)
    assert len({kept, *made}) == 4
    assert ids(api, *given, provider=provider) == [kept, *made]


@pytest.mark.parametrize("api", ID_RULES)
def test_ids_are_unique_in_the_whole_conversation_and_results_follow_their_calls(api: str) -> None:
    target = replace(MODEL, api=api)
    first, second = ToolCall("same", "ls", {"n": 1}), ToolCall("same", "ls", {"n": 2})
    history: list[AnyMessage] = []
    for _ in range(3):
        history += [user("go"), assistant(first, second), result(first, "1"), result(second, "2")]
    sent = for_model(history, target)
    calls = [call for message in sent if isinstance(message, Assistant) for call in message.tool_calls]
    results = [message for message in sent if isinstance(message, ToolResult)]
    assert len({call.id for call in calls}) == 6
    assert [one.tool_call_id for one in results] == [call.id for call in calls]
    assert [one.content for one in results] == [[Text("1")], [Text("2")]] * 3
    # What was sent before is sent the same again, or no cache would know it.
    assert for_model(history[:4], target) == sent[:4]


def test_long_ids_that_differ_only_at_their_end_stay_apart() -> None:
    made = ids("anthropic-messages", "x" * 70 + "1", "x" * 70 + "2", "x" * 70 + "3")
    assert made == ["x" * 64, "x" * 62 + "_2", "x" * 62 + "_3"]


def test_a_result_that_had_to_be_made_up_has_the_new_id() -> None:
    answer = assistant(ToolCall("a.b", "ls", {}))
    (_, made) = for_model([answer], replace(MODEL, api="anthropic-messages"))
    assert isinstance(made, ToolResult) and (made.tool_call_id, made.is_error) == ("a_b", True)


# Text that can be sent.


@pytest.mark.parametrize(
    ("text", "sent"),
    [("a\ud800b", "ab"), ("\udc00", ""), ("\ud83d\ude00", "😀"), ("é\x00😀", "é\x00😀"), ("\ude00\ud83d", "")],
)
def test_half_characters_are_left_out(text: str, sent: str) -> None:
    assert strip_surrogates(text) == sent
    assert strip_surrogates_in({text: [text, 1, None, {"a": text}]}) == {sent: [sent, 1, None, {"a": sent}]}
