"""Permission questions and dialogs over ACP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support.acp_peer import EVERYTHING, Peer, memory_peer
from support.rpc_process import Json
from support.virtual_clock import Clock, played

OK: Json = {"text": "ok"}


def run(
    case: Callable[[Peer, str], Awaitable[None]],
    folder: Path,
    *answers: Json,
    capabilities: Json | None = None,
    **how: Any,
) -> None:
    async def main() -> None:
        async with memory_peer(folder, *answers, **how) as peer:
            await peer.initialize(capabilities)
            await case(peer, await peer.new(folder / "work"))

    asyncio.run(main())


def tool(name: str, id: str = "call_1", **arguments: Any) -> Json:
    return {"blocks": [{"tool": name, "arguments": arguments, "id": id}]}


def selected(option: str) -> Json:
    return {"outcome": {"outcome": "selected", "optionId": option}}


def test_a_permission_question_shows_the_real_call_and_its_diff_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    file = tmp_path / "work" / "a.txt"
    file.write_text("two\n")
    asked: list[Json] = []

    async def case(peer: Peer, session: str) -> None:
        def answer(params: Json) -> Json:
            asked.append(params)
            assert file.read_text() == "two\n"
            return selected("allow_once")

        peer.answers["session/request_permission"] = answer
        assert await peer.prompt(session) == "end_turn"
        assert file.read_text() == "2\n"
        (params,) = asked
        diff = {"type": "diff", "path": str(file), "oldText": "two\n", "newText": "2\n"}
        call = params["toolCall"]
        assert call["toolCallId"] == "call_1" and call["kind"] == "edit" and call["content"] == [diff]
        assert call["locations"] == [{"path": str(file)}] and call["rawInput"]["newText"] == "2"
        options = [(one["optionId"], one["kind"]) for one in params["options"]]
        assert options == [(kind, kind) for kind in ("allow_once", "allow_always", "reject_once")]
        assert call["title"] == "Edit `a.txt`"
        assert peer.calls()["call_1"]["content"] == [diff]

    run(case, tmp_path, tool("edit", path="a.txt", oldText="two", newText="2"), OK, args=["--permissions", "ask"])


@pytest.mark.promise("K04")
@pytest.mark.parametrize(
    "answer",
    [
        selected("reject_once"),
        selected("yes"),
        selected("allow-once"),
        {"outcome": {"outcome": "cancelled"}},
        {"outcome": {"outcome": "selected"}},
        {"outcome": {"outcome": "selected", "optionId": ["allow_once"]}},
        {"outcome": "allow_once"},
        {},
        [],
        "allow_once",
    ],
    ids=str,
)
def test_only_an_option_that_was_offered_and_allows_allows(answer: Any, tmp_path: Path) -> None:
    async def case(peer: Peer, session: str) -> None:
        peer.answers["session/request_permission"] = lambda params: answer
        assert await peer.prompt(session) == "end_turn"
        assert not (tmp_path / "work" / "no").exists()
        assert peer.calls()["call_1"]["status"] == "failed"

    run(case, tmp_path, tool("bash", command="touch no"), OK, args=["--permissions", "ask"])


def test_a_permission_question_waits_for_the_editor_as_long_as_it_takes(tmp_path: Path) -> None:
    async def story(clock: Clock) -> None:
        async with memory_peer(tmp_path, tool("bash", command="touch yes"), OK, args=["--permissions", "ask"]) as peer:
            await peer.initialize(None)
            session = await peer.new(tmp_path / "work")
            request = peer.prompt_request(session)
            await peer.send(request)
            asked = await peer.until(lambda one: one.get("method") == "session/request_permission")
            clock.let_pass(24 * 3600)
            await peer.call("session/list")
            await peer.reply(asked, selected("allow_once"))
            assert (await peer.response(request))["stopReason"] == "end_turn"
            assert (tmp_path / "work" / "yes").exists()

    played(story)


def test_an_error_and_the_deadline_deny(tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('{"deadline": 0.2}')

    async def case(peer: Peer, session: str) -> None:
        request = peer.prompt_request(session)
        await peer.send(request)
        asked = await peer.until(lambda one: one.get("method") == "session/request_permission")
        assert (await peer.response(request))["stopReason"] == "end_turn"
        await peer.until(lambda one: one.get("params") == {"requestId": asked["id"]})
        await peer.reply(asked, selected("allow_once"))  # too late
        start = len(peer.received)
        second = peer.prompt_request(session)
        await peer.send(second)
        asked = await peer.until(lambda one: one.get("method") == "session/request_permission", start)
        await peer.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32603, "message": "no"}})
        assert (await peer.response(second))["stopReason"] == "end_turn"
        assert not (tmp_path / "work" / "no").exists()

    bash = tool("bash", command="touch no")
    run(case, tmp_path, bash, OK, bash, OK, args=["--permissions", "rules", str(rules)])


def test_allowing_for_the_session_is_remembered_and_rules_are_the_only_mode(tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text("{}")
    count: list[Json] = []

    async def case(peer: Peer, session: str) -> None:
        peer.answers["session/request_permission"] = lambda params: count.append(params) or selected("allow_always")
        await peer.prompt(session)
        assert len(count) == 1
        assert (tmp_path / "work" / "log").read_text() == "x\nx\n"
        result = await peer.call("session/resume", sessionId=session, cwd=str(tmp_path / "work"))
        assert [one["id"] for one in result["modes"]["availableModes"]] == ["rules"]

    bash = tool("bash", command="echo x >> log")
    run(case, tmp_path, bash, bash, OK, args=["--permissions", "rules", str(rules)])


def test_the_mode_can_be_changed_while_a_run_is_under_way(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()

    async def case(peer: Peer, session: str) -> None:
        request = peer.prompt_request(session)
        await peer.send(request)
        await peer.update("tool_call_update", status="in_progress")
        await peer.call("session/set_mode", sessionId=session, modeId="ask")
        peer.answers["session/request_permission"] = lambda params: selected("reject_once")
        (tmp_path / "work" / "go").touch()
        await peer.response(request)
        assert not (tmp_path / "work" / "no").exists()

    wait = tool("bash", command="while [ ! -e go ]; do sleep .02; done")
    run(case, tmp_path, wait, tool("bash", command="touch no"), OK)


EXTENSION = """
async def ask(args, ctx):
    answers = [
        await ctx.ui.select("Which?", ["a", "b"]),
        await ctx.ui.confirm("Sure?", "Really."),
        await ctx.ui.input("Name?", "type it"),
        await ctx.ui.editor("Text?", "draft"),
    ]
    ctx.ui.notify(repr(answers), "info")

def setup(pi):
    pi.register_command("ask", description="Ask everything", handler=ask)
"""


def extension(folder: Path) -> list[str]:
    file = folder / "ask.py"
    file.write_text(EXTENSION)
    return ["-e", str(file)]


def test_dialogs_of_extensions_are_forms(tmp_path: Path) -> None:
    def answer(params: Json) -> Json:
        field = params["requestedSchema"]["properties"]["value"]
        if field.get("enum"):
            return {"action": "accept", "content": {"value": "b"}}
        if field["type"] == "boolean":
            return {"action": "accept", "content": {"value": True}}
        return {"action": "accept", "content": {"value": field.get("default", "Ada")}}

    async def case(peer: Peer, session: str) -> None:
        peer.answers["elicitation/create"] = answer
        commands = (await peer.update("available_commands_update"))["availableCommands"]
        assert "ask" in [one["name"] for one in commands]
        assert await peer.prompt(session, "/ask") == "end_turn"
        assert peer.updates("notice")[-1]["title"] == "['b', True, 'Ada', 'draft']"

    run(case, tmp_path, OK, args=extension(tmp_path))


def test_clients_without_forms_are_asked_as_for_a_permission(tmp_path: Path) -> None:
    async def case(peer: Peer, session: str) -> None:
        peer.answers["session/request_permission"] = lambda params: selected(params["options"][0]["optionId"])
        assert await peer.prompt(session, "/ask") == "end_turn"
        titles = [one["title"] for one in peer.updates("notice")]
        assert titles[-1] == "['a', True, None, None]"
        assert "Name?" in titles[0]

    capabilities = {**EVERYTHING, "elicitation": None}
    run(case, tmp_path, OK, args=extension(tmp_path), capabilities=capabilities)


def test_an_answer_that_does_not_fit_is_no_answer(tmp_path: Path) -> None:
    async def case(peer: Peer, session: str) -> None:
        peer.answers["elicitation/create"] = lambda params: {"action": "accept", "content": {"value": 7}}
        assert await peer.prompt(session, "/ask") == "end_turn"
        assert peer.updates("notice")[-1]["title"] == "[None, False, None, None]"
        peer.answers["elicitation/create"] = lambda params: {"action": "decline"}
        assert await peer.prompt(session, "/ask") == "end_turn"
        assert peer.updates("notice")[-1]["title"] == "[None, False, None, None]"

    run(case, tmp_path, OK, args=extension(tmp_path))


def test_a_question_at_the_start_of_an_extension_comes_after_the_session(tmp_path: Path) -> None:
    file = tmp_path / "early.py"
    file.write_text(
        "async def begin(event, ctx):\n"
        "    ctx.ui.notify(repr(await ctx.ui.confirm('Ready?', '')), 'info')\n"
        "def setup(pi):\n"
        "    pi.on('session_start', begin)\n"
    )

    async def main() -> None:
        async with memory_peer(tmp_path, OK, args=["-e", str(file)]) as peer:
            await peer.initialize()
            peer.answers["elicitation/create"] = lambda params: {"action": "accept", "content": {"value": True}}
            session = await peer.new(tmp_path / "work")
            await peer.update("notice", title="True")
            assert await peer.prompt(session) == "end_turn"

    asyncio.run(main())
