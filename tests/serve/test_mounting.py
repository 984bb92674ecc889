"""tau.serve.app inside another application, under another ASGI server than our own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from websockets.asyncio.client import connect

import tau.serve
from serve.raw_client import ask, request
from serve.web_server import Answer, Socket
from support.rpc_process import WITHIN, surroundings
from support.served import make_host
from tau.core.text.install_hints import install_hint
from tau.errors import UsageError

ROOT = Path(__file__).parents[2]
USERS = {"ann": tau.serve.Access("ann", "admin"), "bob": tau.serve.Access("bob", "watch")}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


@asynccontextmanager
async def mounted(folder: Path, *answers: Any) -> AsyncIterator[int]:
    port = free_port()
    host = make_host(folder, *answers)
    inner = tau.serve.app(host, allowed_hosts=[f"127.0.0.1:{port}"], authenticate=USERS.get)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with inner.router.lifespan_context(inner):
            yield

    outer = Starlette(routes=[Mount("/deep/below", inner)], lifespan=lifespan)
    config = uvicorn.Config(outer, port=port, http="h11", ws="websockets-sansio", log_config=None)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve())  # without its signal handlers
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield port
    finally:
        await host.close()
        server.should_exit = True
        await serving


async def test_an_application_works_under_a_prefix(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"text": "hello"}) as port:

        async def get(method: str, path: str, body: bytes = b"", token: str = "ann", *headers: str) -> Answer:
            kind = ["Content-Type: application/json"] if body else []
            return Answer(
                await ask(port, request(method, f"/deep/below{path}", port, *kind, *headers, body=body, token=token))
            )

        opened = await get("POST", "/v1/sessions", b"{}")
        session = opened.json["session"]
        assert (opened.status, opened.headers["location"]) == (201, f"/deep/below/v1/sessions/{session}")
        prompt = b'{"type":"prompt","message":"hi"}'
        answer = await get("POST", f"/v1/sessions/{session}/commands", prompt, "ann", "Prefer: wait=20")
        assert answer.json["text"] == "hello"
        statuses = [
            (await get("GET", "/v1/sessions", b"", "wrong")).status,
            (await get("POST", "/v1/sessions", b"{}", "bob")).status,
            (await get("GET", "/healthz", b"", "")).status,
            (await get("GET", "/", b"", "")).status,
            (await get("POST", "/v1/login", b'{"code":"x"}', "")).status,
            (await get("GET", "/v1/sessions", b"", "ann", "Origin: http://evil.example")).status,
        ]
        assert statuses == [401, 403, 200, 200, 404, 403]


async def test_a_websocket_works_without_our_listener(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"text": "hello"}) as port:
        async with connect(
            f"ws://127.0.0.1:{port}/deep/below/v1/ws",
            subprotocols=["tau.v1"],  # type: ignore[list-item]
            additional_headers={"Authorization": "Bearer ann"},
            proxy=None,
        ) as connection:
            client = Socket(connection)
            await client.send({"id": "h", "type": "hello", "version": 1}, {"id": "o", "type": "open_session"})
            opened = (await client.until("response", id="o"))["data"]
            await client.ask("prompt", session=opened["session"], message="hi")
            await client.until("agent_settled")
            numbers = [record["seq"] for record in client.records if "seq" in record and record["type"] != "snapshot"]
            assert numbers == sorted(set(numbers))
        async with connect(
            f"ws://127.0.0.1:{port}/deep/below/v1/ws",
            subprotocols=["tau.v1"],  # type: ignore[list-item]
            origin=f"http://127.0.0.1:{port}",  # type: ignore[arg-type]
            proxy=None,
        ) as connection:
            await connection.send(json.dumps({"type": "hello", "version": 1, "token": "wrong"}))
            async with asyncio.timeout(WITHIN):
                await connection.wait_closed()
            assert connection.close_code == 1008


async def test_the_page_works_under_a_prefix(tmp_path: Path) -> None:
    async with mounted(tmp_path) as port:

        async def get(path: str) -> Answer:
            return Answer(await ask(port, request("GET", f"/deep/below/{path}", port, "Connection: close", token="")))

        index = (await get("")).body.decode()
        addresses = re.findall(r'(?:href|src)="([^"#]+)"', index)
        assert "static/app.js" in addresses and not [one for one in addresses if one.startswith(("/", "http"))]
        for address in addresses:
            if not address.startswith("data:"):
                assert (await get(address)).status == 200


def test_hosts_must_be_named(tmp_path: Path) -> None:
    for given in ((), "localhost:8000"):
        with pytest.raises(UsageError, match="allowed_hosts"):
            tau.serve.app(allowed_hosts=given, agent_dir=tmp_path)


def test_the_tokens_of_tau_serve_are_valid_unless_the_program_checks_them(tmp_path: Path) -> None:
    app = tau.serve.app(allowed_hosts=["localhost:8000", "tau.example"], agent_dir=tmp_path, cwd=tmp_path)
    site = app.state.site
    token = (tmp_path / "serve" / "token").read_text().strip()
    assert site.credentials.authenticate(token).scope == "admin"
    assert site.gate.allowed.origins == {"http://localhost:8000", "https://tau.example"}


def test_the_example_runs(tmp_path: Path) -> None:
    env = {**surroundings(tmp_path), "PORT": str(free_port())}
    example = [sys.executable, str(ROOT / "examples" / "serve" / "mounted.py")]
    done = subprocess.run(example, env=env, cwd=tmp_path / "work", capture_output=True, text=True, timeout=WITHIN)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "without a token: 401",
        "bob opens a session: 403",
        "ann opens a session: 201",
        "the model answers: 200 stop",
    ]


def test_without_the_extra_the_error_says_what_to_install() -> None:
    ask_for = (
        "import sys; sys.modules.update(dict.fromkeys(('starlette', 'uvicorn', 'websockets')))\n"
        "import tau.serve\n"
        "try: tau.serve.app\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", ask_for], capture_output=True, text=True, env=dict(os.environ))
    assert done.stdout == f"tau.serve.app needs an extra: {install_hint('serve')}\n", done.stderr
