"""What extensions show in the terminal interface: requests of the session, applied to the state and the application."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from tau.records import terminal_requests as t
from tau.records.dialogs import Notify, SetEditorText, SetTitle, UiRequest
from tau.runtime.extensions.dialogs import Dialogs
from tau.screen.extension_ui import ExtensionUiState
from tau.screen.notice_limit import NoticeLimit

NoticeKind = Literal["info", "warning", "error"]
THEMES_KEPT_S = 5.0  # the list of themes is read from files, and facts are read before every call of an extension


class FrontEnd(Protocol):
    """The parts of the application that extensions can see or change. The calls return at once."""

    def add_notice(self, text: str, kind: NoticeKind) -> None:
        """Add a line to the transcript."""

    def editor_text(self) -> str: ...

    def set_editor_text(self, text: str) -> None: ...

    def paste_to_editor(self, text: str) -> None: ...

    def tools_expanded(self) -> bool: ...

    def set_tools_expanded(self, expanded: bool) -> None: ...

    def title_changed(self) -> None:
        """`ExtensionUiState.title` has changed."""

    def themes(self) -> Sequence[Mapping[str, Any]]:
        """The themes that can be used: `name`, and `path` unless it is built in."""

    def theme(self) -> str:
        """The name of the theme in use."""

    def set_theme(self, theme: str | Mapping[str, Any]) -> str | None:
        """Use a theme, given by its name or as the content of a theme file. Returns what is wrong with it, or None."""


class ExtensionUi:
    """`clock` is in seconds; `changed` is called when the screen must be drawn again."""

    def __init__(
        self,
        dialogs: Dialogs,
        front_end: FrontEnd,
        clock: Callable[[], float],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.state = ExtensionUiState()
        self._front_end = front_end
        self._clock = clock
        self._changed = changed
        self._notices = NoticeLimit()
        self._themes: tuple[float, list[dict[str, Any]]] | None = None  # and when they were read
        dialogs.terminal_facts = self._facts

    def show(self, request: UiRequest) -> bool:
        """Show what an extension requests. False if it is a dialog."""
        if not self.state.apply(request) and not self._apply_to_front_end(request):
            return False
        if isinstance(request, SetTitle):
            self._front_end.title_changed()
        self._changed()
        return True

    def reset(self) -> None:
        """Remove what extensions show: they are loaded again."""
        self.state.clear()
        self._themes = None
        self._front_end.title_changed()
        self._changed()

    def _apply_to_front_end(self, request: UiRequest) -> bool:
        front_end = self._front_end
        match request:
            case Notify(message=message, notify_type=kind):
                self._notify(message, kind if isinstance(kind, str) else "info")
            case SetEditorText(text=text):
                front_end.set_editor_text(text)
            case t.PasteToEditor(text=text):
                front_end.paste_to_editor(text)
            case t.SetToolsExpanded(expanded=expanded):
                front_end.set_tools_expanded(expanded)
            case t.SetTheme(theme=theme):
                if (problem := front_end.set_theme(theme)) is not None:
                    self._notify(problem, "warning")
            case _:
                return False
        return True

    def _notify(self, message: str, kind: NoticeKind) -> None:
        if not self._notices.admit(self._clock()):
            return
        if dropped := self._notices.take_dropped():
            self._front_end.add_notice(f"{dropped} more messages of extensions are not shown.", "warning")
        self._front_end.add_notice(message, kind)

    def _facts(self) -> dict[str, Any]:
        return {
            "editorText": self._front_end.editor_text(),
            "toolsExpanded": self._front_end.tools_expanded(),
            "themes": self._known_themes(),
            "theme": self._front_end.theme(),
        }

    def _known_themes(self) -> list[dict[str, Any]]:
        now = self._clock()
        if self._themes is None or now - self._themes[0] > THEMES_KEPT_S:
            self._themes = now, [dict(theme) for theme in self._front_end.themes()]
        return self._themes[1]
