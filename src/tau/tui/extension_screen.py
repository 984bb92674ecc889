"""Extensions at the terminal: what they show, what they draw, and the keys that they take."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from tau.records.dialogs import UiRequest
from tau.runtime.extensions.dialogs import Dialogs
from tau.screen.bindings import Bindings
from tau.screen.input_events import Key
from tau.screen.renderers import DrawRequest
from tau.tui.extension_calls import ExtensionCalls
from tau.tui.extension_ui import ExtensionUi, FrontEnd
from tau.tui.view import View


class ExtensionScreen:
    """`start` runs a coroutine in the background; `changed` draws the screen again."""

    def __init__(
        self,
        dialogs: Dialogs,
        calls: ExtensionCalls,
        view: View,
        front_end: FrontEnd,
        clock: Callable[[], float],
        *,
        start: Callable[[Coroutine[Any, Any, None]], None],
        changed: Callable[[], None],
    ) -> None:
        self._calls = calls
        self._view = view
        self._start = start
        self._changed = changed
        self._ui = ExtensionUi(dialogs, front_end, clock, changed)
        view.extension_ui = self._ui.state

    def show(self, request: UiRequest) -> None:
        """Show what an extension requests: a status, a widget, a notice, …"""
        self._ui.show(request)

    def reset(self) -> None:
        """Remove what extensions show: they are loaded again."""
        self._ui.reset()

    def run_shortcut(self, key: Key, bindings: Bindings) -> bool:
        """Run the shortcut that an extension has for a key. False if there is none."""
        name = self._calls.shortcut(key, bindings)
        if name is None:
            return False
        self._start(self._press(name))
        return True

    async def _press(self, key: str) -> None:
        await self._calls.press(key)

    def shortcut_warnings(self, bindings: Bindings) -> list[str]:
        return self._calls.shortcut_warnings(bindings)

    def draw(self) -> None:
        """Ask for the parts of the transcript that extensions draw; the answers come in later frames."""
        for request in self._view.transcript.renderers.take_requests():
            self._start(self._draw(request))

    async def _draw(self, request: DrawRequest) -> None:
        if request.part == "message":
            lines = await self._calls.render_message(request.name, request.data, request.width, request.options)
        else:
            lines = await self._calls.render_tool(
                request.name, request.part, request.data, request.width, request.options
            )
        request.answer(lines)
        self._changed()
