"""Answers of models that an extension asks in its own way, piece by piece.

The extension sends no more before what it sent was taken, so a client that reads
slowly is felt all the way to whoever makes the pieces.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

from tau.errors import ExtensionFailure, ModelError
from tau.runtime.extensions.registry import ExtensionRegistry, HandlerError

AHEAD = 64  # portions of one who does not wait for room


class ModelStreams:
    """As llm.calls.Streams."""

    def __init__(self, extensions: ExtensionRegistry) -> None:
        self._extensions = extensions

    async def stream(self, provider: str, params: dict[str, Any]) -> AsyncGenerator[Any, None]:
        """Whoever stops reading cancels the call; the extension must obey, or is ended."""
        run = self._extensions.streams.get(provider)
        if run is None:
            raise ModelError(f"The extension that answers for {provider} is not there.", transient=True)
        heard, news = deque[tuple[Any, asyncio.Future[None]]](), asyncio.Event()

        def hear(portion: Any) -> asyncio.Future[None]:
            heard.append((portion, taken := asyncio.get_running_loop().create_future()))
            news.set()
            return taken

        asking = asyncio.ensure_future(run(params, hear))
        asking.add_done_callback(lambda _: news.set())
        settings = self._extensions.settings()
        seconds = settings.http_first_byte_timeout_ms / 1000
        try:
            while heard or not asking.done():
                if len(heard) > AHEAD:
                    raise ModelError("The extension sent pieces without waiting for room.", transient=False)
                if heard:
                    yield heard[0][0]
                    heard.popleft()[1].set_result(None)
                    seconds = settings.http_idle_timeout_ms / 1000
                    continue
                news.clear()
                async with asyncio.timeout(seconds or None):
                    await news.wait()
            await asking
        except TimeoutError:
            raise ModelError(f"The extension said nothing for {seconds:g} s.", transient=True) from None
        except ModelError:
            raise
        except Exception as error:
            # Its process may be back when it is asked again; about what it says itself one cannot know.
            gone = isinstance(error, ExtensionFailure) and not isinstance(error, HandlerError)
            raise ModelError(str(error) or type(error).__name__, transient=True if gone else None) from error
        finally:
            asking.add_done_callback(_ended)
            asking.cancel()
            for _, taken in heard:
                taken.cancel()


def _ended(asking: asyncio.Future[Any]) -> None:
    """What goes wrong when nobody waits for it any more is heard as well."""
    if not asking.cancelled():
        asking.exception()
