"""A host in this process, and clients of it on the in-memory transport."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tau.records.base import parse
from tau.runtime.app.options import SessionOptions, SessionTarget
from tau.runtime.protocol.memory import MemoryTransport
from tau.serve.access import LOCAL_USER, Access
from tau.serve.greeting import Ending
from tau.serve.host import Host
from tau.serve.opening import HostConfig

Json = dict[str, Any]
WITHIN = 30.0  # seconds; only a failure takes them all
HOSTS: list[Host] = []


def make_host(folder: Path, *answers: Json, **changes: Any) -> Host:
    """A host, which is closed at the end of the test."""
    HOSTS.append(Host(host_config(folder, *answers, **changes)))
    return HOSTS[-1]


async def close_hosts() -> None:
    while HOSTS:
        await HOSTS.pop().close()


def host_config(folder: Path, *answers: Json, settings: Json | None = None, **changes: Any) -> HostConfig:
    """The configuration of a host with a scripted model, in folders of its own. `changes` are fields of either kind."""
    for name in ("agent", "work"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "agent" / "settings.json").write_text(json.dumps(settings or {}))
    script = json.dumps({"answers": list(answers) or [{"text": "ok"}]}).encode()
    own = {name: changes.pop(name) for name in [*changes] if name in HostConfig.__struct_fields__}
    options = {"model": "scripted", "script": script, "session": SessionTarget(folder=str(folder / "sessions"))}
    return HostConfig(
        **{
            "agent_dir": folder / "agent",
            "options": SessionOptions(**{**options, **changes}),
            "roots": (str(folder / "work"),),
            "environment": {"PATH": "/usr/bin:/bin", "HOME": str(folder)},
            "answer_timeout_s": 0.0,
            **own,
        }
    )


class Client:
    """A client of a host. `records` is everything that it received."""

    def __init__(self, host: Host, access: Access | None = LOCAL_USER, **serving: Any) -> None:
        self.transport = MemoryTransport()
        self.records: list[Json] = []
        self.lines: list[bytes] = []
        self._ids = 0
        self._next = 0
        self._rest = b""
        self._serving = asyncio.create_task(host.serve(self.transport, access, "memory", **serving))
        self._serving.add_done_callback(lambda done: self.transport.client.end_output())

    async def hello(self, **fields: Any) -> Json:
        return await self.ask("hello", version=1, **fields)

    async def write(self, data: bytes) -> None:
        await self.transport.client.write(data)

    async def send(self, type: str, **fields: Any) -> str:
        self._ids += 1
        id = str(fields.pop("id", f"r{self._ids}"))
        await self.write(json.dumps({"id": id, "type": type, **fields}).encode() + b"\n")
        return id

    async def ask(self, type: str, **fields: Any) -> Json:
        """Send a command and return its response."""
        id = await self.send(type, **fields)
        return await self.until(lambda record: record.get("type") == "response" and record.get("id") == id)

    async def get(self, type: str, **fields: Any) -> Any:
        answer = await self.ask(type, **fields)
        assert answer["success"], answer
        return answer.get("data")

    async def until(self, wanted: Callable[[Json], bool] | str, start: int | None = None) -> Json:
        """The first record that is wanted after the one that was returned last: of this type, or that is accepted."""
        accepts = (lambda record: record["type"] == wanted) if isinstance(wanted, str) else wanted
        at = self._next if start is None else start
        async with asyncio.timeout(WITHIN):
            while True:
                for number, record in enumerate(self.records[at:], at):
                    if accepts(record):
                        self._next = number + 1
                        return record
                at = len(self.records)
                if not await self.read():
                    raise AssertionError(f"the channel ended; received {self.records[-5:]}")

    async def read(self) -> bool:
        """Read what is there. False at the end."""
        data = await self.transport.client.read()
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.lines += lines
        self.records += [parse(line) for line in lines]
        return bool(data)

    async def ended(self) -> Ending:
        """Read to the end of the channel."""
        async with asyncio.timeout(WITHIN):
            while await self.read():
                pass
            return await self._serving

    def cut(self) -> None:
        """Lose the connection."""
        self.transport.client.disconnect()

    def events(self, *types: str) -> list[Json]:
        return [record for record in self.records if record["type"] in types]


def numbers(records: list[Json]) -> list[int]:
    return [record["seq"] for record in records if "seq" in record and record["type"] != "snapshot"]
