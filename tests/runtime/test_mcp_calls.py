"""Tools, resources and prompts of MCP servers over real pipes, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from support.mcp_server import server_entry
from support.mcp_session import NEXT_PROMPT, mcp_session, results
from tau.errors import CommandError
from tau.records.messages import User

ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])
KINDS = ["echo", "wait", "image", "audio", "structured", "resource", "long", "fail", "reject", "roots"]


@ERAS
def test_results_of_every_kind_reach_the_model(tmp_path: Path, era: str) -> None:
    entry = server_entry(era=era, tools=KINDS)
    calls = [(f"mcp__s__{name}", {"bytes": 80_000} if name == "long" else {"text": "hi"}) for name in KINDS]
    run = asyncio.run(results(tmp_path, {"s": entry}, *calls))
    found = {called.name.removeprefix("mcp__s__"): called for called in run.called}
    assert found["echo"].text == "hi" and found["echo"].details == {"mcp": {"server": "s", "tool": "echo"}}
    assert found["wait"].text == "waited" and run.progress[0] == "1/1 working"
    assert found["image"].images == 1
    sound = found["audio"].text.rpartition(": ")[2].rstrip("]")
    assert Path(sound).read_bytes() == b"RIFF sound" and Path(sound).stat().st_mode & 0o077 == 0
    assert found["structured"].text == '{"answer":42}'
    assert found["structured"].details["mcp"]["structuredContent"] == {"answer": 42}
    assert "[demo://text]\ninside" in found["resource"].text and "demo://more" in found["resource"].text
    whole = Path(found["long"].details["mcp"]["file"])
    assert len(found["long"].text) < 52_000 and str(whole) in found["long"].text
    assert whole.stat().st_size == 80_000 // 13 * 13
    assert found["fail"].is_error and found["fail"].text == "it did not work"
    assert found["fail"].details == {"mcp": {"server": "s", "tool": "fail"}}
    assert found["reject"].is_error and found["reject"].text == "no such thing"
    assert json.loads(found["roots"].text)["roots"][0]["uri"] == f"file://{tmp_path}/work"
    assert run.states == [("s", "starting"), ("s", "ready")]


def test_arguments_are_converted_and_filled_in_and_unknown_ones_refused(tmp_path: Path) -> None:
    properties = {"path": {"type": "array", "items": {"type": "string"}}, "kind": {"type": "string", "default": "png"}}
    schema = {"type": "object", "properties": properties, "required": ["kind"], "additionalProperties": False}
    entry = server_entry(tools=["shot"], schemas={"shot": schema})
    calls = [("mcp__s__shot", arguments) for arguments in ({"path": 5}, {"dryRum": True})]
    good, wrong = asyncio.run(results(tmp_path, {"s": entry}, *calls)).called
    assert json.loads(good.text) == {"name": "shot", "arguments": {"path": ["5"], "kind": "png"}}
    assert wrong.is_error and "dryRum: unknown field" in wrong.text


@pytest.mark.parametrize("text", [{"text": "short"}, {}], ids=["with text", "without"])
def test_large_structured_content_and_metadata_are_in_files_instead_of_the_details(
    tmp_path: Path, text: dict[str, str]
) -> None:
    call = ("mcp__s__structured", {"bytes": 1024 * 1024, **text})
    [found] = asyncio.run(results(tmp_path, {"s": server_entry(tools=["structured"])}, call)).called
    notes = [note.partition(",")[0] for note in found.details["mcp"]["notes"]]
    assert notes == ["structuredContent is left out", "_meta is left out"]
    assert set(found.details["mcp"]) == {"server", "tool", "notes"} | (set() if text else {"file"})
    assert len(found.text) < 52_000
    meta, *rest = found.text.split("\n")
    assert meta.startswith("[_meta, 1.0MB: ")
    assert json.loads(Path(meta[:-1].rpartition(": ")[2]).read_text()) == {"m": "y" * 1024 * 1024}
    if text:
        structured = Path(rest[0][:-1].rpartition(": ")[2])
        assert rest[0].startswith("[structuredContent, 1.0MB: ") and rest[1:] == ["short"]
        assert json.loads(structured.read_text()) == {"answer": "x" * 1024 * 1024}
    else:
        whole = Path(found.details["mcp"]["file"]).read_text().splitlines()
        assert json.loads(whole[1]) == {"answer": "x" * 1024 * 1024}


@ERAS
def test_a_question_of_a_server_is_a_dialog_per_field(tmp_path: Path, era: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": 2, "title": "How many"},
            "color": {"type": "string", "enum": ["red", "blue"]},
            "sure": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
            "note": {"type": "string"},
        },
        "required": ["count", "color", "sure"],
    }
    asked: list[str] = []
    answers = iter(["1", "7", "blue", "yes", "y", "done", ""])

    def answer(question: Any) -> str:
        asked.append(question.title)
        return next(answers)

    calls = [("mcp__s__ask", {"schema": schema})]
    run = asyncio.run(results(tmp_path, {"s": server_entry(era=era, tools=["ask"])}, *calls, dialogs=answer))
    content = {"count": 7, "color": "blue", "sure": True, "tags": ["y"]}
    assert json.loads(run.last.text) == {"action": "accept", "content": content}
    assert asked[0].startswith("s: What?\nHow many") and "must be" in asked[1]


@pytest.mark.promise("M15")
@ERAS
def test_questions_that_cannot_or_must_not_be_asked_are_declined(tmp_path: Path, era: str) -> None:
    entry = {"s": server_entry(era=era, tools=["ask"])}
    secret = {"type": "object", "properties": {"password": {"type": "string"}}}
    plain = {"type": "object", "properties": {"name": {"type": "string"}}}

    def never(question: Any) -> str:
        raise AssertionError("asked")

    declined = asyncio.run(results(tmp_path, entry, ("mcp__s__ask", {"schema": secret}), dialogs=never))
    assert json.loads(declined.last.text) == {"action": "decline"}
    nobody = asyncio.run(results(tmp_path, entry, ("mcp__s__ask", {"schema": plain})))
    assert json.loads(nobody.last.text) == {"action": "decline"}
    cancelled = asyncio.run(results(tmp_path, entry, ("mcp__s__ask", {"schema": plain}), dialogs=lambda question: None))
    assert json.loads(cancelled.last.text) == {"action": "cancel"}
    url = ("mcp__s__ask", {"url": "https://example.com/sign-in?x=1"})
    shown: list[str] = []

    def agree(question: Any) -> bool:
        shown.append(question.message)
        return True

    accepted = asyncio.run(results(tmp_path, entry, url, dialogs=agree))
    assert json.loads(accepted.last.text) == {"action": "accept"}
    assert "https://example.com/sign-in?x=1" in shown[0]


@pytest.mark.promise("M13")
def test_a_call_is_cancelled_when_the_run_is_aborted(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    entry = server_entry(tools=["silent", "echo"], journal=str(journal))

    async def aborted() -> list[dict[str, Any]]:
        calls = [("mcp__s__silent", {}), ("mcp__s__echo", {"text": "still there"})]
        async with mcp_session(tmp_path, {"s": entry}, *calls) as run:
            prompt = asyncio.ensure_future(run.prompt())
            while not journal.exists() or '"tools/call"' not in journal.read_text():
                await asyncio.sleep(0.01)
            await run.agent.abort()
            await asyncio.wait({prompt})
            await run.prompt()
            assert run.last.text == "still there"
        return [json.loads(line) for line in journal.read_text().splitlines() if line.startswith("{")]

    messages = asyncio.run(aborted())
    call = next(message for message in messages if message.get("method") == "tools/call")
    cancelled = [message for message in messages if message.get("method") == "notifications/cancelled"]
    assert [message["params"]["requestId"] for message in cancelled] == [call["id"]]
    assert sum(message.get("method") == "initialize" for message in messages) == 1


@pytest.mark.promise("M13")
def test_a_timeout_ends_the_call_and_not_the_server(tmp_path: Path) -> None:
    entry = {**server_entry(tools=["silent", "wait", "pid"]), "timeout": 0.3, "maxTimeout": 20}
    calls = [
        ("mcp__s__pid", {}),
        ("mcp__s__silent", {}),
        ("mcp__s__wait", {"steps": 5, "seconds": 0.15}),  # progress starts the time again
        ("mcp__s__pid", {}),
    ]
    run = asyncio.run(results(tmp_path, {"s": entry}, *calls))
    before, silent, wait, after = run.called
    assert silent.is_error and "No answer within 0.3 s" in silent.text
    assert wait.text == "waited"
    assert before.text == after.text


@ERAS
def test_a_changed_list_counts_from_the_next_model_call(tmp_path: Path, era: str) -> None:
    entry = server_entry(era=era, tools=["change", "wait"])

    async def changed() -> None:
        calls = [("mcp__s__change", {}), ("mcp__s__added", {})]
        async with mcp_session(tmp_path, {"s": entry}, *calls) as run:
            ready = asyncio.Event()
            run.agent.subscribe(lambda event: ready.set() if getattr(event, "tools", 0) == 3 else None)
            prompt = asyncio.ensure_future(run.prompt())
            await ready.wait()
            await prompt
            assert run.called[0].name == "mcp__s__change"
            await run.prompt("again")
            assert "mcp__s__added" in await tool_names(run)

    asyncio.run(changed())


async def tool_names(run: Any) -> list[str]:
    return [name for name in run.agent._handle.active_tools() if "mcp" in name or name == "tool_search"]


def test_many_tools_are_found_by_search_loaded_and_called(tmp_path: Path) -> None:
    entry = server_entry(toolCount=300, description="Does something useful. " * 10)

    async def searched() -> None:
        calls = [
            ("tool_search", {"query": "select:mcp__s__t77,mcp__s__t5"}),
            ("mcp__s__t77", {"a": 1}),
            ("mcp__s__t200", {}),
        ]
        async with mcp_session(tmp_path, {"s": entry}, *calls) as run:
            await run.prompt()
            search, loaded, unloaded = run.called
            assert "mcp__s__t77: Does something" in search.text
            assert json.loads(loaded.text) == {"name": "t77", "arguments": {"a": 1}}
            assert not unloaded.is_error  # a tool that was not loaded may be called too
            assert await tool_names(run) == ["tool_search", "mcp__s__t77", "mcp__s__t5", "mcp__s__t200"]
            prompt = await run.agent.system_prompt()
            assert "s (300)" in prompt and "t77" not in prompt

    asyncio.run(searched())


def test_loaded_tools_come_back_when_the_session_is_resumed(tmp_path: Path) -> None:
    servers = {"s": server_entry(toolCount=300, description="Does something useful. " * 10)}
    calls = [("tool_search", {"query": "select:mcp__s__t9"})]

    async def resumed() -> None:
        async with mcp_session(tmp_path, servers, *calls, session=True) as run:
            await run.prompt()
        async with mcp_session(tmp_path, servers, session=True, resume=True) as run:
            await run.prompt()
            assert await tool_names(run) == ["tool_search", "mcp__s__t9"]

    asyncio.run(resumed())


def test_resources_and_prompts(tmp_path: Path) -> None:
    entry = server_entry(resources=True, prompts=True)

    async def used() -> None:
        calls = [("list_mcp_resources", {}), ("read_mcp_resource", {"server": "s", "uri": "demo://one"})]
        async with mcp_session(tmp_path, {"s": entry}, *calls) as run:
            await run.prompt()
            listed, read = run.called
            assert "demo://one" in listed.text and "ui://" not in listed.text
            assert "content of demo://one" in read.text
            names = [(command.name, command.source) for command in await run.agent.commands()]
            assert ("mcp__s__write", "mcp") in names
            await run.prompt("/mcp__s__write 'the sea' tone=sad")
            prompts = [message for message in run.agent.messages() if isinstance(message, User)]
            assert getattr(prompts[-1].content[0], "text", "") == "Write about the sea, sad."
            with pytest.raises(CommandError, match="needs: topic"):
                await run.prompt("/mcp__s__write")

    asyncio.run(used())


def test_long_lists_of_resources_have_whole_addresses_and_the_next_cursor(tmp_path: Path) -> None:
    entry = server_entry(resources=True, manyResources=250)

    async def listed() -> None:
        async with mcp_session(tmp_path, {"s": entry}, ("list_mcp_resources", {})) as run:
            await run.prompt()
            lines = run.last.text.splitlines()
            assert f"s: demo://{'x' * 300}/0" in lines
            assert lines[-2].endswith("more were left out]") and lines[-1] == 's: there are more; cursor "more"'

    asyncio.run(listed())


def test_hidden_tools_and_flags_leave_tools_out(tmp_path: Path) -> None:
    entry = {**server_entry(tools=["echo", "fail", "pid"]), "toolExposure": {"fail": "hidden", "pid": "deferred"}}

    async def offered() -> None:
        async with mcp_session(tmp_path, {"s": entry}, ("mcp__s__fail", {})) as run:
            await run.prompt()
            assert run.last.is_error and "not found" in run.last.text
            assert await tool_names(run) == ["mcp__s__echo", "tool_search"]

    asyncio.run(offered())


def test_the_same_tools_are_offered_from_the_cache_without_a_start(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    servers = {
        "b": server_entry(tools=["echo", "pid"], journal=str(journal)),
        "a": server_entry(tools=["wait", "fail"], journal=str(journal)),
    }

    async def offered() -> list[str]:
        async with mcp_session(tmp_path, servers) as run:
            await run.prompt()
            return await tool_names(run)

    first = asyncio.run(offered())
    starts = journal.read_text().count("started")
    assert asyncio.run(offered()) == first == ["mcp__a__wait", "mcp__a__fail", "mcp__b__echo", "mcp__b__pid"]
    assert (starts, journal.read_text().count("started")) == (2, 2)
    for file in (tmp_path / "agent" / "cache" / "mcp").iterdir():
        assert file.stat().st_mode & 0o077 == 0
        file.write_text("{broken")
    assert asyncio.run(offered()) == first
    assert journal.read_text().count("started") == 4


def test_an_idle_server_is_stopped_and_started_by_the_next_call(tmp_path: Path) -> None:
    entry = {**server_entry(tools=["pid"]), "idleTimeout": 0.05}

    async def idle() -> None:
        calls = [("mcp__s__pid", {}), NEXT_PROMPT, ("mcp__s__pid", {})]
        async with mcp_session(tmp_path, {"s": entry}, *calls) as run:
            states, changed = list[str](), asyncio.Event()

            def on_event(event: object) -> None:
                if state := getattr(event, "state", ""):
                    states.append(state)
                    changed.set()

            run.agent.subscribe(on_event)
            await run.prompt()
            while states[-1:] != ["stopped"]:  # it may have been stopped before the prompt as well
                changed.clear()
                await changed.wait()
            await run.prompt()
            assert len({called.text for called in run.called}) == 2

    asyncio.run(idle())


def test_sessions_of_one_process_share_a_server(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    servers = {"s": server_entry(tools=["pid", "change"], journal=str(journal))}

    async def shared() -> None:
        calls = [("mcp__s__pid", {}), NEXT_PROMPT, ("mcp__s__pid", {})]
        async with mcp_session(tmp_path, servers, *calls) as second:
            async with mcp_session(tmp_path, servers, ("mcp__s__pid", {})) as first:
                await asyncio.gather(first.prompt(), second.prompt())
                assert first.last.text == second.last.text
            assert "eof" not in journal.read_text()
            await second.prompt()  # the first session has ended, and the server lives on
            assert {called.text for called in second.called} == {first.last.text}
        other = {"s": {**servers["s"], "timeout": 5}}
        async with mcp_session(tmp_path, other, ("mcp__s__pid", {})) as third:
            await third.prompt()
            assert third.last.text != first.last.text

    asyncio.run(shared())
    assert journal.read_text().count("started") == 2
