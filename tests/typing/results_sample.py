"""The type of `output_schema` is the type of the output: checked by mypy --strict and pyright, never run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

import msgspec

import tau
from tau import Agent, Result, Run, RunError, RunStopReason, sync


class Struct(msgspec.Struct):
    x: int


@dataclass
class Point:
    x: int


class Typed(TypedDict):
    x: int


class PydanticLike:
    """pydantic need not be installed: for a type checker its models are classes like any other."""

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {}

    @classmethod
    def model_validate(cls, value: object) -> PydanticLike:
        return cls()


async def outputs(agent: Agent, schema: dict[str, Any], unknown: Any) -> None:
    assert_type(agent.prompt("p", output_schema=Point), Run[Point])
    assert_type(await agent.prompt("p", output_schema=Point), Result[Point])
    assert_type((await agent.prompt("p", output_schema=Point)).output, Point | None)
    assert_type((await agent.prompt("p", output_schema=Point)).require_output(), Point)
    assert_type((await agent.prompt("p", output_schema=Struct)).require_output().x, int)
    assert_type((await agent.prompt("p", output_schema=PydanticLike)).require_output(), PydanticLike)
    assert_type((await agent.prompt("p", output_schema=Typed)).require_output()["x"], int)
    assert_type((await agent.prompt("p", output_schema=list[Point])).require_output(), list[Point])
    assert_type((await agent.prompt("p", output_schema=schema)).output, Any | None)
    await agent.prompt("p", output_schema=Point | Struct)
    await agent.prompt("p", output_schema=unknown)
    assert_type((await agent.prompt("p")).output, None)
    assert_type((await agent.prompt("p", while_busy="steer", abort_on_cancel=False)).raise_for_status(), Result[None])


def any_result(result: Result) -> Any:
    """A bare Result is Result[Any], as in programs written before Result had a parameter."""
    return result.output


async def checked(agent: Agent) -> str:
    try:
        result = (await agent.prompt("p", output_schema=Point)).raise_for_status()
    except tau.BudgetReached as error:
        return str(error)
    except (tau.AnswerTruncated, tau.RunAborted) as error:
        return str(error.result)
    except RunError:
        return ""
    assert_type(result.stop_reason, RunStopReason | None)
    any_result(result)
    return result.text


def synchronous(agent: sync.Agent) -> None:
    assert_type(agent.prompt("p", output_schema=Point), Result[Point])
    assert_type(agent.prompt("p", output_schema=Typed).require_output()["x"], int)
    assert_type(agent.prompt("p"), Result[None])
