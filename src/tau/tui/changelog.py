"""/changelog: what is new in this version, from the file that comes with the source."""

from __future__ import annotations

from pathlib import Path

from tau import __version__

PLACES = (Path(__file__).parents[1] / "CHANGELOG.md", Path(__file__).parents[3] / "CHANGELOG.md")


def changelog_text(places: tuple[Path, ...] = PLACES) -> str:
    """The newest section with a text. Blocks."""
    for path in places:
        try:
            text = path.read_text(encoding="utf-8")
        except OSError:
            continue
        sections = [part.strip() for part in text.split("\n## ")[1:]]
        newest = next((part for part in sections if "\n" in part), "")
        if newest:
            return f"tau {__version__}\n\n{newest}"
    return f"tau {__version__}. This installation has no changelog."
