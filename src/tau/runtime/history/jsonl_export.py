"""Export of the current branch of a session as a session file of its own, which `--session` and `/import` open."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from tau.core.conversation.tree import Tree
from tau.errors import CommandError
from tau.records.base import encode
from tau.runtime.history.html_export import write_export
from tau.runtime.history.session_log import SessionLog

HEADER_BYTES = 200


def export_branch(log: SessionLog, cwd: str, wanted: str | None) -> str:
    """Write the branch and return its path: `wanted`, or a name with the time in the working directory. Blocks.

    An existing file is replaced only if it is a session file too.
    """
    if not log.message_count:
        raise CommandError("Nothing to export yet - start a conversation first")
    name = wanted or f"session-{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}.jsonl"
    path = Path(cwd, Path(name).expanduser())
    if log.path is not None and os.path.realpath(path) == os.path.realpath(log.path):
        raise CommandError(f"Cannot export to {path}: it is the file of this session")
    write_export(_lines(log), path, overwrite=_is_session(path))
    return name


def _is_session(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return b'"type":"session"' in file.read(HEADER_BYTES).replace(b" ", b"")
    except OSError:
        return False


def _lines(log: SessionLog) -> Iterator[bytes]:
    yield encode(log.header).rstrip() + b"\n"
    tree, parent = log.tree, None
    for at in tree.branch:
        yield _line(tree, at, parent).rstrip() + b"\n"
        parent = tree.id(at)


def _line(tree: Tree, at: int, parent: str | None) -> bytes:
    """The line of an entry; it names the entry before it, also where the file names one that is missing."""
    line = tree.line(at)
    if not tree.has_repaired_parents:
        return line
    entry = json.loads(line)
    if entry.get("parentId") == parent:
        return line
    return json.dumps({**entry, "parentId": parent}, ensure_ascii=False, separators=(",", ":")).encode()
