"""The list `packages` of a settings file: adds, replaces and removes entries, by identity."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tau.core.packages.sources import BadSource, LocalSource, NpmSource, Source, parse_source
from tau.store.packages.layout import Layout
from tau.store.settings import SettingsFile


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


def add_entry(file: SettingsFile, layout: Layout, identity: str, text: str) -> bool:
    """Add a source, or replace that of the same package; filters stay. Returns False if it was there already."""

    def edit(entries: list[Any]) -> list[Any]:
        at = next((at for at, entry in enumerate(entries) if identity_of(entry, layout) == identity), None)
        if at is None:
            return [*entries, text]
        entry = entries[at]
        entries[at] = {**entry, "source": text} if isinstance(entry, Mapping) else text
        return entries

    return file.change_list("packages", edit)


def remove_entry(file: SettingsFile, layout: Layout, identity: str) -> bool:
    """Remove a package; returns False if it was not there."""
    return file.change_list(
        "packages", lambda entries: [entry for entry in entries if identity_of(entry, layout) != identity]
    )


def set_filter(file: SettingsFile, change: Callable[[list[Any]], list[Any]]) -> bool:
    """Change the entries for `config`."""
    return file.change_list("packages", change)


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
