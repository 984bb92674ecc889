"""Faults in HTTP that a reader found: streams that are never read, fields that are not commands, waits in a dialect."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from websockets.exceptions import ConnectionClosed

from serve.web_server import Server, serving
from support.served import WITHIN, Json
from tau.serve.web import sessions
from tau.serve.web.gate import App
from tau.store.sessions import open_session


async def ask_and_leave(app: App, target: str, *headers: tuple[bytes, bytes]) -> None:
    """A request whose client is gone before the first byte of the response."""
    path, _, query = target.partition("?")
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": list(headers),
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "scheme": "http",
    }
    messages: list[Json] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Any:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        await asyncio.Event().wait()  # it does not take even the head

    async with asyncio.timeout(WITHIN):
        await app(scope, receive, send)


@pytest.mark.parametrize("accept", [b"text/event-stream", b"application/x-ndjson"])
async def test_a_client_that_leaves_before_the_first_event_is_not_attached_any_more(
    tmp_path: Path, accept: bytes
) -> None:
    async with serving(tmp_path) as server:
        session = await server.open()
        live = server.host.live(session)
        assert live is not None
        place = f"after={live.stream.id}:{live.stream.last}"
        headers = [
            (b"host", b"127.0.0.1:%d" % server.port),
            (b"authorization", b"Bearer " + server.token.encode()),
            (b"accept", accept),
        ]
        app: Any = server.listener._config.loaded_app
        await ask_and_leave(app, f"/v1/sessions/{session}/events?{place}", *headers)
        assert not live.attachments
        assert (await server.ask("DELETE", f"/v1/sessions/{session}")).status == 204


@pytest.mark.parametrize("name", ["host", "access", "type", "self"])
async def test_fields_of_any_name_may_be_in_the_body_of_a_new_session(tmp_path: Path, name: str) -> None:
    async with serving(tmp_path) as server:
        answer = await server.ask("POST", "/v1/sessions", {name: "x"})
        assert answer.status == 201 and answer.json["created"]


async def test_a_prompt_in_another_dialect_waits_for_its_own_result(tmp_path: Path) -> None:
    async with serving(tmp_path, {"text": "first"}, {"text": "second"}) as server:
        session = await server.open()
        for expected in ("first", "second"):
            command = {"type": "prompt", "message": "go"}
            target = f"/v1/sessions/{session}/commands?dialect=1.5"
            answer = await server.ask("POST", target, command, "Prefer: wait=30")
            assert answer.status == 200 and expected in answer.body.decode(), answer.body


async def test_few_large_files_are_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, most, lock = 0, 0, threading.Lock()

    def read(path: Path) -> Any:
        nonlocal reading, most
        with lock:
            reading += 1
            most = max(most, reading)
        try:
            return open_session(path)
        finally:
            with lock:
                reading -= 1

    monkeypatch.setattr(sessions, "open_session", read)
    async with serving(tmp_path) as server:
        session = await server.open()
        await ask_for_answer(server, session)
        assert (await server.ask("DELETE", f"/v1/sessions/{session}")).status == 204
        answers = await asyncio.gather(*(server.ask("GET", f"/v1/sessions/{session}/cards") for _ in range(12)))
        assert [answer.status for answer in answers] == [200] * 12
        assert most <= sessions.MAX_FILES_READ


async def ask_for_answer(server: Server, session: str) -> None:
    command = {"type": "prompt", "message": "hello"}
    answer = await server.ask("POST", f"/v1/sessions/{session}/commands", command, "Prefer: wait=30")
    assert answer.status == 200


async def test_the_id_of_a_session_file_does_not_break_a_header(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        session = await server.open()
        await ask_for_answer(server, session)
        (file,) = (tmp_path / "sessions").rglob("*.jsonl")
        head, _, rest = file.read_text().partition("\n")
        odd = 'abcdefgh"\r\nX-Odd: 1\u2028'
        (file.parent / "2026_odd.jsonl").write_text(json.dumps({**json.loads(head), "id": odd}) + "\n" + rest)
        answer = await server.ask("GET", "/v1/sessions/abcdefgh/export")
        assert (answer.status, "x-odd" in answer.headers) == (200, False)
        assert answer.headers["content-disposition"] == 'attachment; filename="abcdefgh___X-Odd__1_.html"'
        opened = await server.ask("POST", "/v1/sessions", {"session": "abcdefgh"})
        assert opened.status == 201 and opened.headers["location"] == f"/v1/sessions/{quote(odd, safe='')}"


async def test_an_empty_body_is_no_command(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        answer = await server.ask("POST", f"/v1/sessions/{await server.open()}/commands", b" \n")
        assert answer.status == 400 and answer.json == {"error": "The body is empty."}


async def test_logins_that_cannot_be_stored_are_refused_with_a_sentence(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        code = server.credentials.new_code()
        (server.credentials.folder / "codes.json").chmod(0o644)
        answer = await server.ask("POST", "/v1/login", {"code": code}, token="")
        assert answer.status == 503 and "cannot be read" in answer.json["error"]
        assert code not in answer.body.decode()


async def test_the_host_says_who_asks(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        token = server.credentials.new_token("wall", "watch")
        answer = await server.ask("GET", "/v1/host", token=token)
        assert (answer.json["scope"], answer.json["host"], answer.json["version"]) == ("watch", server.host.id, 1)
        assert (await server.ask("GET", "/v1/host", token="")).status == 401


@pytest.mark.promise("N04")
async def test_one_credential_cannot_take_all_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path) as server:
        monkeypatch.setattr(server.listener.connections, "_max_per_credential", 2)
        other = server.credentials.redeem_code(server.credentials.new_code("drive"), "phone")
        assert other is not None
        async with server.socket() as first, server.socket():
            refused = await server.ask("GET", "/v1/sessions")
            assert refused.status == 429
            assert refused.json["error"] == "This login has too many open connections. Close some of them."
            async with server.socket(token="", origin=f"http://127.0.0.1:{server.port}") as late:
                await late.send(json.dumps({"id": "1", "type": "hello", "version": 1, "token": server.token}))
                with pytest.raises(ConnectionClosed) as closed:
                    async with asyncio.timeout(WITHIN):
                        while True:
                            await late.recv()
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 1013
            assert (await server.ask("GET", "/v1/sessions", token=other)).status == 200
            await first.close()
            async with asyncio.timeout(WITHIN):
                while (await server.ask("GET", "/v1/sessions")).status != 200:
                    await asyncio.sleep(0.01)
