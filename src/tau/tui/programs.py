"""Small programs of the system that the interface runs: with a time limit, a size limit and no terminal."""

from __future__ import annotations

import asyncio
import os
import shutil
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress

from tau.records.base import Value

TIMEOUT_S = 3.0
MAX_OUTPUT_BYTES = 32 * 1024 * 1024
CHUNK_BYTES = 64 * 1024


class ProgramFailure(Exception):
    """The program cannot be started, failed, took too long or wrote too much. The text says which, for a person."""


class Output(Value):
    code: int
    stdout: bytes


def find_program(name: str, environment: Mapping[str, str], cwd: str) -> str | None:
    """Find a program on PATH. Folders of the project do not count, since their programs came with the project."""
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    trusted = [folder for folder in folders if os.path.isabs(folder) and not _is_in_project(folder, cwd)]
    return shutil.which(name, path=os.pathsep.join(trusted))


def _is_in_project(folder: str, cwd: str) -> bool:
    return _contains(cwd, folder) and not _contains(cwd, os.path.expanduser("~"))


def _contains(folder: str, path: str) -> bool:
    folder, path = os.path.realpath(folder), os.path.realpath(path)
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


async def run_program(
    command: Sequence[str],
    *,
    input: bytes | None = None,
    wants_output: bool = True,
    timeout: float = TIMEOUT_S,
    max_bytes: int = MAX_OUTPUT_BYTES,
) -> Output:
    """Run a program and return its output. Raises ProgramFailure; kills the program if it does not end in time.

    Without `wants_output` it may leave a process behind that keeps its output open, as xclip does.
    """
    name = os.path.basename(command[0])
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE if input is not None else DEVNULL,
            stdout=PIPE if wants_output else DEVNULL,
            stderr=DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ProgramFailure(f"{name} cannot be started: {error}") from None
    try:
        async with asyncio.timeout(timeout):
            data = await _communicate(process, input, max_bytes)
            return Output(await process.wait(), data)
    except TimeoutError:
        raise ProgramFailure(f"{name} did not answer within {timeout:g} s") from None
    except _TooMuchError:
        raise ProgramFailure(f"{name} returned more than {max_bytes >> 20} MiB") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


class _TooMuchError(Exception):
    pass


async def _communicate(process: Process, input: bytes | None, max_bytes: int) -> bytes:
    writing = asyncio.ensure_future(_write(process, input)) if input is not None else None
    data = bytearray()
    try:
        while process.stdout and (chunk := await process.stdout.read(CHUNK_BYTES)):
            data += chunk
            if len(data) > max_bytes:
                raise _TooMuchError
        if writing:
            await writing
    finally:
        if writing:
            writing.cancel()
    return bytes(data)


async def _write(process: Process, input: bytes) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):  # it does not read everything
        process.stdin.write(input)
        await process.stdin.drain()
    process.stdin.close()
