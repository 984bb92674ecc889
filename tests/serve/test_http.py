"""HTTP: sessions, commands, events, logins and what operators ask for, over real sockets."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from serve.raw_client import request, send
from serve.web_server import Server, Socket, serving
from tau.serve.greeting import SLOW
from tau.serve.openapi import OPERATIONS, openapi
from tau.serve.schemas import host_schema

HELLO = {"id": "h", "type": "hello", "version": 1}


async def test_a_session_is_opened_prompted_and_closed(tmp_path: Path) -> None:
    async with serving(tmp_path, {"text": "hello there"}) as server:
        opened = await server.ask("POST", "/v1/sessions", {})
        session = opened.json["session"]
        assert (opened.status, opened.headers["location"]) == (201, f"/v1/sessions/{session}")
        commands = f"/v1/sessions/{session}/commands"
        answer = await server.ask("POST", commands, {"id": 7, "type": "prompt", "message": "hi"}, "Prefer: wait=20")
        assert (answer.status, answer.json["text"], answer.json["exitCode"]) == (200, "hello there", 0)
        state = await server.ask("POST", commands, b'{\n "id": "a",\r\n "type": "get_last_assistant_text"\n}')
        assert (state.status, state.json["data"], state.json["id"]) == (200, {"text": "hello there"}, "a")
        assert state.json["asOf"] > 0
        listed = (await server.ask("GET", "/v1/sessions?live")).json["sessions"]
        assert [(row["id"], row["live"], row["streaming"]) for row in listed] == [(session, True, False)]
        snapshot = (await server.ask("GET", f"/v1/sessions/{session}")).json
        assert (snapshot["type"], snapshot["live"], len(snapshot["entries"])) == ("snapshot", True, 4)
        assert (await server.ask("DELETE", f"/v1/sessions/{session}")).status == 204
        stored = (await server.ask("GET", f"/v1/sessions/{session}")).json
        assert (stored["live"], stored["entries"]) == (False, snapshot["entries"])
        assert server.host.sessions == []


async def test_commands_have_the_status_of_their_response(tmp_path: Path) -> None:
    async with serving(tmp_path, {"text": "ok"}) as server:
        commands = f"/v1/sessions/{await server.open()}/commands"
        cases: list[tuple[Any, int]] = [
            ({"type": "get_state"}, 200),
            ({"type": "frobnicate"}, 404),
            ({"type": "prompt", "message": 5}, 400),
            ({"type": "set_model", "provider": "nobody", "modelId": "x"}, 409),
            (b"{", 400),
            (b"[]", 400),
            (b'{"type":\n', 400),
        ]
        for body, wanted in cases:
            answer = await server.ask("POST", commands, body)
            assert (answer.status, body) == (wanted, body)
        assert (await server.ask("POST", "/v1/sessions/0198c1000000/commands", {"type": "get_state"})).status == 404
        assert (await server.ask("POST", commands, {"type": "extension_ui_response", "id": "x"})).status == 204


async def test_several_commands_are_answered_line_by_line(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        commands = f"/v1/sessions/{await server.open()}/commands"
        lines = b"".join(b'{"id":%d,"type":"get_state"}\n' % number for number in range(50))
        answer = await server.ask("POST", commands, lines, kind="application/x-ndjson")
        assert answer.headers["content-type"] == "application/x-ndjson"
        assert [line["id"] for line in answer.lines] == list(range(50))


async def test_a_lone_surrogate_in_a_session_hides_no_response(tmp_path: Path) -> None:
    async with serving(tmp_path, {"text": "ok"}) as server:
        commands = f"/v1/sessions/{await server.open()}/commands"
        prompt = {"type": "prompt", "message": "cut \ud83d"}
        assert (await server.ask("POST", commands, prompt, "Prefer: wait=20")).status == 200
        listed = await server.ask("GET", "/v1/sessions")
        assert (listed.status, len(listed.json["sessions"])) == (200, 1)
        messages = await server.ask("POST", commands, {"type": "get_messages"})
        assert (messages.status, len(messages.json["data"]["messages"])) == (200, 2)
        lines = b'{"id":1,"type":"get_messages"}\n{"id":2,"type":"get_state"}\n'
        both = await server.ask("POST", commands, lines, kind="application/x-ndjson")
        assert [line["id"] for line in both.lines] == [1, 2]


@pytest.mark.parametrize("id", ["x" * 2000, "\ud83d", {"type": "event"}])
async def test_a_response_is_found_whatever_its_id(tmp_path: Path, id: Any) -> None:
    async with serving(tmp_path) as server:
        commands = f"/v1/sessions/{await server.open()}/commands"
        answer = await server.ask("POST", commands, {"id": id, "type": "get_state"})
        assert (answer.status, answer.json["id"]) == (200, id)


async def test_a_prompt_that_takes_too_long_is_answered_when_it_is_accepted(tmp_path: Path) -> None:
    async with serving(tmp_path, {"text": "late", "delayMs": 60_000}) as server:
        session = await server.open()
        prompt = {"type": "prompt", "message": "hi"}
        answer = await server.ask("POST", f"/v1/sessions/{session}/commands", prompt, "Prefer: wait=0")
        assert (answer.status, answer.json["success"]) == (202, True)
        assert (await server.ask("DELETE", f"/v1/sessions/{session}")).status == 409
        assert (await server.ask("DELETE", f"/v1/sessions/{session}?abort")).status == 204


async def _events(reader: asyncio.StreamReader, last: str) -> list[tuple[str, dict[str, Any]]]:
    """Id and record of each server-sent event, up to one of the type `last`."""
    found: list[tuple[str, dict[str, Any]]] = []
    id = ""
    async with asyncio.timeout(30):
        while not found or found[-1][1]["type"] != last:
            line = (await reader.readline()).decode().rstrip("\r\n")
            if line.startswith("id: "):
                id = line[4:]
            elif line.startswith("data: "):
                found.append((id, json.loads(line[6:])))
                id = ""
    return found


async def test_events_are_numbered_and_resumed(tmp_path: Path) -> None:
    async with serving(tmp_path, {"text": "one two three"}, {"text": "four"}) as server:
        session = await server.open()
        reader = await server.stream(f"/v1/sessions/{session}/events")
        first = await _events(reader, "snapshot")
        stream = server.host.sessions[0].stream
        assert first[-1][0] == f"{stream.id}:0"
        commands = f"/v1/sessions/{session}/commands"
        await server.ask("POST", commands, {"type": "prompt", "message": "hi"})
        heard = await _events(reader, "agent_settled")
        assert [id for id, _ in heard] == [f"{stream.id}:{record['seq']}" for _, record in heard]
        middle = len(heard) // 2
        for place in (f"?after={heard[middle][0]}", ""):
            header = [] if place else [f"Last-Event-ID: {heard[middle][0]}"]
            again = await _events(
                await server.stream(f"/v1/sessions/{session}/events{place}", *header), "agent_settled"
            )
            assert again == heard[middle + 1 :]
        lines = await server.stream(
            f"/v1/sessions/{session}/events?after={heard[0][0]}", "Accept: application/x-ndjson"
        )
        text = await lines.readuntil(b"agent_settled")
        assert b"application/x-ndjson" in text and b"\ndata: " not in text
        assert (await server.ask("GET", f"/v1/sessions/{session}/events?after=x")).status == 400


async def test_a_websocket_is_a_channel(tmp_path: Path) -> None:
    async with serving(tmp_path, {"text": "hello"}) as server, server.socket() as connection:
        socket = Socket(connection)
        assert connection.subprotocol == "tau.v1"
        await socket.send(HELLO, {"id": "o", "type": "open_session"}, {"id": "p", "type": "ping"})
        opened = (await socket.until("response", id="o"))["data"]
        await socket.until("pong")
        await socket.ask("prompt", session=opened["session"], message="hi")
        await socket.until("agent_settled")
        numbers = [record["seq"] for record in socket.records if "seq" in record and record["type"] != "snapshot"]
        assert numbers == sorted(set(numbers))
        assert socket.messages < len(socket.records)  # records are joined


@pytest.mark.promise("N08")
async def test_a_response_goes_to_the_client_that_asked(tmp_path: Path) -> None:
    async with serving(tmp_path, {"text": "hello"}) as server:
        session = await server.open()
        async with server.socket() as one, server.socket() as other:
            sockets = [Socket(one), Socket(other)]
            for socket in sockets:
                await socket.send({**HELLO, "session": session})
                await socket.until("snapshot")
            await sockets[0].send(
                {"id": "mine", "type": "prompt", "message": "hi"}, {"id": "mine", "type": "get_state"}
            )
            for socket in sockets:
                await socket.until("agent_settled")
            answers = [[record for record in socket.records if record.get("id") == "mine"] for socket in sockets]
            assert [len(found) for found in answers] == [2, 0]
            events = [[record for record in socket.records if "seq" in record] for socket in sockets]
            assert [record["type"] for record in events[0]] == [record["type"] for record in events[1]]


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ("get_state", 1008),
        ({"type": "hello", "version": 7}, 1002),
        ({"type": "hello", "version": 1, "session": "0198c1000000"}, 1008),
        (b"binary", 1003),
    ],
)
async def test_a_websocket_that_begins_wrongly_is_closed(tmp_path: Path, first: Any, code: int) -> None:
    async with serving(tmp_path) as server, server.socket() as connection:
        await connection.send(first if isinstance(first, bytes) else json.dumps(first))
        async with asyncio.timeout(10):
            await connection.wait_closed()
        assert connection.close_code == code


async def test_a_page_proves_itself_in_its_hello(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        origin = f"http://127.0.0.1:{server.port}"
        for token, wanted in ((server.token, True), ("wrong", False), (None, False)):
            async with server.socket(token="", origin=origin) as connection:
                socket = Socket(connection)
                await socket.send({**HELLO, "token": token})
                assert (await socket.until("response"))["success"] is wanted
                if not wanted:
                    async with asyncio.timeout(10):
                        await connection.wait_closed()
                    assert connection.close_code == 1008


@pytest.mark.promise("N14")
async def test_a_revoked_token_ends_its_channels_within_a_second(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        session = await server.open()
        token = server.credentials.new_token("phone", "watch")
        other = server.credentials.new_token("laptop", "watch")
        async with server.socket(token=token) as phone, server.socket(token=other) as laptop:
            for one in (phone, laptop):
                await Socket(one).send({**HELLO, "session": session})
                await one.recv()
            events, main = server.token, server.token
            server.token = token
            reader = await server.stream(f"/v1/sessions/{session}/events")
            await reader.readuntil(b"snapshot")
            server.token = main
            began = asyncio.get_running_loop().time()
            assert server.credentials.revoke("phone") == 1
            async with asyncio.timeout(10):
                await phone.wait_closed()
                await reader.read()
            assert asyncio.get_running_loop().time() - began < 5  # half a second, on a machine that is not busy
            assert phone.close_code == 1008
            assert (await server.ask("GET", "/v1/sessions", token=token)).status == 401
            assert await laptop.ping()
            assert events == main


async def test_a_browser_logs_in_with_a_code_and_out_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        code = server.credentials.new_code()
        login = await server.ask("POST", "/v1/login", {"code": code, "name": "Firefox"}, token="")
        assert (login.status, login.json["name"], login.json["scope"]) == (200, "Firefox", "admin")
        assert "set-cookie" not in login.headers
        token = login.json["token"]
        assert (await server.ask("GET", "/v1/sessions", token=token)).status == 200
        assert (await server.ask("POST", "/v1/login", {"code": code}, token="")).status == 401
        assert (await server.ask("POST", "/v1/logout", token=token)).status == 204
        assert (await server.ask("GET", "/v1/sessions", token=token)).status == 401
        assert (await server.ask("POST", "/v1/logout")).status == 409
        wrong = [(await server.ask("POST", "/v1/login", {"code": "x"}, token="")).status for _ in range(11)]
        assert wrong[-1] == 429


@pytest.mark.promise("N01", "N02", "N03")
async def test_requests_that_must_not_get_in(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        session = await server.open()
        commands, prompt = f"/v1/sessions/{session}/commands", {"type": "bash", "command": "touch here"}
        good = server.token
        refused = [
            await server.ask("POST", commands, prompt, token="wrong"),
            await server.ask("POST", f"{commands}?token={good}", prompt, token=""),
            await server.ask("POST", commands, prompt, f"Cookie: tau={good}", token=""),
            await server.ask("POST", commands, prompt, "Origin: https://evil.example"),
            await server.ask("POST", commands, prompt, "Origin: null"),
            await server.ask("POST", commands, prompt, "Sec-Fetch-Site: cross-site"),
            await server.ask("POST", commands, b"x=1", kind="application/x-www-form-urlencoded"),
            await server.ask("POST", commands, json.dumps(prompt).encode(), kind="text/plain"),
            await server.ask("OPTIONS", commands, None, f"Origin: http://127.0.0.1:{server.port}"),
        ]
        assert [answer.status for answer in refused] == [401, 401, 401, 403, 403, 403, 415, 415, 405]
        for answer in refused:
            assert not [name for name in answer.headers if name.startswith("access-control")]
            assert "www-authenticate" not in answer.headers
            assert good.encode() not in answer.body
        assert not list((tmp_path / "work").iterdir())


@pytest.mark.parametrize("origin", ["https://evil.example", None])
async def test_a_websocket_that_is_refused_is_not_an_error_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, origin: str | None
) -> None:
    async with serving(tmp_path) as server:
        with pytest.raises(InvalidStatus, match=r"HTTP 40[13]"):
            await server.socket(token="", origin=origin)
        assert (await server.ask("GET", "/healthz")).status == 200  # the first request has ended meanwhile
    assert [record.message for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


async def test_a_watcher_can_read_and_change_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        session = await server.open()
        token = server.credentials.new_token("phone", "watch")
        commands = f"/v1/sessions/{session}/commands"
        assert (await server.ask("POST", commands, {"type": "get_state"}, token=token)).status == 200
        assert (await server.ask("POST", commands, {"type": "prompt", "message": "x"}, token=token)).status == 403
        assert (await server.ask("POST", "/v1/sessions", {}, token=token)).status == 403
        assert (await server.ask("DELETE", f"/v1/sessions/{session}", token=token)).status == 403
        assert (await server.ask("GET", "/metrics", token=token)).status == 200


async def test_cards_are_finished_entries_as_html(tmp_path: Path) -> None:
    async with serving(tmp_path, {"text": "**bold** <script>alert(1)</script>"}, {"text": "second"}) as server:
        session = await server.open()
        commands = f"/v1/sessions/{session}/commands"
        await server.ask("POST", commands, {"type": "prompt", "message": "first"}, "Prefer: wait=20")
        cards = (await server.ask("GET", f"/v1/sessions/{session}/cards")).json
        html = cards["cards"][-1]["html"]
        assert "<strong>bold</strong>" in html and "<script" not in html and not cards["more"]
        after = f"/v1/sessions/{session}/cards?after={cards['cards'][-1]['id']}"
        assert (await server.ask("GET", after)).json["cards"] == []
        await server.ask("POST", commands, {"type": "prompt", "message": "again"}, "Prefer: wait=20")
        new = [card["html"] for card in (await server.ask("GET", after)).json["cards"]]
        assert [("again" in html, "second" in html) for html in new] == [(True, False), (False, True)]
        assert len((await server.ask("GET", f"/v1/sessions/{session}/cards?limit=1")).json["cards"]) == 1
        assert (await server.ask("GET", f"/v1/sessions/{session}/cards?after=nothing")).status == 404
        export = await server.ask("GET", f"/v1/sessions/{session}/export")
        assert export.body.startswith(b"<!doctype html>") and "attachment" in export.headers["content-disposition"]


async def test_operators_see_health_readiness_and_metrics(tmp_path: Path) -> None:
    async with serving(tmp_path, {"text": "x"}) as server:
        session = await server.open()
        await server.ask(
            "POST", f"/v1/sessions/{session}/commands", {"type": "prompt", "message": "x"}, "Prefer: wait=9"
        )
        assert (await server.ask("GET", "/healthz", token="")).body == b"ok"
        assert (await server.ask("GET", "/readyz", token="")).status == 401
        assert (await server.ask("GET", "/readyz")).status == 200
        text = (await server.ask("GET", "/metrics")).body.decode()
        values = dict(line.rpartition(" ")[::2] for line in text.splitlines() if not line.startswith("#"))
        assert values['tau_sessions{state="idle"}'] == "1"
        assert values['tau_refused_total{why="credential"}'] == "1"
        assert int(values["tau_events_total"]) > 3
        assert values['tau_commands_total{command="prompt",ok="true"}'] == "1"
        await server.host.drain(0)
        assert (await server.ask("GET", "/readyz")).status == 503
        assert (await server.ask("POST", "/v1/sessions", {})).status == 503


async def test_the_description_has_every_route(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        described = (await server.ask("GET", "/v1/openapi.json")).json
        routes = {(next(iter(route.methods - {"HEAD"})).lower(), route.path) for route in _routes(server)}
        listed = {(one.method, one.path) for one in OPERATIONS}
        assert routes - listed == {("get", "/"), ("get", "/static/{name}"), ("get", "/favicon.ico")}
        assert listed <= routes
        assert described["openapi"] == "3.1.0"
        for name in ("default", "1.5", "host"):
            assert (await server.ask("GET", f"/v1/schema/{name}.json")).json["$defs"]
        assert (await server.ask("GET", "/v1/schema/nothing.json")).status == 404


def _routes(server: Server) -> list[Any]:
    from tau.serve.web.app import routes
    from tau.serve.web.page import Page

    return [route for route in routes(server.site, Page()) if hasattr(route, "methods")]


@pytest.mark.promise("N16")
async def test_the_page_has_a_strict_policy(tmp_path: Path) -> None:
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "index.html").write_text("<!doctype html><title>tau</title>")
    (folder / "link.js").write_text("export {};")
    (tmp_path / "secret").write_text("secret")
    async with serving(tmp_path, page=folder) as server:
        for target, kind in (("/", "text/html"), ("/static/link.js", "text/javascript")):
            answer = await server.ask("GET", target, token="")
            assert answer.status == 200 and answer.headers["content-type"].startswith(kind)
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["cross-origin-opener-policy"] == "same-origin"
            assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        for target in ("/static/../secret", "/static/%2e%2e%2fsecret", "/static/nothing.js", "/static/.hidden"):
            assert (await server.ask("GET", target, token="")).status in (401, 404)
        assert (await server.ask("GET", "/v1/sessions")).headers["cache-control"] == "no-store"
    async with serving(tmp_path, page=tmp_path / "none") as server:
        assert b"no page for browsers" in (await server.ask("GET", "/", token="")).body


@pytest.mark.promise("N15")
async def test_no_credential_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with serving(tmp_path, {"text": "x"}) as server:
        session = await server.open()
        code = server.credentials.new_code()
        login = (await server.ask("POST", "/v1/login", {"code": code}, token="")).json["token"]
        await server.ask("GET", f"/v1/sessions?token={login}", token="")
        await server.ask("GET", f"/v1/{login}", token="")
        await server.ask("GET", "/v1/sessions", None, f"Cookie: a={login}", token="")
        await server.ask("POST", f"/v1/sessions/{session}/commands", {"type": "get_state"})
        async with server.socket(token=login) as connection:
            await connection.send(json.dumps({**HELLO, "token": login}))
            await connection.recv()
        secrets = [server.token, login, code]
    own = [record for record in caplog.records if record.name != "websockets.client"]  # the test's
    logged = "\n".join(record.getMessage() for record in own)
    assert "GET /v1/sessions: a credential was sent in the query" in logged and "GET /v1/<token> 401" in logged
    assert [secret for secret in secrets if secret in logged] == []
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "token"]
    assert [path for path in files if any(secret.encode() in path.read_bytes() for secret in secrets)] == []


@pytest.mark.promise("N11")
async def test_a_large_message_reaches_a_slow_client_whole(tmp_path: Path) -> None:
    text = "".join(f"{number:07} " for number in range(200_000))
    async with serving(tmp_path, {"text": text}) as server:
        session = await server.open()
        async with server.socket() as connection:
            socket = Socket(connection)
            await socket.send({**HELLO, "session": session, "dialect": "1.5"})
            await socket.ask("prompt", message="go")
            await server.host.sessions[0].handle.settled()
            buffered = [
                channel._transport._connection for channel in server.host.channels if channel.kind == "websocket"
            ]
            assert all(one.transport.get_write_buffer_size() <= 300 * 1024 for one in buffered)
            await socket.send({"id": "p", "type": "ping", "data": 1})  # in the middle of its fragments
            await socket.until("agent_settled")
            said = [record for record in socket.records if record["type"] == "turn_end"]
            assert said[-1]["message"]["content"][0]["text"] == text


async def test_a_host_that_closes_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.socket() as connection:
        socket = Socket(connection)
        await socket.send(HELLO)
        await socket.until("response")
        await server.host.drain(0)
        assert (await socket.until("host_closing"))["seconds"] == 0
        await server.host.close()
        async with asyncio.timeout(10):
            await connection.wait_closed()
        assert connection.close_code == 1001


@pytest.mark.promise("N11")
async def test_a_client_that_never_reads_is_disconnected(tmp_path: Path) -> None:
    """Closing a connection waits for what is not written yet; for a client that does not read, that has no end."""
    async with serving(tmp_path, {"text": "x" * 8_000_000}) as server:
        session = await server.open()
        head = request("GET", f"/v1/sessions/{session}/events", server.port, token=server.token)
        _, events = await send(server.port, head)
        async with server.socket() as connection:
            await Socket(connection).send({**HELLO, "session": session})
            await connection.recv()
            for one in (connection.transport, events.transport):
                one.pause_reading()
            await server.ask("POST", f"/v1/sessions/{session}/commands", {"type": "prompt", "message": "go"})
            await server.host.sessions[0].handle.settled()
            for channel in [*server.host.channels]:
                channel.end(SLOW)
            async with asyncio.timeout(20):
                while len(server.listener.connections):
                    await asyncio.sleep(0.05)
            connection.transport.abort()


def test_every_reference_of_the_description_leads_somewhere() -> None:
    for described in (openapi(), host_schema()):
        references = set(re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(described)))
        assert references
        for reference in references:
            found: Any = described
            for name in reference.split("/"):
                found = found[name]
            assert isinstance(found, dict)


async def test_a_full_host_says_when_to_come_back(tmp_path: Path) -> None:
    async with serving(tmp_path, max_live=1) as server:
        session = await server.open()
        async with server.socket() as connection:  # its session is in use, and not closed for another one
            await Socket(connection).send({**HELLO, "session": session})
            await connection.recv()
            full = await server.ask("POST", "/v1/sessions", {})
            assert (full.status, full.headers["retry-after"]) == (503, "1")
            assert (await server.ask("GET", "/readyz")).status == 503
