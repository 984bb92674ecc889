"""`models-store.json`, pi's cache of catalogs in the folder of the agent: programs read which models there are."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tau.records.base import BadRecord, encode, parse
from tau.records.models import Model
from tau.store.files import read_small, replace_file

NAME = "models-store.json"


def write_models_store(folder: Path, models: Iterable[Model]) -> None:
    """Write the models that can be used, if that changes the file. Entries of pi, which have a date, stay.

    pi ignores entries without a date. A folder that is missing, or cannot be written, is left as it is.
    """
    path = folder / NAME
    with suppress(OSError, BadRecord):  # BadRecord: not JSON, so not ours to replace
        found: Any = parse(read_small(path)) if os.path.exists(path) else {}
        if not isinstance(found, dict):
            return
        wanted: dict[str, Any] = {name: entry for name, entry in found.items() if not _is_ours(entry)}
        of_pi = set(wanted)
        for model in models:
            if model.provider not in of_pi:
                entry = wanted.setdefault(model.provider, {"models": []})
                entry["models"].append({"id": model.id, "name": model.name})
        if wanted != found:
            replace_file(path, encode(wanted))


def _is_ours(entry: object) -> bool:
    return isinstance(entry, dict) and entry.keys() == {"models"}
