"""How deeply JSON may be nested: a constant of ours, the same on every version of Python.

The limits of the interpreter differ (about 1,000 levels less the depth of the stack in 3.11, 1,500 in 3.12, 10,000 in
3.13), and code that walks a value by recursion fails earlier than the readers do. Both limits below are low enough for
two Python frames per level.
"""

from __future__ import annotations

import re
from itertools import accumulate

MAX_NESTING = 320
# For what clients, models and extensions send: tau wraps it into records of its own and must be able to read those.
MAX_RECEIVED_NESTING = 256

_MARKS = b'"[]{}'
_OTHERS = bytes(set(range(256)) - set(_MARKS))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # +1 and -1 as signed bytes
_STRING = re.compile(rb'"[^"]*"?')


def too_deep(data: bytes, limit: int = MAX_NESTING, start: int = 0, end: int | None = None) -> bool:
    """True if the JSON in `data[start:end]` has more than `limit` levels of arrays and objects.

    Nearly every text is too short for that, or has too few brackets, and is not looked at closely.
    """
    end = len(data) if end is None else end
    if end - start <= 2 * limit:  # with all its brackets closed it is not that deep; if they are not, it is not JSON
        return False
    if data.count(b"[", start, end) + data.count(b"{", start, end) <= limit:
        return False
    return depth(data[start:end]) > limit


def depth(data: bytes) -> int:
    """The levels of arrays and objects in a JSON text. Linear, and without an object per bracket."""
    marks = data.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _OTHERS)
    # Two quotes without a bracket between them change nothing, and most strings are that.
    outside = _STRING.sub(b"", marks.replace(b'""', b""))
    return max(accumulate(memoryview(outside.translate(_STEPS)).cast("b")), default=0)
