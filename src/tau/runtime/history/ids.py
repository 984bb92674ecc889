"""Random ids of sessions and of their entries."""

from __future__ import annotations

import os

from tau.core.conversation.tree import Tree
from tau.runtime.clock import now

SMALL_TREE = 4096  # entries


def session_id() -> str:
    """Return a UUID of version 7, so that ids sort by time."""
    digits = f"{now():012x}" + os.urandom(10).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-7{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def entry_id(tree: Tree) -> str:
    """Return an id that no entry of the tree has."""
    if len(tree) > SMALL_TREE:  # long enough to need no check for collisions in a large tree
        return os.urandom(8).hex()
    while (id := os.urandom(4).hex()) in tree:
        pass
    return id
