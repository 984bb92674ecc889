"""Loads the sessions of the picker behind it: first the heads of all files, then what can be searched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tau.errors import CommandError
from tau.screen.modals.session_picker import SessionPicker
from tau.screen.modals.session_search import SessionItem

if TYPE_CHECKING:
    from tau.runtime.app.session_files import SessionFiles

HEADS_AT_ONCE = 200
CONTENTS_AT_ONCE = 20
MAX_TEXT = 100_000  # characters of one session that can be searched
MAX_ALL_TEXT = 50_000_000  # and of all
REFRESH_S = 0.2


class SessionLoader:
    """`changed` is called when the picker shows something else."""

    def __init__(self, files: SessionFiles, picker: SessionPicker, changed: Callable[[], None]) -> None:
        self._files = files
        self._picker = picker
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._room = MAX_ALL_TEXT
        self._refreshed = 0.0

    def start(self, paths: Sequence[Path]) -> None:
        """Load these files."""
        self.stop()
        self._task = asyncio.get_running_loop().create_task(self._load_or_say_why(paths))

    def start_everywhere(self) -> None:
        """Load the sessions of all folders."""
        self.stop()
        self._task = asyncio.get_running_loop().create_task(self._load_or_say_why())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _load_or_say_why(self, paths: Sequence[Path] | None = None) -> None:
        """Load these files, or those of all folders."""
        try:
            await self._load(await self._files.paths(everywhere=True) if paths is None else paths)
        except CommandError as error:
            self._refresh(str(error), now=True)

    async def _load(self, paths: Sequence[Path]) -> None:
        self._room = MAX_ALL_TEXT
        for first in range(0, len(paths), HEADS_AT_ONCE):
            rows = await self._files.heads(paths[first : first + HEADS_AT_ONCE])
            self._picker.add(SessionItem(row) for row in rows)
            self._refresh(f"{first:,} of {len(paths):,}")
        self._refresh("", now=True)
        for first in range(0, len(paths), CONTENTS_AT_ONCE):
            await self._read(paths[first : first + CONTENTS_AT_ONCE])
            self._refresh(f"reading {first:,} of {len(paths):,}")
        self._refresh("", now=True)

    async def _read(self, paths: Sequence[Path]) -> None:
        found = await self._files.contents(paths, max(min(MAX_TEXT, self._room), 0))
        self._room -= sum(len(text) for _, text in found)
        self._picker.add(SessionItem(row, text.lower(), complete=True) for row, text in found)

    def _refresh(self, progress: str, *, now: bool = False) -> None:
        """Show what was added, at most a few times per second."""
        time = asyncio.get_running_loop().time()
        if now or time - self._refreshed >= REFRESH_S:
            self._refreshed = time
            self._picker.progress = progress
            self._picker.refresh()
            self._changed()
