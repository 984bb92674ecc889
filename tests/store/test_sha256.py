"""Digests of small files need no OpenSSL."""

from __future__ import annotations

import subprocess
import sys
from hashlib import sha256

from tau.core.checks.sha256 import MAX_OWN_BYTES, sha256_hex

PROGRAM = """
import sys
from tau.core.checks.sha256 import sha256_hex
print(sha256_hex(b"abc"), "hashlib" in sys.modules)
"""


def test_a_small_digest_is_made_without_hashlib() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == [sha256(b"abc").hexdigest(), "False"]


def test_large_data_has_the_same_digest() -> None:
    data = b"x" * (MAX_OWN_BYTES + 1)
    assert sha256_hex(data) == sha256(data).hexdigest()
