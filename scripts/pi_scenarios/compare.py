"""Differences between two transcripts of a scenario, named so that a table can list them.

A transcript is a list of records, as the suite's `normalize.py` makes them: with ids, times and paths masked. A
difference is named after the event and the field, without indexes:

    message_end/assistant message.errorMessage      another value, or a missing one
    - response parse                                only pi sends it
    + extension_error                               only tau sends it
    moved tool_execution_end                        both send it, at another place among the events
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

Record = dict[str, Any]
Event = tuple[str, Record]  # its kind, as the suite names it

# Requests and session files are compared by other tests, with the texts and tools of a different program in mind.
COMPARED = ("out", "exit", "cwd", "ended_by", "settings", "snapshot")
REPEATED = ("message_update", "tool_execution_update")  # runs of these count as one
OUTPUT = "bash_execution_update"  # runs of these are joined: where output is split depends on timing
# Snapshots of a message while it grows, which depend on timing: two recordings of pi differ in them.
RACING = {
    "message_update": ("$.message*", "$.assistantMessageEvent.partial*", "$.usage*"),
    "message_start/assistant": ("$.message.usage*", "$.message.content*", "$.message.responseId"),
}
OWN_SECTIONS = ("docs",)  # where the documentation of pi is
INDEX = re.compile(r"\[\d+\]|#.*$|/toolu_\d+$")


class Difference(NamedTuple):
    name: str
    pi: Any
    tau: Any


def differences(suite: ModuleType, recorded: Sequence[Record], played: Sequence[Record]) -> Iterator[Difference]:
    """Compare a recording of pi with what tau did; `suite` is the module `normalize` of the suite."""
    ours, theirs = _events(suite, played), _events(suite, recorded)
    known = {kind for kind, _ in theirs}
    ours = _collapsed([event for event in ours if event[0] in known or not _is_addition(suite, event[0])])
    theirs = _collapsed(theirs)
    matcher = difflib.SequenceMatcher(None, [kind for kind, _ in theirs], [kind for kind, _ in ours], autojunk=False)
    missing: list[Event] = []
    extra: list[Event] = []
    for operation, start, end, at, to in matcher.get_opcodes():
        if operation == "equal":
            for (kind, pi), (_, tau) in zip(theirs[start:end], ours[at:to], strict=True):
                yield from _fields(suite, kind, pi, tau)
        else:
            missing += theirs[start:end]
            extra += ours[at:to]
    yield from _unpaired(suite, missing, extra)


def _unpaired(suite: ModuleType, missing: list[Event], extra: list[Event]) -> Iterator[Difference]:
    for kind, pi in missing:
        found = next((event for event in extra if event[0] == kind), None)
        if found is None:
            yield Difference(f"- {_name(kind)}", suite.payload(pi), None)
            continue
        extra.remove(found)
        yield Difference(f"moved {_name(kind)}", None, None)
        yield from _fields(suite, kind, pi, found[1])
    for kind, tau in extra:
        yield Difference(f"+ {_name(kind)}", None, suite.payload(tau))


def _fields(suite: ModuleType, kind: str, pi: Record, tau: Record) -> Iterator[Difference]:
    found: list[tuple[str, str, Any, Any]] = []
    suite.jdiff(_masked(suite.payload(pi)), _masked(suite.payload(tau)), "$", found)
    racing = next((paths for start, paths in RACING.items() if kind.startswith(start)), ())
    for path, what, before, after in found:
        if any(fnmatch.fnmatchcase(path, pattern) for pattern in racing):
            continue
        if what == "extra in B" and not path.endswith("]"):
            continue  # a field that only tau has
        yield Difference(
            f"{_name(kind)} {INDEX.sub('', path).removeprefix('$').removeprefix('.')}".rstrip(), before, after
        )


def _events(suite: ModuleType, records: Sequence[Record]) -> list[Event]:
    kinds = [(suite.kind(record), record) for record in records if record["dir"] in COMPARED]
    return [(kind, record) for kind, record in kinds if kind is not None]


def _is_addition(suite: ModuleType, kind: str) -> bool:
    """True for an event that only newer releases of pi have."""
    return not {kind, kind.split("/")[0], kind.split("[")[0]}.isdisjoint(suite.ADDITIONS)


def _collapsed(events: list[Event]) -> list[Event]:
    last: list[Event] = []
    for kind, record in events:
        if last and last[-1][0] == kind == OUTPUT:
            record = _joined(last.pop()[1], record)
        elif last and last[-1][0] == kind and kind.startswith(REPEATED):
            last.pop()
        last.append((kind, record))
    return last


def _joined(first: Record, second: Record) -> Record:
    delta = f"{first['line'].get('delta')}{second['line'].get('delta')}"
    return {**first, "line": {**first["line"], "delta": delta}}


def _masked(value: Any) -> Any:
    """Without the texts and tool descriptions of system messages and the content of session files.

    Names have no dots, so that the name of a file is one field.
    """
    if isinstance(value, dict):
        if value.get("role") == "system":
            return _system(value)
        return {
            name.replace(".", "_"): "<session>" if name.endswith(".jsonl") else _masked(inner)
            for name, inner in value.items()
        }
    return [_masked(inner) for inner in value] if isinstance(value, list) else value


def _system(message: Record) -> Record:
    """Which sections and tools a system message declares. In a transcript only the first of several equal ones has
    them.
    """
    if "timestamp" not in message:
        return {"role": "system"}
    sections = [name for name in message.get("sections", {}) if name not in OWN_SECTIONS]
    tools = [tool["name"] for tool in message.get("toolsAdded", [])]
    return {"role": "system", "sections": sections, "tools": tools, "removed": message.get("toolsRemoved")}


def _name(kind: str) -> str:
    return INDEX.sub("", kind).strip()
