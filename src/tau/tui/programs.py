"""Small programs of the system that the interface runs: with a time limit, a size limit and no terminal."""

from __future__ import annotations

import asyncio
import os
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping, Sequence

from tau.concurrency.helper_commands import HelperProgram, TooMuchOutput
from tau.records.base import Value

TIMEOUT_S = 3.0
MAX_OUTPUT_BYTES = 32 * 1024 * 1024


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

    It may leave a process behind, as xclip does.
    """
    name = os.path.basename(command[0])
    try:
        program = await HelperProgram.start(
            command,
            input=input,
            max_bytes=max_bytes,
            stdout=PIPE if wants_output else DEVNULL,
            stderr=DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ProgramFailure(f"{name} cannot be started: {error}") from None
    try:
        async with asyncio.timeout(timeout):
            await program.ended()
        return Output(program.code or 0, bytes(program.stdout))
    except TimeoutError:
        raise ProgramFailure(f"{name} did not answer within {timeout:g} s") from None
    except TooMuchOutput:
        raise ProgramFailure(f"{name} returned more than {max_bytes >> 20} MiB") from None
    finally:
        await program.close()
