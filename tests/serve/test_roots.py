"""A session of a folder outside of the roots: no route and no command of any scope lists, reads, copies or opens it.

Routes and commands are taken from the program: a new one is tried too.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serve.web_server import serving
from support.served import Client, Json, make_host
from tau.records.base import Record, encode
from tau.records.host_commands import HOST_COMMANDS, OpenSession
from tau.serve.access import RANK, Access
from tau.serve.web.app import routes
from tau.serve.web.page import Page
from tau.wire.dialect import COMMANDS

ID = "01a1f09e-0000-7000-8000-00000000cafe"
CANARY = "the-plan-of-the-other-project"
NAMES = ("session", "fork", "path", "cwd", "folder")  # parts of the names of fields that lead to a session or a folder


def outside(folder: Path) -> Path:
    """A session file of a folder outside of the roots, where those of all projects are."""
    secret = folder / f"secret-{CANARY}"
    secret.mkdir()
    (secret / f"{CANARY}.txt").write_text(CANARY)
    path = folder / "sessions" / f"2026-11-18T00-00-00_{ID}.jsonl"
    path.parent.mkdir(exist_ok=True)
    user = {"role": "user", "content": CANARY, "timestamp": 1}
    records: list[Json] = [
        {"type": "session", "version": 3, "id": ID, "timestamp": "2026-11-18T00:00:00.000Z", "cwd": str(secret)},
        {"type": "session_info", "id": "a1", "parentId": None, "timestamp": "2026-11-18T00:00:00.000Z", "name": CANARY},
        {"type": "message", "id": "a2", "parentId": "a1", "timestamp": "2026-11-18T00:00:00.000Z", "message": user},
    ]
    path.write_bytes(b"".join(encode(record) + b"\n" for record in records))
    return path


def fields_of(kind: type[Record]) -> list[str]:
    """The fields of a command that lead to a session or a folder, as they are on the wire."""
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    return [wire for name, wire in names if any(part in name for part in NAMES)]


def attempts(path: Path, secret: Path) -> Iterator[Json]:
    """Every command with every combination of its fields that lead to a session or a folder."""
    given = {"cwd": [str(secret), f"{secret}/../{secret.name}", str(path.parents[1] / "work")]}
    sessions = [ID, ID[:12], str(path), f"../sessions/{path.name}", str(secret / f"{CANARY}.txt")]
    kinds = [*COMMANDS.items(), *HOST_COMMANDS.items()]  # list_sessions is in both
    for name, kind in kinds:
        fields = fields_of(kind)
        plain = {"type": name, **({"all": True} if "all" in kind.__struct_fields__ else {})}
        if name == "list_sessions" or fields:
            for values in itertools.product(*([None, *given.get(field, sessions)] for field in fields)):
                yield {**plain, **{field: one for field, one in zip(fields, values, strict=True) if one is not None}}


def test_the_fields_that_lead_to_a_session_or_a_folder_are_tried() -> None:
    found = {wire for kind in (*COMMANDS.values(), *HOST_COMMANDS.values()) for wire in fields_of(kind)}
    assert found == {"session", "forkOf", "cwd", "sessionPath", "parentSession", "outputPath"}


@pytest.mark.promise("N13")
@pytest.mark.parametrize("scope", [*RANK])
async def test_no_route_tells_anything_of_a_session_outside_of_the_roots(tmp_path: Path, scope: Any) -> None:
    path = outside(tmp_path)
    bodies: list[Any] = [{}, {"session": ID}, {"forkOf": ID}, {"forkOf": ID, "cwd": str(tmp_path / "work")}]
    async with serving(tmp_path, {"text": "ok"}) as server:
        token = server.credentials.new_token(scope, scope)
        for route in routes(server.site, Page()):
            target = route.path.replace("{name}", "default")
            for method in getattr(route, "methods", None) or ["GET"]:
                for id, body in itertools.product((ID, ID[:12]), bodies if method == "POST" else [None]):
                    where = f"{target.replace('{id}', id)}?all=true"
                    answer = await server.ask(method, where, body, token=token)
                    assert CANARY not in answer.body.decode(), (method, where, body)
                    if "{id}" in route.path or (body and route.path == "/v1/sessions"):
                        assert answer.status >= 400, (method, where, body)
    assert copies(tmp_path, path) == []


@pytest.mark.promise("N13")
@pytest.mark.parametrize("bound", [False, True], ids=["free", "bound"])
@pytest.mark.parametrize("scope", [*RANK])
async def test_no_command_tells_anything_of_a_session_outside_of_the_roots(
    tmp_path: Path, scope: Any, bound: bool
) -> None:
    path = outside(tmp_path)
    secret = next(tmp_path.glob("secret-*"))
    host = make_host(tmp_path)
    for wanted in attempts(path, secret):
        session = (await host.open(OpenSession()))[0].id
        client = Client(host, Access("someone", scope))
        await client.hello(**({"session": session} if bound else {}))
        if not bound:
            await client.get("attach", session=session)
        await client.ask(**{**({} if bound else {"session": session}), **wanted})
        said = json.dumps(client.records).replace(f"{CANARY}.txt", "").replace(secret.name, "")  # what was sent
        assert CANARY not in said, wanted
        client.cut()
        await client.ended()
        assert {live.cwd for live in host.sessions} <= {str(tmp_path / "work")}, wanted
        await asyncio.gather(*(host.close_session(live) for live in host.sessions))
    assert copies(tmp_path, path) == []


def copies(folder: Path, path: Path) -> list[Path]:
    """Files with the words of the session, besides its own and those of its folder."""
    files = (one for one in folder.rglob("*") if one.is_file() and one != path and CANARY not in one.parent.name)
    return [one for one in files if CANARY.encode() in one.read_bytes()]
