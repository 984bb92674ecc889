"""A session in the mode "tui" with a scripted model, and the parts of the terminal interface that answer it.

There is no terminal: keys are pressed by calls, and the clock of the keys is the test's own.
"""

from __future__ import annotations

import asyncio
import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.in_process_session import inside
from support.rpc_process import Json
from tau.core.agent.draft import Update
from tau.records.dialogs import Confirm, Editor, Input, Select, UiRequest
from tau.records.events import Event, ExtensionError, ToolEnd
from tau.runtime.app.factory import load
from tau.runtime.app.options import SessionOptions, SessionTarget
from tau.screen.bindings import Bindings
from tau.screen.input_events import Key
from tau.screen.lines import plain_text
from tau.screen.panels.focus import GUARD_S, QUIET_S
from tau.tui.extension_ui import ExtensionUi, NoticeKind
from tau.tui.questions import Questions

WITHIN_S = 20.0
BINDINGS = Bindings()


def call(tool: str, id: str = "c1", **arguments: Any) -> Json:
    return {"id": id, "tool": tool, "arguments": arguments}


class TerminalSession:
    """A session in the mode "tui", and the questions at its terminal."""

    def __init__(
        self,
        folder: Path,
        *answers: Json,
        permissions: Any = "ask",
        extension: str = "",
        name: str = "extension.py",
        settings: Json | None = None,
    ) -> None:
        for each in ("agent", "work"):
            (folder / each).mkdir(parents=True, exist_ok=True)
        (folder / "script.json").write_text(json.dumps({"answers": [*answers, {"text": "done"}]}))
        (folder / "agent" / "settings.json").write_text(json.dumps({"toolExecution": "parallel", **(settings or {})}))
        (folder / name).write_text(textwrap.dedent(extension))
        options = SessionOptions(
            model="scripted",
            script=str(folder / "script.json"),
            session=SessionTarget(folder=str(folder / "sessions")),
            permissions=permissions,
            extensions=[str(folder / name)] if extension else [],
        )
        self.sent: list[UiRequest] = []
        self.results: list[ToolEnd] = []
        self.errors: list[ExtensionError] = []
        self.now = 1000.0
        self.editor = ""
        self._changed = asyncio.Event()
        with inside(folder / "work"):
            self.handle = load(folder / "agent", options, {}).open(self._receive, "tui")
        dialogs = self.handle.dialogs
        self.questions = Questions(dialogs, lambda: self.now, lambda: not self.editor, self._changed.set)
        self.front_end = RecordingFrontEnd(self)
        self.ui = ExtensionUi(dialogs, self.front_end, lambda: self.now, self._changed.set)

    def _receive(self, event: Event | Update | UiRequest) -> None:
        if isinstance(event, UiRequest):
            self.sent.append(event)
            self.ui.show(event)
        if isinstance(event, Select | Confirm | Input | Editor):
            self.questions.add(event)
        if isinstance(event, ExtensionError):
            self.errors.append(event)
        if isinstance(event, ToolEnd):
            self.results.append(event)
        self._changed.set()

    async def until(self, done: Any) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not done():
                self._changed.clear()
                await self._changed.wait()

    async def run(self, text: str = "go") -> asyncio.Task[None]:
        await self.handle.submit(text, [], None)
        return asyncio.create_task(self.handle.settled())

    def press(self, *names: str) -> None:
        """Press keys, each after a pause that is long enough for a question to take the focus and to get keys."""
        for name in names:
            for pause in (QUIET_S, GUARD_S):
                self.now += pause
                self.questions.view(80, 24)
            text = name if len(name) == 1 else " " if name == "space" else ""
            key = Key(name, text)
            assert self.questions.key(key, BINDINGS.actions(key)), name

    def screen(self, rows: int = 24) -> list[str]:
        view = self.questions.view(80, rows)
        return [] if view is None else [plain_text(row).rstrip() for row in view.lines]

    def result(self, number: int = -1) -> tuple[bool, str, Any]:
        end = self.results[number]
        return end.is_error, getattr(end.result.content[0], "text", ""), end.result.details


class RecordingFrontEnd:
    """The application, as extensions see it."""

    def __init__(self, terminal: TerminalSession) -> None:
        self._terminal = terminal
        self.notices: list[tuple[str, str]] = []
        self.pasted: list[str] = []
        self.expanded = False
        self.titles: list[str | None] = []
        self.used_theme: Any = "dark"
        self.themes_read = 0

    def add_notice(self, text: str, kind: NoticeKind) -> None:
        self.notices.append((kind, text))

    def editor_text(self) -> str:
        return self._terminal.editor

    def set_editor_text(self, text: str) -> None:
        self._terminal.editor = text

    def paste_to_editor(self, text: str) -> None:
        self.pasted.append(text)
        self._terminal.editor += text

    def tools_expanded(self) -> bool:
        return self.expanded

    def set_tools_expanded(self, expanded: bool) -> None:
        self.expanded = expanded

    def title_changed(self) -> None:
        self.titles.append(self._terminal.ui.state.title)

    def themes(self) -> list[dict[str, Any]]:
        self.themes_read += 1
        return [{"name": "dark"}, {"name": "mine", "path": "/themes/mine.json"}]

    def theme(self) -> str:
        return str(self.used_theme)

    def set_theme(self, theme: str | Mapping[str, Any]) -> str | None:
        if isinstance(theme, Mapping) and "colors" not in theme:
            return "The theme has no colors."
        self.used_theme = theme
        return None
