"""How the screen looks, for commands: themes to choose from, and settings and files that apply at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tau.records.settings import Settings
from tau.tui.terminal_facts import TerminalFacts
from tau.tui.theme_choice import ThemeChoice

WATCH_INTERVAL_S = 1.0


class ScreenLooks:
    """`use_palette` draws the screen in the colours of the theme; `follow` applies the other settings of the screen.

    `reload_keys` reads the key bindings again and returns the mistakes in them.
    """

    def __init__(
        self,
        themes: ThemeChoice,
        use_palette: Callable[[], None],
        follow: Callable[[], None],
        reload_keys: Callable[[], Sequence[str]],
        terminal_facts: Callable[[], TerminalFacts],
        screen_text: Callable[[], str],
    ) -> None:
        self._themes = themes
        self._use_palette = use_palette
        self._follow = follow
        self._reload_keys = reload_keys
        self.terminal_facts = terminal_facts
        self.screen_text = screen_text
        self._theme_changed = asyncio.Event()

    @property
    def problems(self) -> Sequence[str]:
        """What was wrong with the theme at the start."""
        return self._themes.problems

    def theme_names(self) -> Sequence[str]:
        return self._themes.names()

    def preview_theme(self, name: str) -> None:
        self._themes.use(name)
        self._show()

    def background(self, reply: str) -> None:
        """The terminal said what its background is."""
        if self._themes.background(reply):
            self._show()

    def use_settings(self, settings: Settings) -> str | None:
        problem = self._themes.use_setting(settings.theme, settings.terminal.true_color)
        self._show()
        self._follow()
        return problem

    def reload(self, settings: Settings) -> Sequence[str]:
        problem = self.use_settings(settings)
        return [*self._reload_keys(), *([problem] if problem else [])]

    def _show(self) -> None:
        self._theme_changed.set()
        self._use_palette()

    async def watch(self, report: Callable[[str], None]) -> None:
        """Use the theme's file again when it changes. A theme that is built in costs nothing."""
        while True:
            self._theme_changed.clear()
            while not await self._other_theme(WATCH_INTERVAL_S if self._themes.has_file else None):
                if self._themes.file_changed():
                    if problem := self._themes.reread():
                        report(problem)
                    self._use_palette()

    async def _other_theme(self, timeout_s: float | None) -> bool:
        """Wait until another theme is used. False: the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._theme_changed.wait()
        except TimeoutError:
            return False
