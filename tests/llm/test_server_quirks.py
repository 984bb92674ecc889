"""What particular servers send that their API does not describe: each stream is read all the same."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from support.recorded_streams import Reading, aws, sse
from tau.errors import ModelError
from tau.llm import anthropic, bedrock, google, openai_chat, openai_responses
from tau.records.base import encode
from tau.records.messages import Assistant, Text, ToolCall
from tau.records.models import Model

APIS = {
    anthropic: "anthropic-messages",
    bedrock: "bedrock-converse-stream",
    google: "google-generative-ai",
    openai_chat: "openai-completions",
    openai_responses: "openai-responses",
}


def read(api: ModuleType, *events: bytes) -> Assistant:
    done = Reading(api, Model("m", "M", APIS[api], "lab", "http://lab"), events).end().done
    assert not done.unreadable
    return done.message


def typed(*events: dict[str, Any]) -> list[bytes]:
    return [sse(event, event["type"]) for event in events]


def chunks(*deltas: dict[str, Any], finish: str = "stop") -> list[bytes]:
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    return [*(sse({"choices": [{"index": 0, "delta": delta}]}) for delta in deltas), sse(last), sse("[DONE]")]


def calls(*given: tuple[str, dict[str, Any]]) -> list[ToolCall]:
    return [ToolCall(id, "ls", arguments) for id, arguments in given]


def test_llama_cpp_responses_have_no_output_index() -> None:
    text = {"type": "message", "id": "msg_1", "status": "in_progress", "content": [], "role": "assistant"}
    call = {"type": "function_call", "id": "fc_1", "call_id": "fc_call", "name": "ls", "arguments": ""}
    message = read(
        openai_responses,
        *typed(
            {"type": "response.created", "response": {"id": "r", "object": "response", "status": "in_progress"}},
            {"type": "response.output_item.added", "item": text},
            {"type": "response.content_part.added", "item_id": "msg_1", "part": {"type": "output_text", "text": ""}},
            {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "Hel"},
            {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "lo"},
            {"type": "response.output_item.added", "item": call},
            {"type": "response.function_call_arguments.delta", "item_id": "fc_call", "delta": '{"path":'},
            {"type": "response.function_call_arguments.delta", "item_id": "fc_call", "delta": '"a"}'},
            {"type": "response.output_text.done", "item_id": "msg_1", "text": "Hello"},
            {
                "type": "response.output_item.done",
                "item": {**text, "content": [{"type": "output_text", "text": "Hello"}]},
            },
            {"type": "response.output_item.done", "item": {**call, "arguments": '{"path":"a"}'}},
            {"type": "response.completed", "response": {"status": "completed", "usage": {"input_tokens": 3}}},
        ),
    )
    assert message.content == [Text("Hello", "msg_1"), *calls(("fc_call|fc_1", {"path": "a"}))]
    assert (message.stop_reason, message.usage.input) == ("toolUse", 3)


def test_vllm_loses_the_id_of_a_call_when_it_is_done_and_counts_its_length_as_completed() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "ls"}
    events = typed(
        {"type": "response.output_item.added", "output_index": 0, "item": {**call, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "", "delta": '{"path":"a"}'},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {**call, "id": None, "arguments": '{"path":"a"}'},
        },
    )
    end = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    message = read(openai_responses, *events, *typed({"type": "response.completed", "response": end}))
    assert message.content == calls(("c|fc_1", {"path": "a"}))
    assert message.stop_reason == "length"


def test_some_servers_give_every_item_the_output_index_0() -> None:
    def item(id: str, arguments: str) -> dict[str, Any]:
        return {"type": "function_call", "id": id, "call_id": f"c{id}", "name": "ls", "arguments": arguments}

    events = []
    for id in ("1", "2"):
        whole = encode({"n": id}).decode()
        events += [
            {"type": "response.output_item.added", "output_index": 0, "item": item(id, "")},
            {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": id, "delta": whole},
            {"type": "response.output_item.done", "output_index": 0, "item": item(id, whole)},
        ]
    message = read(openai_responses, *typed(*events, {"type": "response.completed"}))
    assert message.content == calls(("c1|1", {"n": "1"}), ("c2|2", {"n": "2"}))


def test_a_proxy_may_send_the_whole_output_only_at_the_end() -> None:
    output = [
        {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hello"}]},
        {"type": "function_call", "id": "f", "call_id": "c", "name": "ls", "arguments": {"path": "a"}},
    ]
    message = read(openai_responses, *typed({"type": "response.done", "response": {"output": output}}))
    assert message.content == [Text("Hello", "m"), *calls(("c|f", {"path": "a"}))]


def test_arguments_of_a_responses_call_may_come_before_the_call_itself() -> None:
    item = {"type": "function_call", "id": "f", "call_id": "c", "name": "ls"}
    message = read(
        openai_responses,
        *typed(
            {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": '{"pa'},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": 'th":"a"}'},
            {"type": "response.completed"},
        ),
    )
    assert message.content == calls(("c|f", {"path": "a"}))


def test_ollama_gives_every_call_the_index_0() -> None:
    given = [
        {"tool_calls": [{"index": 0, "id": id, "function": {"name": "ls", "arguments": f'{{"path":"{id}"}}'}}]}
        for id in ("a", "b")
    ]
    assert read(openai_chat, *chunks(*given)).content == calls(("a", {"path": "a"}), ("b", {"path": "b"}))


@pytest.mark.parametrize(
    "more", [{"name": ""}, {"name": None}, {"name": "null"}, {}], ids=["LM Studio", "SGLang", "LiteLLM", "OpenAI"]
)
def test_pieces_of_arguments_repeat_the_name_in_several_ways(more: dict[str, Any]) -> None:
    first = {"index": 0, "id": "a", "function": {"name": "ls", "arguments": '{"path": "'}}
    second = {"index": 0, "id": "", "type": "FUNCTION", "function": {**more, "arguments": '."}'}}
    given = chunks({"tool_calls": [first]}, {"tool_calls": [second]}, finish="tool_calls")
    assert read(openai_chat, *given).content == calls(("a", {"path": "."}))


def test_azure_sends_results_of_its_content_filter_between_the_chunks() -> None:
    filtered = {"index": 0, "finish_reason": None, "content_filter_results": {}, "content_filter_offsets": {}}
    message = read(
        openai_chat,
        sse({"id": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}),
        sse({"id": "c", "choices": [{"index": 0, "delta": {"content": "Hello"}}]}),
        sse({"id": "", "object": "", "created": 0, "choices": [filtered], "usage": None}),
        *chunks(),
    )
    assert (message.content, message.response_id) == ([Text("Hello")], "c")


def test_openrouter_tells_an_error_of_the_provider_inside_a_choice() -> None:
    choice = {"delta": {"content": ""}, "finish_reason": "error", "error": {"code": 502, "message": "Upstream failed"}}
    with pytest.raises(ModelError, match="Upstream failed"):
        read(openai_chat, sse({"choices": [choice]}))


@pytest.mark.parametrize(("reason", "wanted"), [("STOP", "stop"), ("eos", "stop"), ("max_tokens", "length")])
def test_finish_reasons_of_other_apis_are_known(reason: str, wanted: str) -> None:
    assert read(openai_chat, *chunks({"content": "Hello"}, finish=reason)).stop_reason == wanted


def test_a_server_may_send_one_whole_message_instead_of_deltas() -> None:
    call = {"id": "a", "function": {"name": "ls", "arguments": {"path": "."}}}
    choice = {"message": {"role": "assistant", "content": "Hello", "tool_calls": call}, "finish_reason": "tool_calls"}
    message = read(openai_chat, sse({"choices": [choice]}))
    assert message.content == [Text("Hello"), *calls(("a", {"path": "."}))]


def test_a_proxy_of_gemini_may_begin_with_an_empty_chunk_that_says_stop() -> None:
    def chunk(*parts: Any, **more: Any) -> bytes:
        return sse({"candidates": [{"content": {"parts": list(parts)}, **more}]})

    message = read(
        google,
        chunk(finishReason="STOP"),
        chunk({"text": "Hello"}),
        sse({"candidates": [{"content": {"role": "model"}, "finishReason": "STOP", "index": 0}]}),
        sse("[DONE]"),
    )
    assert message.content == [Text("Hello")]


def test_a_proxy_of_anthropic_may_give_every_block_the_index_0_and_end_with_done() -> None:
    message = read(
        anthropic,
        *typed(
            {"type": "message_start"},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "a", "name": "ls"}},
            {"type": "content_block_delta", "index": 0, "delta": {"partial_json": '{"path":"."}'}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
            {"type": "message_stop"},
        ),
    )
    assert message.content == [Text("Hello"), *calls(("a", {"path": "."}))]


def test_a_proxy_of_anthropic_may_omit_the_start_of_a_text() -> None:
    message = read(
        anthropic,
        *typed(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
            {"type": "message_stop"},
        ),
    )
    assert message.content == [Text("Hello")]


def test_an_anthropic_call_whose_whole_input_is_text_or_a_list_never_runs_without_it() -> None:
    def reading(given: Any) -> Reading:
        block = {"type": "tool_use", "id": "a", "name": "ls", "input": given}
        events = typed(
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
            {"type": "message_stop"},
        )
        return Reading(anthropic, Model("m", "M", "anthropic-messages", "lab", "http://lab"), events)

    assert reading('{"path":"."}').done.message.content == calls(("a", {"path": "."}))
    assert reading(["."]).done.unreadable == {0: '["."]'}


def test_a_proxy_of_bedrock_may_omit_indexes_and_ends_of_blocks() -> None:
    message = read(
        bedrock,
        aws("contentBlockDelta", {"delta": {"reasoningContent": {"text": "Hm"}}}),
        aws("contentBlockDelta", {"delta": {"text": "Hello"}}),
        aws("contentBlockStart", {"start": {"toolUse": {"toolUseId": "a", "name": "ls"}}}),
        aws("contentBlockDelta", {"delta": {"toolUse": {"input": '{"path":"."}'}}}),
        aws("messageStop", {"stopReason": "tool_use"}),
    )
    assert message.content[1:] == [Text("Hello"), *calls(("a", {"path": "."}))]
