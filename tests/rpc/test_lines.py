"""What may stand in a line of input: every line gets one response, none ends the program.

One agent serves most of these tests, which is a test in itself: after each of
the nasty lines the next has to work.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from faults.wrong_fields import CASES, shape
from support.rpc_process import Agent, Json, endless, of, texts
from tau.records.commands import AnyCommand


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Agent]]:
    agents = [Agent(tmp_path_factory.mktemp("lines"))]
    yield agents
    for agent in agents:
        agent.end()


@pytest.fixture
def agent(agents: list[Agent], tmp_path: Path) -> Iterator[Agent]:
    """The one that serves all; a new one if a test has broken it, so that only that test fails."""
    if agents[-1].broken:
        agents.append(Agent(tmp_path))
    yield agents[-1]
    assert not agents[-1].broken, agents[-1].transcript()


def refused(agent: Agent, line: bytes) -> Json:
    """The one response to a line that is no command; then the next command works."""
    before = len(agent.responses)
    response = agent.answer_to(line)
    assert (response["command"], response["success"]) == ("parse", False), response
    assert response["error"].startswith("Failed to parse command: ")
    still_works(agent, before + 1)
    return response


def still_works(agent: Agent, responses: int) -> None:
    agent.get("get_state")
    assert len(agent.responses) == responses + 1


@pytest.mark.promise("A01", "A02", "A03", "A04", "A05", "A06", "A07", "A08", "A10")
@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"type":"get_state"', id="A01 broken JSON"),
        pytest.param(b'{"type":"get_state"}}', id="A01 something after the object"),
        pytest.param(b'{"type":"get_state"} {"type":"get_state"}', id="A01 two objects"),
        pytest.param(b"{'type':'get_state'}", id="A01 no JSON quotes"),
        pytest.param(b"get_state", id="A01 no JSON at all"),
        pytest.param(b"null", id="A02 null"),
        pytest.param(b"5", id="A03 number"),
        pytest.param(b'"get_state"', id="A03 string"),
        pytest.param(b"[]", id="A03 empty list"),
        pytest.param(b'[{"type":"get_state"}]', id="A03 list"),
        pytest.param(b"true", id="A03 boolean"),
        pytest.param(b"{}", id="A04 empty object"),
        pytest.param(b'{"message":"hello"}', id="A04 no type"),
        pytest.param(b'{"type":5}', id="A04 type is a number"),
        pytest.param(b'{"type":null}', id="A04 type is null"),
        pytest.param(b'{"type":{"type":"get_state"}}', id="A04 type is an object"),
        pytest.param(b'{"type":["get_state"]}', id="A04 type is a list"),
        pytest.param(b"\0", id="A05 NUL"),
        pytest.param(b'{"type":"get\0state"}', id="A05 NUL in a string"),
        pytest.param(b'\0{"type":"get_state"}', id="A05 NUL before"),
        pytest.param(b'{"type":"get_state"}\0', id="A05 NUL after"),
        pytest.param(b"\xff\xfe\x80", id="A06 not UTF-8"),
        pytest.param(b'{"type":"prompt","message":"\xc3\x28"}', id="A06 not UTF-8 in a field"),
        pytest.param(b'{"type":"get_state","more":"\xff"}', id="A06 not UTF-8 in a field nobody reads"),
        pytest.param(b'{"type":"get_state","\xff":1}', id="A06 not UTF-8 in a name"),
        pytest.param(b'{"id":"\xff","type":"get_state"}', id="A06 not UTF-8 in the id"),
        pytest.param(b'{"type":"prompt","message":"\xed\xa0\x80"}', id="A06 a surrogate in UTF-8"),
        pytest.param(b"[" * 100_000, id="A07 100,000 deep"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, id="A07 100,000 deep, closed"),
        pytest.param(b'{"a":' * 100_000 + b"1" + b"}" * 100_000, id="A07 100,000 objects deep"),
        pytest.param(b'{"type":"get_state","a":NaN}', id="A08 NaN"),
        pytest.param(b'{"id":NaN,"type":"get_state"}', id="A08 NaN as id"),
        pytest.param(b'{"type":"get_state","a":[-Infinity]}', id="A08 Infinity"),
        pytest.param(b'\xef\xbb\xbf{"type":"get_state"}', id="A10 BOM"),
        pytest.param(b'{"type":"get_state","a":"\x01"}', id="control character in a string"),
        pytest.param(b'{"type":"get_state","a":01}', id="number with a leading zero"),
    ],
)
def test_what_is_no_command_gets_one_parse_error(agent: Agent, line: bytes) -> None:
    assert "id" not in refused(agent, line)


@pytest.mark.parametrize("id", ["7", '"x"', "null", "[1]", '{"a":1}'])
def test_a_line_without_a_type_still_gets_its_id_back(agent: Agent, id: str) -> None:
    assert refused(agent, f'{{"id":{id},"type":5}}'.encode())["id"] == json.loads(id)


@pytest.mark.promise("A04", "A04b", "A11")
@pytest.mark.parametrize(
    "name",
    ["nope", "", "Get_State", "get_state ", "__proto__", "constructor", "toString", "response", "agent_end", "\0"],
)
def test_an_unknown_command_is_named_and_keeps_its_id(agent: Agent, name: str) -> None:
    before = len(agent.responses)
    response = agent.answer_to(json.dumps({"id": "mine", "type": name}).encode())
    assert response == {
        "id": "mine",
        "type": "response",
        "command": name,
        "success": False,
        "error": f"Unknown command: {name}",
    }
    still_works(agent, before + 1)


@pytest.mark.promise("A11")
@pytest.mark.parametrize("name", ["__proto__", "constructor", "prototype"])
def test_odd_field_names_are_treated_as_unknown_fields(agent: Agent, name: str) -> None:
    line = json.dumps({"type": "get_state", name: {"type": "prompt", "isAdmin": True}})
    assert agent.answer_to(line.encode())["success"]


@pytest.mark.promise("A07")
@pytest.mark.parametrize("place", ["more", "id", "message"])
def test_deep_nesting_in_a_field_is_answered_once(agent: Agent, place: str) -> None:
    line = b'{"type":"prompt","%b":%b%b}' % (place.encode(), b"[" * 50_000, b"]" * 50_000)
    before = len(agent.responses)
    assert agent.answer_to(line)["success"] is False
    still_works(agent, before + 1)


@pytest.mark.promise("A07")
@pytest.mark.parametrize("place", ["more", "id"])
@pytest.mark.parametrize(("levels", "taken"), [(256, True), (257, False), (1_200, False), (5_000, False)])
def test_a_line_of_up_to_256_levels_is_taken_on_every_python(
    agent: Agent, place: str, levels: int, taken: bool
) -> None:
    before = len(agent.responses)
    inner = b"[" * (levels - 1) + b"]" * (levels - 1)
    response = agent.answer_to(b'{"type":"get_state","%b":%b}' % (place.encode(), inner))
    assert response["success"] is taken
    if not taken:
        assert (response["command"], response["error"]) == ("parse", "Failed to parse command: nested too deeply")
    still_works(agent, before + 1)


@pytest.mark.promise("A08")
def test_a_number_too_large_for_a_double_does_no_harm(agent: Agent) -> None:
    before = len(agent.responses)
    agent.answer_to(b'{"type":"get_state","a":1e999}')
    agent.answer_to(b'{"id":1e999,"type":"get_state"}')
    agent.answer_to(b'{"type":"set_auto_retry","enabled":1e999}')
    still_works(agent, before + 3)


@pytest.mark.promise("A09")
def test_blank_lines_are_ignored_and_crlf_is_a_line_end(agent: Agent) -> None:
    before = len(agent.responses)
    agent.write(b'\n\r\n  \n\t\r\n{"id":"crlf","type":"get_state"}\r\n \n')
    assert agent.response("crlf")["success"]
    still_works(agent, before + 1)


@pytest.mark.promise("A12")
def test_two_commands_with_the_same_id_get_two_responses(agent: Agent) -> None:
    before = len(agent.responses)
    agent.write(b'{"id":"twin","type":"get_state"}\n{"id":"twin","type":"get_messages"}\n')
    agent.next_response(after=before + 1)
    twins = agent.responses[before:]
    assert [(twin["id"], twin["command"]) for twin in twins] == [("twin", "get_state"), ("twin", "get_messages")]


@pytest.mark.promise("A13")
@pytest.mark.parametrize(
    "id",
    [
        *("7", "-1.50", "1E5", "12345678901234567890123", "null", "true", '""', '"a b"', "[]", "[1,null]", "{}"),
        *(
            '{"a":{"b":[1]}}',
            '"\\ud83d\\ude00"',
            '"\\ud800"',
            '"\\u0000"',
            '"\u00e9"',
            '"\u2028\u2029"',
            '{"\u2028":1}',
        ),
    ],
)
def test_an_id_of_any_type_comes_back_unchanged(agent: Agent, id: str) -> None:
    response = agent.answer_to(b'{"id":%b,"type":"get_state"}' % id.encode())
    assert response["success"] and response["id"] == json.loads(id)


def test_without_an_id_there_is_none_in_the_response(agent: Agent) -> None:
    assert "id" not in agent.answer_to(b'{"type":"get_state"}')


@pytest.mark.parametrize("order", [("id", "type", "message"), ("message", "type", "id"), ("type", "message", "id")])
def test_half_a_surrogate_pair_is_text_like_any_other(agent: Agent, order: tuple[str, ...]) -> None:
    before = len(agent.responses)
    fields = {"id": '"half"', "type": '"set_session_name"', "message": '"\\udc00"', "name": '"a \\ud800 b"'}
    line = ",".join(f'"{name}":{fields[name]}' for name in (*order, "name"))
    response = agent.answer_to(f"{{{line}}}".encode())
    assert response == {"id": "half", "type": "response", "command": "set_session_name", "success": True}
    assert agent.get("get_state")["sessionName"] == "a \ud800 b"
    assert len(agent.responses) == before + 2


# A14: every field of every command, with every wrong type and unknown value.


def test_there_is_a_case_for_every_field_of_every_command() -> None:
    fields = {
        (record.__struct_config__.tag, name)
        for record in get_args(AnyCommand)
        for name, hint in shape(record).items()
        if hint is not Any
    }
    assert {(case.command["type"], case.field.partition("[")[0]) for case in CASES} == fields
    assert len(CASES) > 150


@pytest.mark.promise("A14", "B17")
def test_a_wrong_field_is_named_and_changes_nothing(agent: Agent) -> None:
    def everything() -> Json:
        kinds = ("get_state", "get_entries", "get_available_thinking_levels", "clear_queue", "get_session_stats")
        return {"settings.json": agent.settings, **{kind: agent.get(kind) for kind in kinds}}

    at_first, events = everything(), len(agent.events)
    accepted = [(case, response) for case in CASES if not case.is_refused(response := case.ask(agent))]
    assert accepted == []
    assert (everything(), agent.events[events:]) == (at_first, [])


@pytest.mark.parametrize(
    "command",
    [
        {"kind": "prompt", "message": "hello", "images": None, "streamingBehavior": None},
        {"kind": "new_session", "parentSession": None},
        {"kind": "bash", "command": "true", "excludeFromContext": None},
        {"kind": "get_entries", "since": None},
    ],
    ids=lambda command: command["kind"],
)
def test_null_is_as_good_as_absent_where_a_field_is_optional(tmp_path: Path, command: Json) -> None:
    with Agent(tmp_path) as agent:
        assert agent.ask(**command)["success"]


@pytest.mark.promise("A15")
def test_a_session_goes_on_after_poisoned_prompts(agent: Agent) -> None:
    poison = [{"message": 5}, {"message": None}, {"message": {"text": "x"}}, {"message": "x", "images": [5]}, {}]
    assert [agent.ask("prompt", **fields)["success"] for fields in poison] == [False] * len(poison)
    assert texts(agent.prompt("and now?"), "assistant") == ["ok"]


@pytest.mark.promise("A16")
def test_line_separators_of_other_worlds_are_content(agent: Agent) -> None:
    message = "a\u2028b\u2029c\u0085d\re\x0bf\x0cg\x1eh\U0001f600"
    line = json.dumps({"id": "slow", "type": "prompt", "message": message}, ensure_ascii=False).encode() + b"\r\n"
    for at in range(len(line)):
        agent.write(line[at : at + 1])
    assert agent.response("slow")["success"]
    assert texts(agent.settled(), "user")[-1:] == [message]


@pytest.mark.promise("A17")
def test_a_last_command_without_newline_is_answered(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.write(b'{"id":"last","type":"get_state"}')
        agent.close()
        assert (agent.exit_code(), [response["id"] for response in agent.responses]) == (0, ["last"])


@pytest.mark.promise("A21")
def test_a_line_that_is_never_finished_is_answered_and_ends_it_cleanly(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.write(b'{"type":"get_state"}\n{"type":"promp')
        agent.close()
        assert agent.exit_code() == 0
        assert [(one["command"], one["success"]) for one in agent.responses] == [("get_state", True), ("parse", False)]


@pytest.mark.promise("A20")
def test_a_flood_of_follow_ups_is_queued_or_refused_and_its_output_stays_linear(tmp_path: Path) -> None:
    count = 2_000
    with Agent(tmp_path, endless("busy")) as agent:
        agent.ask("prompt", message="go")
        agent.write(b"".join(b'{"type":"follow_up","message":"number %d"}\n' % at for at in range(count)))
        responses = [agent.next_response(after=1 + at) for at in range(count)]
        state = agent.get("get_state")
        taken = [response for response in responses if response["success"]]
        assert state["pendingMessageCount"] == len(taken) == 256
        assert all("full" in response["error"] for response in responses if not response["success"])
        agent.until(lambda event: event["type"] == "queue_update" and len(event["followUp"]) == 256)
        shown = of("queue_update", agent.events)
        assert shown[-1]["followUp"] == [f"number {at}" for at in range(256)]
        assert agent.bytes_read < 10_000 * count


@pytest.mark.promise("A22")
@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"extension_ui_response","id":"nobody asked","value":"x"}',
        b'{"type":"extension_ui_response","id":"nobody asked","value":"x"}',
        b'{"type":"extension_ui_response"}',
        b'{"type":"extension_ui_response","id":5,"confirmed":"perhaps"}',
    ],
)
def test_an_answer_to_a_dialog_that_is_not_open_is_ignored(agent: Agent, line: bytes) -> None:
    before = len(agent.responses)
    agent.write(line + b"\n")
    still_works(agent, before)
