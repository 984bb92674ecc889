from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from tau.client.pending import PendingRequests
from tau.records.base import parse
from tau.records.commands import Prompt, SetBudget


def line(command: Any) -> dict[str, Any]:
    answer: Any = Future()
    said: dict[str, Any] = parse(PendingRequests().register(command, answer, 0)[1])
    return said


def test_null_in_a_schema_is_said() -> None:
    schema = {"const": None, "enum": [None], "default": None}
    assert line(Prompt("hi", output_schema=schema)) == {
        "id": "req_1",
        "type": "prompt",
        "message": "hi",
        "outputSchema": schema,
    }


def test_limits_that_are_none_are_left_out() -> None:
    assert line(SetBudget(max_turns=3)) == {"id": "req_1", "type": "set_budget", "maxTurns": 3}
