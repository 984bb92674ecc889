"""A host behind a real nginx on any port, with the lines that the documentation has for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from websockets.sync.client import connect

from serve.serve_process import ServeProcess
from support import nginx

WITHIN = 30


@pytest.mark.skipif(nginx.program() is None, reason="*** there is no nginx here ***")
def test_the_documented_lines_of_nginx_work_on_a_port_of_their_own(tmp_path: Path) -> None:
    port, upstream = nginx.free_port(), nginx.free_port()
    public = f"https://127.0.0.1:{port}"
    flags = ["--listen", f"127.0.0.1:{upstream}", "--public-url", public]
    with (
        ServeProcess(tmp_path, *flags, answers=({"text": "hello"},)) as host,
        nginx.nginx(tmp_path / "nginx", port, upstream),
    ):
        assert host.url == public  # the requests below go to nginx
        assert host.ask("GET", "/healthz", token="").body == b"ok"
        assert b"<html" in host.ask("GET", "/", token="").body
        assert host.ask("GET", "/v1/sessions", token="").status == 401
        session = host.ask("POST", "/v1/sessions", {}).json["session"]
        address = f"ws://127.0.0.1:{port}/v1/ws"
        hello = {"id": "h", "type": "hello", "version": 1, "session": session, "token": host.token}
        # As the page: from its origin, with the token in the hello.
        with connect(address, subprotocols=["tau.v1"], origin=public, proxy=None) as page:  # type: ignore[arg-type, list-item]
            page.send(json.dumps(hello) + "\n" + json.dumps({"type": "prompt", "message": "go"}))
            received = ""
            while "agent_settled" not in received:
                received += str(page.recv(timeout=WITHIN))
        assert "hello" in received
        code, errors = host.stop()
        assert (code, errors) == (143, "")
