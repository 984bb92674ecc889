"""Limits on the nesting depth of JSON: constants of tau, the same on every version of Python.

The limits of the interpreter differ (about 1,000 levels less the depth of the stack in 3.11, 1,500 in 3.12, 10,000 in
3.13, what fits in the stack in 3.14), and code that walks a value by recursion fails earlier than the parsers do. Both
limits below are low enough for two Python frames per level.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

MAX_NESTING = 320
# For data that clients, models and extensions send: tau wraps it in its own records and must be able to read those.
MAX_RECEIVED_NESTING = 256

_MARKS = b'"[]{}'
_OTHERS = bytes(set(range(256)) - set(_MARKS))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # +1 and -1 as signed bytes
_STRING = rb'"[^"]*"?'


def too_deep(data: bytes, limit: int = MAX_NESTING) -> bool:
    """True if a JSON text has more than `limit` levels of arrays and objects.

    Nearly every text is too short for that, or has too few brackets, and is not scanned.
    """
    if len(data) <= 2 * limit:  # with all brackets closed it cannot be that deep; otherwise it is not JSON
        return False
    return len(data) - len(data.translate(None, b"[{")) > limit and depth(data) > limit


def is_deeper(value: Any, limit: int) -> bool:
    """True if a JSON value has more than `limit` levels of arrays and objects."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        if not level:
            return False
        level = [item for one in level for item in _items(one) if isinstance(item, dict | list)]
    return bool(level)


def _items(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def depth(data: bytes) -> int:
    """Number of levels of arrays and objects in a JSON text. Linear, and without an object per bracket."""
    marks = data.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _OTHERS)
    # Two quotes without a bracket between them have no effect, and most strings are like that.
    outside = re.sub(_STRING, b"", marks.replace(b'""', b""))
    return max(accumulate(memoryview(outside.translate(_STEPS)).cast("b")), default=0)
