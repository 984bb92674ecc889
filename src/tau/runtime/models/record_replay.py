"""Record and replay of model exchanges: transports that write a folder of recordings, or respond from one.

There is one file per exchange, numbered in the order of the requests. Recording into a folder that has recordings
adds to them. llm/replay.py defines the exchange format.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from tau.errors import ModelError, UsageError
from tau.llm.replay import (
    ReceivedResponse,
    RecordedExchange,
    RecordingIndex,
    make_exchange,
    normalize_request,
    recorded_chunks,
    recorded_failure,
)
from tau.llm.types import ModelRequest
from tau.records.base import BadRecord, decode, replace, to_builtins
from tau.store.files import make_folder

if TYPE_CHECKING:
    from tau.llm.types import Transport

logger = logging.getLogger(__name__)


def places(cwd: str, home: str | None) -> dict[str, str]:
    """Return the machine-specific paths and their placeholders in a recording, longest path first."""
    real = os.path.realpath(cwd)
    named = {cwd: "<cwd>", real: "<cwd>", **({home: "<home>"} if home else {})}
    return dict(sorted(named.items(), key=lambda item: -len(item[0])))


class Recorder:
    def __init__(self, transport: Transport, folder: Path, places: Mapping[str, str]) -> None:
        """Raises UsageError if the folder is not usable."""
        self._transport = transport
        self._folder = folder
        self._places = places
        try:
            make_folder(folder.parent)
            folder.mkdir(mode=0o700, exist_ok=True)
            self._last = max((int(file.name[:4]) for file in folder.glob("[0-9][0-9][0-9][0-9]-*.json")), default=0)
        except OSError as error:
            raise UsageError(f"--record {folder}: {error.strerror}") from None

    async def post(self, request: ModelRequest) -> AsyncGenerator[bytes, None]:
        self._last += 1
        number, response = self._last, ReceivedResponse([])

        async def on_response(status: int, headers: Mapping[str, str]) -> None:
            response.status, response.headers = status, headers
            if request.on_response is not None:
                await request.on_response(status, headers)

        try:
            async with aclosing(
                self._transport.post(replace(request, on_response=on_response, consume=None))
            ) as chunks:
                async for chunk in chunks:
                    response.portions.append(chunk)
                    yield chunk
            response.ended = "whole"
        except ModelError as error:
            response.ended, response.failure = "failed", error
            raise
        finally:
            self._write(number, request, response)

    def _write(self, number: int, request: ModelRequest, response: ReceivedResponse) -> None:
        """Write the exchange immediately and as a whole: the process may end during the next request."""
        exchange = make_exchange(request, normalize_request(request, self._places), response)
        text = json.dumps(to_builtins(exchange), indent=2) + "\n"
        while True:
            path = self._folder / f"{number:04}-{exchange.key[:12]}.json"
            try:
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:  # another process records into the same folder
                number += 1
                continue
            except OSError as error:
                logger.error("an exchange could not be recorded: %s: %s", path, error.strerror)
                return
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
            except OSError as error:  # a full disk: half an exchange is of no use, and the answer is not lost with it
                logger.error("an exchange could not be recorded: %s: %s", path, error.strerror)
                path.unlink(missing_ok=True)
            return


class Replayer:
    """Transport that responds from recordings and never opens a connection."""

    def __init__(self, folder: Path, places: Mapping[str, str]) -> None:
        self._places = places
        self._recordings = RecordingIndex(str(folder), read(folder))

    async def post(self, request: ModelRequest) -> AsyncGenerator[bytes, None]:
        exchange = self._recordings.take(normalize_request(request, self._places))
        if request.on_response is not None and exchange.status is not None:
            await request.on_response(exchange.status, exchange.headers)
        for chunk in recorded_chunks(exchange):
            yield chunk
        if (failure := recorded_failure(exchange)) is not None:
            raise failure


def read(folder: Path) -> dict[str, RecordedExchange]:
    """Return the exchanges of a folder by file name, in order. Raises UsageError."""
    try:
        files = sorted(folder.glob("*.json"))
        if not files:
            problem = "there are no recordings in it" if os.path.isdir(folder) else "there is no such folder"
            raise UsageError(f"--replay {folder}: {problem}.")
        return {file.name: decode(RecordedExchange, file.read_bytes()) for file in files}
    except OSError as error:
        raise UsageError(f"--replay {folder}: {error.strerror}") from None
    except BadRecord as error:
        raise UsageError(f"--replay {folder}: a file in it is not a recording: {error}") from None
