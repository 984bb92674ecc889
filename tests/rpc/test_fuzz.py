"""Two thousand mutated lines, always the same ones; `make fuzz` tells more of them, and others each time.

The fuzzer is only worth what its reader and its safeguards are, so those have tests here too.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from long.fuzz import (
    COMMANDS,
    CORPUS,
    DEEP,
    HARMLESS,
    NOTHING,
    REFUSED,
    SOMETHING,
    Answered,
    Due,
    Random,
    complaints,
    does_no_harm,
    due,
    fuzz,
    mutated,
)
from tau.records.commands import AnyCommand

SEED = 11
AMOUNT = 2_000


@pytest.mark.promise("H11")
def test_mutated_lines_get_one_response_each_and_end_nothing(tmp_path: Path) -> None:
    figures = fuzz(AMOUNT, SEED, tmp_path)
    assert figures.lines == AMOUNT
    # A fuzzer that only ever says what is refused, or throws most of it away, tests little.
    assert figures.successes > AMOUNT / 10 and figures.thrown_away < AMOUNT / 10
    assert not complaints(tmp_path)


def test_every_command_is_among_what_is_mutated() -> None:
    known = {str(record.__struct_config__.tag) for record in get_args(AnyCommand)}
    assert {command["type"] for command in COMMANDS} == known | {"extension_ui_response"}


def test_the_same_seed_makes_the_same_lines_and_each_is_one() -> None:
    first, second = Random("seed"), Random("seed")
    lines = [mutated(first) for _ in range(500)]
    assert lines == [mutated(second) for _ in range(500)]
    assert not any(b"\n" in line for line in (*lines, *CORPUS))


@pytest.mark.parametrize(
    "line, expected",
    [
        (b"", NOTHING),
        (b" \t\r", NOTHING),
        (b'{"type":"extension_ui_response","id":"1"}', NOTHING),
        (b'{"type":"get_state","type":"\\u0065xtension_ui_response"}', NOTHING),
        (b'{"type":"extension_ui_response","type":"get_state"}', Due(1, Answered("get_state", None))),
        (b'{"type":"extension_ui_response"', REFUSED),
        (b'{"type":"extension_ui_response","value":NaN}', REFUSED),
        (b'{"type":"extension_ui_response","value":"\xff"}', REFUSED),
        (b'{"type":"extension_ui_response","value":1e999}', None),
        (b'{"type":"extension_ui_response","value":%b%b}' % (b"[" * 300, b"]" * 300), REFUSED),
        (b'{"type":"extension_ui_response","value":%b%b}' % (b"[" * DEEP, b"]" * DEEP), REFUSED),
        (b'\xef\xbb\xbf{"type":"get_state"}', REFUSED),
        (b"null", REFUSED),
        (b"[" * DEEP, REFUSED),
        (b'{"id":1e999,"type":"get_state"}', SOMETHING),
        (b'{"id":1,"type":5,"id":[2]}', Due(1, Answered("parse", "[2]"))),
        (b'{"id":"\\ud800","type":"nope"}', Due(1, Answered("nope", '"\\ud800"'))),
    ],
)
def test_what_a_line_has_coming(line: bytes, expected: Due | None) -> None:
    assert due(line) == expected


def test_what_would_reach_out_is_thrown_away(tmp_path: Path) -> None:
    inside, outside = str(tmp_path / "x").encode(), str(tmp_path.parent / "x").encode()
    harmless = [
        *(b'{"type":"bash","command":"%b"}' % command.encode() for command in HARMLESS),
        b'{"type":"switch_session","sessionPath":"%b"}' % inside,
        b'{"type":"export_html","outputPath":"../x.html"}',
        b'{"type":"export_html","outputPath":5}',
        b'{"type":"abort_bash"',
        b"null",
    ]
    harmful = [
        b'{"type":"bash","command":"tru"}',
        b'{"type":"bash","command":"true","command":"false"}',
        b'{"type":"bash","command":"false","command":"true"}',
        b'{"type":"bash","type":"get_state","command":"false"}',
        b'{"type":"\\u0062ash","\\u0063ommand":"false"}',
        b'{"type":"bash"}',
        b'{"type":"bash","command":"true"',
        b'{"type":"\\u0062ash","command":NaN}}',
        b'{"type":"switch_session","sessionPath":"%b"}' % outside,
        b'{"type":"switch_session","sessionPath":"~root/x"}',
        b'{"type":"export_html","outputPath":"../../x.html"}',
        b'{"type":"new_session","parentSession":"/"}',
        b'{"type":"set_model","provider":"tau","modelId":"demo"}',
    ]
    assert [line for line in harmless if not does_no_harm(line, tmp_path)] == []
    assert [line for line in harmful if does_no_harm(line, tmp_path)] == []
