"""What can go wrong between us and a model server, for each API, over a real connection.

Each fault has its number in the catalogue of faults. However a stream is
broken: the call ends in time, it ends as an error, what had come is kept, and no
tool call that was not whole can run.
"""

from __future__ import annotations

import asyncio
import gzip
import time

import pytest

from support.loop_kit import for_model
from support.provider_servers import (
    CHUNKED,
    HALF,
    KEY,
    PIECES,
    SECONDS,
    SPEAKERS,
    UNTIL_CLOSED,
    Calls,
    Ending,
    Speaker,
    ask,
    calling,
    heard,
    refuses,
    sends,
    serving,
    streams,
    text_of,
    whole,
)
from support.recorded_streams import Reading
from tau import llm
from tau.core.agent.draft import MessageDone, MessageFailed, Update
from tau.core.agent.retry import is_retryable, next_retry
from tau.core.models.failures import classify
from tau.llm.types import CallOptions, ModelContext
from tau.records.base import encode, parse
from tau.records.messages import Assistant, Text, ToolResult
from tau.records.settings import RetrySettings

pytestmark = pytest.mark.process

each_api = pytest.mark.parametrize("speaker", SPEAKERS, ids=[speaker.api for speaker in SPEAKERS])
LS = ("c1", "bash", '{"command":"ls"}')
RETRIES = RetrySettings()


@each_api
def test_an_answer_that_nothing_happens_to_is_whole(speaker: Speaker) -> None:
    ending = ask(speaker, whole(speaker.says(*PIECES, calls=[LS])))
    assert isinstance(ending.last, MessageDone) and ending.last.unreadable == {}
    assert (ending.message.text, ending.message.stop_reason) == ("Hello, wörld 😀", "toolUse")
    assert [call.arguments for call in ending.message.tool_calls] == [{"command": "ls"}]


@pytest.mark.promise("E01", "E02", "E03")
@each_api
@pytest.mark.parametrize("how", ["E01 reset", "E02 closed", "E03 ended"])
def test_E01_to_E03_a_stream_cut_after_any_event_is_an_error_and_keeps_what_came(speaker: Speaker, how: str) -> None:
    events = speaker.says(*PIECES)
    ends = speaker.last if how == "E03 ended" else 1
    for count in range(len(events) - ends + 1):
        match how:
            case "E01 reset":
                serve = streams(*events[:count], reset=True)
            case "E02 closed":
                serve = streams(*events[:count])
            case _:
                serve = streams(*events[:count], b"")
        ending = ask(speaker, serve)
        assert is_retryable(ending.failure), ending.why
        arrived = Reading(llm.apis.load_api(speaker.api), speaker.model(), events[:count]).draft.message("error")
        if how == "E01 reset":  # which takes with it what was still on its way
            assert arrived.text.startswith(text_of(ending.message))
        else:
            assert ending.message.content == arrived.content


@pytest.mark.promise("E04")
@each_api
def test_E04_a_stream_that_ends_in_the_middle_of_arguments_is_an_error(speaker: Speaker) -> None:
    events = speaker.says(*PIECES, calls=[("c1", "bash", '{"command":"rm -rf /tm')])
    at = len(speaker.up_to(b"rm -rf", events))
    for serve in (streams(*events[:at]), streams(*events[:at], b""), streams(*events[:at], reset=True)):
        assert is_retryable(ask(speaker, serve).failure)


@pytest.mark.promise("E05")
@each_api
@pytest.mark.parametrize("bad", [b"{not json", b"[]", b'"x"', b"\xff\xfe"])
def test_E05_an_event_that_makes_no_sense_is_an_error(speaker: Speaker, bad: bytes) -> None:
    events = speaker.says(*PIECES)
    at = len(speaker.up_to(b"lo, ", events))
    ending = ask(speaker, whole([*events[:at], speaker.pack(bad), *events[at:]]))
    assert text_of(ending.failure.message) == "Hello, "
    assert [fact.delta.delta for fact in ending.told if isinstance(fact, Update) and hasattr(fact.delta, "delta")] == [
        "Hel",
        "lo, ",
    ]


@pytest.mark.promise("E06")
@each_api
def test_E06_a_page_is_no_answer(speaker: Speaker) -> None:
    page = b"<html>Please log in</html>"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n" % len(page)
    assert "text/html" in ask(speaker, sends(head + page)).why


@pytest.mark.promise("E07", "E08")
@each_api
@pytest.mark.parametrize(
    "body",
    [b"", b"data: [DONE]\n\n", b": ping\n\n", b"\n\n\n", b'{"ok":true}', b"data:\n\n"],
    ids=["E07 empty", "E08 last word", "comment", "lines", "json", "no data"],
)
def test_E07_and_E08_nothing_is_no_answer(speaker: Speaker, body: bytes) -> None:
    ending = ask(speaker, sends(UNTIL_CLOSED, body))
    assert ending.failure.message.content == []
    assert is_retryable(ending.failure)


@pytest.mark.promise("E09")
@each_api
def test_E09_an_unknown_reason_to_stop_is_an_error_that_names_it(speaker: Speaker) -> None:
    ending = ask(speaker, whole(speaker.says(*PIECES, finish="zork")))
    assert "zork" in ending.why
    assert not is_retryable(ending.failure)
    assert text_of(ending.message) == "Hello, wörld 😀"


@pytest.mark.promise("E10")
@each_api
def test_E10_a_server_that_asks_to_wait_is_waited_for(speaker: Speaker) -> None:
    failure = ask(speaker, refuses(429, b"slow down", "retry-after: 7")).failure
    retry = next_retry(failure, RETRIES, 0)
    assert retry is not None and retry.delay_ms == 7000


@pytest.mark.promise("E11")
@each_api
def test_E11_a_server_that_asks_to_wait_for_a_day_is_not(speaker: Speaker) -> None:
    ending = ask(speaker, refuses(429, b"slow down", "retry-after: 86400"))
    assert next_retry(ending.failure, RETRIES, 0) is None
    assert ending.seconds < 10


@pytest.mark.promise("E12")
@each_api
def test_E12_a_server_that_is_overloaded_is_asked_again_some_times_and_works_later(speaker: Speaker) -> None:
    async def main() -> None:
        answers = [refuses(529, b"overloaded") for _ in range(4)] + [whole(speaker.says(*PIECES))]

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await answers.pop(0)(reader, writer)

        async with calling(speaker, serve) as calls:
            failures = [(await calls.ask()).failure for _ in range(4)]
            tries = [next_retry(failure, RETRIES, done) for done, failure in enumerate(failures)]
            assert [one.delay_ms if one else None for one in tries] == [2000, 4000, 8000, None]
            assert isinstance((await calls.ask()).last, MessageDone)
            assert answers == []  # nothing was tried again in secret

    asyncio.run(main())


@pytest.mark.promise("E13", "G12")
@each_api
def test_E13_a_wrong_key_is_reported_without_the_key_and_not_retried(speaker: Speaker) -> None:
    ending = ask(speaker, refuses(401, f'{{"error":"bad key {KEY}"}}'.encode()))
    assert ending.why == '401 {"error":"bad key ***"}'
    assert not is_retryable(ending.failure)


@pytest.mark.promise("E14")
@each_api
def test_E14_a_prompt_that_is_too_long_is_known_as_such(speaker: Speaker) -> None:
    ending = ask(speaker, refuses(400, b"prompt is too long: 250000 tokens > 200000 maximum"))
    assert classify(ending.why).outcome == "overflow" and not is_retryable(ending.failure)


@pytest.mark.promise("E15")
@each_api
def test_E15_a_long_error_is_cut(speaker: Speaker) -> None:
    ending = ask(speaker, refuses(500, b"<html>" + b"x" * 200_000))
    assert len(ending.why.encode()) <= 4096
    assert is_retryable(ending.failure)


@pytest.mark.promise("E15", "G12")
@each_api
def test_E15_a_long_error_in_the_stream_is_cut_and_has_no_key(speaker: Speaker) -> None:
    ending = ask(speaker, whole([*speaker.says(*PIECES)[:-3], speaker.error("x" * 4000 + KEY * 50)]))
    assert len(ending.why.encode()) <= 4096
    assert KEY[:5] not in ending.why


@pytest.mark.promise("E16")
@each_api
def test_E16_an_event_of_forty_megabytes_is_refused(speaker: Speaker) -> None:
    piece = b"x" * 1_000_000
    ending = ask(speaker, sends(UNTIL_CLOSED, *speaker.says(*PIECES)[:2], speaker.flood, *[piece] * 40))
    assert "16 MiB" in ending.why
    assert ending.seconds < 20


@pytest.mark.promise("E17")
@each_api
def test_E17_a_bomb_does_not_go_off(speaker: Speaker) -> None:
    ending = ask(speaker, sends(UNTIL_CLOSED.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n"), BOMB))
    assert ending.failure
    assert ending.seconds < 20


BOMB = gzip.compress(b": \n" * 30_000_000, 1)


@pytest.mark.promise("E18")
@each_api
def test_E18_calls_with_the_same_id_and_their_results_stay_apart(speaker: Speaker) -> None:
    twice = [("same", "bash", '{"n":1}'), ("same", "bash", '{"n":2}')]
    message = ask(speaker, whole(speaker.says(calls=twice))).message
    ids = [call.id for call in message.tool_calls]
    assert [call.arguments for call in message.tool_calls] == [{"n": 1}, {"n": 2}]
    assert len(set(ids)) == 2
    results = [ToolResult(id, "bash", [Text(str(at))]) for at, id in enumerate(ids)]
    said, *heard = for_model([message, *results], speaker.model())
    assert isinstance(said, Assistant)
    assert [one.tool_call_id for one in heard if isinstance(one, ToolResult)] == [call.id for call in said.tool_calls]


@pytest.mark.promise("E19")
@each_api
@pytest.mark.parametrize("cut", ['{"command":"rm -rf /tm', "{", '{"a":1', '{"a":1}}', '{"a":1} x', "nul"])
def test_E19_arguments_that_are_cut_or_garbled_never_run(speaker: Speaker, cut: str) -> None:
    last = ask(speaker, whole(speaker.says(calls=[("c1", "bash", cut)]))).last
    assert isinstance(last, MessageFailed) or last.unreadable == {0: cut}
    assert isinstance(last, MessageFailed) == speaker.api.startswith("google")


@pytest.mark.promise("E20")
@each_api
def test_E20_arguments_that_are_no_object_never_run(speaker: Speaker) -> None:
    for arguments in ("[]", "5", '"x"', "true", "[{}]"):
        last = ask(speaker, whole(speaker.says(calls=[("c1", "bash", arguments)]))).last
        assert isinstance(last, MessageFailed) or last.unreadable == {0: arguments}
    strange = [("c1", "", "{}"), ("c2", "no-such-tool", "{}"), ("c3", "bash", '{"command":5}')]
    last = ask(speaker, whole(speaker.says(calls=strange))).last
    assert sorted((call.id.partition("|")[0], call.name, call.arguments) for call in last.message.tool_calls) == [
        ("c1", "", {}),
        ("c2", "no-such-tool", {}),
        ("c3", "bash", {"command": 5}),
    ]


@pytest.mark.promise("E21")
@each_api
def test_E21_a_stream_that_stalls_can_be_left_at_once(speaker: Speaker) -> None:
    async def main() -> None:
        events = speaker.up_to(b"lo, ", speaker.says(*PIECES))
        async with calling(speaker, streams(*events, stall=True), idle=60) as calls:
            draft, some = calls.draft(), asyncio.Event()

            async def listen() -> None:
                async for _ in calls.facts(draft):
                    if draft.block_count and text_of(draft.message("stop")) == "Hello, ":
                        some.set()

            task = asyncio.create_task(listen())
            await some.wait()
            began = time.monotonic()
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled() and time.monotonic() - began < 10  # and not only when it is left after a while
            assert text_of(draft.fail("aborted", "").message) == "Hello, "

    asyncio.run(asyncio.wait_for(main(), SECONDS))


@pytest.mark.promise("E22")
@each_api
def test_E22_a_stream_that_stalls_is_left_after_a_while(speaker: Speaker) -> None:
    events = speaker.up_to(b"lo, ", speaker.says(*PIECES))
    for serve in (streams(*events, stall=True), sends(stall=True), sends(CHUNKED, stall=True)):
        ending = ask(speaker, serve, idle=0.2)
        assert "timed out" in ending.why and is_retryable(ending.failure)
        assert ending.seconds < 10
        assert "Hello, ".startswith(text_of(ending.message))


@pytest.mark.promise("E23")
@each_api
def test_E23_a_refused_connection_is_transient(speaker: Speaker) -> None:
    async def main() -> Ending:
        async with calling(speaker, sends()) as calls:
            async with serving(sends()) as gone:
                pass
            return await Calls(speaker, gone, calls.http).ask()

    assert is_retryable(asyncio.run(main()).failure)


@each_api
def test_E24_a_model_that_repeats_itself_is_heard_each_time(speaker: Speaker) -> None:
    async def main() -> None:
        async with calling(speaker, whole(speaker.says(calls=[LS]))) as calls:
            for _ in range(5):
                message = (await calls.ask()).message
                calls.history.append(message)
                calls.history += [ToolResult(call.id, call.name, [Text("a")]) for call in message.tool_calls]
            model = calls.draft().model
            said = [one for one in for_model(calls.history, model) if isinstance(one, Assistant)]
            assert len({call.id for one in said for call in one.tool_calls}) == 5

    asyncio.run(main())


@pytest.mark.promise("E25")
@each_api
def test_E25_one_byte_at_a_time_is_enough(speaker: Speaker) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await heard(reader)
        writer.write(UNTIL_CLOSED)
        for byte in b"".join(speaker.says(*PIECES, calls=[LS])):
            writer.write(bytes([byte]))
            await asyncio.sleep(0)

    ending = ask(speaker, serve)
    assert (ending.message.text, ending.message.stop_reason) == ("Hello, wörld 😀", "toolUse")


@pytest.mark.promise("E26")
@each_api
def test_E26_strange_characters_pass_and_what_is_kept_is_json(speaker: Speaker) -> None:
    strange = "a\x00b\x1b[31mc\u2028d"
    ending = ask(speaker, whole(speaker.says(strange, HALF, f"{HALF}!")))
    assert isinstance(ending.last, MessageDone)
    assert ending.message.text == strange + "\ud83d\ud83d!"
    kept = encode(ending.message)
    assert b"\n" not in kept and parse(kept)["content"][0]["text"] == ending.message.text
    (said,) = for_model([ending.message], speaker.model())
    request = llm.apis.load_api(speaker.api).request(
        speaker.model("http://x"), ModelContext("", [said], []), CallOptions(KEY)
    )
    assert "ud83d" not in encode(request.body).decode()


@pytest.mark.promise("E27")
@each_api
def test_E27_two_hundred_calls_in_one_answer_are_two_hundred(speaker: Speaker) -> None:
    many = [(f"c{at}", "bash", f'{{"n":{at}}}') for at in range(200)]
    ending = ask(speaker, whole(speaker.says(calls=many)))
    assert isinstance(ending.last, MessageDone) and ending.last.unreadable == {}
    assert [call.arguments for call in ending.message.tool_calls] == [{"n": at} for at in range(200)]
    assert len({call.id for call in ending.message.tool_calls}) == 200


@each_api
def test_an_error_in_the_middle_keeps_what_came(speaker: Speaker) -> None:
    events = speaker.up_to(b"lo, ", speaker.says(*PIECES))
    ending = ask(speaker, whole([*events, speaker.error("Overloaded"), *speaker.says(*PIECES)[len(events) :]]))
    assert text_of(ending.failure.message) == "Hello, "
    assert is_retryable(ending.failure)


@each_api
def test_an_error_with_the_status_200_is_told_in_its_own_words(speaker: Speaker) -> None:
    body = b'{"error":{"message":"No provider is available for this model","code":404}}'
    headers = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    ending = ask(speaker, sends(headers + body))
    if not speaker.frames:  # a frame of AWS begins with its length: anything else is corrupt
        assert "No provider is available for this model" in ending.why
