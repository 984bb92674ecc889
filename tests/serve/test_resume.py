"""Numbers, resume and snapshots: nothing is missing and nothing comes twice, however a client is cut off."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from long import host_reconnects
from support.rpc_process import calls
from support.served import Client, Json, make_host
from support.stream_fold import Fold
from tau.core.agent.draft import Draft, Update
from tau.records.base import parse
from tau.records.events import Outcome, ToolEnd
from tau.records.messages import Text
from tau.runtime.runs.model_client import UNKNOWN_MODEL
from tau.serve import event_stream
from tau.serve.event_stream import Envelope, EventStream
from tau.serve.host import Host
from tau.serve.snapshot import snapshot_line
from tau.wire.dialects import DEFAULT
from tau.wire.unfinished import PartialJson

WORDS = [f"w{at} " for at in range(40)]
SPOKEN: Json = {"blocks": [{"text": WORDS}], "delayMs": 1}


async def bound(host: Host, session: str, **fields: Any) -> Client:
    client = Client(host)
    assert (await client.hello(session=session, **fields))["success"]
    return client


async def new_session(host: Host) -> str:
    client = Client(host)
    await client.hello()
    return str((await client.get("open_session", attach=False))["session"])


@pytest.mark.promise("N10")
@pytest.mark.parametrize("dialect", ["default", "1.5"])
async def test_a_snapshot_at_any_number_is_what_a_client_knows_that_heard_everything(
    tmp_path: Path, dialect: str
) -> None:
    """Properties 5 and 7: taken after every event of a run with tools, a queue and a question."""
    command = "for i in 1 2 3; do echo $i; sleep 0.02; done"
    host = make_host(tmp_path, calls(command), SPOKEN, {"text": "after"}, permissions="ask", answer_timeout_s=30.0)
    session = await new_session(host)
    live = host.live(session)
    assert live is not None
    client = await bound(host, session, numbers=True, dialect=dialect)
    await client.until("snapshot", 0)
    taken: list[Json] = []
    publish = live.stream._wake

    def observed() -> None:
        taken.append(parse(snapshot_line(live, "new", None)))
        publish()

    live.stream._wake = observed  # type: ignore[method-assign]
    await client.get("prompt", message="go")
    question = await client.until("extension_ui_request", 0)
    await client.send("extension_ui_response", id=question["id"], value="Allow once")
    await client.until("tool_execution_end", 0)
    await client.get("follow_up", message="and then")
    await client.until("agent_settled", 0)
    assert len(taken) > 20
    for snapshot in taken:
        heard, told = Fold(), Fold()
        for record in client.records:
            if record["type"] == "snapshot" or record.get("seq", 0) <= snapshot["seq"]:
                heard.apply(record)
        told.apply(snapshot)
        if heard.seq == snapshot["seq"]:  # else pieces were merged beyond it
            assert told.state() == heard.state()


@pytest.mark.promise("N10")
async def test_a_thousand_reconnects_miss_nothing_and_hear_nothing_twice(tmp_path: Path) -> None:
    assert await host_reconnects.reconnect(make_host(tmp_path, *host_reconnects.ANSWERS), 1000) > 3


def an_update(draft: Draft, at: int) -> Update:
    return draft.add(0, f"word {at} ")


def a_draft() -> Draft:
    draft = Draft(UNKNOWN_MODEL, 0, PartialJson)
    draft.open("text")
    return draft


async def test_a_client_that_was_away_for_a_minute_at_200_records_a_second_is_resumed() -> None:
    stream, draft = EventStream(), a_draft()
    for at in range(60 * 200):
        stream.publish(an_update(draft, at))
    assert stream.ring.reaches(0) and stream.ring.size <= event_stream.RING_BYTES
    batch = stream.batch(0, stream.last, Envelope(DEFAULT, True, False))
    assert batch.cursor == stream.last
    text = parse(batch.data)["assistantMessageEvent"]["delta"]
    assert text == "".join(f"word {at} " for at in range(60 * 200))


def big_event(at: int) -> ToolEnd:
    return ToolEnd(f"call {at}", "bash", Outcome([Text("x" * 100_000)]), False)


@pytest.mark.promise("N11")
async def test_a_client_that_stops_reading_costs_little_and_gets_a_snapshot_when_it_reads_again(
    tmp_path: Path,
) -> None:
    host = make_host(tmp_path)
    session = await new_session(host)
    live = host.live(session)
    assert live is not None
    slow, quick = await bound(host, session), await bound(host, session)
    reading = asyncio.create_task(quick.ended())
    for at in range(200):
        assert live.stream.publish(big_event(at)) is None  # nothing waits for the slow client
        await asyncio.sleep(0)
    held = slow.transport.client._buffered
    assert held <= 300 * 1024
    assert live.stream.ring.size <= event_stream.RING_BYTES
    while len(quick.events("tool_execution_end")) < 200:
        await asyncio.sleep(0)
    assert not quick.events("snapshot")[1:]
    snapshot = await slow.until(lambda record: record["type"] == "snapshot" and record["reason"] == "slow", 0)
    assert snapshot["seq"] == live.stream.last
    reading.cancel()


async def test_the_run_waits_for_a_client_that_asked_for_it_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = make_host(tmp_path)
    session = await new_session(host)
    live = host.live(session)
    assert live is not None
    client = await bound(host, session, flow="wait")
    waiting = None
    published = 0
    while waiting is None:
        waiting = live.stream.publish(big_event(published))
        published += 1
        await asyncio.sleep(0)
    assert published * 100_000 > event_stream.MAX_LAG_BYTES
    task = asyncio.ensure_future(waiting)
    await asyncio.sleep(0)
    assert not task.done()
    reading = asyncio.create_task(client.ended())
    await asyncio.wait_for(task, 30)
    while len(client.events("tool_execution_end")) < published:
        await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])
    monkeypatch.setattr(event_stream, "WAIT_TIMEOUT_S", 0.01)
    while (waiting := live.stream.publish(big_event(published))) is None:
        await asyncio.sleep(0)
    await waiting
    assert not live.stream.waited_for
    for at in range(200):
        assert live.stream.publish(big_event(at)) is None


async def test_a_response_comes_after_the_events_that_are_in_it_and_before_later_ones(tmp_path: Path) -> None:
    host = make_host(tmp_path, SPOKEN)
    session = await new_session(host)
    client = await bound(host, session)
    await client.get("prompt", message="go")
    await client.until("message_update", 0)
    for _ in range(10):
        await client.ask("get_state")
    await client.until("agent_settled", 0)
    seq = 0
    for record in client.records:
        if record["type"] == "response" and "asOf" in record:
            assert record["asOf"] == seq
        else:
            seq = max(seq, record.get("seq", 0))


async def test_the_newest_entries_are_in_a_snapshot_and_those_that_the_client_has_are_not(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"text": "y" * 100_000})
    session = await new_session(host)
    client = await bound(host, session)
    for at in range(4):
        await client.get("prompt", message=f"{at}")
        await client.until("agent_settled", len(client.records) - 1)
    entries = (await client.get("get_entries"))["entries"]
    newest = await (await bound(host, session)).until("snapshot", 0)
    assert newest["more"] and newest["entries"] == entries[-len(newest["entries"]) :]
    assert len(json.dumps(newest["entries"])) < 400_000
    rest = await (await bound(host, session, entry=entries[-3]["id"])).until("snapshot", 0)
    assert not rest["more"] and rest["entries"] == entries[-2:]


async def test_a_client_that_says_a_pace_gets_merged_pieces(tmp_path: Path) -> None:
    host = make_host(tmp_path, SPOKEN)
    session = await new_session(host)
    paced, other = await bound(host, session, pace=20), await bound(host, session)
    await other.get("prompt", message="go")
    await other.until("agent_settled", 0)
    await paced.until("agent_settled", 0)
    pieces = paced.events("message_update")
    assert len(pieces) < len(other.events("message_update"))
    text = "".join(one["assistantMessageEvent"].get("delta", "") for one in pieces)
    assert text == "".join(WORDS)


async def test_a_message_that_extensions_hear_first_is_not_in_a_snapshot_before_its_event(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"text": "the answer"})
    session = await new_session(host)
    live = host.live(session)
    assert live is not None
    taken: list[Json] = []

    async def slow(event: Any) -> None:
        await asyncio.sleep(0)
        taken.append(parse(snapshot_line(live, "new", None)))

    live.handle.extensions.on("message_end", "slow.py", slow)
    client = await bound(host, session)
    await client.get("prompt", message="the prompt")
    await client.until("agent_settled", 0)
    assert len(taken) == 2
    for snapshot, heard in zip(taken, (0, 1), strict=True):
        assert sum(entry["type"] == "message" for entry in snapshot["entries"]) == heard
