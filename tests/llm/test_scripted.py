from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.loop_kit import new_draft
from tau import llm
from tau.core.agent.draft import Begun, Done, Update
from tau.errors import ModelError
from tau.llm.catalog import SCRIPTED
from tau.llm.types import Context, Options, World
from tau.records.base import UNSET, encode, replace
from tau.records.deltas import (
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from tau.records.messages import Assistant, Text, Thinking, ToolCall, Usage


class Played:
    """One answer of a scripted model: what it told, and how long it paused in between."""

    def __init__(self, *answers: dict[str, Any], turn: int = 0, script: bytes | None = None) -> None:
        self.told: list[Any] = []
        self.paused: list[float] = []
        self.error: ModelError | None = None
        self.draft = new_draft(SCRIPTED)
        self._script = encode({"answers": answers}) if script is None else script
        asyncio.run(self._play(turn))

    async def _play(self, turn: int) -> None:
        world = World(None, self._pause, turn, self._script)  # type: ignore[arg-type]
        try:
            async for facts in llm.stream(SCRIPTED, Context("", [], []), Options(), self.draft, world):
                self.told += facts
        except ModelError as error:
            self.error = error
        except TimeoutError:
            pass

    async def _pause(self, seconds: float) -> None:
        self.paused.append(seconds)
        if seconds > 1000:
            raise TimeoutError

    @property
    def deltas(self) -> list[Any]:
        return [fact.delta for fact in self.told if isinstance(fact, Update)]

    @property
    def message(self) -> Assistant:
        done = self.told[-1]
        assert isinstance(done, Done)
        return done.message


def test_a_script_says_what_it_says() -> None:
    played = Played(
        {
            "blocks": [
                {"thinking": ["H", "m"], "signature": "sig"},
                {"text": ["Hel", "lo"]},
                {"tool": "bash", "arguments": {"command": "ls"}, "id": "c1"},
            ],
            "usage": {"input": 7, "output": 8, "cacheRead": 1, "cacheWrite": 2},
        }
    )
    assert played.told[0] == Begun(
        replace(played.message, content=[], usage=Usage(), stop_reason="stop", response_id=UNSET)
    )
    assert played.deltas == [
        ThinkingStart(0),
        ThinkingDelta(0, "H"),
        ThinkingDelta(0, "m"),
        ThinkingEnd(0, "Hm"),
        TextStart(1),
        TextDelta(1, "Hel"),
        TextDelta(1, "lo"),
        TextEnd(1, "Hello"),
        ToolCallStart(2, "c1", "bash"),
        ToolCallDelta(2, '{"command":"ls"}'),
        ToolCallEnd(2, ToolCall("c1", "bash", {"command": "ls"})),
    ]
    assert played.message == Assistant(
        [Thinking("Hm", "sig"), Text("Hello"), ToolCall("c1", "bash", {"command": "ls"})],
        "scripted",
        "scripted",
        "scripted",
        Usage(7, 8, 1, 2, 18),
        "toolUse",
        0,
        response_id="scripted_0",
    )


def test_a_short_text_is_enough() -> None:
    assert (Played({"text": "hi"}).message.text, Played({"text": "hi"}).message.stop_reason) == ("hi", "stop")
    assert Played({}).message.content == []


def test_answers_are_played_one_per_call_and_the_last_again() -> None:
    answers = ({"text": "a"}, {"text": "b"})
    assert [Played(*answers, turn=turn).message.text for turn in range(4)] == ["a", "b", "b", "b"]


def test_calls_without_an_id_get_one_of_their_own() -> None:
    calls = {"blocks": [{"tool": "ls"}, {"tool": "ls"}]}
    ids = [call.id for turn in range(2) for call in Played(calls, turn=turn).message.tool_calls]
    assert len(set(ids)) == 4


def test_arguments_may_be_raw_text_that_is_cut() -> None:
    played = Played({"blocks": [{"tool": "bash", "arguments": ['{"command": ', '"ec']}]})
    assert played.deltas[1:3] == [ToolCallDelta(0, '{"command": '), ToolCallDelta(0, '"ec')]
    assert played.told[-1].unreadable == {0: '{"command": "ec'}


def test_the_stop_reason_can_be_set() -> None:
    assert Played({"text": "hi", "stop": "length"}).message.stop_reason == "length"


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_a_failure_is_no_stop_reason(stop: str) -> None:
    assert Played({"text": "hi", "stop": stop}).error is not None


@pytest.mark.parametrize("after", [0, 1, 2, 3, 9])
def test_it_fails_after_so_many_pieces(after: int) -> None:
    error = {"message": "529 overloaded", "after": after, "retryAfterMs": 5}
    played = Played({"blocks": [{"text": ["a", "b"]}, {"text": "c"}], "error": error})
    assert [delta.delta for delta in played.deltas if isinstance(delta, TextDelta)] == list("abc"[:after])
    assert played.error is not None
    assert (str(played.error), played.error.transient, played.error.retry_after_ms) == ("529 overloaded", None, 5)


@pytest.mark.parametrize("after", [0, 1, 2, 9])
def test_it_hangs_after_so_many_pieces(after: int) -> None:
    played = Played({"text": "a", "blocks": [{"text": "b"}], "hangAfter": after})
    assert [delta.delta for delta in played.deltas if isinstance(delta, TextDelta)] == list("ba"[:after])
    assert not any(isinstance(fact, Done) for fact in played.told)
    assert len(played.paused) == 1 and played.paused[0] > 1000


def test_it_takes_its_time() -> None:
    played = Played({"blocks": [{"text": ["a", "b"]}], "startDelayMs": 500, "delayMs": 20})
    assert played.paused == [0.5, 0.02, 0.02]


def test_pieces_can_be_repeated_for_load() -> None:
    assert Played({"blocks": [{"text": ["ab", "c"]}], "repeat": 3}).message.text == "abababccc"


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (b"", "Expecting value"),
        (b"{}", "answers: missing"),
        (b'{"answers":[]}', "answers: empty"),
        (b'{"answers":[{"txt":"hi"}]}', "txt"),
        (b'{"answers":[{"blocks":[{"text":5}]}]}', "answers[0].blocks[0].text: expected"),
    ],
)
def test_a_mistake_in_the_script_is_named(script: bytes, error: str) -> None:
    played = Played(script=script)
    assert played.error is not None
    assert error in str(played.error)
    assert played.error.transient is False
