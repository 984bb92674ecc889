from __future__ import annotations

from typing import Any

import pytest

from support.loop_kit import assistant, call, for_model, user
from support.readers.openai_chat import DONE, FREE, MODEL, RECORDED, calling, chunk
from support.recorded_streams import Reading, asking, fails, sse, ways
from tau.core.agent.draft import MessageDone
from tau.core.models.failures import classify
from tau.errors import ModelError
from tau.llm import openai_chat as api
from tau.llm.compat import Compat, compat
from tau.llm.openai_chat import conversation
from tau.llm.types import CallOptions, ModelContext, ModelRequest
from tau.records.base import decode, encode, replace
from tau.records.messages import Assistant, Image, Text, Thinking, ToolCall, ToolResult, Usage, UsageCost, User
from tau.records.models import Model, Price, ThinkingLevel

PICTURE = Image("QUJD", "image/png")
URL = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}


def wire_messages(*messages: Any, model: Model = MODEL, system: str = "", **flags: Any) -> list[dict[str, Any]]:
    return conversation(model, ModelContext(system, messages, []), Compat(**flags))


# What is sent.


def test_a_request_has_all_its_parts() -> None:
    assert asking(api, MODEL, user("hi"), thinking="medium") == ModelRequest(
        "https://api.example.com/v1/chat/completions",
        {"authorization": "Bearer secret-key"},
        {
            "model": "m-chat",
            "messages": [
                {"role": "developer", "content": "Be nice."},
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
            "store": False,
            "max_completion_tokens": 8192,
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "bash",
                        "description": "run",
                        "parameters": {"type": "object", "properties": {}},
                    },
                }
            ],
            "reasoning_effort": "medium",
        },
    )


def test_what_there_is_none_of_is_left_out() -> None:
    plain = replace(MODEL, reasoning=False)
    bare = api.request(plain, ModelContext("", [], []), CallOptions(thinking="high"))
    assert list(bare.body) == ["model", "messages", "stream", "stream_options", "store", "max_completion_tokens"]
    assert bare.headers == {}


def test_headers_of_the_model_come_before_ours() -> None:
    own = replace(MODEL, headers={"Authorization": "Basic x", "X-Team": "a"})
    assert asking(api, own).headers == {"authorization": "Basic x", "x-team": "a"}


def test_an_address_may_have_parts_that_the_environment_knows() -> None:
    cloud = replace(MODEL, base_url="https://api.example.com/{ACCOUNT_ID}/v1/")
    assert asking(api, cloud, environment={"ACCOUNT_ID": "a1"}).url == "https://api.example.com/a1/v1/chat/completions"


@pytest.mark.parametrize(
    ("model", "asked", "sent"),
    [
        (MODEL, None, 8192),
        (replace(MODEL, max_tokens=100000), None, 100000),
        (replace(MODEL, max_tokens=100000), 50000, 50000),
        (MODEL, 1000, 1000),
        (MODEL, 50000, 8192),
        (replace(MODEL, context_window=8192), None, None),  # a limit that is none
        (replace(MODEL, context_window=8192), 1000, 1000),
    ],
)
def test_an_answer_may_be_as_long_as_the_model_and_the_caller_allow(
    model: Model, asked: int | None, sent: int | None
) -> None:
    assert asking(api, model, max_tokens=asked).body.get("max_completion_tokens") == sent


def test_tools_are_mentioned_when_there_were_some() -> None:
    ls = call("ls")
    said = [user("hi"), assistant(ls), ToolResult(ls.id, "ls", [Text("a")])]
    assert api.request(MODEL, ModelContext("", said, []), CallOptions()).body["tools"] == []
    assert "tools" not in api.request(MODEL, ModelContext("", said[:1], []), CallOptions()).body


def test_a_turn_with_tools_is_sent_as_the_api_expects_it() -> None:
    one, two = call("one", a="é"), call("two")
    said = [
        user("go"),
        assistant(Thinking("hm", "reasoning_content"), "ok", one, two),
        ToolResult(one.id, "one", [Text("1"), Text("more")]),
        ToolResult(two.id, "two", [], {}, True),
        assistant("done"),
        user("more"),
    ]
    assert wire_messages(*said) == [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {
            "role": "assistant",
            "content": "ok",
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "call_one", "type": "function", "function": {"name": "one", "arguments": '{"a":"é"}'}},
                {"id": "call_two", "type": "function", "function": {"name": "two", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "content": "1\nmore", "tool_call_id": "call_one"},
        {"role": "tool", "content": "(no tool output)", "tool_call_id": "call_two"},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": [{"type": "text", "text": "more"}]},
    ]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_thinking_goes_back_where_it_came_from(field: str) -> None:
    assert wire_messages(assistant(Thinking("a", field), Thinking("b", field), "yes")) == [
        {"role": "assistant", "content": "yes", field: "a\nb"}
    ]


def test_thinking_of_no_known_origin_is_left_out() -> None:
    assert wire_messages(assistant(Thinking("a", "sig"), Thinking("b"), "yes")) == [
        {"role": "assistant", "content": "yes"}
    ]
    assert wire_messages(assistant(Thinking("a", "reasoning"))) == []


def test_encrypted_reasoning_of_older_sessions_goes_back_with_its_call() -> None:
    signed = ToolCall("1", "ls", {}, '{"type":"reasoning.encrypted","id":"1","data":"x"}')
    (message,) = wire_messages(assistant(signed, ToolCall("2", "ls", {}, "no json")))
    assert message["reasoning_details"] == [{"type": "reasoning.encrypted", "id": "1", "data": "x"}]
    assert message["content"] is None


def test_images_are_shown_by_the_user() -> None:
    ls = call("ls")
    said = [
        User([Text("look"), PICTURE], 0),
        assistant(ls),
        ToolResult(ls.id, "read", [PICTURE]),
        assistant(ls),
        ToolResult(ls.id, "read", [Text("a"), PICTURE]),
    ]
    sent = wire_messages(*said)
    attached = {"type": "text", "text": "Images that belong to the tool results above:"}
    assert sent[0]["content"] == [{"type": "text", "text": "look"}, URL]
    assert sent[2:4] == [
        {"role": "tool", "content": "(see attached image)", "tool_call_id": "call_ls"},
        {"role": "user", "content": [attached, URL]},
    ]
    assert sent[5:] == [
        {"role": "tool", "content": "a", "tool_call_id": "call_ls"},
        {"role": "user", "content": [attached, URL]},
    ]


def test_empty_text_is_never_sent() -> None:
    assert wire_messages(user(" "), User([Text(""), PICTURE], 0), assistant("  "), assistant()) == [
        {"role": "user", "content": [URL]}
    ]


# What servers want differently.


def test_old_servers_get_what_they_know() -> None:
    flags = {
        "supportsStore": False,
        "supportsDeveloperRole": False,
        "supportsReasoningEffort": False,
        "supportsUsageInStreaming": False,
        "supportsStrictMode": False,
        "maxTokensField": "max_tokens",
    }
    body = asking(api, replace(MODEL, compat=flags), user("hi"), thinking="high").body
    assert list(body) == ["model", "messages", "stream", "max_tokens", "tools"]
    assert body["messages"][0]["role"] == "system"
    assert "strict" not in body["tools"][0]["function"]


def test_results_may_need_names_and_an_answer_after_them() -> None:
    ls = call("ls")
    said = [assistant(ls), ToolResult(ls.id, "ls", [Text("a")]), user("go on")]
    sent = wire_messages(*said, requires_tool_result_name=True, requires_assistant_after_tool_result=True)
    assert sent[0]["content"] == ""
    assert sent[1]["name"] == "ls"
    assert [message["role"] for message in sent] == ["assistant", "tool", "assistant", "user"]


def test_thinking_may_have_to_be_text() -> None:
    sent = wire_messages(assistant(Thinking("hm", "reasoning"), "yes"), requires_thinking_as_text=True)
    assert sent == [{"role": "assistant", "content": "hm\n\nyes"}]


def test_every_answer_may_need_its_reasoning() -> None:
    deep = replace(MODEL, provider="deepseek")
    said = [assistant("one"), assistant(Thinking("hm", "reasoning_content"), "two")]
    thinking = asking(api, deep, *said, thinking="high").body["messages"][1:]
    assert [message["reasoning_content"] for message in thinking] == ["", "hm"]
    assert "reasoning_content" not in asking(api, deep, *said).body["messages"][1]


@pytest.mark.parametrize(
    ("provider", "url", "differs"),
    [
        ("lab", "http://127.0.0.1:1/v1", {}),
        ("openai", "https://api.openai.com/v1", {}),
        ("cerebras", "", {"supports_store": False, "supports_developer_role": False}),
        (
            "my-proxy",
            "https://api.x.ai/v1",
            {"supports_store": False, "supports_developer_role": False, "supports_reasoning_effort": False},
        ),
        (
            "x",
            "https://llm.chutes.ai/v1",
            {"supports_store": False, "supports_developer_role": False, "max_tokens_field": "max_tokens"},
        ),
        (
            "zai",
            "",
            {
                "supports_store": False,
                "supports_developer_role": False,
                "supports_reasoning_effort": False,
                "thinking_format": "zai",
                "max_tokens_field": "max_tokens",
            },
        ),
        (
            "ollama",
            "http://localhost:11434/v1",
            {"supports_store": False, "supports_developer_role": False, "max_tokens_field": "max_tokens"},
        ),
    ],
)
def test_known_servers_are_known(provider: str, url: str, differs: dict[str, Any]) -> None:
    assert compat(replace(MODEL, provider=provider, base_url=url)) == Compat(**differs)


def test_what_the_model_entry_says_wins_field_by_field() -> None:
    found = compat(replace(MODEL, provider="cerebras", compat={"supportsStore": True, "somethingNew": 1}))
    assert found == Compat(supports_developer_role=False)


def test_a_wrong_flag_is_named() -> None:
    with pytest.raises(ModelError, match=r"compat of lab/m-chat: supportsStore: expected bool, got str"):
        asking(api, replace(MODEL, compat={"supportsStore": "no"}))


def test_routing_and_tool_streaming_are_passed_on() -> None:
    flags = {
        "openRouterRouting": {"only": ["a"]},
        "vercelGatewayRouting": {"order": ["b"]},
        "zaiToolStream": True,
    }
    body = asking(api, replace(MODEL, compat=flags)).body
    assert (body["provider"], body["providerOptions"]) == ({"only": ["a"]}, {"gateway": {"order": ["b"]}})
    assert body["tool_stream"] is True


ON: dict[str, dict[str, Any]] = {
    "openai": {"reasoning_effort": "high"},
    "openrouter": {"reasoning": {"effort": "high"}},
    "ant-ling": {},
    "deepseek": {"thinking": {"type": "enabled"}, "reasoning_effort": "high"},
    "together": {"reasoning": {"enabled": True}, "reasoning_effort": "high"},
    "baseten": {"chat_template_args": {"think": True, "fixed": 1}, "reasoning_effort": "high"},
    "zai": {"thinking": {"type": "enabled", "clear_thinking": False}, "reasoning_effort": "high"},
    "qwen": {"enable_thinking": True, "reasoning_effort": "high"},
    "qwen-chat-template": {"chat_template_kwargs": {"enable_thinking": True, "preserve_thinking": True}},
    "chat-template": {"chat_template_kwargs": {"effort": "high", "budget": 16384}},
    "string-thinking": {"thinking": "high"},
    "mistral": {"prompt_mode": "reasoning"},
}
OFF: dict[str, dict[str, Any]] = {
    "openai": {},
    "openrouter": {"reasoning": {"effort": "none"}},
    "ant-ling": {},
    "deepseek": {"thinking": {"type": "disabled"}},
    "together": {"reasoning": {"enabled": False}},
    "baseten": {"chat_template_args": {"think": False, "fixed": 1}},
    "zai": {"thinking": {"type": "disabled"}},
    "qwen": {"enable_thinking": False},
    "qwen-chat-template": {"chat_template_kwargs": {"enable_thinking": False, "preserve_thinking": True}},
    "chat-template": {"chat_template_kwargs": {}},
    "string-thinking": {"thinking": "off"},
    "mistral": {},
}


@pytest.mark.parametrize("format", ON)
@pytest.mark.parametrize(("level", "fields"), [("high", ON), ("off", OFF)])
def test_every_server_is_told_to_think_in_its_own_way(
    format: str, level: ThinkingLevel, fields: dict[str, dict[str, Any]]
) -> None:
    flags = {
        "thinkingFormat": format,
        "chatTemplateArgs": {"think": {"$var": "thinking.enabled"}, "fixed": 1},
        "chatTemplateKwargs": {
            "effort": {"$var": "thinking.effort", "omitWhenOff": True},
            "budget": {"$var": "thinking.budget", "omitWhenOff": True},
        },
    }
    body = asking(api, replace(MODEL, compat=flags), thinking=level).body
    usual = asking(api, replace(MODEL, reasoning=False)).body
    assert {name: value for name, value in body.items() if name not in usual} == fields[format]


@pytest.mark.parametrize(
    ("mapped", "level", "sent"),
    [
        ({}, "minimal", "minimal"),
        ({}, "xhigh", "high"),
        ({"xhigh": "xhigh"}, "xhigh", "xhigh"),
        ({"off": "none"}, "off", "none"),
        ({"minimal": None}, "minimal", None),
        ({"low": "little"}, "low", "little"),
    ],
)
def test_the_words_of_the_model_for_levels_win(
    mapped: dict[str, str | None], level: ThinkingLevel, sent: str | None
) -> None:
    model = replace(MODEL, thinking_level_map=mapped)
    assert asking(api, model, thinking=level).body.get("reasoning_effort") == sent


def test_qwen_on_groq_has_one_effort() -> None:
    qwen = replace(MODEL, provider="groq", id="qwen/qwen3-32b")
    assert asking(api, qwen, thinking="low").body["reasoning_effort"] == "default"


def test_a_budget_is_reported_where_the_server_takes_one() -> None:
    model = replace(MODEL, compat={"thinkingTokenBudgetField": "thinking_budget"})
    assert asking(api, model, thinking="low", budgets={"low": 99}).body["thinking_budget"] == 99
    assert asking(api, model, thinking="medium").body["thinking_budget"] == 8192


def test_claude_behind_openrouter_is_told_what_to_cache() -> None:
    claude = replace(MODEL, provider="openrouter", id="anthropic/claude-x")
    sent = asking(api, claude, user("a"), assistant("b"), user("c"), session_id="s-1")
    mark = {"cache_control": {"type": "ephemeral"}}
    assert sent.body["messages"] == [
        {"role": "developer", "content": [{"type": "text", "text": "Be nice.", **mark}]},
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": [{"type": "text", "text": "c", **mark}]},
    ]
    assert sent.body["tools"][-1]["cache_control"] == {"type": "ephemeral"}
    assert sent.headers["x-session-id"] == "s-1"
    long = asking(api, claude, user("a"), environment={"PI_CACHE_RETENTION": "long"})
    assert long.body["tools"][-1]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    none = asking(api, claude, user("a"), session_id="s-1", environment={"PI_CACHE_RETENTION": "none"})
    assert "cache_control" not in encode(none.body).decode()
    assert "x-session-id" not in none.headers


def test_openai_is_told_which_session_it_is() -> None:
    model = replace(MODEL, base_url="https://api.openai.com/v1")
    assert asking(api, model, session_id="s-1").body["prompt_cache_key"] == "s-1"
    long = asking(api, model, session_id="s" * 80, environment={"PI_CACHE_RETENTION": "long"}).body
    assert (long["prompt_cache_key"], long["prompt_cache_retention"]) == ("s" * 64, "24h")
    assert "prompt_cache_key" not in asking(api, MODEL, session_id="s-1").body


def test_azure_serves_the_same_api() -> None:
    model = replace(MODEL, provider="azure", base_url="")
    environment = {"AZURE_OPENAI_RESOURCE_NAME": "res", "AZURE_OPENAI_DEPLOYMENT_NAME_MAP": "m-chat=mine"}
    sent = asking(api, model, environment=environment)
    assert sent.url == "https://res.openai.azure.com/openai/v1/chat/completions?api-version=v1"
    assert (sent.headers, sent.body["model"]) == ({"api-key": "secret-key"}, "mine")


def test_mistral_speaks_it_too() -> None:
    model = replace(MODEL, api="mistral-conversations", provider="mistral", base_url="https://api.mistral.ai")
    sent = asking(api, model, user("hi"))
    assert sent.url == "https://api.mistral.ai/v1/chat/completions"
    assert {"store", "stream_options", "max_completion_tokens"}.isdisjoint(sent.body)


# What comes back.


def read(*events: bytes, model: Model = FREE) -> Reading:
    return Reading(api, model, events).end()


def test_an_answer_has_its_price() -> None:
    cost = Reading(api, MODEL, RECORDED).done.message.usage.cost
    assert [round(part, 9) for part in (cost.input, cost.output, cost.cache_read, cost.total)] == [
        0.00015,
        0.000135,
        0.000012,
        0.000297,
    ]


def test_the_last_word_alone_is_no_answer() -> None:
    assert fails(api, MODEL, [], DONE)[0].transient is True
    assert fails(api, MODEL, [])[0].transient is True


def calls_ls(arguments: Any) -> bytes:
    return chunk(tool_calls=[{"index": 0, "id": "a", "function": {"name": "ls", "arguments": arguments}}])


@pytest.mark.promise("E08")
def test_the_last_word_ends_an_answer_that_lacks_only_its_reason() -> None:
    """Snowflake Cortex never sends a finish_reason, Novita behind OpenRouter sometimes does not."""
    for way in ways([chunk(content="4"), DONE]):
        assert read(*way).done.message.stop_reason == "stop"
    for way in ways([calls_ls('{"n":'), chunk(tool_calls=[{"index": 0, "function": {"arguments": "1} "}}]), DONE]):
        done = read(*way).done
        assert (done.message.stop_reason, done.unreadable) == ("toolUse", {})
        assert done.message.tool_calls == [ToolCall("a", "ls", {"n": 1})]
    assert read(calls_ls("{}"), DONE).done.message.stop_reason == "toolUse"


@pytest.mark.parametrize(
    "events",
    [
        [chunk(content="")],
        [chunk(reasoning="hm")],
        [calls_ls('{"n":')],
        [calls_ls("")],
        [chunk(content="4"), calls_ls('{"n":')],
        [calls_ls('{"n":1}'), chunk(tool_calls=[{"index": 1, "function": {"arguments": "{}"}}])],
    ],
)
def test_the_last_word_does_not_make_an_answer_whole_that_lacks_more(events: list[bytes]) -> None:
    assert fails(api, FREE, events, DONE)[0].transient is True


def test_a_stream_that_only_ends_lacks_its_reason() -> None:
    assert fails(api, FREE, [chunk(content="4")])[0].transient is True


def test_a_line_with_an_error_is_told_in_its_words() -> None:
    """llama.cpp, in older releases."""
    line = b'error: {"error":{"message":"failed to decode, try again"}}\n\n'
    error, reading = fails(api, FREE, [chunk(content="ha")], line)
    assert str(error) == '{"error":{"message":"failed to decode, try again"}}'
    assert classify(str(error)).is_transient
    assert reading.draft.message("error").content == [Text("ha")]


def test_a_server_without_finish_reasons_ends_with_its_last_word() -> None:
    loose = replace(FREE, compat={"supportsFinishReason": False})
    assert read(chunk(content="hi"), DONE, model=loose).done.message.stop_reason == "stop"
    assert fails(api, loose, [], DONE)


@pytest.mark.parametrize(
    ("calls", "ids"),
    [
        # Whole calls, numbered, without ids.
        ([{"index": 0, "function": {"name": "ls", "arguments": '{"n":1}'}}], ["ls_0_1"]),
        # Whole calls with neither.
        (
            [
                {"function": {"name": "ls", "arguments": '{"n":1}'}},
                {"function": {"name": "ls", "arguments": '{"n":2}'}},
            ],
            ["ls_0_1", "ls_0_2"],
        ),
        # Whole calls that all have the number 0, with and without ids.
        (
            [
                {"index": 0, "function": {"name": "ls", "arguments": '{"n":1}'}},
                {"index": 0, "function": {"name": "ls", "arguments": '{"n":2}'}},
            ],
            ["ls_0_1", "ls_0_2"],
        ),
        (
            [
                {"index": 0, "id": "a", "function": {"name": "ls", "arguments": '{"n":1}'}},
                {"index": 0, "id": "b", "function": {"name": "ls", "arguments": '{"n":2}'}},
            ],
            ["a", "b"],
        ),
        # The same id twice.
        (
            [
                {"index": 0, "id": "a", "function": {"name": "ls", "arguments": '{"n":1}'}},
                {"index": 1, "id": "a", "function": {"name": "ls", "arguments": '{"n":2}'}},
            ],
            ["a", "ls_0_1"],
        ),
        # Pieces by id alone, and with the id and the name in each.
        (
            [
                {"id": "a", "function": {"name": "ls", "arguments": '{"n"'}},
                {"id": "a", "function": {"name": "ls", "arguments": ":1}"}},
                {"id": "b", "function": {"name": "ls", "arguments": '{"n":2}'}},
            ],
            ["a", "b"],
        ),
        # Pieces with nothing at all belong to the last call.
        (
            [
                {"function": {"name": "ls", "arguments": '{"n"'}},
                {"function": {"arguments": ":1}"}},
            ],
            ["ls_0_1"],
        ),
        # Pieces of two calls in turns.
        (
            [
                {"index": 0, "id": "a", "function": {"name": "ls", "arguments": '{"n"'}},
                {"index": 1, "id": "b", "function": {"name": "ls", "arguments": '{"n"'}},
                {"index": 0, "function": {"arguments": ":1}"}},
                {"index": 1, "function": {"arguments": ":2}"}},
            ],
            ["a", "b"],
        ),
        # The name comes late, the arguments are an object.
        (
            [
                {"index": 0, "id": "a", "function": {"arguments": '{"n"'}},
                {"index": 0, "function": {"name": "ls", "arguments": ":1}"}},
                {"index": 1, "id": "b", "function": {"name": "ls", "arguments": {"n": 2}}},
            ],
            ["a", "b"],
        ),
    ],
)
def test_tool_calls_are_distinguished_however_a_server_sends_them(calls: list[dict[str, Any]], ids: list[str]) -> None:
    reading = read(*(calling(one) for one in calls), chunk("tool_calls"), DONE)
    assert reading.done == MessageDone(reading.done.message)
    assert reading.done.message.tool_calls == [ToolCall(id, "ls", {"n": at + 1}) for at, id in enumerate(ids)]


def test_a_call_without_a_name_is_still_a_call() -> None:
    reading = read(calling({"index": 0, "id": "a", "function": {"arguments": "{}"}}), chunk("tool_calls"), DONE)
    assert reading.done.message.tool_calls == [ToolCall("a", "", {})]


def test_an_older_call_is_read_too() -> None:
    reading = read(chunk(function_call={"name": "ls", "arguments": "{}"}), chunk("function_call"), DONE)
    assert reading.done.message.tool_calls == [ToolCall("ls_0_1", "ls", {})]


def test_text_between_the_pieces_of_a_call_is_a_block_of_its_own() -> None:
    reading = read(
        chunk(content="a"),
        calling({"index": 0, "id": "a", "function": {"name": "ls", "arguments": "{"}}),
        chunk(content="b"),
        calling({"index": 0, "function": {"arguments": "}"}}),
        chunk("tool_calls"),
        DONE,
    )
    assert reading.done.message.content == [Text("a"), ToolCall("a", "ls", {}), Text("b")]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_thinking_is_read_from_where_the_server_puts_it(field: str) -> None:
    reading = read(chunk(**{field: "hm"}), chunk(content="yes"), chunk("stop"), DONE)
    assert reading.done.message.content == [Thinking("hm", field), Text("yes")]


def test_thinking_told_in_two_fields_is_reported_once() -> None:
    reading = read(chunk(reasoning_content="", reasoning="hm", reasoning_text="hm"), chunk("stop"), DONE)
    assert reading.done.message.content == [Thinking("hm", "reasoning")]


LS = calling({"index": 0, "id": "a", "function": {"name": "ls", "arguments": "{}"}})


def detail(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"reasoning.{kind}", **fields}


def told(text: str, **fields: Any) -> bytes:
    """A piece of reasoning, as gateways send it: in a field of its own and in the details."""
    return chunk(reasoning=text, reasoning_details=[detail("text", text=text, **fields)])


def opaque(*details: dict[str, Any]) -> bytes:
    return chunk(reasoning_details=[*details])


ENCRYPTED = detail("encrypted", data="ENC", index=0)
OF_CALL = detail("encrypted", data="ENC", id="a", index=0, format="google-gemini-v1")
WHY = [told("w", index=0), told("hy", index=0)]


@pytest.mark.parametrize(
    ("events", "sent", "shown"),
    [
        # Claude through OpenRouter: the signature comes last, alone.
        (
            [*WHY, opaque(detail("text", signature="SIG", index=0, format="anthropic-claude-v1")), LS],
            [detail("text", text="why", index=0, signature="SIG", format="anthropic-claude-v1")],
            "why",
        ),
        # Claude through Vercel: every piece has an empty signature.
        (
            [
                *(told("w", signature="", index=0), told("hy", signature="", index=0)),
                *(opaque(detail("text", text="", signature="SIG", index=0)), LS),
            ],
            [detail("text", text="why", signature="SIG", index=0)],
            "why",
        ),
        # Two blocks of Claude: a signature ends the first, even if the server numbers both 0.
        (
            [
                *(told("a", index=0), opaque(detail("text", signature="S1", index=0))),
                *(told("b", index=0), opaque(detail("text", signature="S2", index=0)), LS),
            ],
            [detail("text", text="a", index=0, signature="S1"), detail("text", text="b", index=0, signature="S2")],
            "ab",
        ),
        # Numbers that differ.
        (
            [told("a", index=0), told("b", index=1), LS],
            [detail("text", text="a", index=0), detail("text", text="b", index=1)],
            "ab",
        ),
        # Grok: a summary in pieces, and the encrypted reasoning under the same number.
        (
            [
                chunk(reasoning="w", reasoning_details=[detail("summary", summary="w", index=0)]),
                chunk(reasoning="h", reasoning_details=[detail("summary", summary="h", index=0)]),
                *(opaque(detail("encrypted", data="ENC", id="rs_1", index=0)), LS),
            ],
            [detail("summary", summary="wh", index=0), detail("encrypted", data="ENC", id="rs_1", index=0)],
            "wh",
        ),
        # GPT-5 through Vercel: encrypted only, with or without an id, before the call.
        ([opaque(detail("encrypted", data="ENC", id="rs_1")), LS], [detail("encrypted", data="ENC", id="rs_1")], ""),
        ([opaque(ENCRYPTED), LS], [ENCRYPTED], ""),
        # Gemini 3: with the id of the call, before or after it; after its text.
        ([opaque(OF_CALL), LS], [OF_CALL], ""),
        ([*WHY, LS, opaque(OF_CALL)], [detail("text", text="why", index=0), OF_CALL], "why"),
        ([LS, opaque(ENCRYPTED)], [ENCRYPTED], ""),
        ([*WHY, LS, opaque(ENCRYPTED, ENCRYPTED)], [detail("text", text="why", index=0), ENCRYPTED, ENCRYPTED], "why"),
        # Snowflake: text that comes in details only.
        (
            [opaque(detail("text", text="w")), opaque(detail("text", text="hy")), LS],
            [detail("text", text="why")],
            "why",
        ),
        # A type that is not known.
        (
            [opaque(detail("new", x=[1])), opaque(detail("new", x=[2])), LS],
            [detail("new", x=[1]), detail("new", x=[2])],
            "",
        ),
    ],
)
def test_reasoning_details_go_back_complete_and_in_order(events: list[bytes], sent: list[Any], shown: str) -> None:
    for portions in ways([*events, chunk("tool_calls"), DONE]):
        said = Reading(api, MODEL, portions).end().done.message
        assert "".join(block.thinking for block in said.content if isinstance(block, Thinking)) == shown
        kept = decode(Assistant, encode(said))  # in a session file
        result = ToolResult("a", "ls", [Text("x")])
        (turn, _) = wire_messages(*for_model([kept, result], MODEL))
        assert turn.pop("reasoning_details") == sent
        assert turn == {"role": "assistant", "content": None, "tool_calls": turn["tool_calls"]}
        (turn, _) = wire_messages(*for_model([kept, result], replace(MODEL, id="another")))
        assert turn == {"role": "assistant", "content": None, "tool_calls": turn["tool_calls"]}


def test_details_that_come_while_text_streams_do_not_cut_it() -> None:
    said = read(chunk(content="Hel"), opaque(ENCRYPTED), chunk(content="lo"), chunk("stop"), DONE).done.message
    assert said.content == [Text("Hello"), Thinking("", encode([ENCRYPTED]).decode())]
    assert wire_messages(*for_model([said], MODEL)) == [
        {"role": "assistant", "content": "Hello", "reasoning_details": [ENCRYPTED]}
    ]


def test_a_server_that_needs_reasoning_content_gets_it_next_to_the_details() -> None:
    said = read(*WHY, chunk(content="yes"), chunk("stop"), DONE).done.message
    (turn,) = wire_messages(said, requires_reasoning_content_on_assistant_messages=True)
    assert turn["reasoning_content"] == "why"


def test_content_may_come_in_parts() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    reading = read(chunk(content=[thought, {"type": "text", "text": "yes"}, {"type": "x"}]), chunk("stop"), DONE)
    assert reading.done.message.content == [Thinking("hm"), Text("yes")]


def test_a_stop_with_calls_is_for_the_calls() -> None:
    one = {"index": 0, "id": "a", "function": {"name": "ls", "arguments": "{}"}}
    assert read(calling(one), chunk("stop"), DONE).done.message.stop_reason == "toolUse"
    assert read(calling(one), chunk("length"), DONE).done.message.stop_reason == "length"


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5}, Usage(10, 5, 0, 0, 15, reasoning=0)),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 3}},
            Usage(10, 5, 0, 0, 15, reasoning=3),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 4},
            Usage(6, 5, 4, 0, 15, reasoning=0),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 4}, Usage(6, 5, 4, 0, 15, reasoning=0)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
            },
            Usage(3, 5, 4, 3, 15, reasoning=0),
        ),
        # Azure with Grok: more tokens from the cache than the prompt has.
        ({"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(0, 0, 1, 0, 1, reasoning=0)),
        (
            {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 8}},
            Usage(0, 0, 4, 5, 9, reasoning=0),
        ),
        # xAI: the total adds reasoning to both counts, which do not include it.
        (
            {
                "prompt_tokens": 12,
                "completion_tokens": 2,
                "total_tokens": 354,
                "completion_tokens_details": {"reasoning_tokens": 340},
            },
            Usage(12, 342, 0, 0, 354, reasoning=340),
        ),
        (
            {
                "prompt_tokens": 12,
                "completion_tokens": 342,
                "total_tokens": 354,
                "completion_tokens_details": {"reasoning_tokens": 340},
            },
            Usage(12, 342, 0, 0, 354, reasoning=340),
        ),
        ({"prompt_tokens": "many", "completion_tokens": None, "prompt_tokens_details": None}, Usage(reasoning=0)),
    ],
)
def test_tokens_are_counted_wherever_they_are_reported(usage: dict[str, Any], counted: Usage) -> None:
    last = sse({"choices": [], "usage": usage})
    inside = sse({"choices": [{"delta": {}, "finish_reason": "stop", "usage": usage}]})
    assert read(chunk("stop"), last, DONE).done.message.usage == counted
    assert read(inside, DONE).done.message.usage == counted


def test_reasoning_that_only_the_total_includes_is_charged_as_output() -> None:
    details = {"reasoning_tokens": 1_000_000}
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 0,
        "total_tokens": 1_000_010,
        "completion_tokens_details": details,
    }
    priced = replace(MODEL, provider="another", cost=Price(0, 15))
    done = Reading(api, priced, [chunk("stop"), sse({"choices": [], "usage": usage}), DONE]).end().done
    assert done.message.usage.cost == UsageCost(output=15, total=15)


def test_a_count_of_zero_at_the_end_does_not_replace_the_count() -> None:
    counted = sse({"choices": [], "usage": {"prompt_tokens": 45, "completion_tokens": 2, "total_tokens": 47}})
    zero = {"prompt_tokens": 0, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 0}}
    last = sse({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": zero})
    assert read(chunk(content="Hi"), counted, last, DONE).done.message.usage == Usage(45, 2, 0, 0, 47, reasoning=0)


def test_unrequested_choices_are_ignored() -> None:
    second = sse({"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}]})
    assert read(second, chunk(content="yes"), second, chunk("stop"), DONE).done.message.text == "yes"


@pytest.mark.parametrize("empty", ["{}", " {} ", {}], ids=str)
@pytest.mark.parametrize("rest", [[], [""], ['{"n":', "1}"], ["", '{"n":1}']], ids=str)
def test_an_empty_object_counts_for_arguments_unless_others_follow(empty: Any, rest: list[str]) -> None:
    first = calling({"index": 0, "id": "c", "function": {"name": "ls", "arguments": empty}})
    more = [calling({"index": 0, "function": {"arguments": piece}}) for piece in rest]
    reading = read(first, *more, chunk("tool_calls"), DONE)
    assert reading.done == MessageDone(reading.done.message)
    assert reading.done.message.tool_calls == [ToolCall("c", "ls", {"n": 1} if "".join(rest) else {})]


def test_arguments_that_come_whole_survive_empty_pieces() -> None:
    first = calling({"index": 0, "id": "c", "function": {"name": "ls", "arguments": '{"n":1}'}})
    empty = calling({"index": 0, "function": {"arguments": ""}})
    reading = read(first, empty, empty, chunk("tool_calls"), DONE)
    assert reading.done.message.tool_calls == [ToolCall("c", "ls", {"n": 1})]
