"""How the screen looks, for commands: themes to choose from, and settings that apply at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tau.records.settings import Settings
from tau.tui.theme_choice import ThemeChoice


class ScreenLooks:
    """`use_palette` draws the screen in the colours of the theme; `follow` applies the other settings of the screen."""

    def __init__(self, themes: ThemeChoice, use_palette: Callable[[], None], follow: Callable[[], None]) -> None:
        self._themes = themes
        self._use_palette = use_palette
        self._follow = follow

    def theme_names(self) -> Sequence[str]:
        return self._themes.names()

    def preview_theme(self, name: str) -> None:
        self._themes.use(name)
        self._use_palette()

    def use_settings(self, settings: Settings) -> str | None:
        problem = self._themes.use_setting(settings.theme, settings.terminal.true_color)
        self._use_palette()
        self._follow()
        return problem
