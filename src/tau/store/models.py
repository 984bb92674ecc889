"""The user's models.json, as JSON; what it means is decided in llm/catalog.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tau.records.base import BadRecord, parse
from tau.wire.comments import strict


def read_models(path: Path) -> tuple[Any, str | None]:
    """The content (None if there is no file), and what is wrong with it."""
    try:
        return parse(strict(path.read_bytes().decode()).encode()), None
    except FileNotFoundError:
        return None, None
    except BadRecord as error:
        return None, f"Failed to parse models.json: {error}\n\nFile: {path}"
    except (OSError, UnicodeDecodeError) as error:
        return None, f"Failed to load models.json: {error}\n\nFile: {path}"
