"""Servers that are broken or hostile: the agent lives on, a call is made once, and its result says what happened."""

from __future__ import annotations

import asyncio
import json
import resource
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.mcp_memory import memory_server, tool
from support.mcp_server import server_entry
from support.mcp_session import NEXT_PROMPT, McpRun, mcp_session, results
from support.virtual_clock import leapt
from tau.mcp.messages import McpError
from tau.runtime.mcp import server, session_servers
from tau.runtime.mcp.connection import RequestOptions
from tau.runtime.mcp.tools import STARTED_AGAIN

ECHO = ("mcp__s__echo", {"text": "hi"})


def run_with(folder: Path, *calls: Any, entry: dict[str, Any] | None = None, **options: Any) -> McpRun:
    given = {**server_entry(**options), **(entry or {})}
    return asyncio.run(results(folder, {"s": given}, *(calls or [ECHO])))


@pytest.mark.promise("M04")
@pytest.mark.parametrize("fault", ["noise", "early_notification", "stderr_flood", "exit_at_discover", "stubborn"])
def test_a_server_with_bad_manners_works(tmp_path: Path, fault: str) -> None:
    run = run_with(tmp_path, fault=fault)
    assert run.last.text == "hi"
    assert ("s", "failed") not in run.states


@pytest.mark.promise("M01")
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("exit", "exited with code 2. Its last words: cannot start: no licence"),
        ("silent", "not ready after"),
        ("unknown_version", "1999-01-01"),
    ],
)
def test_a_server_that_cannot_be_used_fails_and_the_prompt_runs(tmp_path: Path, fault: str, reason: str) -> None:
    entry = {**server_entry(fault=fault), "startupTimeout": 1 if fault == "silent" else 60}

    async def failed() -> McpRun:
        async with mcp_session(tmp_path, {"s": entry}, ECHO) as run:
            await run.prompt()
            while ("s", "failed") not in run.states:  # a busy machine may start the program only after the prompt
                await asyncio.sleep(0.01)
        return run

    run = asyncio.run(failed())
    assert reason in run.errors[0]
    assert run.last.is_error and "not found" in run.last.text


def test_a_program_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    run = asyncio.run(results(tmp_path, {"s": {"command": "/nowhere/at-all"}}, ECHO))
    assert "/nowhere/at-all" in run.errors[-1]


@pytest.mark.promise("M02")
def test_a_slow_server_delays_the_first_answer_only_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert session_servers.FIRST_CALL_WAIT_S == 5
    monkeypatch.setattr(session_servers, "FIRST_CALL_WAIT_S", 1)
    servers = {"slow": server_entry(startSeconds=60), "s": server_entry()}

    async def timed() -> float:
        async with mcp_session(tmp_path, servers, ECHO) as run:
            began = time.monotonic()
            await run.prompt()
            assert run.last.text == "hi"
            return time.monotonic() - began

    assert 1 <= asyncio.run(timed()) < 30


@pytest.mark.promise("M06")
def test_endless_and_repeated_pages_end(tmp_path: Path) -> None:
    run = run_with(tmp_path, ("mcp__s__tool_3_7", {}), fault="endless_cursor")
    assert json.loads(run.last.text)["name"] == "tool_3_7"
    again = run_with(tmp_path, fault="same_cursor")
    assert again.last.text == "hi"


@pytest.mark.promise("M06")
def test_definitions_without_sense_are_left_out(tmp_path: Path) -> None:
    run = run_with(tmp_path, ECHO, ("mcp__s__bad", {"anything": [1]}), fault="senseless")
    assert run.called[0].text == "hi"
    assert json.loads(run.called[1].text)["arguments"] == {"anything": [1]}  # its schema cannot be read


@pytest.mark.promise("M04")
def test_broken_answers_do_not_answer_another_call(tmp_path: Path) -> None:
    tools = ["broken", "wrong_id", "echo"]
    run = run_with(tmp_path, ("mcp__s__broken", {}), ("mcp__s__wrong_id", {}), ECHO, tools=tools)
    broken, wrong, echo = run.called
    assert broken.is_error
    assert (wrong.text, echo.text) == ("right", "hi")


@pytest.mark.promise("M05")
def test_a_line_of_40_mb_ends_the_connection_and_is_never_held(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run = run_with(tmp_path, ("mcp__s__huge", {}), ECHO, tools=["huge", "echo"])
    huge, echo = run.called
    assert huge.is_error and "32 MiB" in huge.text
    assert echo.text == "hi"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


@pytest.mark.promise("M03")
def test_a_crash_fails_its_call_once_and_the_next_call_starts_the_server_again(tmp_path: Path) -> None:
    counted = tmp_path / "count"
    calls = [("mcp__s__count", {"file": str(counted)}), ("mcp__s__exit", {}), ECHO]
    entry = {"env": {"DEMO_TOKEN": "very-secret-value"}}
    run = run_with(tmp_path, *calls, tools=["count", "exit", "echo"], entry=entry)
    _, crashed, echo = run.called
    assert crashed.is_error and "exited with code 7" in crashed.text
    assert echo.text == "hi"
    assert counted.read_text() == "x"
    everything = " ".join([*run.errors, *(called.text for called in run.called)])
    assert "very-secret-value" not in everything


@pytest.mark.promise("M03")
@pytest.mark.parametrize("given_up", ["abort", "timeout"])
def test_a_server_that_hangs_after_a_call_was_given_up_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given_up: str
) -> None:
    assert server.PING_TIMEOUT_S == 5
    monkeypatch.setattr(server, "PING_TIMEOUT_S", 0.3)
    journal = tmp_path / "journal"
    entry = server_entry(tools=["wait", "pid"], journal=str(journal))
    entry["timeout"] = 0.3 if given_up == "timeout" else 60
    hang, pid = ("mcp__s__wait", {"seconds": 3600}), ("mcp__s__pid", {})

    async def hung() -> McpRun:
        async with mcp_session(tmp_path, {"s": entry}, hang, pid, pid) as run:
            prompt = asyncio.ensure_future(run.prompt())
            if given_up == "abort":
                while not journal.exists() or '"tools/call"' not in journal.read_text():
                    await asyncio.sleep(0.01)
                await run.agent.abort()
                await asyncio.wait({prompt})
                prompt = asyncio.ensure_future(run.prompt())
            await prompt
            [row] = (await run.agent.mcp_servers()).servers
            assert (row.state, row.restarts) == ("ready", 1)
        return run

    run = asyncio.run(hung())
    first, second = run.called[-2:]
    assert first.text == f"{STARTED_AGAIN.format('s')}\n{second.text}"
    assert "did not answer any more" in run.errors[0]
    started = [line for line in journal.read_text().splitlines() if line.startswith("started")]
    assert started[-1] == f"started {second.text}" and len(started) == 2


def test_a_server_that_another_call_keeps_busy_is_not_ended() -> None:
    busy = True
    pings: list[str] = []

    def answer(method: str, params: Mapping[str, Any]) -> Any:
        if method == "ping":
            pings.append(method)
        if method == "tools/list":
            return {"tools": [tool("t")]}
        return None if busy else {"content": []}

    async def called() -> None:
        nonlocal busy
        server, environment = memory_server(answer)
        calls = [asyncio.ensure_future(server.call("tools/call", {"name": "t"}, RequestOptions(60))) for _ in range(2)]
        while not any(message["method"] == "tools/call" for one in environment.transports for message in one.sent):
            await asyncio.sleep(0)
        await asyncio.sleep(1)
        calls[0].cancel()
        await asyncio.sleep(20)
        assert len(pings) == 4 and server.state == "ready"
        with pytest.raises(McpError, match="No answer within 60 s"):
            await calls[1]
        busy = False
        assert await server.call("tools/call", {"name": "t"}, RequestOptions(60)) == {"content": []}
        assert (len(environment.transports), server.restarts) == (2, 1)
        await server.close(0)

    leapt(called())


@pytest.mark.parametrize("given_up", ["abort", "timeout"])
def test_a_server_that_answers_pings_but_no_calls_is_started_again(given_up: str) -> None:
    async def called() -> None:
        server, environment = memory_server(
            lambda method, params: {"tools": [tool("t")]} if method == "tools/list" else silence(method)
        )

        def silence(method: str) -> Any:  # until it is started again
            return {"content": []} if method == "ping" or len(environment.transports) > 1 else None

        async def call() -> Any:
            return await server.call("tools/call", {"name": "t"}, RequestOptions(60))

        await server.start()
        for seconds in (61 if given_up == "timeout" else 1, 1):  # one that the user ends says nothing of the server
            first = asyncio.ensure_future(call())
            await asyncio.wait([first], timeout=seconds)
            first.cancel()
            await asyncio.wait([first])
        await asyncio.sleep(30)
        assert (server.state, len(environment.transports)) == ("ready", 1)
        with pytest.raises(McpError, match="No answer within 60 s"):
            await call()
        assert await call() == {"content": []}
        assert (server.restarts, server.was_ended) == (1, True)
        await server.close(0)

    leapt(called())


@pytest.mark.promise("M03")
def test_a_server_that_keeps_crashing_is_not_started_for_ever(tmp_path: Path) -> None:
    journal = tmp_path / "journal"

    async def crashing() -> None:
        entry = server_entry(tools=["exit"], journal=str(journal))
        async with mcp_session(tmp_path, {"s": entry}, *[("mcp__s__exit", {})] * 7) as run:
            await run.prompt()
            assert run.states[-1] == ("s", "failed")
            assert "failed too often" in run.last.text
            assert journal.read_text().count("started") == 4
            row = await run.agent._handle.restart_mcp_server("s")
            assert (row.state, row.restarts) == ("ready", 3)

    asyncio.run(crashing())


def test_an_allowance_survives_a_server_that_lists_its_tools_in_another_order(tmp_path: Path) -> None:
    names = ["echo", "fail", "exit"]
    asked: list[str] = []

    def allow(question: Any) -> str:
        asked.append(question.title.partition("?")[0])
        return str(question.options[1])  # for the session

    calls = [("mcp__s__fail", {}), ("mcp__s__exit", {}), ("mcp__s__fail", {}), ("mcp__s__exit", {})]
    entry = server_entry(tools=names, shuffled=str(tmp_path / "starts"))
    run = asyncio.run(results(tmp_path, {"s": entry}, *calls, permissions="ask", dialogs=allow))
    assert (tmp_path / "starts").read_text() == "xx"
    assert asked == ["Allow mcp__s__fail", "Allow mcp__s__exit"]
    assert run.called[2].text == "it did not work"


@pytest.mark.promise("M07")
def test_a_tool_that_changes_after_it_was_allowed_is_asked_about_again(tmp_path: Path) -> None:
    tools = ["fail", "change"]
    changing = ("mcp__s__change", {"description": " And deletes."})
    calls = [("mcp__s__fail", {}), ("mcp__s__fail", {}), changing, NEXT_PROMPT, ("mcp__s__fail", {})]
    asked: list[str] = []

    def allow(question: Any) -> str:
        asked.append(question.title.partition("?")[0])
        return str(question.options[1])  # for the session

    async def changed() -> None:
        options: dict[str, Any] = {"permissions": "ask", "dialogs": allow}
        async with mcp_session(tmp_path, {"s": server_entry(tools=tools)}, *calls, **options) as run:
            refreshed = asyncio.Event()
            run.agent.subscribe(lambda event: refreshed.set() if getattr(event, "tools", 0) == 3 else None)
            await run.prompt()
            assert asked == ["Allow mcp__s__fail", "Allow mcp__s__change"]
            await refreshed.wait()
            await run.prompt()
        assert asked[2:] == ["Allow mcp__s__fail"]

    asyncio.run(changed())


@pytest.mark.promise("M16")
def test_annotations_allow_nothing_unless_the_user_trusts_them(tmp_path: Path) -> None:
    asked: list[str] = []

    def deny(question: Any) -> str:
        asked.append(question.title)
        return "Deny"

    async def permitted(entry: dict[str, Any]) -> McpRun:
        return await results(tmp_path, {"s": entry}, ECHO, permissions="ask", dialogs=deny)

    denied = asyncio.run(permitted(server_entry()))
    assert denied.last.is_error and '{"text":"hi"}' in asked[0]
    trusted = asyncio.run(permitted({**server_entry(), "trustAnnotations": True}))
    assert trusted.last.text == "hi" and len(asked) == 1


def test_rules_name_tools_of_servers(tmp_path: Path) -> None:
    rules = {"deny": [{"tool": "mcp__s__*"}], "otherwise": "allow"}
    run = asyncio.run(results(tmp_path, {"s": server_entry()}, ECHO, permissions=rules))
    assert run.last.is_error and "denied" in run.last.text


@pytest.mark.promise("M11")
def test_keys_of_model_providers_are_not_in_the_environment_of_a_server(tmp_path: Path) -> None:
    given = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "ANTHROPIC_API_KEY": "sk-ant-1234567890",
        "COPY": "x sk-ant-1234567890",
        "OTHER_TOKEN": "other-token-12345",
    }
    servers = {
        "s": {**server_entry(tools=["env"]), "env": {"OWN": "yes"}},
        "n": {**server_entry(tools=["env"]), "inheritEnv": "none"},
    }
    run = asyncio.run(results(tmp_path, servers, ("mcp__s__env", {}), ("mcp__n__env", {}), env=given))
    inherited, nothing = (json.loads(called.text) for called in run.called)
    assert inherited["OWN"] == "yes" and inherited["OTHER_TOKEN"] == "other-token-12345"
    assert {"ANTHROPIC_API_KEY", "COPY"}.isdisjoint(inherited)
    assert "sk-ant-1234567890" not in json.dumps(inherited)
    assert "OTHER_TOKEN" not in nothing and nothing["HOME"] == str(tmp_path)


@pytest.mark.promise("M11")
def test_log_messages_go_to_a_file_and_nothing_secret_is_written(tmp_path: Path) -> None:
    run = run_with(tmp_path, fault="noise", entry={"env": {"DEMO_TOKEN": "very-secret-value"}})
    assert run.last.text == "hi"
    log = (tmp_path / "agent" / "mcp.log").read_text()
    assert "debug output 0" in log and "100 lines" in log
    assert 'warning: {"told":"at warning"}' in log and "at info" not in log
    for file in (tmp_path / "agent").rglob("*"):
        assert not file.is_file() or b"very-secret-value" not in file.read_bytes()
