"""Extensions that mean harm, or behave as if: what they send, keep and leave harms nobody else."""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support.in_process_session import House, play
from support.rpc_process import Agent, Json, is_gone, of, texts
from tau.extension_api.messages import Load, Register, Trouble, Unregister
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.runtime.extensions import limits
from tau.runtime.extensions.connection import ExtensionConnection, Receiver
from tau.runtime.extensions.process import MAX_UNREAD_BYTES, ExtensionProcess
from tau.store.sessions import open_session
from tau.tools import Tool

WITHIN = 60.0
MIB = 1 << 20


class Line:
    """A transport in memory; the test is the extension."""

    def __init__(self) -> None:
        self.killed = False
        self.receiver: Receiver

    async def start(self, receiver: Receiver) -> None:
        self.receiver = receiver
        asyncio.get_running_loop().call_soon(self.say, {"type": "loaded"})

    def send(self, message: bytes) -> None:
        pass

    def answer_sync(self, message: bytes) -> None:
        pass

    @property
    def peers(self) -> object:
        return self

    def kill(self) -> None:
        if not self.killed:
            self.killed = True
            asyncio.get_running_loop().call_soon(self.receiver.closed, "It was killed.")

    def say(self, message: Any) -> None:
        self.receiver.received(message if isinstance(message, bytes) else json.dumps(message).encode())


class Owner:
    """Performs an action when it is allowed to: `slow` ones never end."""

    def __init__(self) -> None:
        self.registered_count = 0
        self.troubles: list[str] = []
        self.ended_by = ""

    def registered(self, message: Register) -> None:
        self.registered_count += 1

    def unregistered(self, message: Unregister) -> None:
        self.registered_count -= 1

    def report_trouble(self, message: Trouble) -> None:
        self.troubles.append(message.error)

    async def perform(self, name: str, params: dict[str, Any]) -> Any:
        if name == "slow":
            await asyncio.Event().wait()

    def ended(self, why: str, *, reported: bool) -> None:
        self.ended_by = why


def converse(story: Callable[[Line, Owner], Awaitable[None]]) -> Owner:
    async def scene() -> Owner:
        line, owner = Line(), Owner()
        load = Load("/x.py", "/", "/", "rpc", True, {}, {})
        connection = ExtensionConnection(load, line, owner, dict)
        await connection.start(WITHIN)
        await story(line, owner)
        for _ in range(3):
            await asyncio.sleep(0)
        return owner

    return asyncio.run(scene())


def register(target: int, **spec: Any) -> Json:
    return {"type": "register", "kind": "tool", "target": target, "name": "x", "spec": spec}


def test_an_extension_that_registers_without_end_is_ended() -> None:
    async def story(line: Line, owner: Owner) -> None:
        for target in range(limits.MAX_REGISTRATIONS + 1):
            line.say(register(target))

    owner = converse(story)
    assert owner.ended_by == "It registered something more than 2000 times, or 64 MiB."
    assert owner.registered_count == limits.MAX_REGISTRATIONS


def test_an_extension_that_registers_too_much_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_REGISTRATION_BYTES", 10_000)

    async def story(line: Line, owner: Owner) -> None:
        line.say(register(1, description="x" * 6_000))
        line.say(register(1, description="x" * 6_000))  # in place of the first
        assert owner.ended_by == ""
        line.say(register(2, description="x" * 6_000))

    assert converse(story).ended_by.startswith("It registered something more than")


def test_an_extension_may_change_its_registrations_as_often_as_it_likes() -> None:
    async def story(line: Line, owner: Owner) -> None:
        for _ in range(limits.MAX_REGISTRATIONS + 1):
            line.say(register(1))
            line.say({"type": "unregister", "target": 1})

    owner = converse(story)
    assert (owner.ended_by, owner.registered_count) == ("", 0)


def test_an_extension_with_too_many_requests_in_progress_is_ended() -> None:
    async def story(line: Line, owner: Owner) -> None:
        for id in range(limits.MAX_ACTIONS + 2):
            line.say({"type": "action", "id": id, "name": "slow", "params": {}})

    assert converse(story).ended_by == "It has more than 1000 requests, or 64 MiB of them in progress."


def test_an_extension_with_too_large_requests_in_progress_is_ended() -> None:
    async def story(line: Line, owner: Owner) -> None:
        request = json.dumps({"type": "tell", "name": "slow", "params": {"x": "x" * (20 * MIB)}}).encode()
        for _ in range(5):
            line.say(request)

    assert converse(story).ended_by == "It has more than 1000 requests, or 64 MiB of them in progress."


def test_requests_that_are_done_do_not_count() -> None:
    async def story(line: Line, owner: Owner) -> None:
        for id in range(2 * limits.MAX_ACTIONS):
            line.say({"type": "action", "id": id, "name": "quick", "params": {"x": "x" * 100}})
            await asyncio.sleep(0)

    assert converse(story).ended_by == ""


# What it sends, and whether it is ended for that.
MESSAGES: dict[str, tuple[Any, bool]] = {
    "an answer to nothing": ({"type": "answer", "id": 12345}, False),
    "an answer with a negative id": ({"type": "answer", "id": -1, "error": "x"}, False),
    "an id that is no number": ({"type": "answer", "id": "1"}, True),
    "an id beyond all numbers": (b'{"type":"answer","id":1e999}', True),
    "an id of a thousand digits": (b'{"type":"pong","id":' + b"9" * 1000 + b"}", False),
    "a pong that was not asked for": ({"type": "pong", "id": 7}, False),
    "an update of nothing": ({"type": "update", "id": 5, "value": None, "ask": -5}, False),
    "a withdrawal of an object": ({"type": "tell", "name": "withdraw", "params": {"ask": {}}}, False),
    "an action without a name": ({"type": "action", "id": 1, "name": "", "params": {}}, False),
    "an action in a call that is none": ({"type": "tell", "name": "x", "params": {}, "call": 99, "session": ""}, False),
    "parameters that are a list": ({"type": "action", "id": 1, "name": "x", "params": []}, True),
    "it is loaded again": ({"type": "loaded"}, False),
    "it fails after it has loaded": ({"type": "failed", "error": "x"}, False),
    "a message of tau's": ({"type": "load", "path": "/etc/passwd"}, True),
    "a stop": ({"type": "stop"}, True),
    "a type that is none": ({"type": "sudo"}, True),
    "no type": ({}, True),
    "a list": ([], True),
    "null": (None, True),
    "two messages in a line": (b'{"type":"pong","id":1}{"type":"pong","id":2}', True),
    "half a character": (b'{"type":"trouble","error":"\\ud800"}', False),
    "bytes that are no text": (b'{"type":"trouble","error":"\xff"}', True),
    "a zero byte": (b'{"type":"pong","id":1}\0', True),
    "deep nesting": (b'{"type":"answer","id":1,"value":' + b"[" * 3000 + b"]" * 3000 + b"}", True),
    "an unknown field": ({"type": "pong", "id": 1, "__proto__": {"x": 1}}, False),
}


@pytest.mark.parametrize(("message", "ends"), MESSAGES.values(), ids=MESSAGES.keys())
def test_a_hostile_message_is_ignored_or_ends_the_extension_that_sent_it(message: Any, ends: bool) -> None:
    async def story(line: Line, owner: Owner) -> None:
        line.say(message)

    assert bool(converse(story).ended_by) is ends


def test_of_a_thousand_reports_of_trouble_few_reach_the_client() -> None:
    async def story(line: Line, owner: Owner) -> None:
        for _ in range(1000):
            line.say({"type": "trouble", "error": "again"})

    owner = converse(story)
    assert 0 < len(owner.troubles) <= 2 * limits.MAX_REPORTS_PER_SECOND and owner.ended_by == ""


# Processes.

HOST = "import os, signal, socket, sys, time\nline = socket.socket(fileno=int(sys.argv[1]))\n"


class Watched:
    """A receiver that writes down why the process was no use, and how it ended."""

    def __init__(self, process: ExtensionProcess) -> None:
        self._process = process
        self.messages: list[bytes] = []
        self.broken_by = ""
        self.closed_by = ""
        self.news = asyncio.Event()

    def received(self, message: bytes) -> None:
        self.messages.append(message)
        self.news.set()

    def broken(self, why: str, *, reported: bool = False) -> None:
        self.broken_by = self.broken_by or why
        self._process.kill()
        self.news.set()

    def closed(self, why: str, *, reported: bool = False) -> None:
        self.closed_by = why
        self.news.set()

    async def until(self, ready: Callable[[], Any]) -> None:
        async with asyncio.timeout(WITHIN):
            while not ready():
                self.news.clear()
                await self.news.wait()


def run_host(body: str, story: Callable[[ExtensionProcess, Watched], Awaitable[None]]) -> Watched:
    async def scene() -> Watched:
        process = ExtensionProcess("/", (sys.executable, "-S", "-c", HOST + textwrap.dedent(body)))
        watched = Watched(process)
        await process.start(watched)
        try:
            await story(process, watched)
        finally:
            process.kill()
            await watched.until(lambda: watched.closed_by)
        return watched

    return asyncio.run(scene())


def test_an_extension_that_does_not_read_is_ended_before_it_fills_the_memory() -> None:
    async def story(process: ExtensionProcess, watched: Watched) -> None:
        message = b"x" * (8 * MIB)
        for _ in range(MAX_UNREAD_BYTES // len(message) + 3):
            process.send(message)
        await watched.until(lambda: watched.closed_by)

    watched = run_host("time.sleep(600)", story)
    assert watched.broken_by == "It does not read what tau sends: more than 128 MiB wait."
    assert watched.closed_by == "Its process was ended by SIGKILL."


def test_one_message_may_be_larger_than_what_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tau.runtime.extensions.process.MAX_UNREAD_BYTES", 100_000)

    async def story(process: ExtensionProcess, watched: Watched) -> None:
        process.send(b"x" * (2 * MIB))
        await watched.until(lambda: watched.messages)

    reads = """
        size = 0
        while size <= 2 << 20:
            size += len(line.recv(1 << 20))
        line.sendall(b"read\\n")
        time.sleep(600)
        """
    assert run_host(reads, story).broken_by == ""


@pytest.mark.parametrize(
    "body",
    [
        "os.kill(os.getpid(), signal.SIGSTOP)",
        "[signal.signal(n, 1) for n in signal.valid_signals() - {9, 19}]; line.sendall(b'1\\n'); time.sleep(600)",
    ],
    ids=["it stops itself", "it ignores every signal"],
)
def test_an_extension_cannot_refuse_to_end(body: str) -> None:
    async def story(process: ExtensionProcess, watched: Watched) -> None:
        if "SIGSTOP" not in body:
            await watched.until(lambda: watched.messages)
        process.kill()

    assert run_host(body, story).closed_by == "Its process was ended by SIGKILL."


def test_a_copy_of_its_process_does_not_go_on_in_its_name() -> None:
    """The copy has the socket as well, and would be heard."""
    body = """
        if os.fork():
            os._exit(3)
        line.sendall(b"%d\\n" % os.getpid())
        while True:
            time.sleep(600)
        """

    async def story(process: ExtensionProcess, watched: Watched) -> None:
        await watched.until(lambda: watched.closed_by)

    watched = run_host(body, story)
    assert watched.closed_by == "Its process ended with code 3."
    assert all(is_gone(int(pid), within=WITHIN) for pid in watched.messages)


@pytest.mark.parametrize("left", [b"", b'{"type":"lo', b"\0" * 100, b"\n\n\n", b"\xff\xfe\n" * 3])
def test_whatever_it_says_last_its_end_is_reported(left: bytes) -> None:
    async def story(process: ExtensionProcess, watched: Watched) -> None:
        await watched.until(lambda: watched.closed_by)

    assert run_host(f"line.sendall({left!r}); os._exit(5)", story).closed_by == "Its process ended with code 5."


# Tools whose schema is hostile: the model's arguments are checked against it in tau's process.

SCHEMAS: dict[str, tuple[Any, str]] = {
    "an exponential pattern": ({"properties": {"x": {"pattern": "^(a+)+$"}}}, "must match pattern"),
    "alternatives without end": ({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 2}}, "$ref": "#/$defs/a"}, "too "),
    "a reference to itself": ({"$ref": "#"}, "nested too deeply"),
    "required is a number": ({"required": 5}, "the schema of this tool is invalid"),
    "alternatives that are a number": ({"anyOf": 5}, "the schema of this tool is invalid"),
    "a type that is an object": ({"type": {}}, "the schema of this tool is invalid"),
    "choices that are a number": ({"enum": 5}, "the schema of this tool is invalid"),
    "properties that are a list": ({"properties": []}, "ran"),
    "a pattern that is none": ({"properties": {"x": {"pattern": "("}}}, "ran"),
}


@pytest.mark.parametrize(("schema", "result"), SCHEMAS.values(), ids=SCHEMAS.keys())
def test_a_tool_with_a_hostile_schema_harms_only_its_own_calls(tmp_path: Path, schema: Any, result: str) -> None:
    async def run(arguments: dict[str, Any], context: Any) -> Outcome:
        return Outcome([Text("ran")])

    async def story() -> None:
        call = {"blocks": [{"tool": "odd", "arguments": {"x": "a" * 60 + "!"}, "id": "1"}]}
        house = House(tmp_path, call, {"text": "done"}, {"text": "again"})
        house.session.extensions.tools["odd"] = Tool("odd", "Odd", "odd", schema, run)
        await house.act("set_active_tools", names=["odd"])
        events = await house.prompt("go")
        (ended,) = of("tool_execution_end", events)
        assert ended["isError"] is (result != "ran")
        assert result in ended["result"]["content"][0]["text"]
        assert texts(events, "assistant")[-1] == "done"
        assert texts(await house.prompt("more"), "assistant") == ["again"]

    play(story())


# Entries: what an extension stores must not make the session unreadable.

DATA: dict[str, Any] = {
    "separators": "a\u2028b\u2029c\x85d\ve",
    "control characters": "".join(map(chr, range(32))) + "\x7f\x9b",
    "half a character": "\ud83d",
    "names": {"__proto__": {"x": 1}, "": None, "type": "session", "id": "x", "parentId": "x"},
    "a large number": 123456789012345678901234567890,
    "what looks like an entry": '\n{"type":"message","id":"1"}\n',
    "deep": json.loads("[" * 200 + "]" * 200),
}


@pytest.mark.parametrize("data", DATA.values(), ids=DATA.keys())
def test_whatever_an_extension_stores_the_session_can_be_opened_again(tmp_path: Path, data: Any) -> None:
    async def story() -> Path:
        house = House(tmp_path)
        await house.prompt("go")
        await house.act("append_entry", customType="x\ny", data=data)
        await house.act("set_session_name", name="a\nb\x1b[2J")
        await house.prompt("more")
        path = house.session.log.path
        await house.handle.close()
        assert path is not None
        return Path(path)

    file = play(story())
    opened = open_session(file)
    assert opened.problems == []
    kept = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
    assert [entry["data"] for entry in kept if entry["type"] == "custom"] == [data]
    assert [entry["message"]["role"] for entry in kept if entry["type"] == "message"] == ["user", "assistant"] * 2


# A client that does not read.


def test_what_an_extension_shows_is_in_progress_until_a_client_has_room_for_it(tmp_path: Path) -> None:
    """So an extension that shows more and more reaches its limits, and tau's memory does not grow instead."""

    async def story() -> None:
        house = House(tmp_path)
        room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        house.session.client = lambda event: room
        house.session.dialogs.has_ui = True
        shown = [asyncio.ensure_future(house.act("notify", message="x")) for _ in range(3)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert not any(one.done() for one in shown)
        room.set_result(None)
        await asyncio.gather(*shown)

    play(story())


# The real program.


LOOPS = {
    "reloads itself": """
        import os, sys

        def setup(pi):
            @pi.on("session_start")
            async def start(event, ctx):
                line = b'{"type":"action","id":999,"name":"reload","params":{}}\\n'
                os.write(int(sys.argv[1]), line)
        """,
    "prompts itself": """
        def setup(pi):
            @pi.on("agent_end")
            async def end(event, ctx):
                pi.send_user_message("again", deliver_as="followUp")
        """,
}


@pytest.mark.parametrize("source", LOOPS.values(), ids=LOOPS.keys())
def test_an_extension_that_goes_round_and_round_leaves_the_agent_usable(tmp_path: Path, source: str) -> None:
    file = tmp_path / "x.py"
    file.write_text(textwrap.dedent(source))
    with Agent(tmp_path, args=["-e", str(file)]) as agent:
        agent.get("prompt", message="go")
        agent.until("agent_end")
        for _ in range(3):
            assert agent.get("get_state")["sessionId"]
        agent.get("abort")
        agent.signal(15)
        assert agent.exit_code() == 143
