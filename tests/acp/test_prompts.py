"""Prompts over ACP: what a client is sent while one runs, and how it is answered."""

from __future__ import annotations

import asyncio
import base64
import itertools
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support.acp_peer import EVERYTHING, Failure, Peer, memory_peer
from support.rpc_process import Json

PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
        "1f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
    )
).decode()


def run(
    case: Callable[[Peer, str], Awaitable[None]],
    folder: Path,
    *answers: Json,
    capabilities: Json | None = None,
    **how: Any,
) -> None:
    """Run a case with one open session."""

    async def main() -> None:
        async with memory_peer(folder, *answers, **how) as peer:
            await peer.initialize(capabilities)
            await case(peer, await peer.new(folder / "work"))

    asyncio.run(main())


def tool(name: str, id: str = "call_1", **arguments: Any) -> Json:
    return {"blocks": [{"tool": name, "arguments": arguments, "id": id}]}


def test_text_and_thoughts_are_streamed_with_the_id_of_their_message(tmp_path: Path) -> None:
    async def case(peer: Peer, session: str) -> None:
        assert await peer.prompt(session) == "end_turn"
        (thought,) = peer.updates("agent_thought_chunk")
        first, *_ = chunks = peer.updates("agent_message_chunk")
        assert thought["content"] == {"type": "text", "text": "Hm."}
        assert peer.text() == "Hello"
        assert {one["messageId"] for one in [thought, *chunks]} == {first["messageId"]}
        await peer.prompt(session)
        assert peer.updates("agent_message_chunk")[-1]["messageId"] != first["messageId"]
        assert peer.updates("user_message_chunk") == []

    run(case, tmp_path, {"blocks": [{"thinking": "Hm."}, {"text": ["Hel", "lo"]}]}, {"text": "again"})


def test_an_edit_is_shown_with_its_diff_title_and_place(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    file = tmp_path / "work" / "a.txt"
    file.write_text("one\ntwo\nthree\n")

    async def case(peer: Peer, session: str) -> None:
        assert await peer.prompt(session) == "end_turn"
        updates = [one for one in peer.updates() if one.get("toolCallId") == "call_1"]
        assert [one.get("status") for one in updates] == ["pending", "in_progress", "completed"]
        assert updates[0]["sessionUpdate"] == "tool_call" and updates[0]["title"] == "Edit `a.txt`"
        assert updates[0]["rawInput"]["newText"] == "2"
        call = peer.calls()["call_1"]
        assert call["kind"] == "edit" and call["name"] == "edit" and call["title"] == "Edit `a.txt`"
        assert call["locations"] == [{"path": str(file), "line": 2}]
        assert call["rawInput"] == {"path": "a.txt", "oldText": "two", "newText": "2"}
        assert call["content"] == [
            {"type": "diff", "path": str(file), "oldText": "one\ntwo\nthree\n", "newText": "one\n2\nthree\n"}
        ]

    run(case, tmp_path, tool("edit", path="a.txt", oldText="two", newText="2"), {"text": "done"})


def test_a_new_file_has_no_old_text_and_a_replaced_one_has(tmp_path: Path) -> None:
    async def case(peer: Peer, session: str) -> None:
        await peer.prompt(session)
        path = str(tmp_path / "work" / "new.txt")
        calls = peer.calls()
        assert calls["call_1"]["content"] == [{"type": "diff", "path": path, "oldText": None, "newText": "a\n"}]
        assert calls["call_2"]["content"] == [{"type": "diff", "path": path, "oldText": "a\n", "newText": "b\n"}]
        assert calls["call_1"]["title"] == "Write `new.txt`"

    run(
        case,
        tmp_path,
        tool("write", path="new.txt", content="a\n"),
        tool("write", "call_2", path="new.txt", content="b\n"),
        {"text": "done"},
    )


def test_output_of_a_command_is_text_unless_the_client_takes_terminals(tmp_path: Path) -> None:
    async def plain(peer: Peer, session: str) -> None:
        await peer.prompt(session)
        call = peer.calls()["call_1"]
        assert call["kind"] == "execute" and call["title"] == "echo hello; exit 3" and call["status"] == "failed"
        assert "hello" in call["content"][0]["content"]["text"]
        assert "terminal" not in str(peer.updates())

    async def terminal(peer: Peer, session: str) -> None:
        await peer.prompt(session)
        metas = [one["_meta"] for one in peer.updates() if "_meta" in one]
        output = "".join(one["terminal_output"]["data"] for one in metas if "terminal_output" in one)
        exits = [one["terminal_exit"] for one in metas if "terminal_exit" in one]
        assert output.startswith("hello\n")
        assert exits == [{"terminal_id": "call_1", "exit_code": 3, "signal": None}]
        assert peer.calls()["call_1"]["content"] == [{"type": "terminal", "terminalId": "call_1"}]

    answers = tool("bash", command="echo hello; exit 3"), {"text": "done"}
    run(plain, tmp_path / "plain", *answers)
    run(terminal, tmp_path / "terminal", *answers, capabilities={"_meta": {"terminal_output": True}})


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path) -> None:
    for name in ("plain", "terminal"):
        (tmp_path / name).mkdir()


def test_progress_is_limited_and_the_result_is_whole(tmp_path: Path) -> None:
    async def case(peer: Peer, session: str) -> None:
        began = time.monotonic()
        await peer.prompt(session)
        seconds = time.monotonic() - began
        shown = [one for one in peer.updates("tool_call_update") if "content" in one and "status" not in one]
        assert 0 < len(shown) <= 4 * seconds + 2
        assert "30000\n" in peer.calls()["call_1"]["content"][0]["content"]["text"]

    run(case, tmp_path, tool("bash", command="for i in 1 2 3 4; do seq 30000; sleep .1; done"), {"text": "done"})


def test_ids_of_calls_are_unique_although_models_repeat_theirs(tmp_path: Path) -> None:
    async def case(peer: Peer, session: str) -> None:
        await peer.prompt(session)
        assert {id: one["status"] for id, one in peer.calls().items()} == {
            "call_1": "completed",
            "call_1#2": "completed",
        }

    run(case, tmp_path, tool("bash", command="true"), tool("bash", command="true"), {"text": "done"})


def test_content_blocks_become_text_and_images(tmp_path: Path) -> None:
    async def case(peer: Peer, session: str) -> None:
        blocks = [
            {"type": "text", "text": "Look at "},
            {"type": "resource_link", "uri": "file:///tmp/a%20b.txt", "name": "a b.txt"},
            {"type": "resource", "resource": {"uri": "file:///c.py", "text": "x = 1"}},
            {"type": "image", "data": PNG, "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///d.png", "blob": PNG, "mimeType": "image/png"}},
        ]
        assert (await peer.call("session/prompt", sessionId=session, prompt=blocks))["stopReason"] == "end_turn"
        start = len(peer.received)
        await peer.call("session/load", sessionId=session, cwd=str(tmp_path / "work"), mcpServers=[])
        text, first, second = peer.updates("user_message_chunk", start=start)
        assert text["content"]["text"] == "Look at /tmp/a b.txt\nfile:///c.py\n```\nx = 1\n```\n"
        assert first["content"] == second["content"] == {"type": "image", "data": PNG, "mimeType": "image/png"}

    run(case, tmp_path, {"text": "ok"})


BAD_BLOCKS = {
    "an image that is not base64": ({"type": "image", "data": "!", "mimeType": "image/png"}, "prompt[0].data"),
    "an image of another type": ({"type": "image", "data": PNG, "mimeType": "image/tiff"}, "prompt[0]"),
    "audio": ({"type": "audio", "data": "", "mimeType": "audio/wav"}, "prompt[0]"),
    "an unknown type": ({"type": "smell"}, "prompt[0].type"),
    "a missing field": ({"type": "text"}, "prompt[0].text"),
    "a blob that is no image": ({"type": "resource", "resource": {"uri": "a:b", "blob": "AAAA"}}, "prompt[0].resource"),
    "no text": ({"type": "text", "text": ""}, "prompt"),
}


def test_wrong_blocks_are_refused_by_the_name_of_their_field(tmp_path: Path) -> None:
    async def case(peer: Peer, session: str) -> None:
        for name, (block, field) in BAD_BLOCKS.items():
            with pytest.raises(Failure) as refused:
                await peer.call("session/prompt", sessionId=session, prompt=[block])
            assert refused.value.code == -32602, name
            assert refused.value.data["field"] == field, name
        with pytest.raises(Failure, match="prompt: empty"):
            await peer.call("session/prompt", sessionId=session, prompt=[])
        assert await peer.prompt(session) == "end_turn"

    run(case, tmp_path)


@pytest.mark.promise("K03")
def test_a_failed_answer_is_an_error_and_not_a_normal_end(tmp_path: Path) -> None:
    async def case(peer: Peer, session: str) -> None:
        with pytest.raises(Failure) as failed:
            await peer.prompt(session)
        assert failed.value.code == -32000
        assert "401" in failed.value.message and failed.value.data["status"] == 401
        with pytest.raises(Failure) as failed:
            await peer.prompt(session)
        assert failed.value.code == -32603 and "cannot do that" in failed.value.message
        assert failed.value.data["model"] == "scripted"
        assert await peer.prompt(session) == "refusal"
        assert await peer.prompt(session) == "max_tokens"
        assert await peer.prompt(session) == "end_turn"

    run(
        case,
        tmp_path,
        {"error": {"message": "401 Unauthorized: invalid x-api-key"}},
        {"error": {"message": "400 cannot do that"}},
        {"error": {"message": "The model refused to answer (stop reason: refusal)."}},
        {"text": "cut", "stop": "length"},
        {"text": "ok"},
        settings={"retry": {"enabled": False}},
    )


def test_a_retry_is_a_notice_and_never_a_part_of_the_answer(tmp_path: Path) -> None:
    async def case(peer: Peer, session: str) -> None:
        assert await peer.prompt(session) == "end_turn"
        assert peer.text() == "ok"
        if peer.updates("notice"):
            assert peer.updates("notice")[0]["severity"] == "warning"
        else:
            assert "529" in peer.updates("agent_thought_chunk")[0]["content"]["text"]

    answers = {"error": {"message": "529 overloaded"}}, {"text": "ok"}
    settings = {"retry": {"baseDelayMs": 1}}
    run(case, tmp_path / "plain", *answers, settings=settings)
    run(case, tmp_path / "terminal", *answers, settings=settings, capabilities={})


def test_usage_and_cost_are_sent_and_never_repeated(tmp_path: Path) -> None:
    async def case(peer: Peer, session: str) -> None:
        await peer.prompt(session)
        updates = peer.updates("usage_update")
        assert updates[-1]["used"] > 0 and updates[-1]["cost"]["currency"] == "USD"
        assert all(one != other for one, other in itertools.pairwise(updates))

    run(case, tmp_path, {"text": "ok", "usage": {"input": 100, "output": 20}})


def test_a_budget_ends_a_prompt_with_its_own_reason(tmp_path: Path) -> None:
    async def case(peer: Peer, session: str) -> None:
        assert await peer.prompt(session) == "max_turn_requests"
        assert peer.updates("notice")[-1]["severity"] == "warning"

    run(case, tmp_path, tool("bash", command="true"), args=["--max-turns", "1"])


def test_a_model_that_is_stuck_ends_a_prompt_as_a_budget_does(tmp_path: Path) -> None:
    async def case(peer: Peer, session: str) -> None:
        request = peer.prompt_request(session)
        await peer.send(request)
        result = await peer.response(request)
        assert result["stopReason"] == "max_turn_requests"
        assert result["_meta"]["tau"]["budget"] == {"limit": "stuck", "used": 8, "allowed": 8}
        assert "8 answers in a row" in peer.updates("notice")[-1]["title"]

    run(case, tmp_path, tool("no_such_tool"))


def test_structured_output_is_in_the_answer(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def case(peer: Peer, session: str) -> None:
        request = peer.prompt_request(session, _meta={"tau": {"outputSchema": schema}})
        await peer.send(request)
        result = await peer.response(request)
        assert result["_meta"]["tau"]["output"] == {"n": 5}

    run(case, tmp_path, tool("return_result", n=5))


def test_prompts_wait_their_turn_and_a_message_can_join_a_run(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()

    async def case(peer: Peer, session: str) -> None:
        first, second = peer.prompt_request(session, "one"), peer.prompt_request(session, "two")
        await peer.send(first)
        await peer.update("tool_call_update", status="in_progress")
        steer = peer.prompt_request(session, "hurry", _meta={"tau": {"streamingBehavior": "steer"}})
        await peer.send(second, steer)
        await peer.update("session_info_update")
        (tmp_path / "work" / "go").touch()
        for request in (first, steer, second):
            assert (await peer.response(request))["stopReason"] == "end_turn"
        order = [one["id"] for one in peer.received if "result" in one][-3:]
        assert order.index(first["id"]) < order.index(second["id"])
        assert peer.updates("user_message_chunk") == []
        assert peer.text().endswith("steered.second.")

    waiting = "while [ ! -e go ]; do sleep .02; done"
    run(case, tmp_path, tool("bash", command=waiting), {"text": "steered."}, {"text": "second."})


def test_at_most_sixteen_prompts_wait(tmp_path: Path) -> None:
    async def case(peer: Peer, session: str) -> None:
        requests = [peer.prompt_request(session, str(at)) for at in range(18)]
        await peer.send(*requests)
        with pytest.raises(Failure) as refused:
            await peer.response(requests[17])
        assert refused.value.code == -32600
        await peer.notify("session/cancel", sessionId=session)
        for request in requests[:17]:
            assert (await peer.response(request))["stopReason"] == "cancelled"

    run(case, tmp_path, {"text": "x", "hangAfter": 0})


def test_own_commands_are_answered_without_a_model(tmp_path: Path) -> None:
    async def case(peer: Peer, session: str) -> None:
        commands = (await peer.update("available_commands_update"))["availableCommands"]
        assert {"compact", "name", "export", "session"} <= {one["name"] for one in commands}
        assert await peer.prompt(session, "/name A fine name") == "end_turn"
        assert (await peer.update("session_info_update"))["title"] == "A fine name"
        assert "A fine name" in peer.text()
        assert await peer.prompt(session, "/session") == "end_turn"
        assert session in peer.text()
        assert await peer.prompt(session, "hello") == "end_turn"
        assert peer.text().endswith("from the model")

    run(case, tmp_path, {"text": "from the model"})


def test_a_compaction_is_told_as_the_client_understands_it(tmp_path: Path) -> None:
    async def new(peer: Peer, session: str) -> None:
        await peer.prompt(session, "word " * 50)
        assert await peer.prompt(session, "/compact") == "end_turn"
        states = [one["status"] for one in peer.updates("compaction_update")]
        assert states == ["in_progress", "completed"]

    async def old(peer: Peer, session: str) -> None:
        await peer.prompt(session, "word " * 50)
        assert await peer.prompt(session, "/compact") == "end_turn"
        (call,) = peer.calls().values()
        assert (call["title"], call["kind"], call["status"]) == ("Compact the conversation", "think", "completed")

    settings = {"compaction": {"keepRecentTokens": 1}}
    answers = {"text": "a long answer " * 50}, {"text": "summary"}
    run(new, tmp_path / "plain", *answers, settings=settings, capabilities=EVERYTHING)
    run(old, tmp_path / "terminal", *answers, settings=settings, capabilities={})


def test_pieces_that_wait_are_merged_and_add_up(tmp_path: Path) -> None:
    words = [f"w{at} " for at in range(5000)]

    async def case(peer: Peer, session: str) -> None:
        await peer.prompt(session)
        assert peer.text() == "".join(words)
        assert len(peer.updates("agent_message_chunk")) < len(words) / 10

    run(case, tmp_path, {"blocks": [{"text": words}]})


def test_arguments_of_a_call_are_sent_once_however_many_pieces_they_have(tmp_path: Path) -> None:
    content = "x" * 200_000
    text = '{"path": "big.txt", "content": "' + content + '"}'
    pieces = [text[at : at + 400] for at in range(0, len(text), 400)]

    async def case(peer: Peer, session: str) -> None:
        await peer.prompt(session)
        assert peer.calls()["call_1"]["status"] == "completed"
        assert len(str(peer.updates())) < 1_000_000

    run(case, tmp_path, {"blocks": [{"tool": "write", "arguments": pieces, "id": "call_1"}]}, {"text": "ok"})
