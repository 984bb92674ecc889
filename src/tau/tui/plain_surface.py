"""The surface of plain mode: what slash commands may do, with lines and numbered lists."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from tau.core.text.terminal_text import escape_message
from tau.errors import CommandError
from tau.records.dialogs import Select
from tau.runtime.app.handle import SessionHandle
from tau.runtime.extensions.dialogs import dialog_id
from tau.screen.hotkeys import Hotkey
from tau.screen.modals import CANCELLED, Modal, Outcome
from tau.screen.modals.search_list import SearchList
from tau.store.listing import message_text
from tau.tui.plain_output import PlainOutput
from tau.tui.platform import current_platform
from tau.tui.surface import NoticeKind

NO_CLIPBOARD = "No program for the clipboard was found (wl-copy, xclip, xsel, pbcopy). /export writes a file."
NEEDS_A_SCREEN = "This needs a screen. Plain mode has only lines."


class PlainSurface:
    """Runs in the agent's loop. `ask` shows a question to the user."""

    def __init__(self, handle: SessionHandle, output: PlainOutput, quit: Callable[[], None]) -> None:
        self.handle = handle
        self._output = output
        self._quit = quit

    @property
    def looks(self) -> None:
        return None

    def say(self, text: str, kind: NoticeKind = "info") -> None:
        for line in text.split("\n"):
            self._output.say(f"{escape_message(line)}\n")

    async def choose(self, title: str, options: Sequence[str], chosen: int = 0) -> int | None:
        names = list(options)
        answer = await self.handle.dialogs.ask(Select(dialog_id(), title, names))
        return names.index(answer) if answer in names else None

    async def open(self, modal: Modal) -> Outcome:
        if not isinstance(modal, SearchList):
            raise CommandError(NEEDS_A_SCREEN)
        rows = [modal.items[at] for at in modal.found]
        texts = [f"{row.label}  {row.detail}".rstrip() for row in rows]
        chosen = await self.choose(modal.title, texts)
        return CANCELLED if chosen is None else Outcome("confirm", modal.found[chosen])

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        work.close()
        raise CommandError(NEEDS_A_SCREEN)

    def changed(self) -> None:
        pass

    def key_label(self, action: str) -> str:
        return ""

    @property
    def has_screen(self) -> bool:
        return False

    def set_editor_text(self, text: str, *, replace: bool = True) -> None:
        if text:
            self.say(f"The message was:\n{text}")

    async def copy(self, text: str) -> str:
        """By a program only: a sequence for the terminal would not be a line."""
        from tau.tui.clipboard import Clipboard

        copied = await Clipboard(current_platform(os.environ), os.environ, self.handle.cwd).copy(text)
        if copied.error or copied.sequence:
            raise CommandError(NO_CLIPBOARD)
        return f"with {copied.method}"

    def show_session(self, title: str, lines: int) -> None:
        self.say(f"This is now: {title}.")

    def show_messages(self, title: str, messages: Sequence[object], lines: int) -> None:
        texts = [text for message in messages if (text := message_text(message))]
        shown = "\n".join(texts).split("\n")[-lines:] if lines else []
        self.say("\n".join([f"{title}:", *shown]))

    async def show_transcript(self) -> None:
        raise CommandError("Plain mode has no viewer. /export writes the session to a file.")

    async def submit(self, text: str) -> None:
        await self.handle.submit(text, (), "steer")
        await self.handle.settled()

    async def run_bash(self, command: str, *, exclude: bool) -> None:
        before = self._output.bash_updates
        result = await self.handle.bash(command, exclude=exclude)
        if result.output and self._output.bash_updates == before:
            self._output.say(result.output if result.output.endswith("\n") else f"{result.output}\n")
        if isinstance(result.exit_code, int) and result.exit_code:
            self.say(f"Exit code {result.exit_code}")

    def redraw(self) -> None:
        pass

    def quit(self) -> None:
        self._quit()

    def hotkeys(self) -> Sequence[Hotkey]:
        rows = [("Ctrl+C", "stop the answer; discard the line"), ("Ctrl+D", "exit"), ("Enter", "send the line")]
        return [Hotkey(keys, about) for keys, about in rows]
