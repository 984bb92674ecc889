from __future__ import annotations

from typing import Any

import pytest

from support.loop_kit import assistant, call, for_model, user
from support.readers.google import HALF, MODEL, chunk
from support.recorded_streams import BASH, CALLS, Reading, asking, fails, sse
from tau.errors import ModelError
from tau.llm import google as api
from tau.llm.google import conversation
from tau.llm.types import CallOptions, ModelContext, ModelRequest
from tau.records.base import UNSET, replace
from tau.records.messages import Image, Text, Thinking, ToolCall, ToolResult, Usage, User
from tau.records.models import Model, ThinkingLevel

NEWER = replace(MODEL, id="gemini-3-pro-preview")
PICTURE = Image("QUJD", "image/png")
SHOWN = {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}


def wire_messages(*messages: Any, model: Model = MODEL) -> list[dict[str, Any]]:
    return conversation(messages, model)


# What is sent.


def test_a_request_has_all_its_parts() -> None:
    assert asking(api, MODEL, user("hi"), thinking="medium") == ModelRequest(
        "https://api.example.com/v1beta/models/gemini-x:streamGenerateContent?alt=sse",
        {"x-goog-api-key": "secret-key"},
        {
            "contents": [{"parts": [{"text": "hi"}], "role": "user"}],
            "systemInstruction": {"parts": [{"text": "Be nice."}], "role": "user"},
            "tools": [
                {
                    "functionDeclarations": [
                        {"name": "bash", "description": "run", "parametersJsonSchema": BASH.parameters}
                    ]
                }
            ],
            "generationConfig": {
                "maxOutputTokens": 8192,
                "thinkingConfig": {"includeThoughts": True, "thinkingBudget": -1},
            },
        },
    )


def test_what_there_is_none_of_is_left_out() -> None:
    bare = api.request(replace(MODEL, reasoning=False), ModelContext("", [], []), CallOptions(thinking="high"))
    assert bare.body == {"contents": [], "generationConfig": {"maxOutputTokens": 8192}}
    assert bare.headers == {}


def test_the_limit_is_what_the_caller_wants() -> None:
    assert asking(api, MODEL, max_tokens=1000).body["generationConfig"]["maxOutputTokens"] == 1000
    assert "maxOutputTokens" not in asking(api, replace(MODEL, context_window=8192)).body["generationConfig"]


@pytest.mark.parametrize(
    ("id", "level", "config"),
    [
        ("gemini-2.5-pro", "off", {"thinkingBudget": 128}),
        ("gemini-2.5-pro", "minimal", {"includeThoughts": True, "thinkingBudget": 128}),
        ("gemini-2.5-pro", "low", {"includeThoughts": True, "thinkingBudget": 2048}),
        ("gemini-2.5-pro", "high", {"includeThoughts": True, "thinkingBudget": 32768}),
        ("gemini-2.5-pro", "xhigh", {"includeThoughts": True, "thinkingBudget": 32768}),
        ("gemini-2.5-flash", "off", {"thinkingBudget": 0}),
        ("gemini-2.5-flash", "medium", {"includeThoughts": True, "thinkingBudget": 8192}),
        ("gemini-2.5-flash", "high", {"includeThoughts": True, "thinkingBudget": 24576}),
        ("gemini-2.5-flash", "max", {"includeThoughts": True, "thinkingBudget": 24576}),
        ("gemini-2.5-flash-lite", "minimal", {"includeThoughts": True, "thinkingBudget": 512}),
        ("gemini-3-pro-preview", "off", {"thinkingLevel": "LOW"}),
        ("gemini-3-pro-preview", "minimal", {"includeThoughts": True, "thinkingLevel": "LOW"}),
        ("gemini-3.1-pro-preview", "medium", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("gemini-3-flash", "off", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3-flash", "minimal", {"includeThoughts": True, "thinkingLevel": "MINIMAL"}),
        ("gemini-3-flash", "medium", {"includeThoughts": True, "thinkingLevel": "MEDIUM"}),
        ("gemini-3-flash", "max", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("gemini-x", "off", {"thinkingBudget": 0}),
        ("gemini-x", "high", {"includeThoughts": True, "thinkingBudget": -1}),
    ],
)
def test_every_family_is_told_to_think_in_its_own_way(
    id: str, level: ThinkingLevel, config: dict[str, Any] | None
) -> None:
    body = asking(api, replace(MODEL, id=id), thinking=level).body
    assert body["generationConfig"].get("thinkingConfig") == config


def test_the_words_of_the_model_and_the_budgets_of_the_user_win() -> None:
    mapped = replace(NEWER, thinking_level_map={"medium": "medium"})
    config = asking(api, mapped, thinking="medium").body["generationConfig"]["thinkingConfig"]
    assert config == {"includeThoughts": True, "thinkingLevel": "MEDIUM"}
    older = replace(MODEL, id="gemini-2.5-pro")
    config = asking(api, older, thinking="low", budgets={"low": 99}).body["generationConfig"]["thinkingConfig"]
    assert config == {"includeThoughts": True, "thinkingBudget": 99}


def test_a_turn_with_tools_is_sent_as_the_api_expects_it() -> None:
    one, two = call("one", a="é"), call("two")
    said = [
        user("go"),
        assistant(Thinking("hm", "c2ln"), Text("ok", "c2ln"), one, two),
        ToolResult(one.id, "one", [Text("1"), Text("more")]),
        ToolResult(two.id, "two", [], {}, True),
        assistant("done"),
    ]
    assert wire_messages(*said) == [
        {"parts": [{"text": "go"}], "role": "user"},
        {
            "parts": [
                {"text": "hm", "thought": True, "thoughtSignature": "c2ln"},
                {"text": "ok", "thoughtSignature": "c2ln"},
                {"functionCall": {"name": "one", "args": {"a": "é"}}},
                {"functionCall": {"name": "two", "args": {}}},
            ],
            "role": "model",
        },
        {
            "parts": [
                {"functionResponse": {"name": "one", "response": {"output": "1\nmore"}}},
                {"functionResponse": {"name": "two", "response": {"error": "(no tool output)"}}},
            ],
            "role": "user",
        },
        {"parts": [{"text": "done"}], "role": "model"},
    ]


@pytest.mark.parametrize(
    ("signature", "sent"),
    [
        ("c2ln", True),
        ("c2lnLTE=", True),
        ("YQ==", True),
        ("sig-abc", False),
        ("abc", False),
        ("", False),
        ("====", False),
    ],
)
def test_only_what_is_base64_is_a_signature(signature: str, sent: bool) -> None:
    (turn,) = wire_messages(assistant(Thinking("hm", signature)))
    assert ("thoughtSignature" in turn["parts"][0]) is sent


@pytest.mark.parametrize(
    ("signatures", "sent"),
    [
        (["c2ln", UNSET], ["c2ln", None]),
        (["c2ln", "c2lnMg=="], ["c2ln", "c2lnMg=="]),
        ([UNSET, UNSET], ["skip_thought_signature_validator", None]),
    ],
)
def test_the_first_of_parallel_calls_needs_a_signature_for_newer_models(signatures: list[Any], sent: list[Any]) -> None:
    said = assistant("ok", *(ToolCall(str(at), "ls", {}, signature) for at, signature in enumerate(signatures)))
    (turn,) = wire_messages(said, model=NEWER)
    assert [part.get("thoughtSignature") for part in turn["parts"]] == [None, *sent]


def test_ids_that_google_gave_go_back_and_others_do_not() -> None:
    call = {"name": "ls", "args": {}}
    given = [{"functionCall": {**call, "id": "i1"}}, {"functionCall": call}, {"functionCall": {**call, "id": "i2"}}]
    said = Reading(api, NEWER, [chunk(*given, finish="STOP")]).end().done.message
    results = [ToolResult(call.id, "ls", [Text("a")]) for call in said.tool_calls]
    sent = wire_messages(*for_model([said, *results], NEWER), model=NEWER)
    assert [_ids(turn) for turn in sent] == [["i1", None, "i2"]] * 2
    other = replace(NEWER, id="gemini-4-pro")
    assert [_ids(turn) for turn in wire_messages(*for_model([said, *results], other), model=other)] == [[None] * 3] * 2


def _ids(turn: dict[str, Any]) -> list[str | None]:
    """The ids of the calls or results of a turn."""
    return [(part.get("functionCall") or part["functionResponse"]).get("id") for part in turn["parts"]]


def test_other_models_behind_this_api_get_ids() -> None:
    claude = replace(MODEL, id="claude-x")
    sent = wire_messages(assistant(call("ls")), ToolResult("call_ls", "ls", [Text("a")]), model=claude)
    assert sent[0]["parts"][0]["functionCall"]["id"] == "call_ls"
    assert sent[1]["parts"][0]["functionResponse"]["id"] == "call_ls"


def test_images_of_tools_stand_in_the_response_or_beside_it() -> None:
    shown = ToolResult("call_ls", "read", [PICTURE])
    said = [User([Text("look"), PICTURE], 0), assistant(call("ls")), shown]
    response = {"name": "read", "response": {"output": "(see attached image)"}}
    assert wire_messages(*said)[0]["parts"] == [{"text": "look"}, SHOWN]
    assert wire_messages(*said)[2:] == [
        {"parts": [{"functionResponse": response}], "role": "user"},
        {"parts": [{"text": "Images that belong to the tool results above:"}, SHOWN], "role": "user"},
    ]
    assert wire_messages(*said, model=NEWER)[2:] == [
        {"parts": [{"functionResponse": {**response, "parts": [SHOWN]}}], "role": "user"}
    ]


def test_empty_text_is_never_sent() -> None:
    assert wire_messages(user(" "), User([Text(""), PICTURE], 0), assistant(" ", Thinking(" "))) == [
        {"parts": [SHOWN], "role": "user"}
    ]


# Vertex AI.

VERTEX = replace(MODEL, api="google-vertex", base_url="https://{location}-aiplatform.googleapis.com")
ACCOUNT = {"GOOGLE_OAUTH_ACCESS_TOKEN": "tok", "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "europe-west4"}
PATH = "/models/gemini-x:streamGenerateContent?alt=sse"


def on_vertex(model: Model = VERTEX, key: str | None = "<authenticated>", **environment: str) -> ModelRequest:
    return api.request(model, ModelContext("", [user("hi")], []), CallOptions(key, environment=environment))


@pytest.mark.parametrize("key", ["real-key", None, "<authenticated>"])
def test_vertex_takes_a_key(key: str | None) -> None:
    sent = on_vertex(key=key, GOOGLE_CLOUD_API_KEY="real-key")
    assert sent.url == f"https://aiplatform.googleapis.com/v1/publishers/google{PATH}"
    assert sent.headers == {"x-goog-api-key": "real-key"}


@pytest.mark.parametrize(
    ("location", "host"),
    [("europe-west4", "europe-west4-aiplatform.googleapis.com"), ("global", "aiplatform.googleapis.com")],
)
def test_vertex_takes_an_account_of_a_project(location: str, host: str) -> None:
    sent = on_vertex(**{**ACCOUNT, "GOOGLE_CLOUD_LOCATION": location})
    assert sent.url == f"https://{host}/v1/projects/p/locations/{location}/publishers/google{PATH}"
    assert sent.headers == {"authorization": "Bearer tok"}


def test_vertex_may_be_somewhere_else() -> None:
    near = replace(VERTEX, base_url="http://127.0.0.1:1/")
    assert on_vertex(near, key="k").url == f"http://127.0.0.1:1/v1/publishers/google{PATH}"


@pytest.mark.parametrize("missing", list(ACCOUNT))
def test_vertex_says_what_is_missing(missing: str) -> None:
    with pytest.raises(ModelError, match="GOOGLE_CLOUD_API_KEY") as caught:
        on_vertex(**{name: value for name, value in ACCOUNT.items() if name != missing})
    assert caught.value.transient is False


# What comes back.


def read(*events: bytes) -> Reading:
    return Reading(api, MODEL, events).end()


@pytest.mark.parametrize("recorded_call", CALLS, ids=range(len(CALLS)))
def test_arguments_cut_at_any_byte_never_become_a_call_that_can_run(recorded_call: dict[str, Any]) -> None:
    """Calls come whole here, so a cut goes through the event."""
    given = {"name": recorded_call["name"], "args": recorded_call["arguments"]}
    event = chunk({"functionCall": given})
    end = chunk(finish="STOP")
    for cut in range(len(b"data: ") + 1, len(event) - len(b"\n\n")):
        _, reading = fails(api, MODEL, [], event[:cut] + b"\n\n" + end)
        assert reading.draft.message("error").tool_calls == []
    (whole,) = read(event, end).done.message.tool_calls
    assert whole.arguments == recorded_call["arguments"]


def test_calls_without_an_id_or_with_one_twice_get_their_own() -> None:
    call = {"name": "ls", "args": {}}
    parts = [{"functionCall": {**call, "id": "a"}}, {"functionCall": {**call, "id": "a"}}, {"functionCall": call}]
    calls = read(chunk(*parts, finish="STOP")).done.message.tool_calls
    assert [one.id for one in calls] == ["a", "ls_0_1", "ls_0_2"]


def test_the_last_signature_is_the_one_that_counts() -> None:
    thought = {"text": "a", "thought": True, "thoughtSignature": "b25l"}
    reading = read(
        chunk(thought),
        chunk({**thought, "thoughtSignature": "dHdv"}),
        chunk({"text": "b", "thought": True}),
        chunk({"text": "yes"}),
        chunk({"text": "", "thoughtSignature": "dGhyZWU="}, finish="STOP"),
    )
    assert reading.done.message.content == [Thinking("aab", "dHdv"), Text("yes", "dGhyZWU=")]


def test_a_prompt_that_is_blocked_is_an_error() -> None:
    error, _ = fails(api, MODEL, [], sse({"promptFeedback": {"blockReason": "SAFETY"}}))
    assert "SAFETY" in str(error) and error.transient is False


def test_parts_of_a_newer_api_are_passed_over() -> None:
    reading = read(chunk({"executableCode": {}}, {"text": "hi"}, {"inlineData": {}}), chunk(finish="STOP"))
    assert reading.done.message.content == [Text("hi")]


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (
            {"promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 2},
            Usage(10, 7, 0, 0, 17, reasoning=2),
        ),
        (
            {"promptTokenCount": 10, "toolUsePromptTokenCount": 1, "cachedContentTokenCount": 4},
            Usage(7, 0, 4, 0, 11, reasoning=0),
        ),
        ({"promptTokenCount": 3, "cachedContentTokenCount": 4}, Usage(0, 0, 3, 0, 3, reasoning=0)),
        ({"promptTokenCount": "many"}, Usage(reasoning=0)),
        ("none", Usage()),
    ],
)
def test_tokens_are_counted(usage: Any, counted: Usage) -> None:
    assert read(*HALF, chunk(finish="STOP", usageMetadata=usage)).done.message.usage == counted
