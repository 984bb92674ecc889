"""Everything around the prompt editor: its history file, completions, the clipboard and an external editor."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tau.concurrency.threads import run_in_thread
from tau.errors import CommandError
from tau.records.base import Value
from tau.records.messages import Image
from tau.runtime.app.handle import SessionHandle
from tau.screen.bindings import Bindings
from tau.screen.completion import CompletionList, Proposal, Query
from tau.screen.editor import Editor
from tau.screen.history import History, HistoryEntry
from tau.screen.prompt import Prompt
from tau.tui.command_list import CommandList
from tau.tui.completions import Completions
from tau.tui.extension_calls import ExtensionCalls
from tau.tui.extension_proposals import ExtensionProposals
from tau.tui.file_index import FileIndex
from tau.tui.history_file import HistoryFile
from tau.tui.image_files import dropped_images
from tau.tui.platform import current_platform

if TYPE_CHECKING:
    from tau.tui.clipboard import Clipboard


class TypedPrompt(Value):
    text: str
    images: Sequence[Image]


class PromptInput:
    """`offer` gets the completions that were found."""

    def __init__(
        self,
        handle: SessionHandle,
        agent_dir: Path,
        offer: Callable[[Query, Sequence[Proposal]], None],
        extension_calls: ExtensionCalls,
    ) -> None:
        self._handle = handle
        self._agent_dir = agent_dir
        self.platform = current_platform(os.environ)
        self.problems: list[str] = []
        self._history = HistoryFile(agent_dir, handle.cwd)
        self.editor = Editor(self._load_history())
        self.commands = CommandList(handle, extension_calls)
        completion = CompletionList(handle.settings.autocomplete_max_visible)
        self.prompt = Prompt(self.editor, completion)
        self._of_extensions = ExtensionProposals(extension_calls, self.editor)
        self.completions = Completions(
            FileIndex(handle.cwd), self.commands.entries, offer, lambda: [self._of_extensions.find]
        )

    def use_folder(self) -> None:
        """Complete names of files in the folder of the session, which may be another one now."""
        if self.completions.index.cwd != self._handle.cwd:
            self.completions.index = FileIndex(self._handle.cwd)

    def _load_history(self) -> History:
        try:
            return History(self._history.load(), self._newer_history)
        except OSError as error:
            self.problems.append(f"The prompt history cannot be read: {error}")
            return History()

    def _newer_history(self) -> list[HistoryEntry] | None:
        """The prompts of other processes too, if there are new ones."""
        with suppress(OSError):
            return self._history.load() if self._history.changed() else None
        return None

    def load_bindings(self) -> Bindings:
        """The keys of keybindings.json; its mistakes are added to `problems`."""
        try:
            text = (self._agent_dir / "keybindings.json").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return Bindings(self.platform)
        bindings, warnings = Bindings.parse(text, self.platform)
        self.problems += warnings
        return bindings

    async def update_commands(self) -> None:
        """The session has other commands: its extensions were loaded. A list that is open shows them too."""
        await self.commands.update()
        if (query := self.prompt.completion.query) is not None:
            self.completions.ask(query)

    def take(self) -> tuple[TypedPrompt, HistoryEntry | None]:
        """The text and images to send, and the entry to add to the history."""
        before = self.editor.history.entries
        taken = self.editor.take()
        after = self.editor.history.entries
        self.completions.cancel()
        self.prompt.completion.close()
        images = [Image(base64.b64encode(image.data).decode(), image.mime_type) for image in taken.images]
        return TypedPrompt(taken.text, images), after[-1] if after and after != before else None

    async def save(self, entry: HistoryEntry) -> None:
        try:
            await run_in_thread(lambda: self._history.append(entry), "prompt history")
        except (OSError, TimeoutError) as error:
            raise CommandError(f"The prompt could not be added to the history: {error}") from None

    async def edit_externally(self, handed_over: AbstractContextManager[object]) -> None:
        """Let an external editor change the text. `handed_over` gives it the terminal."""
        self.editor.set_expanded(await self.show_externally(self.editor.expanded(), handed_over))

    async def show_externally(self, text: str, handed_over: AbstractContextManager[object]) -> str:
        """Open a text in an external editor. Returns it as the editor left it."""
        from tau.tui.external_editor import edit_externally, editor_command

        command = editor_command(self._handle.settings.external_editor, os.environ, self._handle.cwd)
        edited = await edit_externally(text, command, handed_over)
        if edited.text is None:
            raise CommandError(edited.error)
        return edited.text

    def paste(self, text: str) -> Query | None:
        """Insert pasted text; the paths of images that were dropped onto the terminal become images.

        Returns what to look for completions of.
        """
        images = dropped_images(text)
        for image in images:
            self.editor.insert_image(image)
        return None if images else self.prompt.paste(text)

    def _clipboard(self) -> Clipboard:
        from tau.tui.clipboard import Clipboard

        return Clipboard(self.platform, os.environ, self._handle.cwd)

    async def paste_clipboard(self) -> None:
        """Insert the image in the clipboard, or its text."""
        content = await self._clipboard().read()
        if content.image is not None:
            self.editor.insert_image(content.image)
        elif content.text:
            self.editor.paste(content.text)
        else:
            raise CommandError(content.error or "The clipboard is empty.")

    async def copy(self, text: str, write: Callable[[bytes], None]) -> str:
        """Copy to the clipboard. `write` sends a sequence to the terminal. Returns how it was done."""
        copied = await self._clipboard().copy(text)
        if copied.error:
            raise CommandError(copied.error)
        write(copied.sequence)
        return f"with {copied.method}"
