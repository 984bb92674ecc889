"""Random input in every dialect: each line has its response, and every line that comes back is one of the dialect."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from long.fuzz import due, mutated
from long.fuzz_dialects import fuzz_dialect
from support.rpc_agent import Agent
from tau.records.base import BadRecord, decode
from tau.runtime.protocol.requests import InvalidLine, parse_request
from tau.wire.dialects import NAMES, find

SEED = 30
LINES = 40  # for one agent
PURE_LINES = 150
each_dialect = pytest.mark.parametrize("name", NAMES)

# Fields that a command does not have: JSON, but of the kind that readers differ about.
ODD_FIELDS = [
    '"z":1e999',
    '"z":-1e999',
    f'"z":{"9" * 5000}',
    f'"z":{10**30}',
    '"z":"\\ud800"',
    '"\\ud800":1',
    '"z":"\\u2028\\u2029\\u0000"',
    f'"z":{"[" * 200}{"]" * 200}',
    '"z":{"type":"abort","id":5}',
    '"type":"nothing","z":1e999',
]


def read_line(name: str, line: bytes) -> tuple[str, bytes] | None:
    """What the program reads before it knows a session: the command, or the error, and the id of the response."""
    dialect = find(name)
    try:
        request = parse_request(line, dialect)
    except InvalidLine as invalid:
        return str(invalid), invalid.id
    if request is None:
        return None
    try:
        dialect.fill_defaults(decode(request.kind, request.body))
    except BadRecord as error:
        return str(error), bytes(request.id)
    return request.name, bytes(request.id)


@each_dialect
def test_random_lines_are_commands_or_refused(name: str) -> None:
    chance = Random(f"{SEED} {name}")
    old_names = {b'"fork"': b'"branch"', b'"get_fork_messages"': b'"get_branch_messages"'}
    for _ in range(PURE_LINES):
        line = mutated(chance)
        for new, old in old_names.items():
            line = line.replace(new, old) if chance.random() < 0.5 else line
        read = read_line(name, line)
        coming = due(line)
        if coming is not None and coming.answered is not None and coming.answered.id is not None:
            assert read is not None and read[1], line


@each_dialect
@pytest.mark.parametrize("field", ODD_FIELDS, ids=range(len(ODD_FIELDS)))
def test_an_odd_field_harms_no_command_and_keeps_the_id(name: str, field: str) -> None:
    for command in find(name).command_types:
        line = f'{{"id":"call 1","type":"{command}",{field}}}'.encode()
        if line.count(b'"type":"nothing"'):
            command = "Unknown command: nothing"
        read = read_line(name, line)
        assert read is not None and read[1] == b'"call 1"', line
        assert "Internal" not in read[0] and (read[0] == command or ":" in read[0] or " " in read[0]), read


@each_dialect
def test_whatever_a_client_sends_it_receives_lines_of_its_dialect(tmp_path: Path, name: str) -> None:
    assert fuzz_dialect(tmp_path, name, str(SEED), LINES) == []


# Answers to dialogs, which are no commands and have no response.


@pytest.mark.parametrize("value", ["1e999", "-1e999", "9" * 5000, "[1e999]", '{"a":1e999}'])
def test_an_answer_to_a_dialog_that_cannot_be_read_is_refused_and_the_lines_behind_it_are_answered(
    tmp_path: Path, value: str
) -> None:
    with Agent(tmp_path) as agent:
        agent.ask("get_state")
        before = len(agent.responses)
        bad = f'{{"type":"extension_ui_response","id":"q","value":{value}}}\n'.encode()
        agent.write(b'{"id":1,"type":"get_state"}\n' + bad + b'{"id":2,"type":"get_state"}\n')
        agent.next_response(after=before + 2)
        assert [(answer["command"], answer["success"]) for answer in agent.responses[before:]] == [
            ("get_state", True),
            ("parse", False),
            ("get_state", True),
        ]


@pytest.mark.process
def test_an_answer_to_a_dialog_that_cannot_be_read_does_not_end_the_process(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.write(b'{"type":"extension_ui_response","id":"q","value":1e999}\n{"id":2,"type":"get_state"}\n')
        agent.next_response(after=1)
        assert agent.get("get_state")["messageCount"] == 0
