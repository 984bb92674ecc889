"""Pending calls and the responses that belong to them. Pure, except for the futures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from tau.records.base import encode, to_builtins
from tau.records.commands import Command, Prompt


class FutureLike(Protocol):
    """The methods of a future that are used here."""

    def done(self) -> bool: ...
    def set_result(self, result: bytes, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...


@dataclass
class PendingRequest:
    """A call without a response. It stays pending until the response arrives, even if the caller was cancelled.

    `runs` is the number of runs that had started when it was sent.
    """

    id: str
    command: str
    answer: FutureLike
    runs: int
    slash: bool

    def succeed(self, data: bytes) -> None:
        if not self.answer.done():
            self.answer.set_result(data)

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class PendingRequests:
    def __init__(self) -> None:
        self._calls: dict[str, PendingRequest] = {}
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._calls)

    def register(self, command: Command, answer: FutureLike, runs: int) -> tuple[PendingRequest, bytes]:
        """Register a call and return it with the line to send."""
        self._count += 1
        id = f"req_{self._count}"
        declared = to_builtins(command)
        fields = _without_null(declared)
        # Null is meaningful inside a schema and in details.
        fields |= {name: declared[name] for name in ("outputSchema", "tools", "details") if name in fields}
        slash = isinstance(command, Prompt) and command.message.lstrip().startswith("/")
        call = self._calls[id] = PendingRequest(id, fields["type"], answer, runs, slash)
        return call, encode({"id": id, **fields}) + b"\n"

    def resolve(self, id: Any, command: str | None, success: bool) -> PendingRequest | None:
        """Remove and return the call that a response belongs to.

        pi up to 0.58 sends some failures without an id and without the real command; those belong to the oldest call.
        """
        if isinstance(id, str):
            return self._calls.pop(id, None)
        if success or not self._calls:
            return None
        oldest = next((id for id, call in self._calls.items() if call.command == command), next(iter(self._calls)))
        return self._calls.pop(oldest)

    def was_issued(self, id: Any) -> bool:
        """True if a call with this id was ever made."""
        number = id.removeprefix("req_") if isinstance(id, str) else ""
        return number.isdecimal() and int(number) <= self._count

    def fail_all(self, error: Exception) -> None:
        calls = list(self._calls.values())
        self._calls.clear()
        for call in calls:
            call.fail(error)


def _without_null(value: Any) -> Any:
    """Remove null fields: older agents handle absent fields better than null ones."""
    if isinstance(value, dict):
        return {name: _without_null(item) for name, item in value.items() if item is not None}
    return [_without_null(item) for item in value] if isinstance(value, list) else value
