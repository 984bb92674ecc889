"""What the session files of a run say, without ids, times and numbers that differ from run to run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

REFERENCES = ("parentId", "targetId", "firstKeptEntryId", "fromId")
# What differs from run to run, the words of errors, and the system prompt, of which each program has its own.
LEFT_OUT = frozenset(
    (
        *("id", "timestamp", "usage", "version", "details", "responseId", "responseModel", "durationMs", "cost", "cwd"),
        *("tokensBefore", "rawUsage", "fromHook", "rawStopReason", "thinkingSignature", "textSignature"),
        *("errorMessage", "systemMessage"),
    )
)
NOTHING = (None, False)  # the same as a field that is not there


def sessions(folder: Path) -> list[list[dict[str, Any]]]:
    """The entries of all session files, oldest file first."""
    files = sorted(folder.rglob("*.jsonl"), key=lambda path: path.name)
    lines = [[json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] for path in files]
    return [entries for entries in lines if entries]


def comparable(folder: Path) -> list[list[Any]]:
    """The same with entries named by their place."""
    found = sessions(folder)
    names = {entries[0]["id"]: f"session {number}" for number, entries in enumerate(found)}
    made = []
    for entries in map(_without_own, found):
        places = {entry["id"]: at for at, entry in enumerate(entries) if "id" in entry}
        made.append([_entry(entry, places, names, str(folder.parent)) for entry in entries])
    return made


def _without_own(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what each program has of its own: the system prompt, and entries of tau that pi skips.

    The children of such an entry belong to its parent.
    """
    parents = {entry["id"]: entry["parentId"] for entry in entries if _is_own(entry)}
    kept = []
    for entry in entries:
        if entry.get("id") in parents:
            continue
        while entry.get("parentId") in parents:
            entry = {**entry, "parentId": parents[entry["parentId"]]}
        kept.append(entry)
    return kept


def _is_own(entry: dict[str, Any]) -> bool:
    return entry.get("message", {}).get("role") == "system" or entry.get("customType", "").startswith("tau.")


def _entry(entry: dict[str, Any], places: dict[str, int], names: dict[str, str], home: str) -> Any:
    made = _value({key: one for key, one in entry.items() if key not in REFERENCES}, home)
    for key in REFERENCES:
        if entry.get(key) is not None:
            made[key] = places.get(entry[key], "root" if entry[key] == "root" else "?")
    if "parentSession" in entry:
        made["parentSession"] = next((name for id, name in names.items() if id in entry["parentSession"]), "?")
    return made


def _value(value: Any, home: str) -> Any:
    if isinstance(value, dict):
        return {
            key: _value(one, home) for key, one in sorted(value.items()) if key not in LEFT_OUT and one not in NOTHING
        }
    if isinstance(value, list):
        return [_value(one, home) for one in value]
    return value.replace(home, "~") if isinstance(value, str) else value
