"""Channels of a host: hello, numbered events, responses with their place, and sessions that outlive their clients."""

from __future__ import annotations

from pathlib import Path

from support.served import Client, make_host, numbers


async def test_a_bound_channel_is_a_pipe_with_numbers(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"text": "hello there"})
    first = Client(host)
    greeting = await first.hello(client="test/1")
    assert greeting["success"] and greeting["data"]["scope"] == "admin" and "attached" not in greeting["data"]
    opened = await first.get("open_session", attach=False)
    bound = Client(host)
    attached = (await bound.hello(session=opened["session"]))["data"]["attached"]
    assert attached == {"session": opened["session"], "stream": opened["stream"], "seq": 0, "resumed": False}
    assert (await bound.until("snapshot", 0))["reason"] == "new"
    answer = await bound.ask("prompt", message="hi")
    assert answer["asOf"] == 0
    await bound.until("agent_settled")
    seqs = numbers(bound.records)
    assert seqs == sorted(set(seqs)) and seqs[0] == 1
    assert (await bound.ask("get_last_assistant_text"))["asOf"] == seqs[-1]
    assert not [record for record in bound.records if "session" in record and record["type"] != "snapshot"]


async def test_a_free_channel_names_the_session(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    client = Client(host)
    await client.hello()
    opened = await client.get("open_session")
    assert (await client.ask("get_state"))["error"] == "session: missing"
    await client.get("prompt", message="hi", session=opened["session"])
    settled = await client.until("agent_settled")
    assert list(settled)[-2:] == ["session", "seq"] and settled["session"] == opened["session"]


async def test_a_client_that_lost_its_connection_resumes_after_its_last_number(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"text": "one two three"})
    first = Client(host)
    await first.hello()
    session = (await first.get("open_session"))["session"]
    await first.get("prompt", message="hi", session=session)
    half = await first.until("message_update")
    first.cut()
    stream = host.sessions[0].stream
    second = Client(host)
    attached = (await second.hello(session=session, after={"stream": stream.id, "seq": half["seq"]}))["data"][
        "attached"
    ]
    assert attached["resumed"]
    if not second.events("agent_settled"):
        await second.until("agent_settled", 0)
    assert numbers(second.records)[0] == half["seq"] + 1 or second.records[1]["type"] == "message_update"
    assert not second.events("snapshot")
