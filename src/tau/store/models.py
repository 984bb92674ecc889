"""Reads the user's models.json as JSON. llm/catalog.py interprets it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tau.records.base import BadRecord, parse
from tau.wire.comments import strict


def read_models(path: Path) -> tuple[Any, str | None]:
    """Return the content (None if there is no file) and an error message."""
    try:
        return parse(strict(path.read_bytes().decode()).encode()), None
    except FileNotFoundError:
        return None, None
    except BadRecord as error:
        return None, f"Failed to parse models.json: {error}\n\nFile: {path}"
    except (OSError, UnicodeDecodeError) as error:
        return None, f"Failed to load models.json: {error}\n\nFile: {path}"
