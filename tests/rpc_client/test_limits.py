from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from tau.client.pending import PendingRequests
from tau.client.replies import envelope, read
from tau.events import raw
from tau.records.base import parse
from tau.records.commands import Prompt, SetBudget
from tau.records.replies import Tree


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


def test_the_tree_of_a_session_may_be_deeper_than_what_agents_are_sent() -> None:
    """Each entry is two levels deeper than the one before it."""
    tree = b'[{"entry":{},"children":' * 300 + b"[]" + b"}]" * 300
    line = b'{"type":"response","id":1,"command":"get_tree","success":true,"data":{"tree":%b,"leafId":"a"}}' % tree
    reply, data = envelope(line)
    assert reply.success and raw(read(Tree, data, "get_tree"))["leafId"] == "a"
