"""Surface: what a slash command may do with the interface it was typed in, the screen or plain lines."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Literal, Protocol

from tau.records.settings import Settings
from tau.runtime.app.handle import SessionHandle
from tau.screen.hotkeys import Hotkey
from tau.screen.modals import Modal, Outcome
from tau.tui.terminal_facts import TerminalFacts

NoticeKind = Literal["info", "warning", "error"]


class Looks(Protocol):
    def theme_names(self) -> Sequence[str]:
        """The names of the themes, built in or of files."""

    def preview_theme(self, name: str) -> None:
        """Show a theme for now."""

    def use_settings(self, settings: Settings) -> str | None:
        """Use what the settings say about the screen, and read theme files again. Returns what is wrong with them."""

    def terminal_facts(self) -> TerminalFacts:
        """What the terminal has answered."""

    def screen_text(self) -> str:
        """What is on the screen now, as text."""

    def reload(self, settings: Settings) -> Sequence[str]:
        """Read keybindings.json and the themes again. Returns what is wrong with them."""


class Surface(Protocol):
    @property
    def handle(self) -> SessionHandle: ...

    @property
    def looks(self) -> Looks | None:
        """The themes, and what settings change on the screen; None in plain mode, which has no screen."""

    def say(self, text: str, kind: NoticeKind = "info") -> None:
        """Show a message of tau; it may have several lines."""

    async def choose(self, title: str, options: Sequence[str], chosen: int = 0) -> int | None:
        """Let the user choose. Returns the index of an option, or None."""

    async def open(self, modal: Modal) -> Outcome:
        """Show a modal until it closes. Plain mode shows a list as numbered lines and refuses other modals."""

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside an open modal. Its errors become notices. Plain mode has no modals and refuses it."""

    def changed(self) -> None:
        """What is shown has changed, for example in an open modal: draw it."""

    def key_label(self, action: str) -> str:
        """The key of an action as people write it, such as "Ctrl+S"; "" if it has none."""

    @property
    def has_screen(self) -> bool:
        """False in plain mode."""

    def set_editor_text(self, text: str, *, replace: bool = True) -> None:
        """Put a text into the editor. Without `replace`, only into an empty one."""

    async def copy(self, text: str) -> str:
        """Copy to the clipboard. Returns how."""

    def show_session(self, title: str, lines: int) -> None:
        """Another session or branch is open: say which, and show its last lines."""

    def show_messages(self, title: str, messages: Sequence[object], lines: int) -> None:
        """Show the last lines of a conversation that is not opened."""

    async def show_transcript(self) -> None:
        """View the whole branch."""

    async def submit(self, text: str) -> None:
        """Send a prompt, as if it had been typed."""

    async def run_bash(self, command: str, *, exclude: bool) -> None:
        """Run a command of the user and show its output. With `exclude` the model does not see it."""

    def redraw(self) -> None:
        """Draw the screen again."""

    def quit(self) -> None:
        """Exit the program."""

    def hotkeys(self) -> Sequence[Hotkey]:
        """The keys and what they do."""
