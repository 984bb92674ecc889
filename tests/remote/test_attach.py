"""`tau attach`: the terminal interface on a session of a host."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.attached import attached, run
from support.interface import RULE
from support.served_process import HostProcess
from support.session_places import ID, place
from support.socket_host import SocketHost
from support.terminal import Terminal
from tau import AgentGone, CommandError, RpcClient
from tau.client.client import client_over
from tau.client.opening import remote_line
from tau.records.deltas import TextDelta, ThinkingDelta
from tau.records.dialogs import Select
from tau.records.events import AgentSettled, Event, MessageEnd, MessageStart, MessageUpdate
from tau.records.messages import Assistant, Text, Thinking, Usage
from tau.store.sessions import folder_for
from tau.tui.viewer_feed import ViewerFeed

ASK = {"blocks": [{"tool": "bash", "arguments": {"command": "echo done"}}]}
TAU = [sys.executable, "-P", "-m", "tau"]


def test_prompts_entries_totals_and_the_name_are_those_of_the_host(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        async with attached(served, tmp_path) as (handle, front):
            assert await handle.submit("hi", [], None) == "started"
            await handle.settled()
            assert front.texts()[-1] == "Hello."
            await handle.set_session_name("mine")
            assert handle.state.current().session_name == "mine"
            assert handle.last_assistant_text() == "Hello."
            assert handle.log.message_count == 2
            assert handle.stats().assistant_messages == 1
            assert handle.models.current is not None and handle.models.current.id == "scripted"
            assert (await handle.bash("echo out")).output == "out\n"
            [live] = served.host.sessions
            assert handle.state.current().session_id == live.id
            async with attached(served, tmp_path, live.id) as (again, _):
                assert [type(message).__name__ for message in again.log.messages][:2] == ["User", "Assistant"]

    run(tmp_path, story, {"text": "Hello."})


def test_a_run_in_progress_is_shown_and_can_be_steered_and_aborted(tmp_path: Path) -> None:
    words = [f"w{number} " for number in range(400)]

    async def story(served: SocketHost) -> None:
        async with attached(served, tmp_path) as (first, front):
            await first.submit("go", [], None)
            await front.until(lambda event: type(event).__name__ == "MessageUpdate")
            [live] = served.host.sessions
            async with attached(served, tmp_path, live.id) as (second, other):
                kinds = [type(event).__name__ for event in other.shown]
                assert kinds[:3] == ["AgentStart", "TurnStart", "MessageStart"]
                assert second.state.current().is_streaming
                await second.submit("more", [], "steer")
                assert (await second.clear_queues()).steering == ["more"]
                await second.abort()
                settled = await front.until(lambda event: isinstance(event, AgentSettled))
                assert settled.aborted

    run(tmp_path, story, {"blocks": [{"text": words}], "delayMs": 5})


def test_a_question_is_answered_by_one_terminal_and_ends_at_the_other(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        async with attached(served, tmp_path) as (first, front):
            [live] = served.host.sessions
            async with attached(served, tmp_path, live.id) as (second, other):
                ended: list[str] = []
                second.dialogs.over = ended.append
                await first.submit("do it", [], None)
                question = await other.until(lambda event: isinstance(event, Select))
                await front.until(lambda event: isinstance(event, Select))
                first.dialogs.answer({"id": question.id, "value": question.options[0]})
                await first.settled()
                await second.settled()
                assert ended == [question.id]
                assert first.last_assistant_text() == "ok"

    run(tmp_path, story, ASK, {"text": "ok"}, permissions="ask", answer_timeout_s=30.0)


def test_a_move_of_one_terminal_is_followed_by_the_other(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        async with attached(served, tmp_path) as (first, _):
            await first.submit("hi", [], None)
            await first.settled()
            [live] = served.host.sessions
            async with attached(served, tmp_path, live.id) as (second, _):
                own: list[bool] = []
                followed = asyncio.get_running_loop().create_future()
                first.moved, second.moved = lambda: own.append(True), lambda: followed.set_result(None)
                before = first.log.id
                assert await first.new_session()
                await followed
                assert first.log.id == second.log.id == live.id != before
                assert (first.log.message_count, second.log.message_count, own) == (0, 0, [])

    run(tmp_path, story, {"text": "Hello."})


def test_what_a_host_does_not_offer_is_refused_with_a_sentence(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        async with attached(served, tmp_path) as (handle, _):
            for name in ("permissions", "session_files", "login_control", "trust_control"):
                with pytest.raises(CommandError, match="not for a session of a host"):
                    getattr(handle, name)
            with pytest.raises(CommandError, match="The host has no model 'gpt-9'"):
                await handle.choose_model("gpt-9")

    run(tmp_path, story)


def test_the_screen_follows_when_the_connection_is_lost_and_the_host_cannot_resume(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        async with attached(served, tmp_path) as (handle, front):
            served.forget = True
            await handle.submit("go", [], None)
            await front.until(lambda event: isinstance(event, MessageEnd))
            for live in served.host.sessions:
                live.stream.ring.trim(0)
            served.cut_all()
            await handle.settled()
            kinds = [type(event).__name__ for event in front.shown if isinstance(event, Event)]
            assert kinds.count("AgentStart") == kinds.count("AgentEnd") == kinds.count("AgentSettled") == 1
            assert front.texts()[-1] == "".join(WORDS)

    run(tmp_path, story, {"blocks": [{"text": WORDS}], "delayMs": 2})


WORDS = [f"w{number} " for number in range(100)]


def test_a_call_while_the_client_stops_is_refused(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        client = client_over(remote_line(served.address, open={"memory": True}), RpcClient)
        await client.start()
        stopping = asyncio.ensure_future(client.stop())
        await asyncio.sleep(0)  # it has begun
        with pytest.raises(AgentGone):
            await client.get_state()
        await stopping

    run(tmp_path, story)


def test_the_viewer_knows_an_answer_that_comes_as_deltas_only() -> None:
    feed = ViewerFeed()
    begun = Assistant([], "a", "p", "m", Usage(), "stop", 0)
    for event in (
        MessageStart(begun),
        MessageUpdate(ThinkingDelta(0, "hm")),
        MessageUpdate(TextDelta(1, "one ")),
        MessageUpdate(TextDelta(1, "two")),
    ):
        feed.on_event(event, 0.0)
    assert feed.partial is not None and feed.partial.content == [Thinking("hm"), Text("one two")]
    feed.on_event(MessageEnd(begun), 0.0)
    assert feed.partial is None


def test_a_lost_connection_is_told_and_so_is_its_end(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        async with attached(served, tmp_path) as (handle, _):
            changes: list[bool] = []
            ended = asyncio.get_running_loop().create_future()
            handle.connection_changed, handle.ended = changes.append, ended.set_result
            served.cut_all()
            await handle.set_session_name("still there")
            assert changes[:2] == [False, True]
            for live in served.host.sessions:  # in memory only: it is gone
                await served.host._live.close(live)
            served.cut_all()
            assert "there is no session" in await ended

    run(tmp_path, story)


@pytest.mark.process
def test_plain_mode_is_a_chat_with_the_session_too(tmp_path: Path) -> None:
    with HostProcess(tmp_path, {"text": "From the host."}) as host:
        command = [*TAU, "attach", "--open", "--plain"]
        with Terminal(command, env=host.env, cwd=str(host.cwd), rows=30, cols=100) as terminal:
            terminal.wait("/help lists the commands")
            terminal.type("hello")
            terminal.press("enter")
            terminal.wait("From the host.")
            terminal.type("/quit")
            terminal.press("enter")
            assert terminal.wait_end() == 0


@pytest.mark.process
def test_without_a_terminal_each_line_is_a_prompt_and_the_answers_are_printed(tmp_path: Path) -> None:
    host = HostProcess(tmp_path, {"text": "The first."}, {"text": "The second."})
    (host.socket.parent.parent / "settings.json").write_text('{"bashUpdates": true}')
    with host:

        def attach(*arguments: str, lines: str = "") -> subprocess.CompletedProcess[str]:
            command = [*TAU, "attach", *arguments]
            return subprocess.run(
                command,
                input=lines,
                env=host.env,
                cwd=host.cwd,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )

        done = attach("--open", lines="one\ntwo\n")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.index("The first.") < done.stdout.index("The second.")
        assert "> " not in done.stdout
        shell = attach("--open", lines="!echo only$((1+1))nce\n")
        assert shell.stdout.count("only2nce") == 1
        refused = attach()
        assert refused.returncode == 2
        assert "needs the ID of a session" in refused.stderr


@pytest.mark.process
def test_a_mistake_is_one_clear_line(tmp_path: Path) -> None:
    host = HostProcess(tmp_path)

    def mistake(*arguments: str, cwd: Path = host.cwd) -> str:
        command = [*TAU, "attach", *arguments]
        done = subprocess.run(command, env=host.env, cwd=cwd, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        return done.stderr

    nobody = f"Error: No host listens at {host.url}. Start one with `tau serve`.\n"
    assert [mistake("--open"), mistake("01a1d000")] == [nobody, nobody]
    with host:
        assert mistake("--open", "--model", "sonnt").startswith('Error: Model "sonnt" not found.')
        assert mistake("--open", "--thinking", "hgih") == "Error: thinking: invalid enum value 'hgih'\n"
        assert mistake("--open", "--tools", "red") == "Error: tools: this host does not offer red\n"
        assert mistake("--open", "--sandbox", "foo") == "Error: sandbox: invalid enum value 'foo'\n"
        assert mistake("--open", cwd=Path("/")).startswith("Error: cwd: / is not below a folder")


@pytest.mark.process
def test_tau_attach_at_a_terminal(tmp_path: Path) -> None:
    with HostProcess(tmp_path, {"text": "From the host."}) as host:
        with Terminal([*TAU, "attach", "--open"], env=host.env, cwd=str(host.cwd), rows=30, cols=100) as terminal:
            terminal.wait(RULE)
            terminal.type("hello")
            terminal.press("enter")
            terminal.wait("From the host.")
            terminal.type("/settings compaction.enabled false")
            terminal.press("enter")
            terminal.wait("compaction.enabled: the session runs at a host")
            terminal.type("/name kept")
            terminal.press("enter")
            terminal.wait("• kept")
            terminal.type("/quit")
            terminal.press("enter")
            assert terminal.wait_end() == 0
            terminal.wait("Continue: tau attach ")
        with Terminal([*TAU, "attach"], env=host.env, cwd=str(host.cwd), rows=30, cols=100) as terminal:
            terminal.wait("Session [1-1]:")
            assert "kept" in "\n".join(terminal.screen())
            terminal.type("1")
            terminal.press("enter")
            terminal.wait("From the host.")
            terminal.wait("• kept")


@pytest.mark.process
def test_the_footer_shows_the_folder_in_which_the_session_runs_at_the_host(tmp_path: Path) -> None:
    at = place(tmp_path, "other")
    with HostProcess(tmp_path, args=["--no-tcp", "--root", str(tmp_path)]) as host:
        kept = folder_for(str(at.other), host.socket.parents[1])
        kept.mkdir(parents=True)
        shutil.copy(at.file, kept)

        async def begin() -> str:
            async with RpcClient.connect(host.url, open={}) as agent:
                await agent.prompt("hi")
                await agent.wait_for_idle()
                return (await agent.get_state()).session_id

        async def move(session: str) -> None:
            async with RpcClient.connect(host.url, session=session) as agent:
                assert not (await agent.switch_session(str(kept / at.file.name))).cancelled

        def attach(session: str) -> Terminal:
            return Terminal([*TAU, "attach", session], env=host.env, cwd=str(host.cwd), rows=30, cols=200)

        begun = asyncio.run(begin())
        with attach(begun) as terminal:
            terminal.wait(str(at.start))
            asyncio.run(move(begun))
            terminal.wait(lambda screen: "remember 42" in screen and str(at.other) in screen)
            with attach(ID) as second:
                second.wait(lambda screen: "remember 42" in screen and str(at.other) in screen)
