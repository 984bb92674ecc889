"""Lines of a client that are wrong: each gets one error, and the next line works."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from support.acp_peer import memory_peer

# A line, and the code and id of its response; None: no response.
LINES: dict[str, tuple[bytes, tuple[int, Any] | None]] = {
    "a number": (b"42", (-32600, None)),
    "null": (b"null", (-32600, None)),
    "a string": (b'"initialize"', (-32600, None)),
    "broken JSON": (b'{"jsonrpc":"2.0","id":1', (-32700, None)),
    "not UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', (-32700, None)),
    "a batch": (b'[{"jsonrpc":"2.0","id":1,"method":"session/list"}]', (-32600, None)),
    "an empty batch": (b"[]", (-32600, None)),
    "an empty object": (b"{}", (-32600, None)),
    "no version": (b'{"id":1,"method":"session/list"}', (-32600, 1)),
    "another version": (b'{"jsonrpc":"1.0","id":1,"method":"session/list"}', (-32600, 1)),
    "a method that is no string": (b'{"jsonrpc":"2.0","id":"a","method":7}', (-32600, "a")),
    "params that are no object": (b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":3}', (-32600, 1)),
    "params that are a list": (b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":[1]}', (-32602, 1)),
    "an id that is no id": (b'{"jsonrpc":"2.0","id":{},"method":"session/list"}', (-32600, None)),
    "an id that is too large": (b'{"jsonrpc":"2.0","id":99999999999999999999,"method":"session/list"}', (-32600, None)),
    "an unknown method": (b'{"jsonrpc":"2.0","id":1,"method":"session/fly"}', (-32601, 1)),
    "an extension method": (b'{"jsonrpc":"2.0","id":1,"method":"_zed/thing","params":{}}', (-32601, 1)),
    "a method that is not offered": (b'{"jsonrpc":"2.0","id":1,"method":"logout","params":{}}', (-32601, 1)),
    "a missing field": (b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}', (-32602, 1)),
    "a field of another type": (
        b'{"jsonrpc":"2.0","id":1,"method":"session/close","params":{"sessionId":1}}',
        (-32602, 1),
    ),
    "half a surrogate pair": (
        b'{"jsonrpc":"2.0","id":1,"method":"session/close","params":{"sessionId":"\\ud800"}}',
        (-32002, 1),
    ),
    "half a surrogate pair in a path": (
        b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"cwd":"/\\ud800"}}',
        (-32602, 1),
    ),
    "a NUL in a path": (
        b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"cwd":"/\\u0000"}}',
        (-32602, 1),
    ),
    "deeply nested": (
        b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":' + b'{"a":' * 9000 + b"1" + b"}" * 9001,
        (-32700, None),
    ),
    "an unknown notification": (b'{"jsonrpc":"2.0","method":"fly"}', None),
    "a notification with wrong params": (b'{"jsonrpc":"2.0","method":"session/cancel","params":{}}', None),
    "an answer to no request": (b'{"jsonrpc":"2.0","id":"tau-77","result":{}}', None),
    "a broken answer": (b'{"jsonrpc":"2.0","id":1,"error":"x"}', None),
    "an empty line": (b"", None),
    "blanks": (b"  \t ", None),
}


@pytest.mark.promise("K01")
def test_each_wrong_line_gets_one_error_and_the_next_line_works(tmp_path: Path) -> None:
    async def main() -> None:
        async with memory_peer(tmp_path) as peer:
            await peer.initialize()
            peer._open = _Everything()  # the ids here are written by hand
            for name, (line, expected) in LINES.items():
                before = len(peer.received)
                check = peer.request("session/list", cwd="/nowhere")
                await peer.write(line + b"\n" + json.dumps(check).encode() + b"\n")
                await peer.response(check)
                found = [(one["error"]["code"], one["id"]) for one in peer.received[before:] if "error" in one]
                assert found == ([] if expected is None else [expected]), name

    asyncio.run(main())


class _Everything(set[Any]):
    def __contains__(self, id: object) -> bool:
        return True


@pytest.mark.promise("K01")
def test_a_line_that_is_too_long_gets_an_error_and_the_next_one_works(tmp_path: Path) -> None:
    async def main() -> None:
        async with memory_peer(tmp_path) as peer:
            await peer.initialize()
            piece = b"x" * (1 << 20)
            for _ in range(33):
                await peer.write(piece)
            await peer.write(b"\n")
            await peer.until(lambda one: one.get("error", {}).get("code") == -32700)
            assert (await peer.call("session/list", cwd="/nowhere")) == {"sessions": []}

    asyncio.run(main())


@pytest.mark.promise("K14")
def test_errors_name_the_wrong_field(tmp_path: Path) -> None:
    async def main() -> None:
        async with memory_peer(tmp_path) as peer:
            await peer.initialize()
            request = peer.request("session/new", cwd=str(tmp_path), mcpServers=[{"name": "a", "args": [1]}])
            await peer.send(request)
            answer = await peer.until(lambda one: one.get("id") == request["id"])
            where, problem = "mcpServers[0].args[0]", "expected str, got int"
            assert answer["error"]["data"] == {"field": where, "problem": problem, "details": f"{where}: {problem}"}

    asyncio.run(main())


def test_two_requests_with_one_id_at_once_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with memory_peer(tmp_path, {"text": "x", "hangAfter": 0}) as peer:
            await peer.initialize()
            session = await peer.new(tmp_path / "work")
            request = peer.prompt_request(session)
            peer._open = _Everything()
            await peer.send(request, request)
            answer = await peer.until(lambda one: one.get("id") == request["id"])
            assert answer["error"]["code"] == -32600

    asyncio.run(main())
