"""The extension's end of the protocol, over a transport in memory."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tau.extension_api.channel import CallHandle
from tau.extension_api.messages import Load
from tau.extension_api.tau_connection import TauConnection
from tau.store.extension_modules import module_digests, program_of

Json = dict[str, Any]


class MemoryTransport:
    """The test is tau: it calls `say` and reads what the extension sent."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[Json] = asyncio.Queue()
        self.before_load: list[Load] = []
        self.connection = TauConnection(self, self.before_load.append)

    def send(self, message: bytes) -> None:
        self.sent.put_nowait(json.loads(message))

    def say(self, **message: Any) -> None:
        self.connection.received(json.dumps(message).encode())

    async def next(self) -> Json:
        async with asyncio.timeout(60):
            return await self.sent.get()


def play(story: Callable[[MemoryTransport], Awaitable[None]]) -> None:
    async def run() -> None:
        await story(MemoryTransport())

    asyncio.run(run())


def load_message(file: Path) -> Json:
    paths = {"path": str(file), "cwd": "/", "agentDir": "/"}
    modules = dict(module_digests(program_of(file)))
    return {"type": "load", **paths, "mode": "rpc", "hasUI": True, "flags": {}, "facts": {}, "modules": modules}


def test_an_extension_registers_before_it_is_loaded(tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    file.write_text("def setup(pi):\n    pi.on('input', lambda event, ctx: {'text': event.text + '!'})\n")

    async def story(tau: MemoryTransport) -> None:
        tau.say(**load_message(file))
        assert await tau.next() == {"type": "register", "kind": "handler", "target": 1, "name": "input", "spec": {}}
        assert await tau.next() == {"type": "loaded"}
        assert [load.path for load in tau.before_load] == [str(file)]
        tau.say(type="call", id=5, target=1, params={"text": "hello"})
        assert await tau.next() == {"type": "answer", "id": 5, "value": {"text": "hello!"}}

    play(story)


def test_a_failure_to_load_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    file.write_text("def setup(pi):\n    raise ValueError('no')\n")

    async def story(tau: MemoryTransport) -> None:
        tau.say(**load_message(file))
        failed = await tau.next()
        assert (failed["type"], "no" in failed["error"], "one.py:2" in failed["error"]) == ("failed", True, True)

    play(story)


def test_a_call_is_answered_with_a_value_or_an_error() -> None:
    async def run(params: Json, call: CallHandle) -> int:
        if params["by"] == 0:
            raise ZeroDivisionError("cannot divide by zero")
        return 10 // int(params["by"])

    async def story(tau: MemoryTransport) -> None:
        target = tau.connection.register("tool", "divide", {}, run)
        await tau.next()
        tau.say(type="call", id=5, target=target, params={"by": 5})
        assert await tau.next() == {"type": "answer", "id": 5, "value": 2}
        tau.say(type="call", id=6, target=target, params={"by": 0})
        assert (await tau.next())["error"] == "cannot divide by zero"

    play(story)


def test_a_call_of_something_unregistered_has_an_empty_answer() -> None:
    async def story(tau: MemoryTransport) -> None:
        tau.say(type="call", id=6, target=999, params={})
        assert await tau.next() == {"type": "answer", "id": 6, "value": None}

    play(story)


def test_an_action_waits_for_its_answer_and_names_its_call() -> None:
    async def story(tau: MemoryTransport) -> None:
        async def run(params: Json, call: CallHandle) -> Any:
            tau.connection.tell("notify", {"message": "hello"})
            return await tau.connection.act("select", {"title": "Which?"})

        target = tau.connection.register("command", "ask", {}, run)
        await tau.next()
        tau.say(type="call", id=5, target=target, params={})
        assert await tau.next() == {"type": "tell", "name": "notify", "params": {"message": "hello"}, "call": 5}
        action = await tau.next()
        assert (action["type"], action["name"], action["call"]) == ("action", "select", 5)
        tau.say(type="answer", id=action["id"], value="this")
        assert await tau.next() == {"type": "answer", "id": 5, "value": "this"}

    play(story)


def test_of_many_updates_the_newest_is_sent() -> None:
    async def run(params: Json, call: CallHandle) -> str:
        for number in range(5):
            call.update(number)
        await asyncio.sleep(0)
        call.update("last")
        return "done"

    async def story(tau: MemoryTransport) -> None:
        target = tau.connection.register("tool", "count", {}, run)
        await tau.next()
        tau.say(type="call", id=5, target=target, params={})
        assert [await tau.next() for _ in range(3)] == [
            {"type": "update", "id": 5, "value": 4},
            {"type": "update", "id": 5, "value": "last"},
            {"type": "answer", "id": 5, "value": "done"},
        ]

    play(story)


def test_what_a_thread_sent_during_a_call_precedes_its_answer() -> None:
    async def story(tau: MemoryTransport) -> None:
        async def run(params: Json, call: CallHandle) -> None:
            thread = threading.Thread(target=tau.connection.tell, args=("notify", {}))
            thread.start()
            thread.join()  # so the event loop has no turn before the answer

        target = tau.connection.register("command", "thread", {}, run)
        await tau.next()
        tau.say(type="call", id=5, target=target, params={})
        assert [(await tau.next())["type"] for _ in range(2)] == ["tell", "answer"]

    play(story)


def test_threads_send_through_the_event_loop() -> None:
    async def story(tau: MemoryTransport) -> None:
        async def run(params: Json, call: CallHandle) -> None:
            await asyncio.to_thread(tau.connection.tell, "notify", {"message": "from a thread"})

        target = tau.connection.register("command", "thread", {}, run)
        await tau.next()
        tau.say(type="call", id=5, target=target, params={})
        told, answer = await tau.next(), await tau.next()
        assert (told.get("params"), answer["type"]) == ({"message": "from a thread"}, "answer"), (told, answer)

    play(story)


def test_a_pong_waits_until_cancelled_calls_have_stopped() -> None:
    async def story(tau: MemoryTransport) -> None:
        release = asyncio.Event()

        async def run(params: Json, call: CallHandle) -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                tau.connection.tell("notify", {"message": "stopping"})
                await release.wait()

        target = tau.connection.register("tool", "slow", {}, run)
        await tau.next()
        tau.say(type="call", id=5, target=target, params={})
        await asyncio.sleep(0)
        tau.say(type="cancel", id=5)
        tau.say(type="ping", id=6)
        assert (await tau.next())["type"] == "tell"
        tau.say(type="ping", id=7)
        await asyncio.sleep(0)
        assert tau.sent.empty()
        release.set()
        assert [await tau.next(), await tau.next()] == [{"type": "pong", "id": 6}, {"type": "pong", "id": 7}]

    play(story)


def test_stop_closes_the_connection() -> None:
    async def story(tau: MemoryTransport) -> None:
        assert not tau.connection.closed.done()
        tau.say(type="stop")
        assert tau.connection.closed.done()
        tau.connection.end()

    play(story)


def test_in_the_terminal_only_the_newest_widget_is_sent() -> None:
    async def story(tau: MemoryTransport) -> None:
        tau.connection.facts["mode"] = "tui"
        for number in range(10_000):
            tau.connection.tell("set_widget", {"widgetKey": "a", "widgetLines": [str(number)]})
            tau.connection.tell("set_widget", {"widgetKey": "b", "widgetLines": [str(number)]})
        tau.connection.tell("notify", {"message": "done"})
        sent = [(await tau.next())["params"] for _ in range(3)]
        assert sent == [
            {"widgetKey": "a", "widgetLines": ["9999"]},
            {"widgetKey": "b", "widgetLines": ["9999"]},
            {"message": "done"},
        ]
        tau.connection.tell("set_title", {"title": "soon"})
        assert (await tau.next())["params"] == {"title": "soon"}
        assert tau.sent.empty()

    play(story)


def test_other_clients_get_every_widget() -> None:
    async def story(tau: MemoryTransport) -> None:
        tau.connection.facts["mode"] = "rpc"
        for number in range(100):
            tau.connection.tell("set_widget", {"widgetKey": "a", "widgetLines": [str(number)]})
        assert [(await tau.next())["params"]["widgetLines"] for _ in range(100)] == [[str(n)] for n in range(100)]

    play(story)


def test_a_thread_that_sets_a_widget_without_end_sends_few_messages() -> None:
    async def story(tau: MemoryTransport) -> None:
        tau.connection.facts["mode"] = "tui"

        def flood() -> None:
            for number in range(20_000):
                tau.connection.tell("set_status", {"statusKey": "k", "statusText": str(number)})

        await asyncio.to_thread(flood)
        sent = [await tau.next()]
        while sent[-1]["params"]["statusText"] != "19999":
            sent.append(await tau.next())
        assert len(sent) < 1000

    play(story)
