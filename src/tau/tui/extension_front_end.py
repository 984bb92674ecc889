"""What extensions can see and change of the screen: the editor, the transcript, the title and the theme."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tau.tui.extension_ui import NoticeKind
from tau.tui.theme_choice import ThemeChoice
from tau.tui.view import View


class ScreenFrontEnd:
    """`set_title` writes the title of the terminal; `use_palette` draws the screen in the colours of the theme."""

    def __init__(
        self, view: View, themes: ThemeChoice, use_palette: Callable[[], None], set_title: Callable[[], None]
    ) -> None:
        self._view = view
        self._themes = themes
        self._use_palette = use_palette
        self.title_changed = set_title

    def add_notice(self, text: str, kind: NoticeKind) -> None:
        self._view.transcript.add_notice(text, kind)

    def editor_text(self) -> str:
        return self._view.editor.expanded()

    def set_editor_text(self, text: str) -> None:
        self._view.editor.set_text(text)

    def paste_to_editor(self, text: str) -> None:
        self._view.editor.paste(text)

    def tools_expanded(self) -> bool:
        return self._view.transcript.expanded

    def set_tools_expanded(self, expanded: bool) -> None:
        self._view.transcript.expanded = expanded

    def themes(self) -> Sequence[Mapping[str, Any]]:
        files = self._themes.files()
        return [
            {"name": name, **({"path": str(files[name])} if name in files else {})} for name in self._themes.names()
        ]

    def theme(self) -> str:
        return self._themes.current.name

    def set_theme(self, theme: str | Mapping[str, Any]) -> str | None:
        problem = self._themes.use(theme)
        self._use_palette()
        return problem
