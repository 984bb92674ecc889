"""`tau fleet run --serve`: a host of the same user lists the running sessions of a fleet, and opens none of them."""

from __future__ import annotations

from pathlib import Path

import tau
from support.served import Client, make_host
from tau.fleet.folder import FleetFolder
from tau.records.fleet import Result, Task
from tau.store.fleet_sessions import announced, fleet_sessions


async def test_a_host_lists_running_sessions_of_a_fleet_and_opens_none(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    agent_dir, client = host.config.agent_dir, Client(host)
    elsewhere = Client(make_host(tmp_path, roots=[str(tmp_path / "agent")]))
    await client.hello()
    await elsewhere.hello()
    folder = FleetFolder(tmp_path / "today")
    folder.create()
    ledger = folder.ledger()
    ledger.add([("fix", "h", Task(prompt="hello"))], 1.0)
    ledger.claim([("fix", 1, "w1")], 1.0)
    draft = folder.attempt("fix", 1).with_name("1.partial")
    draft.mkdir(parents=True)
    async with tau.open(tmp_path / "work", model="demo", session=draft / "session.jsonl", agent_dir=agent_dir) as agent:
        await agent.prompt("hello")
        id = agent.session_id

    async def names(**wanted: bool) -> list[str]:
        rows = (await client.get("list_sessions", **wanted))["sessions"]
        return [row["name"] for row in rows if row["id"] == id]

    with announced(agent_dir, folder.path):
        assert await names(all=True) == await names(all=True, live=True) == ["fleet today: fix, attempt 1"]
        assert await names() == []
        assert (await elsewhere.get("list_sessions", all=True))["sessions"] == []  # it is not below the roots
        assert "task fix of the fleet" in (await client.ask("attach", session=id))["error"]
        ledger.finish([Result("fix", 1, "done", "h")], 2.0)
        assert fleet_sessions(agent_dir) == []
    ledger.close()
    assert not list((agent_dir / "serve" / "fleets").iterdir())
