"""Reads the user's models.json as JSON. llm/catalog.py interprets it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from tau.records.base import BadRecord, parse
from tau.store.files import read_small
from tau.wire.comments import strip_comments
from tau.wire.position import line_in, line_of

MAX_MODELS_BYTES = 32 * 1024 * 1024


def read_models(path: Path) -> tuple[Any, str | None]:
    """Return the content (None if there is no file) and an error message."""
    try:
        return _parse(read_small(path, MAX_MODELS_BYTES)), None
    except FileNotFoundError:
        return None, None
    except BadRecord as error:
        return None, f"{path}:{line_in(str(error))} is not valid JSON: {error}. The file is ignored."
    except UnicodeDecodeError:
        return None, f"{path} is not valid UTF-8. The file is ignored."
    except OSError as error:
        return None, f"{path} cannot be read: {error.strerror}. The file is ignored."


def _parse(data: bytes) -> Any:
    """Parse JSON with or without comments and trailing commas. Most files have none."""
    with suppress(BadRecord):
        return parse(data)
    return parse(strip_comments(data.decode()).encode())


def problem_line(path: Path, place: str) -> int:
    """The line of a place in the file; 1 if it cannot be found."""
    try:
        return line_of(strip_comments(path.read_bytes().decode()), place)
    except (OSError, ValueError, IndexError):
        return 1
