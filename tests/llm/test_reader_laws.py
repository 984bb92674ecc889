"""What holds for the reader of every API. What only one of them does is in its own file."""

from __future__ import annotations

import re
from typing import Any

import pytest

from support.loop_kit import assistant, call, user
from support.readers import ReaderCase, anthropic, bedrock, google, openai_chat, openai_responses
from support.recorded_streams import CALLS, Reading, fails, ways
from tau.core.agent.draft import MessageDone
from tau.core.models.failures import classify
from tau.errors import ModelError
from tau.llm.types import CallOptions, ModelContext
from tau.records.base import encode, parse
from tau.records.messages import Text, Thinking, ToolCall, ToolResult

CASES = [module.CASE for module in (anthropic, bedrock, google, openai_chat, openai_responses)]
WITH_PIECES = [case for case in CASES if case.call]  # Google sends the arguments of a call whole

each_api = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@each_api
@pytest.mark.parametrize("way", range(3), ids=["whole", "events", "bytes"])
def test_a_recorded_answer_is_read_however_it_is_cut(case: ReaderCase, way: int) -> None:
    reading = case.read(*ways(case.recorded)[way])
    assert reading.deltas == case.deltas
    assert reading.done == MessageDone(case.answer)


@each_api
def test_a_stream_cut_after_any_event_is_an_error_and_never_an_answer(case: ReaderCase) -> None:
    for count in range(case.needed):
        error, reading = fails(case.api, case.model, case.recorded[:count])
        assert error.transient is True, count
        kept = reading.draft.fail("error", str(error)).message.content
        assert [type(block) for block in kept] == [type(block) for block in case.answer.content[: len(kept)]], count


@each_api
def test_an_answer_is_whole_even_if_what_is_not_needed_is_missing(case: ReaderCase) -> None:
    for count in range(case.needed, len(case.recorded)):
        assert case.read(*case.recorded[:count]).done.message.content == case.answer.content, count


@pytest.mark.parametrize("case", WITH_PIECES, ids=lambda case: case.name)
@pytest.mark.parametrize("recorded_call", CALLS, ids=range(len(CALLS)))
def test_arguments_cut_at_any_byte_never_become_a_call_that_can_run(
    case: ReaderCase, recorded_call: dict[str, Any]
) -> None:
    arguments, name = encode(recorded_call["arguments"]), recorded_call["name"]
    assert case.call is not None
    for cut in range(1, len(arguments)):
        piece = arguments[:cut].decode("utf-8", "ignore")
        assert case.read(*case.call(name, piece)).done.unreadable == {0: piece}
    whole = case.read(*case.call(name, arguments.decode())).done
    assert whole == MessageDone(whole.message)
    assert whole.message.tool_calls == [ToolCall(case.call_id, name, parse(arguments))]


@each_api
def test_every_known_reason_to_stop_has_its_meaning(case: ReaderCase) -> None:
    found = {reason: case.read(*case.half, *case.finish(reason)).done.message.stop_reason for reason in case.reasons}
    assert found == case.reasons


@each_api
def test_any_other_reason_to_stop_is_an_error_that_names_it(case: ReaderCase) -> None:
    for reason in case.refused:
        error, reading = fails(case.api, case.model, case.half, b"".join(case.finish(reason)))
        assert str(reason) in str(error) and error.transient is (reason in case.tried_again), reason
        assert reading.draft.message("error").content == [Text("half")]


@each_api
def test_an_error_in_the_stream_is_told_in_its_own_words(case: ReaderCase) -> None:
    for event in case.overloaded:
        error, reading = fails(case.api, case.model, case.half, event)
        assert "Overloaded" in str(error) and (error.transient or classify(str(error)).is_transient), event
        assert reading.draft.message("error").content == [Text("half")]


@pytest.mark.parametrize(
    ("case", "bad"),
    [pytest.param(case, bad, id=f"{case.name}-{at}") for case in CASES for at, bad in enumerate(case.malformed)],
)
def test_a_malformed_event_is_an_error_that_says_what_it_lacks(case: ReaderCase, bad: bytes) -> None:
    reading = Reading(case.api, case.model, case.half)
    with pytest.raises(ModelError, match=re.escape(case.malformed[bad])) as caught:
        reading.feed(bad)
    assert caught.value.transient is True
    assert reading.draft.message("error").content[0] == Text("half")


@pytest.mark.parametrize(
    ("case", "odd"),
    [pytest.param(case, odd, id=f"{case.name}-{at}") for case in CASES for at, odd in enumerate(case.tolerated)],
)
def test_an_odd_event_that_lacks_nothing_needed_does_not_change_the_answer(case: ReaderCase, odd: bytes) -> None:
    reason = next(iter(case.reasons))
    done = case.read(*case.half, odd, *case.finish(reason)).done
    assert [block.text for block in done.message.content if isinstance(block, Text)] == ["half"]
    assert (len(done.message.content), done.message.stop_reason) == (1, case.reasons[reason])


@each_api
def test_nothing_is_sent_that_is_no_utf8(case: ReaderCase) -> None:
    bad = "a\ud800b"
    messages = [
        user(bad),
        assistant(bad, Thinking(bad, "reasoning"), call("ls", path=bad, more=[{bad: bad}])),
        ToolResult("call_ls", "ls", [Text(bad)]),
    ]
    sent = case.api.request(case.model, ModelContext(bad, messages, []), CallOptions())
    assert "ud800" not in encode(sent.body).decode()
