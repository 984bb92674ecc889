"""The theme of the screen: built in, or a file of the user, of a trusted project, or of the settings."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tau.runtime.app.factory import SessionFactory
from tau.screen.colors import color_depth, is_light
from tau.screen.styles import Palette
from tau.screen.themes import BUILT_IN, DARK, Theme, chosen_theme, parse_theme
from tau.store.files import read_small
from tau.tui.terminal_facts import supports_hyperlinks

MAX_THEME_BYTES = 1_000_000
DEFAULT = "dark"
FileState = tuple[int, int, int] | None  # what changes when a file does; None: it cannot be read


class ThemeChoice:
    """`places` returns files and folders of themes; a later one wins over an earlier one of the same name, all win over
    the built-in ones.
    """

    def __init__(
        self, setting: str | None, places: Callable[[], Sequence[Path]], true_color: bool | Literal["auto"] = "auto"
    ) -> None:
        self._setting = setting or DEFAULT
        self._places = places
        self._depth = color_depth(os.environ, true_color)
        self._background_is_light: bool | None = None
        self._file: Path | None = None  # of the current theme
        self._file_state: FileState = None  # when it was read
        self.current = DARK
        self.problems: list[str] = []
        if problem := self.use(self._name()):
            self.problems.append(problem)

    def use_setting(self, setting: str | None, true_color: bool | Literal["auto"]) -> str | None:
        """Use the theme and the number of colours of changed settings. Returns what is wrong with the theme."""
        self._setting = setting or DEFAULT
        self._depth = color_depth(os.environ, true_color)
        return self.use(self._name())

    def _name(self) -> str:
        return chosen_theme(self._setting, self._background_is_light)

    def palette(self) -> Palette:
        return Palette(self.current, self._depth, links=supports_hyperlinks(os.environ))

    def use(self, theme: str | Mapping[str, Any]) -> str | None:
        """Use a theme, given by its name or as the content of a theme file. Returns what is wrong with it, or None."""
        if isinstance(theme, str):
            path = self.files().get(theme)
            if path is None and theme in BUILT_IN:
                self.current, self._file = BUILT_IN[theme], None
                return None
            if path is None:
                return f"There is no theme {theme!r}. The themes are {', '.join(self.names())}."
            return self._use_file(path)
        return self._use_content(theme, "The theme")

    def names(self) -> list[str]:
        return list(dict.fromkeys([*BUILT_IN, *self.files()]))

    def files(self) -> dict[str, Path]:
        """The theme files by the names of their themes."""
        found: dict[str, Path] = {}
        for place in self._places():
            for path in sorted(place.glob("*.json")) if os.path.isdir(place) else [place] * os.path.isfile(place):
                theme, _ = _read(path)
                if theme is not None:
                    found[theme.name] = path
        return found

    @property
    def has_file(self) -> bool:
        """False for a theme that is built in."""
        return self._file is not None

    def file_changed(self) -> bool:
        """True if the file of the current theme is not as it was when it was read."""
        return self._file is not None and _file_state(self._file) not in (self._file_state, None)

    def reread(self) -> str | None:
        """Read the file of the current theme again. Returns what is wrong with it."""
        return None if self._file is None else self._use_file(self._file)

    def background(self, reply: str) -> bool:
        """The terminal said what its background is: a colour, "light" or "dark". True if that changes the theme."""
        self._background_is_light = reply == "light" if reply in ("light", "dark") else is_light(reply)
        name = self._name()
        return name != self.current.name and "/" in self._setting and self.use(name) is None

    def _use_file(self, path: Path) -> str | None:
        self._file_state = _file_state(path)
        theme, problem = _read(path)
        if theme is not None:
            self.current, self._file = theme, path
        return problem

    def _use_content(self, content: Any, where: str) -> str | None:
        theme, warnings = parse_theme(content)
        if theme is not None:
            self.current, self._file = theme, None
        return f"{where}: {'; '.join(warnings)}" if warnings else None


def _read(path: Path) -> tuple[Theme | None, str | None]:
    try:
        content = json.loads(read_small(path, MAX_THEME_BYTES).decode("utf-8", "replace"))
    except (OSError, ValueError, RecursionError) as error:
        return None, f"{path}: {error}"
    theme, warnings = parse_theme(content)
    return theme, f"{path}: {'; '.join(warnings)}" if warnings else None


def _file_state(path: Path) -> FileState:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def theme_places(factory: SessionFactory) -> list[Path]:
    """Where themes are: the user's folder, a trusted project's, the paths of the settings, packages, and --theme."""
    cwd, requested = Path(factory.cwd), factory.options.resources
    given = [Path(factory.start, os.path.expanduser(path)) for path in requested.themes]
    if requested.no_themes:
        return given
    project = [cwd / ".pi" / "themes"] if factory.trusted else []
    named = [cwd / os.path.expanduser(path) for path in factory.settings.themes]
    packages = factory.config.packages
    packaged = [] if packages is None else [one.path for one in packages.resources().used("themes")]
    return [factory.config.agent_dir / "themes", *project, *named, *packaged, *given]
