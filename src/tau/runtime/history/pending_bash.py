"""User bash commands that ended during a run.

Their messages are added to the conversation after the run, and recorded in the session until then, because the
commands were acknowledged.
"""

from __future__ import annotations

from contextlib import suppress

from tau.records.base import UNSET, BadRecord, Record, decode, encode, wire_json
from tau.records.entries import CustomEntry
from tau.records.messages import BashExecution
from tau.runtime.history.session_log import SessionLog

CUSTOM_TYPE = "tau.ran"


class PendingBash(Record):
    """The data of a CUSTOM_TYPE entry. A copy of the session, which has another id, ignores the entry."""

    session_id: str
    message: BashExecution


def record_pending(log: SessionLog, message: BashExecution) -> None:
    log.append_custom(CUSTOM_TYPE, PendingBash(log.id, message))


def undelivered(log: SessionLog) -> list[BashExecution]:
    """Return the messages that an earlier process recorded and never delivered, on any branch."""
    tree = log.tree
    noted = [at for at in tree.of_kind("custom") if CUSTOM_TYPE.encode() in tree.line(at)]
    waiting = [message for at in noted if (message := _read(log, at)) is not None]
    if waiting:
        for at in tree.of_kind("message"):
            if at > noted[0] and b'"bashExecution"' in tree.line(at):
                with suppress(BadRecord):
                    delivered = tree.message_json(at)
                    waiting = [one for one in waiting if wire_json(one) != delivered]
    return waiting


def _read(log: SessionLog, at: int) -> BashExecution | None:
    entry = log.tree.entry(at)
    if not isinstance(entry, CustomEntry) or entry.custom_type != CUSTOM_TYPE or entry.data is UNSET:
        return None
    try:
        ran = decode(PendingBash, encode(entry.data))
    except BadRecord:
        return None
    return ran.message if ran.session_id == log.id else None
