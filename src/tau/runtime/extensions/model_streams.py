"""Streamed responses of models that an extension calls itself.

The extension sends the next chunk only after the previous one was consumed, so the backpressure of a slow client
reaches the source of the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from tau.concurrency.async_queue import AsyncQueue
from tau.concurrency.tasks import failure_of
from tau.errors import ExtensionFailure, ModelError
from tau.runtime.extensions.registry import ExtensionRegistry, HandlerError

MAX_CHUNKS_AHEAD = 64  # chunks accepted from an extension that does not wait for room


class ModelStreams:
    """Implements tau.llm.types.ExtensionStreams."""

    def __init__(self, extensions: ExtensionRegistry) -> None:
        self._extensions = extensions

    async def stream(self, provider: str, params: dict[str, Any]) -> AsyncGenerator[Any, None]:
        """Yield the chunks of a response. Raises ModelError.

        A reader that stops cancels the call; an extension that does not react to that is killed.
        """
        run = self._extensions.streams.get(provider)
        if run is None:
            raise ModelError(f"The extension that answers for {provider} is not there.", transient=True)
        queue = AsyncQueue[tuple[Any, asyncio.Future[None]]]()

        def receive(chunk: Any) -> asyncio.Future[None]:
            consumed = asyncio.get_running_loop().create_future()
            queue.put((chunk, consumed))
            if queue.closed:
                consumed.cancel()
            return consumed

        call = asyncio.ensure_future(run(params, receive))
        call.add_done_callback(lambda _: queue.close())
        settings = self._extensions.settings()
        seconds = settings.http_first_byte_timeout_ms / 1000
        try:
            while queue.items or await _ready_within(seconds, queue):
                if len(queue) > MAX_CHUNKS_AHEAD:
                    raise ModelError("The extension sent pieces without waiting for room.", transient=False)
                yield queue.items[0][0]
                queue.take()[1].set_result(None)
                seconds = settings.http_idle_timeout_ms / 1000
            await call
        except TimeoutError:
            raise ModelError(f"The extension sent nothing for {seconds:g} s.", transient=True) from None
        except ModelError:
            raise
        except BaseException as error:
            failure = failure_of(error)
            # The loss of the process is transient: it may be restarted by the next attempt. Whether an error that
            # the extension raised itself is transient is unknown.
            process_lost = isinstance(failure, ExtensionFailure) and not isinstance(failure, HandlerError)
            raise ModelError(str(failure) or type(failure).__name__, transient=process_lost or None) from failure
        finally:
            call.add_done_callback(_ended)
            call.cancel()
            for _, consumed in queue.items:
                consumed.cancel()


async def _ready_within(seconds: float, queue: AsyncQueue[Any]) -> bool:
    """Wait for a chunk; False after the last one. 0 seconds is no limit."""
    async with asyncio.timeout(seconds or None):
        return await queue.ready()


def _ended(call: asyncio.Future[Any]) -> None:
    """Retrieve an exception that nothing waits for, so that asyncio does not log it."""
    if not call.cancelled():
        call.exception()
