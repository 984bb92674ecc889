"""Several clients of one session: responses, dialogs, scopes, moves, keys, and what a client may not widen."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from support.rpc_process import calls, endless
from support.served import Client, Json, close_hosts, make_host
from support.virtual_clock import Clock, played
from tau.records.dialogs import Input
from tau.runtime.extensions.dialogs import dialog_id
from tau.serve.access import Access
from tau.serve.host import Host
from tau.serve.unix_socket import peer_uid
from tau.wire.dialect import COMMANDS

WATCHER = Access("phone", "watch", "t1")
DRIVER = Access("desk", "drive", "t2")


async def attached(host: Host, session: str, access: Access = DRIVER, **fields: Any) -> Client:
    client = Client(host, access)
    assert (await client.hello(session=session, **fields))["success"]
    return client


async def opened(host: Host, **fields: Any) -> str:
    client = Client(host)
    await client.hello()
    return str((await client.get("open_session", attach=False, **fields))["session"])


@pytest.mark.promise("N08")
async def test_a_response_goes_only_to_the_client_that_asked(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    session = await opened(host)
    one, two = await attached(host, session), await attached(host, session)
    await one.get("prompt", message="hi", id="same")
    await one.until("agent_settled")
    assert (await two.ask("get_state", id="other"))["success"]
    assert [record["id"] for record in two.events("response")] == ["r1", "other"]
    assert two.events("agent_settled")


async def test_the_first_answer_to_a_dialog_wins_and_the_others_hear_of_it(tmp_path: Path) -> None:
    host = make_host(tmp_path, calls("echo ran"), {"text": "done"}, permissions="ask", answer_timeout_s=30.0)
    session = await opened(host)
    one, two, watcher = [await attached(host, session, access) for access in (DRIVER, DRIVER, WATCHER)]
    await one.get("prompt", message="run it")
    question = await two.until("extension_ui_request", 0)
    await watcher.until("extension_ui_request", 0)
    await watcher.send("extension_ui_response", id=question["id"], value="Deny")
    assert (await watcher.ask("get_state"))["success"]  # its answer was read, and ignored
    await two.send("extension_ui_response", id=question["id"], value="Allow once")
    resolved = await one.until("extension_ui_resolved", 0)
    assert (resolved["outcome"], resolved["by"]) == ("answered", "c3")
    await one.send("extension_ui_response", id=question["id"], value="Deny")
    await one.until("agent_settled", 0)
    (result,) = one.events("tool_execution_end")
    assert "ran" in result["result"]["content"][0]["text"]


async def test_a_question_waits_for_a_client_that_can_answer_and_then_counts_as_unanswered(tmp_path: Path) -> None:
    host = make_host(tmp_path, calls("echo ran"), {"text": "done"}, permissions="ask", answer_timeout_s=0.0)
    session = await opened(host)
    watcher = await attached(host, session, WATCHER)
    driver = await attached(host, session)
    await driver.get("prompt", message="run it")
    driver.cut()
    await watcher.until("agent_settled", 0)
    (result,) = watcher.events("tool_execution_end")
    assert "no client can answer" in result["result"]["content"][0]["text"]


def test_a_permission_question_waits_while_a_client_is_attached_and_then_for_the_answer_timeout(tmp_path: Path) -> None:
    async def story(clock: Clock) -> None:
        host = make_host(tmp_path, calls("echo ran"), {"text": "done"}, permissions="ask", answer_timeout_s=60.0)
        session = await opened(host)
        watcher = await attached(host, session, WATCHER)

        async def later(seconds: float) -> bool:
            """Whether the question is open then."""
            clock.let_pass(seconds)
            await asyncio.sleep(0)
            await watcher.get("get_state")
            return not watcher.events("extension_ui_resolved")

        driver = await attached(host, session)
        await driver.get("prompt", message="run it")
        assert "timeout" not in await driver.until("extension_ui_request", 0)
        assert await later(24 * 3600)
        driver.cut()
        await driver.ended()
        assert await later(59)
        driver = await attached(host, session)
        (dialog,) = (await driver.until("snapshot", 0))["dialogs"]
        assert "timeout" not in dialog and await later(24 * 3600)
        driver.cut()
        await driver.ended()
        assert await later(59)
        assert not await later(2)
        await watcher.until("agent_settled", 0)
        await close_hosts()

    played(story)


def test_a_client_that_perhaps_has_no_user_is_waited_for_after_it_has_answered(tmp_path: Path) -> None:
    async def story(clock: Clock) -> None:
        answers = *(calls(f"echo {at}") for at in range(3)), {"text": "done"}
        host = make_host(tmp_path, *answers, permissions="ask", answer_timeout_s=60.0)
        session = await opened(host)
        program = await attached(host, session, answers=False)
        await program.get("prompt", message="run it")
        await program.until("extension_ui_request")
        clock.let_pass(61)
        await program.until("extension_ui_resolved")
        asked = await program.until("extension_ui_request")
        await program.send("extension_ui_response", id=asked["id"], value="Allow once")
        asked = await program.until("extension_ui_request")
        clock.let_pass(24 * 3600)
        await asyncio.sleep(0)
        await program.get("get_state")
        await program.send("extension_ui_response", id=asked["id"], value="Allow once")
        await program.until("agent_settled")
        results = [one["result"]["content"][0]["text"] for one in program.events("tool_execution_end")]
        assert "no client can answer" in results[0] and results[1:] == ["1\n", "2\n"]
        await close_hosts()

    played(story)


async def test_a_dialog_of_an_extension_waits_for_such_a_client(tmp_path: Path) -> None:
    host = make_host(tmp_path, answer_timeout_s=0.0)
    program = await attached(host, await opened(host), answers=False)
    (live,) = host.sessions
    asking = asyncio.create_task(live.handle.dialogs.ask(Input(dialog_id(), "Which?")))
    question = await program.until("extension_ui_request")
    await program.get("get_state")
    await program.send("extension_ui_response", id=question["id"], value="this")
    assert await asking == "this"


async def test_a_client_that_comes_back_finds_the_open_dialog_with_the_time_left(tmp_path: Path) -> None:
    rules = {"deadline": 60}
    host = make_host(tmp_path, calls("echo ran"), {"text": "done"}, permissions=rules, answer_timeout_s=30.0)
    session = await opened(host)
    one = await attached(host, session)
    await one.get("prompt", message="run it")
    question = await one.until("extension_ui_request", 0)
    one.cut()
    two = await attached(host, session)
    snapshot = await two.until("snapshot", 0)
    (dialog,) = snapshot["dialogs"]
    assert dialog["id"] == question["id"] and 0 < dialog["timeout"] <= question["timeout"]
    await two.send("extension_ui_response", id=dialog["id"], value="Allow once")
    await two.until("agent_settled", 0)


@pytest.mark.promise("N12")
async def test_a_watcher_can_read_and_change_nothing(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"text": "done"})
    session = await opened(host)
    watcher = await attached(host, session, WATCHER)
    before = host.live(session).handle.tree.size  # type: ignore[union-attr]
    reads = {"list_sessions", *(name for name in COMMANDS if name.startswith("get_"))}
    for name in COMMANDS:
        answer = await watcher.ask(name, key=f"k-{name}")
        assert answer["success"] == (name in reads), answer
        if name not in reads:
            assert answer["error"] == f"{name} needs the scope drive."
    free = Client(host, WATCHER)
    await free.hello()
    for name, fields in {"open_session": {}, "close_session": {"session": session}}.items():
        assert "needs the scope admin" in (await free.ask(name, **fields))["error"]
    assert host.live(session).handle.tree.size == before  # type: ignore[union-attr]
    assert len(host.sessions) == 1


async def test_a_watcher_opens_no_session(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    session = await opened(host)
    client = await attached(host, session)
    await client.get("prompt", message="hi")
    await client.until("agent_settled", 0)
    client.cut()
    await client.ended()
    await host.close_session(host.live(session))  # type: ignore[arg-type]
    watcher = Client(host, WATCHER)
    assert "needs the scope drive" in (await watcher.hello(session=session))["error"]
    assert (await watcher.ended()).code == 1008
    assert host.sessions == []


WIDER: list[tuple[Json, str]] = [
    ({"cwd": "/"}, "is not below a folder"),
    ({"cwd": "../.."}, "is not below a folder"),
    ({"tools": ["read", "bash"]}, "tools: this host does not offer bash"),
    ({"sandbox": "workspace"}, "sandbox: this host requires strict"),
    ({"session": "/etc/passwd"}, "is not in a folder of sessions"),
    ({"forkOf": "../../etc/passwd"}, "is not in a folder of sessions"),
    ({"cwd": "/a\0b"}, "cwd: not a path"),
    ({"cwd": "/\ud800"}, "cwd: not a path"),
    ({"session": "/a\0b"}, "session: not a path"),
    ({"forkOf": "/\ud800"}, "session: not a path"),
    ({"permissions": "rules /etc/passwd"}, 'expected "ask"'),
]


@pytest.mark.promise("N13")
@pytest.mark.parametrize(("fields", "error"), WIDER, ids=lambda value: json.dumps(value)[:40])
async def test_a_client_cannot_widen_what_the_host_allows(tmp_path: Path, fields: Json, error: str) -> None:
    changes = {"sandbox": "strict"} if "sandbox" in fields else {}
    host = make_host(tmp_path, tools=["read"], **changes)
    client = Client(host)
    await client.hello()
    assert error in (await client.ask("open_session", **fields))["error"]
    assert host.sessions == []


@pytest.mark.promise("N13")
async def test_a_client_cannot_widen_what_the_settings_allow(tmp_path: Path) -> None:
    settings = {"defaultTools": ["read"], "sandbox": {"level": "strict"}}
    host = make_host(tmp_path, settings=settings)
    client = Client(host)
    await client.hello()
    assert "does not offer bash" in (await client.ask("open_session", tools=["bash"]))["error"]
    assert "requires strict" in (await client.ask("open_session", sandbox="workspace"))["error"]


async def test_a_host_with_an_empty_sandbox_opens_no_session(tmp_path: Path) -> None:
    host = make_host(tmp_path, sandbox="")
    client = Client(host)
    await client.hello()
    assert 'There is no sandbox ""' in (await client.ask("open_session"))["error"]
    assert host.sessions == []


@pytest.mark.promise("N13")
async def test_tools_that_the_host_does_not_offer_cannot_be_added_later(tmp_path: Path) -> None:
    host = make_host(tmp_path, settings={"defaultTools": ["read"]})
    client = await attached(host, await opened(host))
    assert "does not offer bash" in (await client.ask("set_active_tools", names=["read", "bash"]))["error"]
    assert (await client.ask("bash", command="id"))["error"] == "bash: this host does not offer it"


@pytest.mark.promise("N13")
async def test_rules_that_deny_a_command_also_hold_for_the_clients_own(tmp_path: Path) -> None:
    host = make_host(tmp_path, permissions={"deny": [{"tool": "bash", "command": "touch"}], "otherwise": "allow"})
    client = await attached(host, await opened(host))
    assert "denies it" in (await client.ask("bash", command="cd . && touch made"))["error"]
    assert (await client.get("bash", command="echo fine"))["output"] == "fine\n"
    assert not (tmp_path / "work" / "made").exists()


@pytest.mark.promise("N13")
async def test_a_budget_can_only_become_smaller_and_rules_only_stricter(tmp_path: Path) -> None:
    from tau.records.budgets import Budget

    host = make_host(tmp_path, budget=Budget(max_turns=5, max_cost=1.0), permissions="ask", tools=["read"])
    session = await opened(host, budget={"maxTurns": 9, "maxTokens": 100})
    client = await attached(host, session)
    limits = await client.get("set_budget", maxTurns=50, allowUnknownCost=True)
    assert (limits["maxTurns"], limits["maxTokens"], limits["maxCost"]) == (5, 100, 1.0)
    assert not limits["allowUnknownCost"]
    assert (await client.ask("bash", command="id"))["error"] == "bash: this host does not offer it"
    other = await opened(host, permissions={"deny": [{"tool": "read"}]})
    assert len(host.live(other).handle.permissions.state().rules) == 2  # type: ignore[union-attr]
    assert "not below the working folder" in (await client.ask("export_html", outputPath="/tmp/x.html"))["error"]
    assert "not in a folder of sessions" in (await client.ask("switch_session", sessionPath="/tmp/x.jsonl"))["error"]


async def test_everyone_goes_along_when_the_session_moves(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"text": "done"})
    session = await opened(host)
    one, two = await attached(host, session), await attached(host, session)
    await one.get("prompt", message="hi")
    await one.until("agent_settled", 0)
    old = (await one.get("get_state"))["sessionFile"]
    await one.get("new_session")
    changed = await two.until("session_changed", 0)
    assert changed["reason"] == "new" and changed["sessionId"] != session
    assert (await two.get("get_state"))["sessionId"] == changed["sessionId"]
    assert host.live(session) is None and host.live(changed["sessionId"]) is not None
    third = await attached(host, session)  # the old id names a session that is opened again
    assert "is open here; attach to it" in (await one.ask("switch_session", sessionPath=old))["error"]
    assert (await third.get("get_state"))["sessionId"] == session


@pytest.mark.promise("N13")
async def test_a_session_does_not_move_to_a_file_of_a_folder_outside_of_the_roots(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"text": "done"})
    session = await opened(host)
    client = await attached(host, session)
    await client.get("prompt", message="hi")
    await client.until("agent_settled", 0)
    own = Path((await client.get("get_state"))["sessionFile"])
    other = own.with_name("2026_other.jsonl")
    head, _, rest = own.read_text().partition("\n")
    other.write_text(json.dumps({**json.loads(head), "id": "elsewhere", "cwd": str(tmp_path / "secret")}) + "\n" + rest)
    (tmp_path / "secret").mkdir()
    answer = await client.ask("switch_session", sessionPath=str(other))
    assert "is not below a folder that this host was started with" in answer["error"]
    assert (await client.get("get_state"))["sessionId"] == session


async def test_events_name_the_session_that_they_belong_to_before_and_after_a_move(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"text": "done"})
    client, late = Client(host), Client(host)
    await client.hello()
    await late.hello()
    old = (await client.get("open_session"))["session"]
    await late.get("attach", session=old)
    await client.get("prompt", message="one", session=old)
    await client.until("agent_settled", 0)
    await client.get("new_session", session=old)
    new = (await client.until("session_changed", 0))["sessionId"]
    await client.get("prompt", message="two", session=new)
    await client.until(lambda record: record["type"] == "agent_settled" and record["session"] == new, 0)
    await late.until(lambda record: record["type"] == "agent_settled" and record["session"] == new, 0)
    for records in (client.records, late.records):
        named = [record["session"] for record in records if "seq" in record]
        assert named == [old] * named.count(old) + [new] * named.count(new)
        (changed,) = [record for record in records if record["type"] == "session_changed"]
        assert changed["session"] == old and changed["sessionId"] == new


@pytest.mark.promise("N09")
async def test_a_prompt_repeated_with_its_key_runs_once_also_after_a_restart(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"text": "done"})
    session = await opened(host)
    one, two = await attached(host, session), await attached(host, session)
    await asyncio.gather(one.get("prompt", message="hi", key="k1"), two.get("prompt", message="hi", key="k1"))
    await one.until("agent_settled", 0)
    assert "another command" in (await two.ask("prompt", message="ho", key="k1"))["error"]
    settled = (await attached(host, session)).until("snapshot", 0)
    assert (await settled)["settled"]["key"] == "k1"
    await host.close()
    again = make_host(tmp_path, {"text": "done"})
    three = await attached(again, session)
    assert (await three.ask("prompt", message="hi", key="k1"))["success"]
    assert "another command" in (await three.ask("prompt", message="ho", key="k1"))["error"]
    messages = (await three.get("get_messages"))["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"]


async def test_a_prompt_with_a_lone_surrogate_keeps_its_key_and_its_session(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"text": "done"})
    session = await opened(host)
    client = Client(host)
    await client.hello()
    await client.get("attach", session=session)
    for _ in range(2):
        await client.get("prompt", session=session, message="cut \ud83d", key="k")
        await client.until("agent_settled", 0)
    messages = (await client.get("get_messages", session=session))["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"]


async def test_a_command_that_failed_may_be_tried_again_with_its_key(tmp_path: Path) -> None:
    host = make_host(tmp_path, endless("working"))
    client = await attached(host, await opened(host))
    await client.get("prompt", message="hi")
    assert not (await client.ask("prompt", message="more", key="k"))["success"]
    await client.get("abort")
    assert (await client.ask("prompt", message="more", key="k"))["success"]
    assert "1 to 128" in (await client.ask("prompt", message="more", key="k" * 129))["error"]


async def test_open_session_with_a_key_opens_one_session(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    one, two = Client(host), Client(host)
    await one.hello()
    await two.hello()
    first, second = await asyncio.gather(one.get("open_session", key="k"), two.get("open_session", key="k"))
    assert first["session"] == second["session"] and len(host.sessions) == 1
    assert "another command" in (await one.ask("open_session", key="k", name="other"))["error"]


@pytest.mark.parametrize("memory", [True, False])
async def test_the_key_of_a_session_that_left_no_file_opens_another_one(tmp_path: Path, memory: bool) -> None:
    host = make_host(tmp_path)
    one, two = Client(host), Client(host)
    await one.hello()
    await two.hello()
    first = await one.get("open_session", key="k", memory=memory)
    await one.get("close_session", session=first["session"])
    again = await asyncio.gather(*[client.get("open_session", key="k", memory=memory) for client in (one, two)])
    assert again[0]["session"] == again[1]["session"] != first["session"]
    assert [live.id for live in host.sessions] == [again[0]["session"]]
    for _ in range(2):
        missing = await one.ask("open_session", key="m", session="0198c1000000")
        assert missing["error"] == "session: there is no session 0198c1000000"


async def test_sessions_are_listed_watched_and_closed(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"text": "done"})
    client, other = Client(host), Client(host)
    await client.hello()
    await other.hello()
    await client.get("watch_sessions", enabled=True)
    session = (await other.get("open_session", name="mine"))["session"]
    assert (await client.until("session_opened", 0))["session"] == session
    await other.get("prompt", message="hi", session=session)
    await other.until("agent_settled", 0)
    await client.until(lambda record: record["type"] == "session_status" and not record["streaming"], 0)
    (row,) = (await client.get("list_sessions"))["sessions"]
    assert (row["id"], row["live"], row["clients"], row["name"]) == (session, True, 1, "mine")
    assert "has other clients" in (await client.ask("close_session", session=session))["error"]
    clients = (await client.get("who", session=session))["clients"]
    assert [one["client"] for one in clients] == ["c2"]
    await other.get("detach", session=session)
    await client.get("close_session", session=session)
    assert (await client.until("session_closed", 0))["session"] == session
    (row,) = (await client.get("list_sessions"))["sessions"]
    assert not row["live"] and row["messageCount"] == 2
    assert (await client.get("list_sessions", live=True))["sessions"] == []


async def test_the_list_of_sessions_has_pages(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"text": "done"})
    for at in range(5):
        client = await attached(host, await opened(host))
        await client.get("prompt", message=f"prompt {at}")
        await client.until("agent_settled", 0)
    client = Client(host)
    await client.hello()
    rows: list[Json] = []
    cursor: Json = {}
    while True:
        page = await client.get("list_sessions", limit=2, **cursor)
        rows += page["sessions"]
        if "cursor" not in page:
            break
        cursor = {"cursor": page["cursor"]}
    assert len(rows) == len({row["id"] for row in rows}) == 5


async def test_an_idle_session_is_released_and_comes_back_with_another_stream(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"text": "done"}, idle_s=0.0)
    client = Client(host)
    await client.hello()
    made = await client.get("open_session")
    await client.get("prompt", message="hi", session=made["session"], key="k")
    settled = await client.until("agent_settled", 0)
    client.cut()
    while host.live(made["session"]) is not None:
        await asyncio.sleep(0.01)
    again = await attached(host, made["session"], after={"stream": made["stream"], "seq": settled["seq"]})
    snapshot = await again.until("snapshot", 0)
    assert snapshot["reason"] == "stream" and snapshot["stream"] != made["stream"]
    assert len(snapshot["entries"]) >= 2 and snapshot["interrupted"] is None
    assert snapshot["settled"] == {"seq": 0, "aborted": False, "key": "k"}


async def test_too_many_sessions_release_the_longest_idle_or_are_refused(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"text": "done"}, max_live=2)
    client = Client(host)
    await client.hello()
    first = (await client.get("open_session", attach=False))["session"]
    await client.get("open_session")
    await client.get("open_session")
    assert host.live(first) is None and len(host.sessions) == 2
    assert (await client.ask("open_session"))["error"] == "Too many sessions are open."
    assert not host.ready


async def test_a_fork_is_opened_without_taking_others_along(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"text": "done"})
    session = await opened(host)
    client = await attached(host, session)
    for text in ("one", "two"):
        await client.get("prompt", message=text)
        await client.until("agent_settled", len(client.records) - 1)
    points = (await client.get("get_fork_messages"))["messages"]
    free = Client(host)
    await free.hello()
    fork = await free.get("open_session", forkOf=session, entryId=points[1]["entryId"])
    assert fork["created"] and fork["session"] != session
    messages = (await free.get("get_messages", session=fork["session"]))["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert not client.events("session_changed")


async def test_a_client_that_takes_nothing_for_too_long_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = make_host(tmp_path, {"text": "y" * 300_000})
    session = await opened(host)
    slow, quick = await attached(host, session), await attached(host, session)
    await quick.get("prompt", message="go")
    await quick.until("agent_settled", 0)
    host._sweep()
    assert not slow._serving.done()
    monkeypatch.setattr("tau.serve.host.STALL_TIMEOUT_S", 0.0)
    host._sweep()
    assert (await asyncio.wait_for(slow._serving, 30)).code == 1013
    assert not quick._serving.done()


def test_the_system_tells_who_is_at_the_other_end_of_a_socket() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    assert peer_uid(ours) == os.getuid()
    ours.close()
    theirs.close()


async def test_ping_overtakes_what_waits(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    client = Client(host)
    await client.hello()
    await client.get("ping", data={"a": 1})
    assert client.events("pong") == [{"type": "pong", "data": {"a": 1}}]


async def test_a_client_without_a_credential_proves_itself_in_its_hello(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    known = {"secret": WATCHER}
    client = Client(host, None, authenticate=known.get)
    assert (await client.hello(token="secret"))["data"]["scope"] == "watch"
    host.revoke("t1")
    assert (await client.ended()).code == 1008
    for fields in ({}, {"token": "wrong"}):
        refused = Client(host, None, authenticate=known.get)
        assert not (await refused.hello(**fields))["success"]
        assert (await refused.ended()).code == 1008


@pytest.mark.parametrize(
    ("line", "code", "error"),
    [
        (b'{"type":"hello","version":2}', 1002, "version: 2 is not known; there is 1"),
        (b'{"type":"get_state"}', 1008, "The first record must be a hello."),
        (b"nonsense", 1008, "The first record must be a hello."),
        (b'{"type":"hello","version":1,"dialect":"2025-12"}', 1008, "needs a session in the hello"),
        (b'{"type":"hello","version":1,"dialect":"none"}', 1008, "Unknown dialect"),
        (b'{"type":"hello","version":1,"session":"01234567"}', 1008, "there is no session"),
        (b'{"type":"hello","version":1,"session":"0123"}', 1008, "at least 8 characters"),
    ],
)
async def test_a_hello_that_is_not_accepted_says_why_and_ends(
    tmp_path: Path, line: bytes, code: int, error: str
) -> None:
    client = Client(make_host(tmp_path))
    await client.write(b"\n" + line + b"\n")
    assert (await client.ended()).code == code
    assert error in client.records[0]["error"]
