"""The scenarios of test_conformance.py over a real WebSocket and over HTTP: the same records as on a pipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from serve.test_conformance import SCENARIOS, Lines, Pipe, said
from support import rpc_http, rpc_websocket

SETTINGS = {"retry": {"baseDelayMs": 1}}


class WebSocket(Lines, rpc_websocket.Agent):
    pass


class Http(Lines, rpc_http.Agent):
    pass


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_websocket_says_what_a_pipe_says(tmp_path: Path, name: str) -> None:
    scenario, answers, args = SCENARIOS[name]
    first, second = tmp_path / "pipe", tmp_path / "host"
    pipe = said(Pipe(first, *answers, args=args, settings=SETTINGS), first, scenario)
    assert said(WebSocket(second, *answers, args=args, settings=SETTINGS), second, scenario) == pipe


@pytest.mark.parametrize("name", SCENARIOS)
def test_http_says_what_a_pipe_says(tmp_path: Path, name: str) -> None:
    scenario, answers, args = SCENARIOS[name]
    first, second = tmp_path / "pipe", tmp_path / "host"
    pipe = said(Pipe(first, *answers, args=args, settings=SETTINGS), first, scenario)
    http = said(Http(second, *answers, args=args, settings=SETTINGS), second, scenario)
    for kept in (True, False):  # over HTTP, responses and events have no order between them
        assert [line for line in http if _is_response(line) is kept] == [
            line for line in pipe if _is_response(line) is kept
        ]


def _is_response(line: bytes) -> bool:
    return b'"type":"response"' in line
