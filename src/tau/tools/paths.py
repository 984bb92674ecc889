"""Resolves the paths that models give.

Models copy paths from prompts (`@src/a.py`) and from listings, where a space may be a different character from the one
in the file's name.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterator

from tau.errors import ToolError

_ODD_SPACE = "[\u00a0\u2000-\u200a\u202f\u205f\u3000]"
_BEFORE_AM_PM = r"(?i) (?=(?:AM|PM)\.)"


def resolve(path: str, cwd: str) -> str:
    """Return the absolute path, whether or not it exists."""
    return _absolute(re.sub(_ODD_SPACE, " ", path.removeprefix("@")), cwd)


def resolve_existing(path: str, cwd: str, is_there: Callable[[str], bool] = os.path.lexists) -> str:
    """Return the absolute path of a file that exists under this name or a look-alike; otherwise as `resolve`."""
    first = resolve(path, cwd)
    return next((name for name in (first, *_look_alikes(first), _absolute(path, cwd)) if is_there(name)), first)


def _look_alikes(path: str) -> Iterator[str]:
    """Yield what macOS writes: a narrow space in names of screenshots, a curly apostrophe, decomposed letters."""
    yield re.sub(_BEFORE_AM_PM, "\u202f", path)
    decomposed = unicodedata.normalize("NFD", path)
    yield decomposed
    yield path.replace("'", "\u2019")
    yield decomposed.replace("'", "\u2019")


def _absolute(path: str, cwd: str) -> str:
    if "\0" in path:
        raise ToolError(f"No file name can contain a NUL character: {path!r}")
    if path == "~" or path.startswith("~/"):
        path = os.path.expanduser("~") + path[1:]
    path = os.path.normpath(os.path.join(cwd, path))
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise ToolError(f"No file name can contain half of a surrogate pair: {path!r}") from None
    return path
