"""tests/telemetry/registry.json: names and types of the GenAI semantic conventions, pinned.

    python scripts/telemetry_registry.py CLONE COMMIT

CLONE is a clone of open-telemetry/semantic-conventions-genai at COMMIT. Only names, types, units and requirement levels
are kept. Read the difference: a name that changes is a line in the changelog.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
TO = ROOT / "tests" / "telemetry" / "registry.json"
# Attributes of the general conventions that the GenAI conventions refer to.
GENERAL = {
    "error.type": "string",
    "exception.type": "string",
    "http.response.status_code": "int",
    "server.address": "string",
    "server.port": "int",
}


def registry(model: Path, commit: str) -> dict[str, Any]:
    files = [yaml.safe_load(path.read_text()) for path in sorted(model.glob("gen-ai/*.yaml"))]
    groups = {group["id"]: group for file in files for group in file.get("attribute_groups", ())}
    return {
        "source": "github.com/open-telemetry/semantic-conventions-genai, model/gen-ai",
        "commit": commit,
        "attributes": {
            **GENERAL,
            **{one["key"]: _type(one["type"]) for file in files for one in file.get("attributes", ())},
        },
        "metrics": {
            one["name"]: {
                "instrument": one["instrument"],
                "unit": one["unit"],
                "attributes": sorted({ref["ref"] for ref in _refs(one, groups)}),
            }
            for file in files
            for one in file.get("metrics", ())
        },
        "spans": {
            one["type"]: {
                "kind": one["kind"],
                "required": sorted(
                    {ref["ref"] for ref in _refs(one, groups) if ref.get("requirement_level") == "required"}
                ),
            }
            for file in files
            for one in file.get("spans", ())
        },
        "events": sorted(one["name"] for file in files for one in file.get("events", ())),
    }


def _type(found: Any) -> Any:
    """A name of a type, or the values of an enumeration."""
    return [member["value"] for member in found["members"]] if isinstance(found, dict) else found


def _refs(found: Mapping[str, Any], groups: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for one in found.get("attributes", ()):
        if "ref" in one:
            yield one
        else:
            yield from _refs(groups.get(one["ref_group"], {}), groups)


def main(clone: str, commit: str) -> None:
    found = registry(Path(clone) / "model", commit)
    TO.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(f"{TO}: {len(found['attributes'])} attributes, {len(found['metrics'])} metrics, {len(found['spans'])} spans")


if __name__ == "__main__":
    main(*sys.argv[1:])
