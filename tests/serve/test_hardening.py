"""Faults that a reader found: clients that leave, close or flood at a bad moment, and what a watcher must not do."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from support.served import Client, make_host
from tau.records.events import CompactionEnd, CompactionStart
from tau.records.host_commands import ListHostSessions, OpenSession
from tau.records.host_events import HostSessions, SessionStatus
from tau.runtime.app.handle import SessionHandle
from tau.serve.access import LOCAL_USER, Access
from tau.serve.attachment import MAX_EARLY_BYTES, TOO_MANY_COMMANDS
from tau.serve.channel import MAX_HOST_COMMANDS
from tau.serve.greeting import REVOKED
from tau.serve.host import Host
from tau.serve.keys import MAX_KEYS
from tau.serve.outgoing import MAX_WAITING_BYTES

WATCHER = Access("phone", "watch", "t1")
DRIVER = Access("desk", "drive", "t2")


async def free_client(host: Host, access: Access = LOCAL_USER) -> Client:
    client = Client(host, access)
    assert (await client.hello())["success"]
    return client


async def until(condition: Any) -> None:
    """Wait until a condition is true."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.fixture
def extensions_started(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Sessions have extensions, which start when this is set."""
    started = asyncio.Event()

    async def start(handle: SessionHandle) -> None:
        await started.wait()

    monkeypatch.setattr(SessionHandle, "has_extensions", True)
    monkeypatch.setattr(SessionHandle, "start", start)
    return started


async def test_a_session_that_a_client_closed_and_opened_again_gets_its_commands(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"text": "one"}, {"text": "two"})
    client = await free_client(host)
    session = (await client.get("open_session"))["session"]
    await client.get("prompt", session=session, message="first")
    await client.until("agent_settled")
    await client.get("close_session", session=session)
    assert "is not attached" in (await client.ask("prompt", session=session, message="lost"))["error"]
    attached = await client.get("attach", session=session)
    await client.get("prompt", session=session, message="second")
    assert (await client.until("agent_settled"))["session"] == session
    live = host.live(session)
    assert live is not None and live.stream.id == attached["stream"]
    assert [point.text for point in live.handle.tree.fork_points()] == ["first", "second"]


async def test_a_bound_client_that_closed_its_session_is_told_so(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    session = (await (await free_client(host)).get("open_session", attach=False))["session"]
    client = Client(host)
    await client.hello(session=session)
    await client.get("close_session", session=session)
    assert (await client.ask("prompt", message="lost"))["error"] == f"Session {session} was closed."


async def test_a_client_that_leaves_while_its_session_is_opened_is_not_attached(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    session = (await (await free_client(host)).get("open_session", attach=False))["session"]
    await host.open(OpenSession(session=session))
    live = host.live(session)
    assert live is not None
    first = Client(host)
    await first.hello(session=session)
    await first.get("prompt", message="so that there is a file")
    await first.until("agent_settled", 0)
    first.cut()
    await first.ended()
    await host.close_session(live)
    leaving = await free_client(host)
    await leaving.send("attach", session=session)
    while not any(channel._tasks for channel in host.channels):
        await asyncio.sleep(0)
    leaving.cut()
    await leaving.ended()
    await until(lambda: host.live(session) is not None)
    other = await free_client(host)
    await other.get("attach", session=session)
    assert len((await other.get("who", session=session))["clients"]) == 1
    await other.get("close_session", session=session)  # no client that has left is in its way


async def test_a_session_that_gave_way_to_another_one_is_not_attached_to(tmp_path: Path) -> None:
    host = make_host(tmp_path, max_live=1)
    live, _ = await host.open(OpenSession())
    await host.open(OpenSession())
    client = await free_client(host)
    assert live.ended
    (channel,) = host.channels
    with pytest.raises(Exception, match="was closed"):
        channel.attach(live)
    assert not live.attachments
    assert (await client.ask("who", session=host.sessions[0].id))["success"]


@pytest.mark.promise("N11")
async def test_pings_of_a_client_that_does_not_read_are_bounded(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    client = await free_client(host)
    line = json.dumps({"type": "ping", "data": "x" * (1 << 20)}).encode() + b"\n"
    written = 0

    async def flood() -> None:
        nonlocal written
        while written < 200:
            await client.write(line)
            written += 1

    flooding = asyncio.create_task(flood())
    outgoing = next(iter(host.channels)).outgoing
    await until(lambda: not outgoing.has_room or flooding.done())
    for _ in range(50):
        await asyncio.sleep(0)
    assert outgoing._waiting_bytes < 2 * MAX_WAITING_BYTES and not flooding.done()
    flooding.cancel()
    client.cut()


@pytest.mark.promise("N11")
async def test_a_client_that_watches_all_sessions_and_does_not_read_costs_one_line_for_each(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    watcher = await free_client(host, WATCHER)
    await watcher.get("watch_sessions", enabled=True)
    (channel,) = host.channels
    client = await free_client(host)
    session = (await client.get("open_session"))["session"]
    await watcher.until("session_status", 0)
    for cost in range(5000):
        host._tell_watchers(session, SessionStatus(session, False, False, 1, float(cost)))
        if cost % 100 == 0:
            await asyncio.sleep(0)
    outgoing = channel.outgoing
    assert len(outgoing._waiting) + len(outgoing._latest) <= 1
    await watcher.until(lambda record: record.get("cost") == 4999.0)


async def test_watchers_hear_that_a_session_went_to_another_one(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    watcher, client = await free_client(host), await free_client(host)
    await watcher.get("watch_sessions", enabled=True)
    session = (await client.get("open_session"))["session"]
    await watcher.until("session_status", 0)
    await client.get("prompt", session=session, message="hi")
    await client.until("agent_settled")
    await client.get("new_session", session=session)
    closed = await watcher.until("session_closed", 0)
    assert closed["session"] == session
    await watcher.until(lambda record: record["type"] == "session_opened" and record["session"] != session, 0)


@pytest.mark.promise("N12")
async def test_a_watcher_does_not_push_the_keys_of_others_out(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"text": "once"}, {"text": "twice"})
    session = (await (await free_client(host)).get("open_session", attach=False))["session"]
    driver, watcher = Client(host, DRIVER), Client(host, WATCHER)
    await driver.hello(session=session)
    await watcher.hello(session=session)
    await driver.get("prompt", message="go", key="mine")
    await driver.until("agent_settled", 0)
    for at in range(MAX_KEYS + 1):
        await watcher.send("get_last_assistant_text", key=f"k{at}")
    await watcher.ask("get_last_assistant_text")
    await driver.get("prompt", message="go", key="mine")
    live = host.live(session)
    assert live is not None and len(live.handle.tree.fork_points()) == 1


@pytest.mark.promise("N12")
async def test_no_run_waits_for_a_watcher(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    session = (await (await free_client(host)).get("open_session", attach=False))["session"]
    watcher, driver = Client(host, WATCHER), Client(host, DRIVER)
    await watcher.hello(session=session, flow="wait")
    live = host.live(session)
    assert live is not None and not live.stream.waited_for
    await driver.hello(session=session, flow="wait")
    assert len(live.stream.waited_for) == 1


@pytest.mark.promise("N14")
async def test_a_credential_that_is_revoked_before_the_hello_gets_nothing(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    client = Client(host, DRIVER)
    await until(lambda: host.channels)
    host.revoke("t2")
    ending = await client.ended()
    assert (ending, client.records) == (REVOKED, [])


@pytest.mark.promise("N14")
async def test_what_a_revoked_client_sends_is_not_carried_out(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    session = (await (await free_client(host)).get("open_session", attach=False))["session"]
    client = Client(host, DRIVER)
    await client.hello(session=session)
    await client.until("snapshot", 0)
    host.revoke("t2")
    await client.write(json.dumps({"type": "set_session_name", "name": "late"}).encode() + b"\n")
    assert (await client.ended()).code == 1008
    live = host.live(session)
    assert live is not None and live.handle.tree.name is None


async def test_commands_that_wait_for_extensions_survive_that_the_client_attaches_again(
    tmp_path: Path, extensions_started: asyncio.Event
) -> None:
    host = make_host(tmp_path)
    client = await free_client(host)
    session = (await client.get("open_session"))["session"]
    early = await client.send("get_state", session=session)
    await client.get("attach", session=session)
    dropped = await client.send("get_state", session=session)
    await client.get("attach", session=session)
    extensions_started.set()
    for id in (early, dropped):
        answer = await client.until(lambda record, id=id: record.get("id") == id, 0)
        assert answer["success"]


async def test_commands_that_wait_for_extensions_are_refused_when_the_client_detaches(
    tmp_path: Path, extensions_started: asyncio.Event
) -> None:
    host = make_host(tmp_path)
    client = await free_client(host)
    session = (await client.get("open_session"))["session"]
    early = await client.send("get_state", session=session)
    await client.get("detach", session=session)
    answer = await client.until(lambda record: record.get("id") == early, 0)
    assert "was detached before" in answer["error"]
    extensions_started.set()


async def test_what_waits_for_extensions_is_bounded(tmp_path: Path, extensions_started: asyncio.Event) -> None:
    host = make_host(tmp_path)
    client = await free_client(host)
    session = (await client.get("open_session"))["session"]
    text = "x" * (MAX_EARLY_BYTES // 4)
    ids = [await client.send("prompt", session=session, message=text) for _ in range(6)]
    answer = await client.until(lambda record: record.get("id") in ids, 0)
    assert answer["error"] == TOO_MANY_COMMANDS and answer["id"] == ids[3]
    extensions_started.set()
    assert (await client.until(lambda record: record.get("id") == ids[0], 0))["success"]


async def test_commands_of_the_host_wait_when_a_client_has_many_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, go = 0, asyncio.Event()

    async def list_slowly(host: Host, wanted: ListHostSessions) -> HostSessions:
        nonlocal running
        running += 1
        await go.wait()
        return HostSessions([])

    monkeypatch.setattr(Host, "list_sessions", list_slowly)
    client = await free_client(make_host(tmp_path))
    ids = [await client.send("list_sessions") for _ in range(3 * MAX_HOST_COMMANDS)]
    await until(lambda: running >= MAX_HOST_COMMANDS)
    for _ in range(1000):
        await asyncio.sleep(0)
    assert running == MAX_HOST_COMMANDS
    go.set()
    while len(client.events("response")) <= len(ids):
        await client.read()


async def test_a_pace_beyond_all_bounds_is_cut(tmp_path: Path) -> None:
    client = Client(make_host(tmp_path))
    await client.write(b'{"id":"h","type":"hello","version":1,"pace":' + b"9" * 400 + b"}\n")
    assert (await client.until("response", 0))["success"]
    assert (await client.ask("open_session"))["success"]


async def test_a_session_that_is_being_compacted_is_not_idle(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    live, _ = await host.open(OpenSession())
    assert live.idle
    live.stream.publish(CompactionStart("manual"))
    assert not live.idle
    live.stream.publish(CompactionEnd("manual", None, False, False))
    assert live.idle


async def test_a_guard_that_fails_in_any_way_keeps_the_session_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(handle: SessionHandle) -> None:
        raise ValueError("a fault that is no TauError")

    monkeypatch.setattr(SessionHandle, "has_extensions", True)
    monkeypatch.setattr(SessionHandle, "start", fail)
    host = make_host(tmp_path)
    client = await free_client(host)
    session = (await client.get("open_session"))["session"]
    assert "was not started" in (await client.ask("prompt", session=session, message="hi"))["error"]


async def test_pieces_of_one_session_do_not_wait_for_the_pace_of_another(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    client = await free_client(host)
    one = (await client.get("open_session"))["session"]
    two = (await client.get("open_session"))["session"]
    (channel,) = host.channels
    loop, outgoing = asyncio.get_running_loop(), channel.outgoing
    for id, delay in ((one, 1000.0), (two, 0.01)):
        live = host.live(id)
        attachment = None if live is None else channel.attachment(live)
        assert attachment is not None
        attachment.reader.next_piece = loop.time() + delay
        attachment.reader.cursor = -1  # there is more
        outgoing._delay(loop.time())
    assert outgoing._timer is not None and outgoing._timer.when() < loop.time() + 100


async def test_a_session_is_not_released_before_the_client_that_opened_it_is_attached(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"text": "one"}, {"text": "two"}, idle_s=0.0)
    first = Client(host)
    await first.hello()
    session = (await first.get("open_session"))["session"]
    await first.get("prompt", session=session, message="one")
    await first.until("agent_settled")
    first.cut()
    await until(lambda: host.live(session) is None)
    second = Client(host)
    await second.hello(session=session)
    live = host.live(session)
    assert live is not None and not live.ended and len(live.attachments) == 1
    await second.get("prompt", message="two")
    await second.until("agent_settled", 0)
    second.cut()
    await until(lambda: host.live(session) is None)
