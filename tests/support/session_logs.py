"""Session logs for tests: made, opened again, and looked at."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.loop_kit import user
from tau.records.base import Raw, decode
from tau.records.entries import (
    AnyEntry,
)
from tau.records.lines import UnknownEntry
from tau.runtime.history.session_log import SessionLog
from tau.store.sessions import open_session

Json = dict[str, Any]


def sent(log: SessionLog) -> list[bytes]:
    """The messages as a client gets them."""
    return [bytes(one) for one in decode(list[Raw], b"".join(log.messages_json()))]


def unheard(error: OSError) -> None:
    raise AssertionError(f"nobody expected {error}")


def new(folder: Path | None = None, trouble: Callable[[OSError], None] = unheard, **more: Any) -> SessionLog:
    return SessionLog.new("/work", folder, trouble, **more)


def told(*texts: str, folder: Path | None = None, trouble: Callable[[OSError], None] = unheard) -> SessionLog:
    log = new(folder, trouble)
    for text in texts:
        log.append_prompt(user(text))
        log.append_message([*log.messages][-1])
    return log


def entries(log: SessionLog) -> list[AnyEntry | UnknownEntry]:
    return [log.tree.entry(at) for at in log.tree.branch]


def id_of(log: SessionLog, at: int) -> str:
    return log.tree.id(log.tree.branch[at])


def written(log: SessionLog) -> list[Json]:
    assert log.path is not None
    return [json.loads(line) for line in log.path.read_bytes().splitlines()]


def texts(log: SessionLog) -> list[str]:
    """What the file says was said."""
    return [entry["message"]["content"][0]["text"] for entry in written(log) if entry["type"] == "message"]


def reopened(log: SessionLog) -> SessionLog:
    assert log.path is not None
    log.close()
    found = open_session(log.path)
    assert found.problems == []
    return SessionLog.resumed(found, unheard)


def counted(log: SessionLog) -> tuple[int, int, int]:
    """The number of messages by each way to ask for them."""
    return log.message_count, len([*log.messages]), len(sent(log))
