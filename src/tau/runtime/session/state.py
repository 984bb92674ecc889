"""The state of a session, as `get_state` returns it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tau.core.checks.secrets import redact_model
from tau.records.base import UNSET, UnsetType, Value
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
        return self._record(self._session.models.current, self._parts())

    def masked(self) -> SessionState:
        """The state with the secrets of the model masked, as clients may see it.

        Returns the same record as before if nothing has changed, so that its JSON can be reused. Models are compared
        by identity, because equal numbers can differ in their JSON (0 and 0.0).
        """
        model, parts, last = self._session.models.current, self._parts(), self._last
        if last is None or last.model is not model or last.parts != parts:
            shown = None if model is None else redact_model(model)
            last = self._last = MaskedState(model, parts, self._record(shown, parts))
        return last.state

    def file(self) -> str | UnsetType:
        """The path of the session file; absent if the session is only in memory."""
        return _file_name(self._session.log.file.path)

    def _record(self, model: Model | None, parts: tuple[Any, ...]) -> SessionState:
        level, streaming, compacting, steering, follow_up, path, *others = parts
        return SessionState(model, level, streaming, compacting, steering, follow_up, _file_name(path), *others)

    def _parts(self) -> tuple[Any, ...]:
        """The fields of SessionState after the model, in their order. Each is immutable and always of one type.

        The file is still a path: it is converted only if something has changed. Clients ask for the state often, so
        properties that are a function call are avoided where an attribute says the same.
        """
        session, log, modes = self._session, self._session.log, self._session.queues.modes
        return (
            session.models.level,
            session.runs.accepted != session.runs.settled and session.runs.streaming,
            session.compactor.working > 0,
            modes["steer"],
            modes["follow_up"],
            log.file.path,
            log.header.id,
            log.tree.name or UNSET,
            session.settings.compaction.enabled,
            log.message_count,
            session.queues.count(),
            session.services.sandbox or UNSET,
        )


def _file_name(path: Path | None) -> str | UnsetType:
    return UNSET if path is None else str(path)
