"""`ok`, `stop_reason` and `raise_for_status` tell whether a run came to its regular end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pytest

import tau
from support.library_agent import HANGS, calls, opened, play, says
from tau import events
from tau.core.agent.structured_output import TOOL_NAME
from tau.library.results import TRUNCATED

LENGTH = {"blocks": [{"text": "Once upon"}], "stop": "length"}
FAILS = {"text": "x", "error": {"message": "401 no such key", "after": 0}}
BUSY = calls("bash", command="true")


@dataclass
class Point:
    x: int
    y: int


def result_for(folder: Path, *answers: dict[str, Any], schema: Any = None, **options: Any) -> tau.Result:
    async def story() -> tau.Result:
        async with opened(folder, *answers, **options) as agent:
            return await agent.prompt("go", output_schema=schema)

    return play(story())


def aborted(folder: Path) -> tau.Result:
    async def story() -> tau.Result:
        async with opened(folder, HANGS) as agent:
            run = agent.prompt("go")
            async for event in run:
                if isinstance(event, events.MessageUpdate):
                    await agent.abort()
            return await run

    return play(story())


def test_a_regular_end_is_ok(tmp_path: Path) -> None:
    result = result_for(tmp_path, BUSY, says("done"))
    assert (result.ok, result.stop_reason, result.error) == (True, "stop", None)
    assert result.raise_for_status() is result


@pytest.mark.parametrize(
    ("budget", "limit"),
    [(tau.Budget(max_turns=1), "turns"), (tau.Budget(max_tokens=1), "tokens"), (tau.Budget(time_limit=0.01), "time")],
)
def test_a_budget_that_ended_the_run_is_not_ok(tmp_path: Path, budget: tau.Budget, limit: str) -> None:
    result = result_for(tmp_path, calls("bash", command="sleep 0.2"), says("done"), budget=budget)
    assert (result.ok, result.stop_reason) == (False, "budget")
    assert result.exceeded is not None and result.exceeded.limit == limit
    with pytest.raises(tau.BudgetReached, match=r"limit of .* was reached") as raised:
        result.raise_for_status()
    assert raised.value.result is result


def test_a_model_that_was_stuck_is_not_ok(tmp_path: Path) -> None:
    result = result_for(tmp_path, calls("no_such_tool"))
    assert (result.ok, result.stop_reason, result.exceeded) == (False, "stuck", events.BudgetExceeded("stuck", 8, 8))
    with pytest.raises(tau.BudgetReached, match="8 answers in a row all failed in the same way"):
        result.raise_for_status()


def test_a_truncated_answer_is_not_ok(tmp_path: Path) -> None:
    result = result_for(tmp_path, LENGTH)
    assert (result.ok, result.stop_reason, result.error, result.text) == (False, "length", TRUNCATED, "Once upon")
    with pytest.raises(tau.AnswerTruncated) as raised:
        result.raise_for_status()
    assert raised.value.result.text == "Once upon"


def test_an_aborted_run_is_not_ok(tmp_path: Path) -> None:
    result = aborted(tmp_path)
    assert (result.ok, result.stop_reason, result.text) == (False, "aborted", "for ")
    with pytest.raises(tau.RunAborted, match="aborted"):
        result.raise_for_status()


def test_a_failed_run_is_not_ok(tmp_path: Path) -> None:
    result = result_for(tmp_path, FAILS)
    assert (result.ok, result.stop_reason) == (False, "error")
    with pytest.raises(tau.RunError, match="401 no such key") as raised:
        result.raise_for_status()
    assert type(raised.value) is tau.RunError and isinstance(raised.value, tau.TauError)


class Struct(msgspec.Struct):
    x: int
    y: int


class Typed(TypedDict):
    x: int
    y: int


class Model:
    """Has the methods of a pydantic model that tau uses."""

    def __init__(self, x: int, y: int) -> None:
        self.point = (x, y)

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        integer = {"type": "integer"}
        return {"type": "object", "properties": {"x": integer, "y": integer}, "required": ["x", "y"]}

    @classmethod
    def model_validate(cls, value: dict[str, Any]) -> Model:
        return cls(**value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and other.point == self.point


@pytest.mark.parametrize(
    ("schema", "expected"),
    [(Point, Point(1, 2)), (Struct, Struct(1, 2)), (Typed, {"x": 1, "y": 2}), (Model, Model(1, 2))],
)
def test_an_object_of_a_class_is_the_output(tmp_path: Path, schema: Any, expected: object) -> None:
    result = result_for(tmp_path, calls(TOOL_NAME, x=1, y=2), schema=schema)
    assert (result.ok, result.stop_reason) == (True, "stop")
    assert result.output == result.require_output() == expected
    assert type(result.output) is type(expected)


def test_a_run_without_its_output_is_not_ok(tmp_path: Path) -> None:
    result = result_for(tmp_path, says("no"), says("no"), says("no"), says("no"), says("no"), schema=Point)
    assert (result.ok, result.stop_reason, result.output) == (False, "error", None)
    with pytest.raises(tau.RunError) as raised:
        result.require_output()
    assert str(raised.value) == result.error


def test_a_prompt_that_an_extension_handled_is_ok_but_has_no_output(tmp_path: Path) -> None:
    def handle(event: dict[str, Any]) -> dict[str, Any]:
        return {"action": "handled"}

    result = result_for(tmp_path, hooks={"input": handle}, schema=Point)
    assert (result.ok, result.stop_reason, result.messages) == (True, None, [])
    with pytest.raises(tau.RunError, match="handled by an extension"):
        result.require_output()
