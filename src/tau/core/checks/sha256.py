"""SHA-256 of small data without the module hashlib: that loads OpenSSL, which takes longer than small digests do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

MAX_OWN_BYTES = 1024 * 1024  # beyond that, OpenSSL is faster even if it must be loaded


def sha256_hex(data: bytes) -> str:
    """Return the digest as hexadecimal digits."""
    if "hashlib" not in sys.modules and len(data) <= MAX_OWN_BYTES:
        return str(_own_function()(data).hexdigest())
    import hashlib

    return hashlib.sha256(data).hexdigest()


def _own_function() -> Callable[[bytes], Any]:
    """Return Python's own implementation, whose module is not documented: that of 3.12 and later, or that of 3.11."""
    try:
        if sys.version_info >= (3, 12):
            from _sha2 import sha256  # type: ignore[import-not-found,unused-ignore]
        else:
            from _sha256 import sha256  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        from hashlib import sha256
    function: Callable[[bytes], Any] = sha256
    return function
