"""Read-ahead while extensions start: which lines take effect at once, and which wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tau.runtime.protocol.requests import InputLine
from tau.runtime.protocol.startup import Startup

ANSWER = b'{"type":"extension_ui_response","id":"1","value":"yes"}'
ABORT = b'{"type":"abort"}'
PROMPT = b'{"type":"prompt","message":"hello"}'


class Scene:
    """Input, and what Startup did with it."""

    def __init__(self, *lines: InputLine | None) -> None:
        self.input: asyncio.Queue[InputLine | None] = asyncio.Queue()
        for line in lines:
            self.input.put_nowait(line)
        self.done: list[object] = []
        self.changed = asyncio.Event()

    def note(self, what: object) -> None:
        self.done.append(what)
        self.changed.set()

    async def until(self, what: object) -> None:
        while what not in self.done:
            self.changed.clear()
            await self.changed.wait()

    async def run(self, start: Callable[[], Awaitable[None]]) -> list[InputLine | None]:
        startup = Startup(
            self.input.get,
            answer_dialog=self.note,
            abort=lambda: self.note("abort"),
            end_of_input=lambda: self.note("end"),
        )

        async def started() -> None:
            await start()

        return [*await asyncio.wait_for(startup.run(started()), 30)]


def test_an_answer_to_a_dialog_takes_effect_during_the_start_and_other_lines_wait_in_order() -> None:
    async def story() -> None:
        scene = Scene(PROMPT, ANSWER, b"not json", ABORT)

        async def start() -> None:
            await scene.until("abort")

        assert await scene.run(start) == [PROMPT, b"not json", ABORT]
        assert scene.done == [ANSWER, "abort"]

    asyncio.run(story())


def test_lines_that_arrive_after_the_start_are_not_taken() -> None:
    async def story() -> None:
        scene = Scene()

        async def start() -> None:
            await asyncio.sleep(0)

        assert await scene.run(start) == []
        scene.input.put_nowait(PROMPT)
        assert await scene.input.get() == PROMPT

    asyncio.run(story())


def test_the_end_of_the_input_is_reported_while_the_start_goes_on() -> None:
    async def story() -> None:
        scene = Scene(PROMPT, None)

        async def start() -> None:
            await scene.until("end")

        assert await scene.run(start) == [PROMPT, None]
        assert scene.done == ["end"]

    asyncio.run(story())


def test_a_failed_start_raises_its_error() -> None:
    async def story() -> None:
        async def start() -> None:
            raise LookupError("no such extension")

        try:
            await Scene(PROMPT).run(start)
        except LookupError as error:
            assert str(error) == "no such extension"
        else:
            raise AssertionError("the error was lost")

    asyncio.run(story())
