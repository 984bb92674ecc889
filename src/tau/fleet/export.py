"""Results of a fleet in other formats."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tau.errors import UsageError
from tau.fleet.folder import FleetFolder

COLUMNS = ("id", "attempt", "outcome", "error", "cost", "turns", "toolCalls", "model", "worker", "base")


def _records(folder: FleetFolder) -> Iterator[dict[str, Any]]:
    for record in folder.ledger(read_only=True).results():
        yield json.loads(record)


def _jsonl(folder: FleetFolder) -> bytes:
    return b"".join(record + b"\n" for record in folder.ledger(read_only=True).results())


def _csv(folder: FleetFolder) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(_records(folder))
    return text.getvalue().encode()


def _swebench(folder: FleetFolder) -> bytes:
    """Predictions as SWE-bench's harness reads them."""
    lines = []
    for record in _records(folder):
        path = folder.attempt(record["id"], record["attempt"]) / "patch.diff"
        patch = path.read_text(errors="replace") if path.exists() else ""
        lines.append({"instance_id": record["id"], "model_name_or_path": record["model"], "model_patch": patch})
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


FORMATS: dict[str, Callable[[FleetFolder], bytes]] = {"jsonl": _jsonl, "csv": _csv, "swebench": _swebench}


def export(folder: FleetFolder, format: str, to: Path | None) -> None:
    data = FORMATS[format](folder)
    if to is None:
        sys.stdout.buffer.write(data)
        return
    try:
        to.write_bytes(data)
    except OSError as error:
        raise UsageError(f"{to}: {error.strerror}") from None
