"""Every member of a session handle, as a terminal has it that is attached to a host: it acts there, or it refuses.

The names come from the class. A new member fails here until somebody has put it into one of the groups, with a story
if it acts on the host.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.attached import Front, attached, run
from support.members import members, use
from support.socket_host import SocketHost
from tau import CommandError
from tau.core.agent.structured_output import OutputSchema
from tau.records.dialogs import Select
from tau.records.entries import CommandKey
from tau.records.events import AutoRetryStart, BashUpdate, QueueUpdate, StructuredOutput
from tau.records.messages import Attachment, Image, Text
from tau.records.setting_declarations import setting_declarations
from tau.records.settings import TERMINAL_SETTINGS
from tau.runtime.app.handle import SessionHandle
from tau.runtime.app.model_lists import ModelLists
from tau.runtime.app.remote_handle import OF_THE_TERMINAL, READ_FROM_THE_COPY, RemoteHandle, RemoteModelLists
from tau.runtime.extensions.hooks import Destination

ROOT = Path(__file__).parents[2]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
SLOW = {"blocks": [{"text": [f"w{number} " for number in range(4000)]}], "delayMs": 5}
FAILED = {"error": {"message": "529 overloaded"}}
ASK = {"blocks": [{"tool": "bash", "arguments": {"command": "echo done"}}]}
RESULT = {"blocks": [{"tool": "return_result", "arguments": {"size": 3}}]}
Story = Callable[[RemoteHandle, Front, SessionHandle], Awaitable[None]]

# Refused: the protocol of a host has no command for it, or nobody needs it at a terminal.
REFUSED = set(
    """
    abort_run abort_start actions all_tools append_entry append_message budget call_tool denials dialect
    effective_system_prompt export_jsonl fork_at host_tools login_control mcp_tool on_file_change on_move
    on_tool_defect permissions preview_change reload request_exit request_reload retry_now runs send_custom
    send_user_message session_files set_budget set_label set_scoped_models set_tools spent system_prompt trust_control
    wait_for_commands write_bug_report
    """.split()
)
# Defined for this terminal: leaving the session does not end it, and extensions run at the host.
OWN = {"close", "close_dialogs", "has_extensions", "preload", "resume_command", "session_folder", "start"}
STORIES: dict[str, tuple[Story, list[Any], dict[str, Any]]] = {}


def acts(*names: str, answers: Any = ({"text": "Hello."},), **changes: Any) -> Callable[[Story], Story]:
    """The story shows that these members act on the session of the host."""

    def register(story: Story) -> Story:
        STORIES.update({name: (story, list(answers), changes) for name in names})
        return story

    return register


@acts("submit", "settled", "wait_idle", answers=[{"text": "Hello."}, RESULT])
async def prompts(handle: RemoteHandle, front: Front, host: SessionHandle) -> None:
    document = Attachment("document", "notes.txt", "text/plain", "aGVsbG8=")
    image = Image(PIXEL, "image/png")
    blocks = [Text("\n\n[Document: notes.txt]\nhello", is_document=True), image]
    assert await handle.submit("look", blocks, None, attachments=[document]) == "started"
    await handle.settled()
    assert not host.runs.busy
    [user, _] = host.log.messages
    assert [block.text for block in user.content if isinstance(block, Text)] == ["look", blocks[0].text]
    assert [block for block in user.content if isinstance(block, Image)] == [image]
    await handle.submit("shape", [], None, output_schema=OutputSchema({"type": "object"}))
    await handle.wait_idle()
    assert not host.runs.busy
    [result] = [event for event in front.shown if isinstance(event, StructuredOutput)]
    assert result.value == {"size": 3}
    for refused in (
        partial(handle.submit, "a", [Text("b")], None),
        partial(handle.submit, "a", [], None, key=CommandKey("k", "c")),
        partial(handle.submit, "a", [], "steer", queue_only=True, trace_parent="00-1-2-01"),
    ):
        with pytest.raises(CommandError, match="not for a session of a host"):
            await refused()


@acts("abort", "clear_queues", "queues", answers=[SLOW])
async def queues(handle: RemoteHandle, front: Front, host: SessionHandle) -> None:
    await handle.submit("go", [], None)
    await front.until(lambda event: type(event).__name__ == "MessageUpdate")
    assert await handle.submit("more", [], "steer") == "queued"
    assert await handle.submit("later", [], "follow_up", queue_only=True) == "queued"
    await front.until(lambda event: isinstance(event, QueueUpdate) and event.follow_up == ["later"])
    assert handle.queues == host.queues
    assert handle.state.current().pending_message_count == 2
    assert (await handle.clear_queues()).steering == ["more"]
    assert host.queues.steering == []
    await handle.abort()
    assert not host.runs.busy


@acts("abort_compaction", answers=[SLOW])
async def compaction_is_aborted(handle: RemoteHandle, front: Front, host: SessionHandle) -> None:
    await handle.submit("go", [], None)
    await handle.abort_compaction()
    assert not host.runs.busy


@acts("abort_retry", "retry_attempt", answers=[FAILED], settings={"retry": {"baseDelayMs": 600_000}})
async def retries(handle: RemoteHandle, front: Front, host: SessionHandle) -> None:
    await handle.submit("go", [], None)
    await front.until(lambda event: isinstance(event, AutoRetryStart))
    assert handle.retry_attempt == host.retry_attempt == 1
    await handle.abort_retry()
    await handle.settled()
    assert (handle.retry_attempt, host.retry_attempt, host.runs.busy) == (0, 0, False)


@acts("compact")
async def compact(handle: RemoteHandle, front: Front, host: SessionHandle) -> None:
    with pytest.raises(CommandError) as there:
        await host.compact(None)
    with pytest.raises(CommandError, match=re.escape(str(there.value))):
        await handle.compact(None)


@acts("bash", "abort_bash", settings={"bashUpdates": True})
async def shell(handle: RemoteHandle, front: Front, host: SessionHandle) -> None:
    assert (await handle.bash("echo out")).output == "out\n"
    assert host.log.message_count == 1
    running = asyncio.ensure_future(handle.bash("echo begun; sleep 600"))
    await front.until(lambda event: isinstance(event, BashUpdate) and "begun" in event.delta)
    handle.abort_bash()
    assert (await running).cancelled


@acts("answer_dialog", "dialogs", answers=[ASK, {"text": "ok"}], permissions="ask", answer_timeout_s=30.0)
async def dialogs(handle: RemoteHandle, front: Front, host: SessionHandle) -> None:
    await handle.submit("do it", [], None)
    question = await front.until(lambda event: isinstance(event, Select))
    handle.answer_dialog({"id": question.id, "value": question.options[0]})
    await handle.settled()
    assert handle.dialogs.deadline(question.id) is None
    assert host.last_assistant_text() == "ok"


@acts("set_model", "choose_model", "cycle_model", "set_thinking_level", "cycle_thinking_level", "model_lists")
async def models(handle: RemoteHandle, front: Front, host: SessionHandle) -> None:
    assert await handle.model_lists.reload() == []
    assert handle.models.available == host.models.available
    other = host.models.available[0]
    await handle.set_model(other.provider, other.id)
    assert host.models.current is not None and host.models.current.id == other.id
    await handle.choose_model("scripted")
    assert host.models.current.id == "scripted"
    cycled = await handle.cycle_model()
    assert cycled is None or cycled[0] == host.models.current
    with pytest.raises(CommandError, match="backward"):
        await handle.cycle_model(backward=True)
    assert await handle.set_thinking_level("high") == host.models.level == handle.models.level
    await handle.cycle_thinking_level()
    assert handle.models.level == host.models.level
    assert {name for name in dir(ModelLists) if not name.startswith("_")} <= set(dir(RemoteModelLists))


@acts("set_queue_mode", "set_auto_compaction", "set_auto_retry", "state")
async def modes(handle: RemoteHandle, front: Front, host: SessionHandle) -> None:
    await handle.set_queue_mode("steer", "all")
    await handle.set_queue_mode("follow_up", "all")
    await handle.set_auto_compaction(False)
    await handle.set_auto_retry(False)
    assert not (host.settings.compaction.enabled or host.settings.retry.enabled)
    assert handle.state.current() == host.state.current()
    assert handle.state.masked() == host.state.masked()
    assert handle.state.file() == host.state.file()
    assert (handle.state.current().steering_mode, handle.state.current().auto_compaction_enabled) == ("all", False)


@acts("settings_control")
async def settings(handle: RemoteHandle, front: Front, host: SessionHandle) -> None:
    control = handle.settings_control
    shown = {state.declaration.place for state in control.states()}
    assert "theme" in shown and "terminal.reflow" in shown and "compaction.enabled" not in shown
    with pytest.raises(CommandError, match=r"compaction\.enabled: the session runs at a host"):
        await control.change("compaction.enabled", False)
    assert await control.change("resumeLines", 7) == ""
    assert handle.settings.resume_lines == 7


@acts("active_tools", "listed_tools", "commands", "mcp_servers", "restart_mcp_server", answers=[{"text": "a"}])
async def tools(handle: RemoteHandle, front: Front, host: SessionHandle) -> None:
    assert handle.active_tools() == host.active_tools() == ["read", "bash"]
    assert await handle.listed_tools() == await host.listed_tools()
    assert await handle.commands() == await host.commands()
    assert await handle.mcp_servers() == await host.mcp_servers()
    with pytest.raises(CommandError, match="No MCP server is configured"):
        await handle.restart_mcp_server("nobody")
    host.set_tools(["read"])
    await handle.submit("go", [], None)
    await handle.settled()
    await front.until(lambda event: handle.active_tools() == ["read"] or None)


@acts("new_session", "switch_session", "fork", "clone", "navigate", "set_session_name", "sessions", "export_html")
async def moves(handle: RemoteHandle, front: Front, host: SessionHandle) -> None:
    await handle.submit("hi", [], None)
    await handle.settled()
    await handle.set_session_name("mine")
    assert host.tree.name == handle.state.current().session_name == "mine"
    assert await handle.sessions(everywhere=True) == await host.sessions(everywhere=True)
    first = str(host.log.path)
    path = await handle.export_html(None)
    assert Path(host.cwd, path).is_file()
    user = host.log.tree.id(next(iter(host.log.tree.of_kind("message"))))
    ids = [host.log.id]
    for move in (
        partial(handle.fork, user),
        partial(handle.switch_session, first),
        handle.clone,
        handle.new_session,
    ):
        assert await move()
        assert handle.log.id == host.log.id != ids[-1]
        ids.append(host.log.id)
    assert ids[2] == ids[0]
    await handle.switch_session(first)
    reply = await handle.navigate(Destination(user))
    assert reply.leaf_id == host.tree.leaf_id == handle.tree.leaf_id


def test_every_member_of_a_handle_is_in_one_group() -> None:
    groups = [set(STORIES), set(READ_FROM_THE_COPY), set(OF_THE_TERMINAL), OWN, REFUSED]
    assert sorted(name for group in groups for name in group) == sorted(members(SessionHandle) | {"state"})


@pytest.mark.parametrize("name", sorted(STORIES))
def test_a_member_acts_on_the_session_of_the_host(name: str, tmp_path: Path) -> None:
    tell, answers, changes = STORIES[name]

    async def main(served: SocketHost) -> None:
        opening = {"memory": tell is not moves, **({"tools": ["read", "bash"]} if tell is tools else {})}
        async with attached(served, tmp_path, **opening) as (handle, front):
            [live] = served.host.sessions
            assert {name for name in vars(handle) if not name.startswith("_")} >= {"state"}
            await tell(handle, front, live.handle)

    run(tmp_path, main, *answers, **changes)


def test_members_of_the_copy_say_what_the_session_at_the_host_says(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        async with attached(served, tmp_path) as (handle, _):
            [live] = served.host.sessions
            await handle.submit("hi", [], None)
            await handle.settled()
            host = live.handle
            read: dict[str, Callable[[SessionHandle], Any]] = {
                "context_usage": lambda one: one.context_usage(),
                "entries_after": lambda one: len(one.entries_after(None)),
                "index_entries": lambda one: list(one.index_entries()),
                "last_assistant_text": lambda one: one.last_assistant_text(),
                "log": lambda one: list(one.log.messages),
                "models": lambda one: (one.models.current, one.models.level, one.models.available),
                "stats": lambda one: one.stats(),
                "tree": lambda one: one.tree.leaf_id,
            }
            assert set(read) == READ_FROM_THE_COPY
            for name, facts in read.items():
                assert facts(handle) == facts(host), name

    run(tmp_path, story, {"text": "Hello."})


def test_what_a_host_does_not_offer_is_refused(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        async with attached(served, tmp_path) as (handle, _):
            for name in sorted(REFUSED):
                with pytest.raises(CommandError, match=f"^{name.replace('_', ' ').capitalize()}: not for a session"):
                    await use(handle, name)

    run(tmp_path, story)


def test_every_setting_that_the_terminal_reads_can_be_changed_while_it_is_attached() -> None:
    places = {declaration.place for declaration in setting_declarations()}
    read = set[str]()
    for file in (*ROOT.glob("src/tau/tui/*.py"), *ROOT.glob("src/tau/screen/**/*.py")):
        for name in re.findall(r"settings\.([a-z_]+(?:\.[a-z_]+)?)", file.read_text()):
            read.add(re.sub(r"_([a-z])", lambda found: found[1].upper(), name))
    of_the_session = {"defaultModel", "defaultProvider", "defaultThinkingLevel"}
    wanted = {place for place in places & read if not place.startswith("terminal.")} - of_the_session
    assert wanted <= set(TERMINAL_SETTINGS) <= {place.partition(".")[0] for place in places} | places
    assert len(wanted) > 10
