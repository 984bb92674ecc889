"""Results of a fleet in other formats: as text to stdout or a file, as a database to a file."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tau.errors import UsageError
from tau.fleet.folder import FleetFolder
from tau.store.ledger import LedgerError

COLUMNS = ("id", "attempt", "outcome", "error", "cost", "turns", "toolCalls", "model", "worker", "base")


def records_of(folder: FleetFolder) -> Iterator[dict[str, Any]]:
    """The final results, in the order of the tasks. Raises UsageError."""
    with folder.view() as view:
        for record in view.results():
            yield json.loads(record)


def _jsonl(folder: FleetFolder) -> Iterator[bytes]:
    with folder.view() as view:
        for record in view.results():
            yield record + b"\n"


def _csv(folder: FleetFolder) -> Iterator[bytes]:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore")
    writer.writeheader()
    for record in records_of(folder):
        writer.writerow(record)
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()
    yield text.getvalue().encode()


def _swebench(folder: FleetFolder) -> Iterator[bytes]:
    """Predictions as SWE-bench's harness reads them."""
    for record in records_of(folder):
        path = folder.attempt(record["id"], record["attempt"]) / "patch.diff"
        patch = path.read_text(errors="replace") if os.path.exists(path) else ""
        line = {"instance_id": record["id"], "model_name_or_path": record["model"], "model_patch": patch}
        yield json.dumps(line).encode() + b"\n"


def _sqlite(folder: FleetFolder, to: Path) -> None:
    with folder.view() as view:
        view.copy_to(to)


TEXTS: dict[str, Callable[[FleetFolder], Iterator[bytes]]] = {"jsonl": _jsonl, "csv": _csv, "swebench": _swebench}
FILES: dict[str, Callable[[FleetFolder, Path], None]] = {"sqlite": _sqlite}
FORMATS = (*TEXTS, *FILES)


def export(folder: FleetFolder, format: str, to: Path | None) -> None:
    """Write the results. A file appears complete, or not at all. Raises UsageError."""
    if to is None:
        if format in FILES:
            raise UsageError(f"--format {format} needs a file: -o FILE")
        for part in TEXTS[format](folder):
            sys.stdout.buffer.write(part)
        return
    replace_file(to, lambda draft: _write(folder, format, draft))


def _write(folder: FleetFolder, format: str, to: Path) -> None:
    if format in FILES:
        FILES[format](folder, to)
        return
    with to.open("wb") as file:
        file.writelines(TEXTS[format](folder))


def replace_file(to: Path, write: Callable[[Path], None]) -> None:
    """Let `write` make a file beside `to`, and put it in its place. Raises UsageError."""
    draft = to.with_name(f".{to.name}.{os.getpid()}.partial")
    try:
        draft.unlink(missing_ok=True)
        write(draft)
        draft.chmod(0o600)
        draft.replace(to)
    except OSError as error:
        raise UsageError(f"{to}: {error.strerror}") from None
    except LedgerError as error:
        raise UsageError(str(error)) from None
    finally:
        draft.unlink(missing_ok=True)
