"""Faults in HTTP that a reader found: streams that are never read, fields that are not commands, waits in a dialect."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from serve.web_server import serving
from support.served import WITHIN, Json
from tau.serve.web.gate import App


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


async def test_few_large_files_are_read_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        session = await server.open()
        await server.ask(
            "POST", f"/v1/sessions/{session}/commands", {"type": "prompt", "message": "a"}, "Prefer: wait=30"
        )
        assert (await server.ask("DELETE", f"/v1/sessions/{session}")).status == 204
        answers = await asyncio.gather(*(server.ask("GET", f"/v1/sessions/{session}/cards") for _ in range(8)))
        assert [answer.status for answer in answers] == [200] * 8
