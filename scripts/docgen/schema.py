"""JSON Schemas in docs/schema: one per dialect, that of the host, and the OpenAPI description of its HTTP."""

from __future__ import annotations

import json
from typing import Any

from tau.serve.openapi import openapi
from tau.serve.schemas import dialect_schema, host_schema
from tau.wire.dialects import all_dialects


def files() -> dict[str, str]:
    """Return each schema by file name."""
    found = {dialect.name: dialect_schema(dialect) for dialect in all_dialects()}
    return {
        f"schema/{name}.json": _text(one)
        for name, one in {**found, "host": host_schema(), "openapi": openapi()}.items()
    }


def _text(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
