from __future__ import annotations

from typing import Any

import pytest

from tau.errors import ModelError
from tau.llm.replay import (
    ReceivedResponse,
    RecordedExchange,
    RecordingIndex,
    difference,
    make_exchange,
    normalize_request,
    recorded_chunks,
    recorded_failure,
)
from tau.llm.types import ModelRequest
from tau.records.base import decode, encode

KEY = "sk-canary-0123456789abcdef"
PLACES = {"/home/ann/project": "<cwd>", "/home/ann": "<home>"}


def request(**body: Any) -> ModelRequest:
    said = {"model": "m1", "messages": [{"role": "user", "content": "hi"}], **body}
    return ModelRequest("https://api.example/v1/messages", {"x-api-key": KEY, "content-type": "application/json"}, said)


def key(asked: ModelRequest) -> str:
    return normalize_request(asked, PLACES).key


def text_answer(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (request(), ModelRequest("http://127.0.0.1:9/v1/messages", {"authorization": "Bearer x"}, request().body)),
        (request(), request(metadata={"user_id": "u"}, prompt_cache_key="s-1", user="ann")),
        (request(system=[{"text": "s", "cache_control": {"type": "ephemeral"}}]), request(system=[{"text": "s"}])),
        (request(system=[{"text": "s"}, {"cachePoint": {"type": "default"}}]), request(system=[{"text": "s"}])),
        (request(a=1, b=2), request(b=2, a=1)),
        (request(**text_answer("in /home/ann/project/x")), request(**text_answer("in <cwd>/x"))),
        (request(**text_answer("in /home/ann.")), request(**text_answer("in /home/ann."))),
        (request(**text_answer("at 2026-11-15T07:24:12.123Z")), request(**text_answer("at 2025-01-01 00:00:00"))),
        (
            request(**text_answer("id 6f1c2a34-0000-4000-8000-0123456789ab")),
            request(**text_answer("id 00000000-0000-4000-8000-0123456789ab")),
        ),
        (request(**text_answer("read_1700000000000_2")), request(**text_answer("read_1800000000000_2"))),
        (
            request(**text_answer("/tmp/pi-bash-0123456789abcdef.log")),
            request(**text_answer("/tmp/pi-bash-fedcba9876543210.log")),
        ),
    ],
)
def test_what_changes_from_run_to_run_does_not_count(one: ModelRequest, other: ModelRequest) -> None:
    assert key(one) == key(other)


@pytest.mark.parametrize(
    "other",
    [
        request(model="m2"),
        request(**text_answer("hello")),
        request(max_tokens=5),
        request(tools=[{"name": "bash"}]),
        request(**text_answer("in /home/anna")),
        ModelRequest("https://api.example/v1/other", {}, request().body),
        ModelRequest("https://api.example/v1/messages?beta=true", {}, request().body),
    ],
)
def test_everything_else_does(other: ModelRequest) -> None:
    assert key(request()) != key(other)


def test_a_key_in_the_address_does_not_count() -> None:
    asked = ModelRequest(f"https://api.example/v1/messages?key={KEY}", {}, request().body)
    assert normalize_request(asked, PLACES) == normalize_request(request(), PLACES)


def kept(asked: ModelRequest, *pieces: bytes, **heard: Any) -> RecordedExchange:
    """Through a file and back."""
    what = make_exchange(asked, normalize_request(asked, PLACES), ReceivedResponse(list(pieces), **heard))
    return decode(RecordedExchange, encode(what))


def test_an_exchange_gives_the_bytes_back_as_they_came() -> None:
    pieces = [b"data: \xc3", b"\xa9\n\n", b"\x00\xff", b""]
    response = kept(
        request(), *pieces, status=200, headers={"Content-Type": "text/event-stream"}, ended="whole"
    ).response
    assert (list(recorded_chunks(response)), response.status, response.headers) == (
        pieces,
        200,
        {"content-type": "text/event-stream"},
    )
    assert recorded_failure(response) is None


def test_a_failure_is_kept_with_all_that_a_retry_wants_to_know() -> None:
    error = ModelError("529 overloaded", status=529, transient=True, retry_after_ms=1500)
    again = recorded_failure(kept(request(), b"data", ended="failed", failure=error).response)
    assert again is not None
    assert (str(again), again.status, again.transient, again.retry_after_ms) == ("529 overloaded", 529, True, 1500)


def test_an_answer_that_was_stopped_says_so_when_it_is_read_to_its_end() -> None:
    cut = recorded_failure(kept(request(), b"data", ended="left").response)
    assert cut is not None and cut.transient is False and "ends here" in str(cut)


def test_no_secret_is_kept() -> None:
    asked = ModelRequest(
        f"https://api.example/v1/messages?key={KEY}q",
        {"Authorization": f"Bearer {KEY}", "x-custom": f"{KEY}-custom", "cookie": "abcdef", "anthropic-version": "1"},
        {"model": "m1", "note": f"my key is {KEY}"},
    )
    headers = {"set-cookie": f"s={KEY}", "x-echo": KEY, "openai-organization": "org-secret", "x-request-id": "r1"}
    error = ModelError(f"401 bad key {KEY}")
    text = encode(kept(asked, b"you sent sk-canary-0123", b"456789abcdef!", headers=headers, failure=error)).decode()
    assert "canary" not in text and "abcdef" not in text and "org-secret" not in text
    assert '"anthropic-version":"1"' in text and '"x-request-id":"r1"' in text


@pytest.mark.parametrize("short", ["k", "text", "test", "EMPTY", "ollama", "content"])
def test_a_short_key_is_masked_in_headers_only(short: str) -> None:
    body = {"model": "m1", "max_tokens": 5, "messages": [{"role": "user", "content": f"run the {short}"}]}
    headers = {"x-api-key": short, "authorization": f"Bearer {short}", "content-type": "text/plain"}
    asked = ModelRequest(f"https://api.example/v1/messages?key={short}", headers, body)
    exchange = kept(asked, f'data: {{"type": "content_block_delta", "text": "{short}"}}\n\n'.encode(), ended="whole")
    assert exchange.request.headers == {"x-api-key": "***", "authorization": "***", "content-type": "text/plain"}
    assert exchange.request.path == "/v1/messages"
    assert exchange.request.body == body
    assert "***" not in "".join(exchange.response.portions)


@pytest.mark.parametrize(
    "damaged",
    [
        '{"type":"content_bloc***_delta","index":0}',
        '{"type": "***_delta"}',
        '{"choices":[{"delta":{"***":"It is 42."}}]}',
        '{"candidates":[{"conten***":{}}]}',
    ],
)
def test_an_answer_with_masked_names_of_fields_is_an_error(damaged: str) -> None:
    exchange = kept(request(), b"data: " + damaged[:20].encode(), f"{damaged[20:]}\n\n".encode(), ended="whole")
    with pytest.raises(ModelError, match=r"^Replay: 0001.json in recordings cannot be read: .*Record it again") as told:
        RecordingIndex("recordings", {"0001.json": exchange}).take(normalize_request(request(), PLACES))
    assert told.value.transient is False


@pytest.mark.parametrize(
    "data",
    [
        '{"type":"text_delta","text":"***Note***: it is \\"***\\": 1"}',
        '{"type":"input_json_delta","partial_json":"{\\"***\\": \\"type\\": \\"***\\"}"}',
        '{"headers":{"x-api-key":"***"}}',
    ],
)
def test_a_mask_in_a_text_is_no_damage(data: str) -> None:
    exchange = kept(request(), f"data: {data}\n\n".encode(), ended="whole")
    index = RecordingIndex("recordings", {"0001.json": exchange})
    assert index.take(normalize_request(request(), PLACES)) == exchange.response


def shelf(*asked: ModelRequest) -> RecordingIndex:
    exchanges = {f"{at:04}.json": kept(one, b"%d" % at, ended="whole") for at, one in enumerate(asked, 1)}
    return RecordingIndex("recordings", exchanges)


def test_equal_requests_are_answered_in_the_order_of_recording() -> None:
    answers = shelf(request(), request(**text_answer("other")), request())
    assert [list(recorded_chunks(answers.take(normalize_request(request(), PLACES)))) for _ in range(2)] == [
        [b"1"],
        [b"3"],
    ]
    with pytest.raises(ModelError, match=r"was asked 3 times, and recordings has 2 recorded answers.*0001.json, 0003"):
        answers.take(normalize_request(request(), PLACES))


def test_a_miss_names_the_nearest_and_the_first_difference() -> None:
    answers = shelf(request(**text_answer("something else")), request(**text_answer("list the files of the project")))
    with pytest.raises(ModelError) as told:
        answers.take(normalize_request(request(**text_answer("list the files of my project"), tools=[]), PLACES))
    assert told.value.transient is False
    assert str(told.value) == (
        "Replay: there is no recorded answer to POST /v1/messages, model m1 in recordings. The nearest, 0002.json, "
        'differs first at body.messages[0].content: recorded "list the files of the project", '
        'asked "list the files of my project". Record it again with --record.'
    )


def test_the_difference_of_long_texts_is_shown_where_it_is() -> None:
    one, other = {"a": [1, "x" * 100 + "one"]}, {"a": [1, "x" * 100 + "two"]}
    assert difference(one, other) == ("a[1]", f'…"{"x" * 30}one"', f'…"{"x" * 30}two"')
    assert difference({"a": 1}, {"a": 1, "b": None}) == ("b", "nothing", "null")
    assert difference(one, one) is None
