"""tau's end of the extension protocol, over a transport in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from support.virtual_clock import leapt
from tau.errors import ExtensionFailure
from tau.extension_api.messages import Load, Register, Trouble, Unregister
from tau.runtime.extensions.connection import PING_TIMEOUT_S, ExtensionConnection, Receiver
from tau.runtime.extensions.registry import HandlerError

Json = dict[str, Any]


class MemoryTransport:
    """`sent` has what tau sent. The test is the extension: it calls `say`."""

    def __init__(self) -> None:
        self.sent: list[Json] = []
        self.killed = 0
        self.receiver: Receiver
        self._news = asyncio.Event()

    async def start(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def send(self, message: bytes) -> None:
        self.sent.append(json.loads(message))
        self._news.set()

    def kill(self) -> None:
        self.killed += 1
        if self.killed == 1:
            asyncio.get_running_loop().call_soon(self.receiver.closed, "It was killed.")

    def say(self, **message: Any) -> None:
        self.receiver.received(json.dumps(message).encode())

    async def next(self, type: str) -> Json:
        """Wait for a message of this type, and forget it and all before it."""
        async with asyncio.timeout(60):
            while True:
                for at, message in enumerate(self.sent):
                    if message["type"] == type:
                        del self.sent[: at + 1]
                        return message
                self._news.clear()
                await self._news.wait()


class Owner:
    """Writes down what the connection reports; `actions` performs them."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.actions: dict[str, Callable[[Json], Awaitable[Any]]] = {}

    def registered(self, message: Register) -> None:
        self.events.append(("registered", message.name))

    def unregistered(self, message: Unregister) -> None:
        self.events.append(("unregistered", message.target))

    def report_trouble(self, message: Trouble) -> None:
        self.events.append(("trouble", message.event, message.error))

    async def perform(self, name: str, params: Json) -> Any:
        return await self.actions[name](params)

    def ended(self, why: str, *, reported: bool) -> None:
        self.events.append(("ended", why, reported))


class Pair:
    """A connection that has loaded, its transport and its owner."""

    def __init__(self) -> None:
        self.transport = MemoryTransport()
        self.owner = Owner()
        self.facts: Json = {"mode": "rpc", "isIdle": True}
        load = Load("/one.py", "/", "/", "rpc", True, {}, dict(self.facts))
        self.connection = ExtensionConnection(load, self.transport, self.owner, lambda: dict(self.facts))

    async def start(self) -> None:
        starting = asyncio.ensure_future(self.connection.start(60))
        await self.transport.next("load")
        self.transport.say(type="loaded")
        await starting


def play(
    story: Callable[[Pair], Awaitable[None]],
    *,
    loaded: bool = True,
    run: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run,
) -> None:
    async def scene() -> None:
        pair = Pair()
        if loaded:
            await pair.start()
        await story(pair)

    run(scene())


def test_a_call_gets_the_answer_with_its_id() -> None:
    async def story(pair: Pair) -> None:
        first = asyncio.ensure_future(pair.connection.call(1, {"a": 1}))
        second = asyncio.ensure_future(pair.connection.call(2, {}))
        asked = [await pair.transport.next("call"), await pair.transport.next("call")]
        assert asked == [
            {"type": "call", "id": 1, "target": 1, "params": {"a": 1}},
            {"type": "call", "id": 2, "target": 2, "params": {}},
        ]
        pair.transport.say(type="answer", id=2, value="two")
        pair.transport.say(type="answer", id=9, value="of no call")
        pair.transport.say(type="answer", id=1, error="it broke", where="one.py:3")
        assert await second == "two"
        with pytest.raises(HandlerError, match=r"^it broke$"):
            await first

    play(story)


def test_changed_facts_are_sent_before_the_call() -> None:
    async def story(pair: Pair) -> None:
        pair.facts["isIdle"] = False
        call = asyncio.ensure_future(pair.connection.call(1, {}))
        await asyncio.sleep(0)
        assert pair.transport.sent == [
            {"type": "facts", "facts": {"isIdle": False}},
            {"type": "call", "id": 1, "target": 1, "params": {}},
        ]
        call.cancel()

    play(story)


def test_updates_reach_the_caller_and_ask_for_room() -> None:
    async def story(pair: Pair) -> None:
        room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        seen: list[Any] = []

        def update(value: Any) -> asyncio.Future[None]:
            seen.append(value)
            return room

        call = asyncio.ensure_future(pair.connection.call(1, {}, update))
        await pair.transport.next("call")
        pair.transport.say(type="update", id=1, value="some", ask=7)
        await asyncio.sleep(0)
        assert (seen, pair.transport.sent) == (["some"], [])
        room.set_result(None)
        assert await pair.transport.next("answer") == {"type": "answer", "id": 7, "value": None}
        pair.transport.say(type="answer", id=1, value="all")
        assert await call == "all"

    play(story)


def test_a_cancelled_call_is_cancelled_there_and_a_pong_keeps_the_extension() -> None:
    async def story(pair: Pair) -> None:
        call = asyncio.ensure_future(pair.connection.call(1, {}))
        await pair.transport.next("call")
        call.cancel()
        assert await pair.transport.next("cancel") == {"type": "cancel", "id": 1}
        pair.transport.say(type="pong", id=(await pair.transport.next("ping"))["id"])
        await asyncio.sleep(2 * PING_TIMEOUT_S)
        assert pair.transport.killed == 0

    play(story, run=leapt)


def test_an_extension_that_does_not_answer_the_ping_is_killed() -> None:
    async def story(pair: Pair) -> None:
        call = asyncio.ensure_future(pair.connection.call(1, {}))
        await pair.transport.next("call")
        call.cancel()
        await pair.transport.next("ping")
        await asyncio.sleep(2 * PING_TIMEOUT_S)
        assert pair.owner.events == [
            ("ended", "It did not stop what it was asked to stop, and was ended.", False),
        ]

    play(story, run=leapt)


def test_actions_are_performed_and_answered() -> None:
    async def story(pair: Pair) -> None:
        async def double(params: Json) -> int:
            pair.facts["isIdle"] = False
            return 2 * int(params["number"])

        async def fail(params: Json) -> None:
            raise ValueError("on purpose")

        pair.owner.actions = {"double": double, "fail": fail}
        pair.transport.say(type="action", id=3, name="double", params={"number": 4})
        assert await pair.transport.next("facts") == {"type": "facts", "facts": {"isIdle": False}}
        assert await pair.transport.next("answer") == {"type": "answer", "id": 3, "value": 8}
        pair.transport.say(type="tell", name="fail", params={})
        pair.transport.say(type="action", id=4, name="fail", params={})
        assert (await pair.transport.next("answer"))["error"] == "on purpose"
        assert pair.owner.events == [("trouble", "fail", "on purpose")]

    play(story)


def test_a_dialog_is_withdrawn_when_its_call_ends() -> None:
    async def story(pair: Pair) -> None:
        withdrawn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def select(params: Json) -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                withdrawn.set_result(None)

        pair.owner.actions["select"] = select
        call = asyncio.ensure_future(pair.connection.call(1, {}))
        await pair.transport.next("call")
        pair.transport.say(type="action", id=3, name="select", params={}, call=1)
        await asyncio.sleep(0)
        pair.transport.say(type="answer", id=1, value=None)
        await call
        async with asyncio.timeout(60):
            await withdrawn

    play(story)


def test_registrations_and_a_limited_number_of_troubles_reach_the_owner() -> None:
    async def story(pair: Pair) -> None:
        pair.transport.say(type="register", kind="handler", target=1, name="input")
        pair.transport.say(type="unregister", target=1)
        assert pair.owner.events == [("registered", "input"), ("unregistered", 1)]
        for _ in range(100):
            pair.transport.say(type="trouble", error="again")
        # Another second may begin while they are sent.
        assert 10 <= pair.owner.events.count(("trouble", "task", "again")) < 100

    play(story)


FAULTS = {
    "nonsense": (b"nonsense", "It sent what is no message: "),
    "a message of tau": (b'{"type":"stop"}', "It sent what is no message: "),
    "a message without its fields": (b'{"type":"answer"}', "It sent what is no message: "),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_invalid_message_ends_the_extension_and_its_calls(fault: str) -> None:
    sent, why = FAULTS[fault]

    async def story(pair: Pair) -> None:
        call = asyncio.ensure_future(pair.connection.call(1, {}))
        await pair.transport.next("call")
        pair.transport.receiver.received(sent)
        pair.transport.say(type="register", kind="handler", target=1, name="input")
        with pytest.raises(ExtensionFailure, match=f"^{why}"):
            await call
        ((kind, told, reported),) = pair.owner.events
        assert (kind, told.startswith(why), reported) == ("ended", True, True)
        with pytest.raises(ExtensionFailure, match=f"^{why}"):
            await pair.connection.call(1, {})

    play(story)


def test_too_many_messages_end_the_extension() -> None:
    async def story(pair: Pair) -> None:
        while not pair.transport.killed:
            pair.transport.say(type="pong", id=0)
        await asyncio.sleep(0)
        assert pair.owner.events == [("ended", "It sent more than 10000 messages within a second.", False)]

    play(story)


def test_the_end_of_the_transport_fails_pending_calls_with_its_reason() -> None:
    async def story(pair: Pair) -> None:
        call = asyncio.ensure_future(pair.connection.call(1, {}, loud=False))
        await pair.transport.next("call")
        pair.transport.receiver.closed("It has crashed.")
        with pytest.raises(ExtensionFailure, match=r"^It has crashed\.$"):
            await call
        assert pair.owner.events == [("ended", "It has crashed.", False)]

    play(story)


def test_a_failure_to_load_is_raised_and_not_reported_to_the_owner() -> None:
    async def story(pair: Pair) -> None:
        starting = asyncio.ensure_future(pair.connection.start(60))
        await pair.transport.next("load")
        pair.transport.say(type="failed", error="line 3: no")
        with pytest.raises(ExtensionFailure, match=r"^line 3: no$"):
            await starting
        assert (pair.transport.killed, pair.owner.events) == (1, [])

    play(story, loaded=False)


def test_an_extension_that_does_not_load_in_time_is_killed() -> None:
    async def story(pair: Pair) -> None:
        with pytest.raises(ExtensionFailure, match=r"^It was not loaded within 0\.01 s\.$"):
            await pair.connection.start(0.01)
        assert pair.transport.killed == 1

    play(story, loaded=False)


def test_stop_asks_first_and_hears_what_the_extension_still_says() -> None:
    async def story(pair: Pair) -> None:
        stopping = asyncio.ensure_future(pair.connection.stop(60))
        await pair.transport.next("stop")
        pair.transport.say(type="trouble", error="last words")
        pair.transport.receiver.closed("Its process ended with code 0.")
        await stopping
        assert pair.owner.events == [("trouble", "task", "last words"), ("ended", "It was stopped.", True)]

    play(story)


def test_stop_kills_an_extension_that_does_not_end() -> None:
    async def story(pair: Pair) -> None:
        await pair.connection.stop(0.01)
        assert pair.transport.killed == 1

    play(story)
