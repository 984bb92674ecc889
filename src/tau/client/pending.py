"""Calls that wait for their answers, and which answer belongs to which. Pure but for the futures it is handed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from tau.records.base import encode, plain
from tau.records.commands import Command, Prompt


class Waiting(Protocol):
    """A future, as far as it matters here."""

    def done(self) -> bool: ...
    def set_result(self, result: bytes, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...


@dataclass
class Call:
    """`runs` had begun when it was sent. It stays among the pending ones until it is answered, even if nobody waits."""

    command: str
    answer: Waiting
    runs: int
    slash: bool

    def succeed(self, data: bytes) -> None:
        if not self.answer.done():
            self.answer.set_result(data)

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Pending:
    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._calls)

    def open(self, command: Command, answer: Waiting, runs: int) -> tuple[Call, bytes]:
        """A call and the line that makes it."""
        self._count += 1
        id = f"req_{self._count}"
        said = plain(command)
        fields = _without_null(said)
        if fields.get("outputSchema"):  # there, null is something to be said
            fields["outputSchema"] = said["outputSchema"]
        slash = isinstance(command, Prompt) and command.message.lstrip().startswith("/")
        call = self._calls[id] = Call(fields["type"], answer, runs, slash)
        return call, encode({"id": id, **fields}) + b"\n"

    def close(self, id: Any, command: str | None, success: bool) -> Call | None:
        """The call that is answered by this, which is then pending no more.

        pi up to 0.58 answers some failures without an id, and without the real command: that is for the oldest.
        """
        if isinstance(id, str):
            return self._calls.pop(id, None)
        if success or not self._calls:
            return None
        found = next((id for id, call in self._calls.items() if call.command == command), next(iter(self._calls)))
        return self._calls.pop(found)

    def is_ours(self, id: Any) -> bool:
        """Whether a call of this id was ever made."""
        number = id.removeprefix("req_") if isinstance(id, str) else ""
        return number.isdecimal() and int(number) <= self._count

    def fail_all(self, error: Exception) -> None:
        calls = list(self._calls.values())
        self._calls.clear()
        for call in calls:
            call.fail(error)


def _without_null(value: Any) -> Any:
    """Older agents know fields that are absent better than fields that are null."""
    if isinstance(value, dict):
        return {name: _without_null(item) for name, item in value.items() if item is not None}
    return [_without_null(item) for item in value] if isinstance(value, list) else value
