"""The state of a session, as `get_state` returns it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tau.core.checks.secrets import redact_model
from tau.records.base import UNSET, UnsetType, Value, replace
from tau.records.models import Model
from tau.records.replies import SessionState
from tau.runtime.session.session import Session


class MaskedState(Value):
    """A state with the secrets of its model masked, and what it was made of."""

    model: Model | None
    parts: tuple[Any, ...]
    state: SessionState


class StateReader:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._last: MaskedState | None = None

    def current(self) -> SessionState:
        return replace(self.masked(), model=self._session.models.current)

    def masked(self) -> SessionState:
        """The state with the secrets of the model masked, as clients may see it.

        Returns the same record as before if nothing has changed, so that its JSON can be reused. Models are compared
        by identity, because equal numbers can differ in their JSON (0 and 0.0). Clients ask for the state often, so
        properties that are a function call are avoided where an attribute says the same.
        """
        session, last = self._session, self._last
        model, runs, log, queues = session.models.current, session.runs, session.log, session.queues
        parts = (  # the fields of SessionState after the model; each is immutable and always of one type
            session.models.level,
            runs.accepted != runs.settled and runs.streaming,
            session.compactor.working > 0,
            queues.modes["steer"],
            queues.modes["follow_up"],
            log.file.path,  # converted to text only if something has changed
            log.header.id,
            log.tree.name or UNSET,
            session.settings.compaction.enabled,
            log.message_count,
            queues.count,
            session.services.sandbox or UNSET,
        )
        if last is None or last.model is not model or last.parts != parts:
            last = self._last = MaskedState(model, parts, _record(model, parts))
        return last.state

    def file(self) -> str | UnsetType:
        """The path of the session file; absent if the session is only in memory."""
        return _file_name(self._session.log.file.path)


def _record(model: Model | None, parts: tuple[Any, ...]) -> SessionState:
    shown = None if model is None else redact_model(model)
    level, streaming, compacting, steering, follow_up, path, *others = parts
    return SessionState(shown, level, streaming, compacting, steering, follow_up, _file_name(path), *others)


def _file_name(path: Path | None) -> str | UnsetType:
    return UNSET if path is None else str(path)
