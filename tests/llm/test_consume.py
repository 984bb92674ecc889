"""Chunks that are consumed in a callback, without resuming the task that reads the response."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from typing import Any

import pytest

from llm.test_http import STREAM, read_request, serving
from support.loop_kit import new_draft, user
from support.recorded_streams import recorded
from support.virtual_clock import Clock, played
from tau import llm
from tau.core.agent.draft import MessageDone, Update
from tau.errors import ModelError
from tau.llm import http as http_module
from tau.llm.http import Http
from tau.llm.types import CallEnvironment, CallOptions, ModelContext, ModelRequest
from tau.records.models import Model

pytestmark = pytest.mark.process


class Read:
    """What came out of a response: chunks that were yielded, and chunks that were consumed."""

    def __init__(self) -> None:
        self.yielded: list[bytes] = []
        self.consumed: list[bytes] = []
        self.in_tasks: list[bool] = []


def read(
    chunks: list[bytes],
    consume: Callable[[bytes], bool],
    *,
    headers: bytes = STREAM,
) -> tuple[Read, ModelError | None]:
    """Each chunk is sent when the one before has arrived."""
    found = Read()

    async def main() -> ModelError | None:
        arrived = asyncio.Semaphore(0)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(headers)
            for chunk in chunks:
                writer.write(chunk)
                await arrived.acquire()

        def counted(chunk: bytes) -> bool:
            found.consumed.append(chunk)
            found.in_tasks.append(asyncio.current_task() is not None)
            try:
                return consume(chunk)
            finally:
                arrived.release()

        async with asyncio.timeout(30), serving(serve) as url:
            http = Http()
            try:
                async for chunk in http.post(ModelRequest(url, {}, {}, consume=counted)):
                    found.yielded.append(chunk)
                    if chunk:
                        arrived.release()
            except ModelError as error:
                return error
            finally:
                await http.close()
        return None

    return found, asyncio.run(main())


def test_all_chunks_but_the_first_are_consumed_in_a_callback() -> None:
    found, error = read([b"one", b"two", b"three"], lambda chunk: True)
    assert error is None
    assert (found.yielded, found.consumed) == ([b"one"], [b"two", b"three"])
    assert found.in_tasks == [False, False]


def test_the_task_is_resumed_with_an_empty_chunk_when_it_has_to_go_on() -> None:
    found, error = read([b"one", b"two", b"three", b"four"], lambda chunk: chunk != b"three")
    assert error is None
    assert (found.yielded, found.consumed) == ([b"one", b""], [b"two", b"three", b"four"])


def test_a_compressed_response_is_read_by_the_task() -> None:
    headers = STREAM.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")
    found, error = read([gzip.compress(b"one"), gzip.compress(b"two")], lambda chunk: True, headers=headers)
    assert error is None
    assert (found.yielded, found.consumed) == ([b"one", b"two"], [])


def test_every_consumed_chunk_starts_the_idle_timeout_again() -> None:
    """Four times 0.6 s are more than the timeout of 1 s; then the server falls silent for 1.2 s."""
    consumed: list[bytes] = []

    async def story(clock: Clock) -> None:
        arrived, over = asyncio.Semaphore(0), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(STREAM + b"one")
            for _ in range(4):
                await arrived.acquire()
                clock.let_pass(0.6)
                writer.write(b"two")
            await arrived.acquire()
            clock.let_pass(1.2)
            await over.wait()

        def consume(chunk: bytes) -> bool:
            consumed.append(chunk)
            arrived.release()
            return True

        async with serving(serve) as url:
            http = Http(idle=1)
            try:
                with pytest.raises(ModelError, match="sent nothing for 1 s"):
                    async for _ in http.post(ModelRequest(url, {}, {}, consume=consume)):
                        arrived.release()
            finally:
                over.set()
                await http.close()

    played(story)
    assert consumed == [b"two"] * 4


def test_consumed_bytes_count_for_the_limit_of_a_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "MAX_RESPONSE_BYTES", 10)
    found, error = read([b"one", b"four", b"four", b"never"], lambda chunk: True)
    assert error is not None and "larger than" in str(error)
    assert found.consumed == [b"four"] or found.consumed == [b"four", b"four"]


def test_a_connection_that_breaks_after_consumed_chunks_is_an_error() -> None:
    headers = STREAM.replace(b"\r\n\r\n", b"\r\ncontent-length: 100\r\n\r\n")
    found, error = read([b"one", b"two"], lambda chunk: True, headers=headers)
    assert found.consumed == [b"two"]
    assert error is not None and error.transient


def streamed(relay: Callable[[Any], bool]) -> tuple[list[Any], list[Any], Exception | None]:
    """An answer whose events come one by one: what the stream yielded, what was relayed, and its error."""
    yielded: list[Any] = []
    relayed: list[Any] = []

    def take(results: Any) -> bool:
        taken = relay(results)
        if taken:
            relayed.extend(results)
        return taken

    async def main() -> Exception | None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(STREAM)
            for event in recorded("anthropic"):
                writer.write(event)
                await writer.drain()
                await asyncio.sleep(0.005)

        async with asyncio.timeout(30), serving(serve) as url:
            http = Http()
            draft = new_draft(Model("m", "M", "anthropic-messages", "lab", url.removesuffix("/v1/messages")))
            environment = CallEnvironment(http, asyncio.sleep, relay=take)
            context = ModelContext("", [user("hi")], [])
            try:
                async for results in llm.stream(draft.model, context, CallOptions("key"), draft, environment):
                    yielded.extend(results)
            except Exception as error:
                return error
            finally:
                await http.close()
        return None

    return yielded, relayed, asyncio.run(main())


def updates(results: list[Any]) -> list[bytes]:
    return [result.wire_json() for result in results if isinstance(result, Update)]


def only_updates(results: Any) -> bool:
    return all(isinstance(result, Update) for result in results)


def test_updates_are_relayed_and_the_end_of_the_answer_is_yielded() -> None:
    yielded, relayed, error = streamed(only_updates)
    assert error is None
    assert isinstance(yielded[-1], MessageDone) and yielded[-1].message.text == "Hello, 😀"
    assert len(relayed) > 3 and all(isinstance(result, Update) for result in relayed)


@pytest.mark.parametrize("every", [1, 2, 3])
def test_what_is_not_relayed_is_yielded_once_and_nothing_is_lost(every: int) -> None:
    whole, _, _ = streamed(lambda results: False)
    asked = 0
    order: list[bytes] = []

    def relay(results: Any) -> bool:
        nonlocal asked
        asked += 1
        if not only_updates(results) or asked % every == 0:
            return False
        order.extend(updates(list(results)))
        return True

    yielded, relayed, error = streamed(relay)
    assert error is None
    assert sorted(updates([*yielded, *relayed])) == sorted(updates(whole))
    assert order == updates(relayed)
    assert yielded[-1].message.content == whole[-1].message.content


def test_a_failure_of_the_relay_is_raised_by_the_stream() -> None:
    def relay(results: Any) -> bool:
        raise ZeroDivisionError("of the relay")

    _, _, error = streamed(relay)
    assert isinstance(error, ZeroDivisionError)
