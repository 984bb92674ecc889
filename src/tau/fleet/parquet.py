"""Results as a Parquet file, with a fixed schema. Needs the extra `[parquet]`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tau.core.text.install_hints import install_hint
from tau.errors import UsageError

# Column to its type in Arrow. Nested fields are flat columns, so that every reader can filter by them.
COLUMNS = {
    "id": "string",
    "attempt": "int32",
    "outcome": "string",
    "error": "string",
    "text": "string",
    "output": "string",
    "model": "string",
    "worker": "string",
    "base": "string",
    "session": "string",
    "task_hash": "string",
    "turns": "int32",
    "tool_calls": "int32",
    "cost": "float64",
    "cost_unknown": "bool",
    "input_tokens": "int64",
    "output_tokens": "int64",
    "cache_read_tokens": "int64",
    "cache_write_tokens": "int64",
    "queue_seconds": "float64",
    "setup_seconds": "float64",
    "run_seconds": "float64",
    "check_seconds": "float64",
    "check_code": "int32",
    "patch_sha256": "string",
    "patch_files": "int32",
    "patch_added": "int32",
    "patch_removed": "int32",
    "labels": "string",
}
ROWS = 10_000  # of one group


def row(record: dict[str, Any]) -> dict[str, Any]:
    """The columns of a result. `output` and `labels` are JSON."""
    usage, seconds = record["usage"], record["seconds"]
    patch, check = record.get("patch") or {}, record.get("check") or {}
    output = record.get("output")
    return {
        **{name: record.get(name) for name in ("id", "attempt", "outcome", "error", "text", "model", "worker", "base")},
        **{name: record.get(name) for name in ("session", "turns", "cost")},
        "output": None if output is None else json.dumps(output, ensure_ascii=False),
        "task_hash": record["taskHash"],
        "tool_calls": record["toolCalls"],
        "cost_unknown": record["costUnknown"],
        "input_tokens": usage["input"],
        "output_tokens": usage["output"],
        "cache_read_tokens": usage["cacheRead"],
        "cache_write_tokens": usage["cacheWrite"],
        **{f"{name}_seconds": float(seconds[name]) for name in ("queue", "setup", "run", "check")},
        "check_code": check.get("code"),
        "patch_sha256": patch.get("sha256"),
        **{f"patch_{name}": patch.get(name) for name in ("files", "added", "removed")},
        "labels": json.dumps(record["labels"], ensure_ascii=False),
    }


def write_parquet(records: Iterable[dict[str, Any]], to: Path) -> None:
    """Raises UsageError if pyarrow is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(f"--format parquet needs an extra: {install_hint('parquet')}") from None
    schema = pyarrow.schema([(name, pyarrow.type_for_alias(kind)) for name, kind in COLUMNS.items()])
    with pyarrow.parquet.ParquetWriter(to, schema, compression="zstd") as writer:
        rows: list[dict[str, Any]] = []
        for record in records:
            rows.append(row(record))
            if len(rows) == ROWS:
                writer.write_table(pyarrow.Table.from_pylist(rows, schema))
                rows = []
        if rows:
            writer.write_table(pyarrow.Table.from_pylist(rows, schema))
