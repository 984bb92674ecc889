"""The list `packages` of a settings file: adds, replaces and removes entries, by identity."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tau.core.packages.sources import BadSource, LocalSource, NpmSource, Source, parse_source
from tau.store.packages.layout import Layout
from tau.store.settings import SettingsFile
from tau.store.upcoming_changes import Expect, UpcomingChange


def settings_text(source: Source, layout: Layout, cwd: Path) -> str:
    """Return how settings write a source: a path is relative to the folder of the settings file."""
    if not isinstance(source, LocalSource):
        return source.text
    return os.path.relpath(absolute(source, cwd), layout.base)


def absolute(source: LocalSource, cwd: Path) -> Path:
    return Path(os.path.normpath(cwd / os.path.expanduser(source.path)))


def identity_of(entry: Any, layout: Layout) -> str | None:
    """Return the identity of an entry; None if it has no valid source."""
    text = entry.get("source") if isinstance(entry, Mapping) else entry
    try:
        return layout.identity(parse_source(text)) if isinstance(text, str) else None
    except BadSource:
        return None


def add_entry(file: SettingsFile, layout: Layout, identity: str, text: str, expect: Expect | None = None) -> bool:
    """Add a source, or replace that of the same package; filters stay. Returns False if it was there already."""

    def edit(entries: list[Any]) -> list[Any]:
        at = next((at for at, entry in enumerate(entries) if identity_of(entry, layout) == identity), None)
        if at is None:
            return [*entries, text]
        entry = entries[at]
        entries[at] = {**entry, "source": text} if isinstance(entry, Mapping) else text
        return entries

    return change_entries(file, edit, expect)


def remove_entry(file: SettingsFile, layout: Layout, identity: str, expect: Expect | None = None) -> bool:
    """Remove a package; returns False if it was not there."""

    def edit(entries: list[Any]) -> list[Any]:
        return [entry for entry in entries if identity_of(entry, layout) != identity]

    return change_entries(file, edit, expect)


def change_entries(file: SettingsFile, edit: Callable[[list[Any]], list[Any]], expect: Expect | None = None) -> bool:
    """Change the list; `expect` is called before the file is written. Returns False if nothing changed."""

    def announce(data: bytes, entries: list[Any]) -> None:
        if expect is not None:
            expect(UpcomingChange(files={file.path: data}, packages=entries))

    return file.change_list("packages", edit, announce)


def suggestion(text: str, configured: Sequence[str]) -> str:
    """Return the configured source that was probably meant; "" if there is none."""
    wanted = text.strip()
    for each in configured:
        try:
            source = parse_source(each)
        except BadSource:
            continue
        if isinstance(source, LocalSource):
            continue
        names = [source.name, source.spec] if isinstance(source, NpmSource) else [source.identity.removeprefix("git:")]
        if wanted in names or wanted.partition("@")[0] in names:
            return each
    return ""
