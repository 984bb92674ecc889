"""Edit the prompt in an external editor. The terminal is handed over meanwhile; the event loop goes on."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import NamedTuple

from tau.store.files import read_small
from tau.tui.programs import find_program

FILE_NAME = "prompt.md"
MAX_TEXT_BYTES = 16 * 1024 * 1024
STOP_TIMEOUT_S = 2.0


class EditedText(NamedTuple):
    """The new text, or None and the reason why there is none."""

    text: str | None
    error: str = ""


def editor_command(setting: str | None, environment: Mapping[str, str], cwd: str) -> list[str] | None:
    """The command of the setting `externalEditor`, $VISUAL, $EDITOR, nano or vi; None if there is none of them."""
    for command in (setting, environment.get("VISUAL"), environment.get("EDITOR")):
        if command and command.strip():
            try:
                return shlex.split(command)
            except ValueError:  # an unbalanced quote
                return [command]
    for name in ("nano", "vi"):
        if found := find_program(name, environment, cwd):
            return [found]
    return None


async def edit_externally(
    text: str,
    command: list[str] | None,
    handed_over: AbstractContextManager[object],
) -> EditedText:
    """Run an editor on a text. `handed_over` gives the terminal to it and takes it back.

    The file is private and always removed. If the editor fails, the text is unchanged.
    """
    if not command:
        return EditedText(None, "No editor found. Set externalEditor in settings.json, or $VISUAL or $EDITOR.")
    folder = Path(tempfile.mkdtemp(prefix="tau-"))  # 0700
    try:
        file = folder / FILE_NAME
        file.touch(0o600)
        file.write_bytes(text.encode("utf-8", "replace"))
        with handed_over:
            code = await _run([*command, str(file)])
        if code != 0:
            return EditedText(None, f"{command[0]} ended with exit code {code}. The text is unchanged.")
        return EditedText(_read(file, text))
    except OSError as error:
        return EditedText(None, f"{command[0]}: {error.strerror or error}. The text is unchanged.")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _run(command: list[str]) -> int:
    """Run the editor in the foreground, with the terminal of this process. If cancelled, end it."""
    process = await asyncio.create_subprocess_exec(*command)
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
            except TimeoutError:
                process.kill()
                await process.wait()


def _read(file: Path, before: str) -> str:
    """The text in the file, without the line feed that editors add at the end."""
    text = read_small(file, MAX_TEXT_BYTES).decode("utf-8", "replace")
    if text.endswith("\n") and not before.endswith("\n"):
        text = text[: -2 if text.endswith("\r\n") else -1]
    return text
