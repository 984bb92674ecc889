"""What a model means by a path.

Models copy paths from prompts (`@src/a.py`) and from listings, where a space may
be another character than the one in the file's name.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterator

from tau.errors import ToolError

_ODD_SPACE = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_BEFORE_AM_PM = re.compile(r" (?=(?:AM|PM)\.)", re.IGNORECASE)


def resolve(path: str, cwd: str) -> str:
    """The absolute path, whether or not something is there."""
    return _absolute(_ODD_SPACE.sub(" ", path.removeprefix("@")), cwd)


def existing(path: str, cwd: str, is_there: Callable[[str], bool] = os.path.lexists) -> str:
    """The absolute path of a file that is there under this name or one that looks the same; else as `resolve`."""
    first = resolve(path, cwd)
    return next((name for name in (first, *_look_alikes(first), _absolute(path, cwd)) if is_there(name)), first)


def _look_alikes(path: str) -> Iterator[str]:
    """macOS writes a narrow space into the names of screenshots, a curly apostrophe, and letters in parts."""
    yield _BEFORE_AM_PM.sub("\u202f", path)
    apart = unicodedata.normalize("NFD", path)
    yield apart
    yield path.replace("'", "\u2019")
    yield apart.replace("'", "\u2019")


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
