"""`Prefer: wait`: prompts over HTTP that are answered with their result."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from serve.raw_client import request, send
from serve.test_hardening import until
from serve.web_server import serving
from support.rpc_process import calls, endless

WAIT = "Prefer: wait=20"
EXTENSION = """
def setup(pi):
    @pi.command("hello", description="says nothing")
    def hello(args, ctx):
        pass
"""


def prompt(message: str = "go", **fields: Any) -> dict[str, Any]:
    return {"type": "prompt", "message": message, **fields}


async def test_a_question_does_not_wait_for_the_client_that_waits_for_its_result(tmp_path: Path) -> None:
    async with serving(tmp_path, calls("echo ran"), {"text": "done"}, permissions="ask") as server:
        answer = await server.ask("POST", f"/v1/sessions/{await server.open()}/commands", prompt(), WAIT)
        assert (answer.status, answer.json["text"]) == (200, "done")


async def test_a_client_that_hangs_up_does_not_wait_any_more(tmp_path: Path) -> None:
    async with serving(tmp_path, endless("working")) as server:
        session = await server.open()
        live = server.host.live(session)
        assert live is not None
        head = f"/v1/sessions/{session}/commands"
        kind = "Content-Type: application/json"
        body = b'{"type":"prompt","message":"go"}'
        whole = request("POST", head, server.port, kind, "Prefer: wait=3600", body=body, token=server.token)
        _, writer = await send(server.port, whole)
        await until(lambda: live.streaming and live.attachments)
        writer.close()
        await until(lambda: not live.attachments)
        assert live.streaming
        assert (await server.ask("DELETE", f"/v1/sessions/{session}?abort")).status == 204


async def test_a_prompt_that_is_repeated_after_its_run_is_answered_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path, {"text": "done"}, endless("working")) as server:
        commands = f"/v1/sessions/{await server.open()}/commands"
        first = await server.ask("POST", commands, prompt(key="k"), WAIT)
        assert (first.status, first.json["text"]) == (200, "done")
        again = await server.ask("POST", commands, prompt(key="k"), WAIT)
        assert (again.status, again.json["type"]) == (200, "response")
        assert (await server.ask("POST", commands, prompt("other"))).status == 200
        meanwhile = await server.ask("POST", commands, prompt(key="k"), WAIT)  # not the result of the other one
        assert (meanwhile.status, meanwhile.json["type"]) == (200, "response")


async def test_a_prompt_that_is_repeated_while_it_runs_is_answered_with_its_result(tmp_path: Path) -> None:
    async with serving(tmp_path, {"text": "done"}) as server:
        commands = f"/v1/sessions/{await server.open()}/commands"
        asked = [server.ask("POST", commands, prompt(key="k"), WAIT) for _ in range(2)]
        assert [answer.json["text"] for answer in await asyncio.gather(*asked)] == ["done", "done"]


async def test_a_prompt_that_an_extension_handles_is_answered_at_once(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(EXTENSION)
    async with serving(tmp_path, extensions=[str(tmp_path / "hello.py")]) as server:
        answer = await server.ask("POST", f"/v1/sessions/{await server.open()}/commands", prompt("/hello"), WAIT)
        assert (answer.status, answer.json["type"]) == (200, "response")
