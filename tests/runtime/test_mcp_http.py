"""MCP over HTTP: both eras, the old transport, faults, and logins."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.mcp_http_server import McpHttpServer
from support.mcp_memory import MemoryEnvironment, configured
from support.mcp_session import NEXT_PROMPT, McpRun, mcp_session, results
from support.rpc_process import surroundings
from support.virtual_clock import leapt
from tau.mcp.messages import McpError
from tau.runtime.mcp.backoff import Backoff
from tau.runtime.mcp.http import Endpoint, HttpTransport
from tau.runtime.mcp.server import McpServer

ECHO = ("mcp__s__echo", {"text": "hi"})
ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])


def call(folder: Path, server: McpHttpServer, *calls: Any, **fields: Any) -> McpRun:
    return asyncio.run(results(folder, {"s": {"url": server.url, **fields}}, *(calls or [ECHO])))


@ERAS
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_over_http(tmp_path: Path, era: str, stream: bool) -> None:
    with McpHttpServer(era, stream=stream) as server:
        run = call(tmp_path, server, headers={"X-Key": "secret-value-1"})
        assert run.last.text == "hi"
        posts = [(headers, message) for method, headers, message in server.requests if method == "POST"]
        assert all(headers["x-key"] == "secret-value-1" for headers, _ in posts)
        headers = next(headers for headers, message in posts if message.get("method") == "tools/call")
        if era == "legacy":
            assert headers["mcp-session-id"].startswith("session-")
            assert headers["mcp-protocol-version"] == "2025-11-25"
            assert [method for method, _, _ in server.requests][-1] == "DELETE"
        else:
            assert headers["mcp-param-text"] == "hi"
            assert "mcp-session-id" not in headers
            assert "notifications/initialized" not in server.methods


def test_the_transport_of_2024(tmp_path: Path) -> None:
    with McpHttpServer(old=True) as server:
        assert call(tmp_path, server).last.text == "hi"
        assert call(tmp_path, server, type="sse").last.text == "hi"


def test_a_long_error_page_does_not_hide_the_status(tmp_path: Path) -> None:
    with McpHttpServer(old=True) as server:
        server.error_page = "x" * 100_000
        assert call(tmp_path, server).last.text == "hi"  # after 405, the transport of 2024 is tried
    with McpHttpServer() as server:
        server.error_page = "x" * 100_000
        server.faults["tools/call"] = [502]
        assert "It answered with status 502 Bad Gateway." in call(tmp_path, server).last.text


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        (b"Access is only allowed at localhost:9102\n", ": Access is only allowed at localhost:9102"),
        ({"error": "forbidden here"}, ": forbidden here"),
        ({"error": {"message": "no quota"}}, ": no quota"),
        ({"detail": "not \u202ethis"}, ": not \\u202ethis"),
        ({"code": 7}, ': {"code": 7}'),
        (b"the key secret-value-1 is blocked", ": the key *** is blocked"),
        (b"<!doctype html><title>Forbidden</title>", "."),
        (b"", "."),
    ],
)
def test_the_text_of_an_http_error_is_shown(tmp_path: Path, page: Any, shown: str) -> None:
    with McpHttpServer() as server:
        server.error_page = page
        server.faults["tools/call"] = [403]
        text = call(tmp_path, server, headers={"X-Key": "secret-value-1"}).last.text
        assert text == f"It answered with status 403 Forbidden{shown}"


@ERAS
@pytest.mark.parametrize("moved", ["/mcp/", "{origin}/mcp/?x=1"])
def test_a_redirect_within_the_origin_is_followed(tmp_path: Path, era: str, moved: str) -> None:
    with McpHttpServer(era) as server:
        server.moved = moved.format(origin=server.origin)
        server.faults["tools/call"] = ["/mcp/other"]
        run = call(tmp_path, server, ECHO, headers={"X-Key": "secret-value-1"})
        assert run.last.text == "hi"
        assert {headers["x-key"] for _, headers, _ in server.requests} == {"secret-value-1"}
        assert server.methods.count("tools/call") == 2  # the first was refused with 308


def test_a_redirect_of_the_old_transport_is_followed(tmp_path: Path) -> None:
    with McpHttpServer(old=True) as server:
        server.moved = "/mcp/"
        assert call(tmp_path, server, type="sse").last.text == "hi"


def test_redirects_without_end_and_without_an_address_fail(tmp_path: Path) -> None:
    with McpHttpServer() as server:
        server.faults["tools/call"] = [f"/mcp/{at}" for at in range(9)]
        assert "It redirects more than 5 times." in call(tmp_path, server).last.text
        server.faults["tools/call"] = ["http://["]
        assert (
            "It redirects to another address, which tau does not follow: http://[" in call(tmp_path, server).last.text
        )


@pytest.mark.promise("M08")
@ERAS
@pytest.mark.parametrize("fault", [500, 429, "drop", "break", "redirect"])
def test_a_failed_call_is_not_repeated(tmp_path: Path, era: str, fault: Any) -> None:
    with McpHttpServer(era) as server:
        server.faults["tools/call"] = [fault]
        run = call(tmp_path, server, ECHO, ECHO)
        failed, worked = run.called
        assert failed.is_error and not worked.is_error
        assert server.methods.count("tools/call") == 2
        if fault == "redirect":
            assert failed.text.endswith("which tau does not follow: http://localhost:1/elsewhere")


@pytest.mark.promise("M14")
@ERAS
def test_a_server_that_is_redirected_to_gets_no_request_and_no_secret(tmp_path: Path, era: str) -> None:
    with McpHttpServer(era) as server, McpHttpServer(era) as other:
        server.faults["tools/call"] = [other.url]
        run = call(tmp_path, server, headers={"X-Key": "secret-value-1"})
        assert run.last.is_error and "redirect" in run.last.text
        assert other.requests == []


def test_a_list_is_fetched_again_after_a_broken_connection(tmp_path: Path) -> None:
    with McpHttpServer() as server:
        server.faults["tools/list"] = ["close_after"]
        assert call(tmp_path, server).last.text == "hi"


def test_a_stream_that_breaks_is_continued_without_repeating_the_call(tmp_path: Path) -> None:
    with McpHttpServer() as server:
        server.faults["tools/call"] = ["resume"]
        assert call(tmp_path, server).last.text == "hi"
        assert server.methods.count("tools/call") == 1
        assert server.resumes == ["event-7"]  # the next event was cut off


def test_a_client_polls_for_an_answer_until_it_is_there(tmp_path: Path) -> None:
    with McpHttpServer() as server:
        server.faults["tools/call"] = [{"retry": 1}]
        server.polls = ["event"] * 7
        assert call(tmp_path, server).last.text == "hi"
        assert server.methods.count("tools/call") == 1
        assert server.resumes == [f"event-{at}" for at in range(8)]


def test_polls_may_fail_and_bring_nothing_for_a_while(tmp_path: Path) -> None:
    with McpHttpServer() as server:
        server.faults["tools/call"] = [{"retry": 1}] * 2
        server.polls = [503, "nothing", "event", 503, "nothing", 503]
        assert call(tmp_path, server).last.text == "hi"
        server.polls = ["nothing"] * 20
        assert call(tmp_path, server).last.is_error
        assert len(server.polls) == 15


def test_a_poll_that_is_refused_ends_the_call_and_does_not_repeat_it(tmp_path: Path) -> None:
    for status in (401, 404, 405):
        with McpHttpServer() as server:
            server.faults["tools/call"] = [{"retry": 1}]
            server.polls = [status]
            assert call(tmp_path, server).last.is_error
            assert server.methods.count("tools/call") == 1
            assert server.resumes == ["event-0"]


def test_an_abort_ends_the_wait_for_the_next_poll(tmp_path: Path) -> None:
    async def aborted(server: McpHttpServer) -> None:
        async with mcp_session(tmp_path, {"s": {"url": server.url}}, ECHO) as run:
            prompt = asyncio.ensure_future(run.prompt())
            while "tools/call" not in server.methods:
                await asyncio.sleep(0.01)
            await run.agent.abort()
            async with asyncio.timeout(20):
                await asyncio.wait({prompt})
            while "notifications/cancelled" not in server.methods:
                await asyncio.sleep(0.01)

    with McpHttpServer() as server:
        server.faults["tools/call"] = [{"retry": 30_000}]
        asyncio.run(aborted(server))
        assert server.resumes == []


def test_the_timeout_of_a_call_limits_its_polls(tmp_path: Path) -> None:
    with McpHttpServer() as server:
        server.faults["tools/call"] = [{"retry": 30_000}]
        assert "No answer within 0.5 s" in call(tmp_path, server, timeout=0.5).last.text
        assert server.resumes == []


def test_a_lost_session_is_begun_again_once(tmp_path: Path) -> None:
    with McpHttpServer() as server:
        server.faults["tools/call"] = ["lose_session"]
        assert call(tmp_path, server).last.text == "hi"
        assert server.methods.count("initialize") == 2


@pytest.mark.promise("M13")
def test_an_abort_closes_the_stream_of_a_modern_call(tmp_path: Path) -> None:
    async def aborted(server: McpHttpServer) -> None:
        async with mcp_session(tmp_path, {"s": {"url": server.url}}, ECHO) as run:
            prompt = asyncio.ensure_future(run.prompt())
            while "tools/call" not in server.methods:
                await asyncio.sleep(0.01)
            await run.agent.abort()
            await asyncio.wait({prompt})
            assert await asyncio.to_thread(server.changed.wait, 10)  # the server cannot write any more

    with McpHttpServer("modern") as server:
        server.faults["tools/call"] = ["hang"]
        asyncio.run(aborted(server))
        assert "notifications/cancelled" not in server.methods


def test_a_changed_list_is_announced_on_the_stream_of_a_legacy_server(tmp_path: Path) -> None:
    async def changed(server: McpHttpServer) -> None:
        async with mcp_session(tmp_path, {"s": {"url": server.url}}, ECHO) as run:
            await run.prompt()
            server.changed.set()
            while server.methods.count("tools/list") < 2:
                await asyncio.sleep(0.01)

    with McpHttpServer() as server:
        asyncio.run(changed(server))


class Received:
    """Implements Receiver: keeps the methods of what arrives."""

    def __init__(self) -> None:
        self.methods: list[str] = []

    def received(self, data: bytes) -> None:
        self.methods.append(json.loads(data)["method"])

    def closed(self, error: McpError) -> None:
        raise error

    def request_failed(self, id: int, error: McpError) -> None:
        raise error

    def is_open(self, id: int) -> bool:
        return False


def listened(server: McpHttpServer, openings: int, *, tells_changes: bool = True) -> list[str]:
    """What arrives on the GET streams until so many were asked for."""

    async def listen() -> list[str]:
        async def headers() -> dict[str, str]:
            return {}

        received = Received()
        transport = HttpTransport(Endpoint(server.url, headers, {}), retry_s=0.001)
        await transport.start(received)
        transport.listen(tells_changes)
        while len(server.opened) < openings:
            await asyncio.sleep(0.01)
        await transport.close(0)
        return received.methods

    return asyncio.run(listen())


CHANGED = "notifications/tools/list_changed"


def test_a_stream_of_changes_that_ends_is_opened_again_and_the_lists_are_asked_for() -> None:
    with McpHttpServer() as server:
        server.cuts = [*["event"] * 7, 405, 405]
        assert listened(server, 9) == ["notifications/x", *[CHANGED, "notifications/x"] * 6]
        assert server.opened == ["", *(f"change-{at}" for at in range(1, 8)), ""]
    with McpHttpServer() as server:
        server.cuts = [*["event"] * 2, 405, 405]
        assert listened(server, 4, tells_changes=False) == ["notifications/x"] * 2


def test_a_stream_of_changes_is_tried_again_after_failures_and_without_an_event_that_is_not_known() -> None:
    with McpHttpServer() as server:
        server.cuts = [503, "nothing", 429, "event", 400, 401, "nothing", 405]
        assert listened(server, 8) == [CHANGED, CHANGED, "notifications/x", CHANGED]  # one for each that was opened
        assert server.opened == ["", "", "", "", "change-4", "", "", ""]


def test_the_delay_between_streams_grows_and_begins_anew_after_one_that_worked() -> None:
    async def delays() -> list[float]:
        loop, backoff, waited = asyncio.get_running_loop(), Backoff(), []

        async def wait(at_least_s: float = 0.0) -> None:
            began = loop.time()
            await backoff.wait(at_least_s)
            waited.append(loop.time() - began)

        assert not backoff.opened()
        for _ in range(8):
            await wait()
        assert backoff.opened()
        await wait()  # ended at once
        backoff.opened()
        await asyncio.sleep(61)
        await wait()
        await wait()
        backoff.delivered()
        await wait()
        await wait(30.0)
        return [round(seconds, 3) for seconds in waited]

    assert leapt(delays()) == [1, 2, 4, 8, 16, 32, 60, 60, 60, 1, 2, 1, 30]


def subscribed(*, error: int | None = None) -> tuple[int, int]:
    """How often tau subscribes within an hour, and lists tools, if the first seven subscriptions end at once."""

    async def run() -> tuple[int, int]:
        asked: list[str] = []

        def answer(method: str, params: Mapping[str, Any]) -> Any:
            asked.append(method)
            if method == "server/discover":
                capabilities = {"tools": {"listChanged": True}}
                return {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities}
            if method != "subscriptions/listen":
                return {"resultType": "complete", "tools": []}
            transport = environment.transports[0]
            if error is None:
                transport.receive({"method": "notifications/subscriptions/acknowledged"})
                return {} if asked.count(method) < 8 else None
            id = next(sent["id"] for sent in reversed(transport.sent) if sent["method"] == method)
            transport.receive({"id": id, "error": {"code": error, "message": "no"}})
            return None

        environment = MemoryEnvironment(answer)
        server = McpServer(configured(idle_timeout=7200), environment, None)
        await server.start()
        await asyncio.sleep(3600)
        await server.close(0)
        return asked.count("subscriptions/listen"), asked.count("tools/list")

    return leapt(run())


def test_a_subscription_that_ends_is_renewed_and_the_lists_are_asked_for() -> None:
    assert subscribed() == (8, 8)


def test_a_server_without_subscriptions_is_asked_once() -> None:
    assert subscribed(error=-32601) == (1, 1)


def test_a_server_that_failed_is_tried_again_with_the_next_prompt(tmp_path: Path) -> None:
    async def tried_again(server: McpHttpServer) -> None:
        calls = [ECHO, NEXT_PROMPT, ("read", {"path": "x"}), ECHO]
        async with mcp_session(tmp_path, {"s": {"url": server.url}}, *calls) as run:
            ready = asyncio.Event()
            run.agent.subscribe(lambda event: ready.set() if getattr(event, "state", "") == "ready" else None)
            await run.prompt()
            assert run.last.is_error and run.states[-1] == ("s", "failed")
            prompt = asyncio.ensure_future(run.prompt())
            await ready.wait()
            await prompt

    with McpHttpServer() as server:
        server.faults["server/discover"] = [503]
        server.faults["initialize"] = [503]
        asyncio.run(tried_again(server))


def test_an_address_that_nothing_listens_at(tmp_path: Path) -> None:
    run = asyncio.run(results(tmp_path, {"s": {"url": "http://127.0.0.1:1/mcp"}}, ECHO))
    assert run.states[-1] == ("s", "failed") and "127.0.0.1:1" in run.errors[-1]
    run = asyncio.run(results(tmp_path, {"s": {"url": "http://no-such-host.invalid/mcp"}}, ECHO))
    assert run.states[-1] == ("s", "failed")


# Logins.


def tau_mcp(folder: Path, *words: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-u", "-c", "from tau.cli.main import tau; tau()", "mcp", *words]
    env = {**surroundings(folder), "BROWSER": "true"}
    pipe = subprocess.PIPE
    return subprocess.Popen(program, cwd=folder / "work", env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.promise("M11")
def test_login_call_expiry_refresh_revocation_and_logout(tmp_path: Path) -> None:
    surroundings(tmp_path)
    tokens = tmp_path / "agent" / "tau-mcp-auth.json"
    with McpHttpServer(oauth=True) as server:
        (tmp_path / "agent" / "mcp.json").write_text(json.dumps({"mcpServers": {"s": {"url": server.url}}}))
        run = asyncio.run(results(tmp_path, {}, ECHO))
        assert run.states[-1] == ("s", "needs_login") and run.last.is_error
        with tau_mcp(tmp_path, "login", "s") as login:
            assert login.stdout is not None
            address = next(line.strip() for line in login.stdout if line.strip().startswith("http"))
            with urllib.request.urlopen(address, timeout=30) as page:
                assert b"complete" in page.read()
            assert login.wait(30) == 0
        assert tokens.stat().st_mode & 0o077 == 0
        assert asyncio.run(results(tmp_path, {}, ECHO)).last.text == "hi"
        # Expired: refreshed by the next call.
        content = json.loads(tokens.read_text())
        content["s"]["expires"] = int(time.time() * 1000) - 1
        tokens.write_text(json.dumps(content))
        assert asyncio.run(results(tmp_path, {}, ECHO)).last.text == "hi"
        assert [form["grant_type"] for form in server.token_requests] == ["authorization_code", "refresh_token"]
        assert all(form["resource"] == server.url for form in server.token_requests)
        # Rejected although it has not expired: refreshed too.
        server.tokens.clear()
        assert asyncio.run(results(tmp_path, {}, ECHO)).last.text == "hi"
        # Revoked.
        server.tokens.clear()
        server.refresh_tokens.clear()
        run = asyncio.run(results(tmp_path, {}, ECHO))
        assert run.states[-1] == ("s", "needs_login")
        assert "tau mcp login s" in run.last.text
        secrets = [value for entry in content.values() for value in (entry["access"], entry["refresh"])]
        with tau_mcp(tmp_path, "logout", "s") as logout:
            assert logout.wait(30) == 0
        assert json.loads(tokens.read_text()) == {}
    for file in (tmp_path / "agent").rglob("*"):
        data = file.read_bytes() if file.is_file() and file != tokens else b""
        assert not any(secret.encode() in data for secret in secrets), file


def test_login_with_the_address_of_a_browser_on_another_machine(tmp_path: Path) -> None:
    surroundings(tmp_path)
    with McpHttpServer(oauth=True) as server:
        (tmp_path / "agent" / "mcp.json").write_text(json.dumps({"mcpServers": {"s": {"url": server.url}}}))
        with tau_mcp(tmp_path, "login", "s") as login:
            assert login.stdin is not None and login.stdout is not None
            page = urlsplit(next(line.strip() for line in login.stdout if line.strip().startswith("http")))
            connection = http.client.HTTPConnection(page.netloc, timeout=30)
            connection.request("GET", f"{page.path}?{page.query}")
            ended_at = connection.getresponse().headers["location"]
            connection.close()
            login.stdin.write(ended_at.replace("state=", "state=other") + "\n")
            login.stdin.flush()
            next(line for line in login.stdout if "not the address of this login" in line)
            login.stdin.write(ended_at + "\n")
            login.stdin.flush()
            assert login.wait(30) == 0
        assert asyncio.run(results(tmp_path, {}, ECHO)).last.text == "hi"


@pytest.mark.promise("M14")
def test_a_token_is_not_sent_to_another_address(tmp_path: Path) -> None:
    surroundings(tmp_path)
    entry = {"type": "oauth", "access": "the-token-1234", "refresh": "", "expires": 9e12, "url": "http://other/mcp"}
    (tmp_path / "agent" / "tau-mcp-auth.json").write_text(json.dumps({"s": entry}))
    with McpHttpServer() as server:
        call(tmp_path, server, ECHO, NEXT_PROMPT)
        assert all("authorization" not in headers for _, headers, _ in server.requests)
    assert os.path.exists(tmp_path / "agent" / "tau-mcp-auth.json")
