"""The files of an attempt: written under another name, made durable, and then given their final name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tau.records.base import encode
from tau.records.fleet import Result

# Only of use to an attempt that continues this one.
WORK_FOLDER = "work-folder"
PROMPTS_BEGUN = "prompts-begun"


def create_draft(draft: Path) -> None:
    shutil.rmtree(draft, ignore_errors=True)
    draft.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft.mkdir(mode=0o700)


def store(draft: Path, folder: Path, result: Result) -> None:
    """Write the result, make everything durable, and give the folder its final name."""
    for name in (WORK_FOLDER, PROMPTS_BEGUN):
        (draft / name).unlink(missing_ok=True)
    (draft / "result.json").write_bytes(encode(result) + b"\n")
    for path in [*draft.rglob("*"), draft]:
        with suppress(OSError):
            _sync(path, private=True)
    with suppress(FileExistsError, OSError):
        draft.rename(folder)
    _sync(folder.parent)


def _sync(path: Path, *, private: bool = False) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if private:
            os.fchmod(handle, 0o700 if os.path.isdir(path) else 0o600)
        os.fsync(handle)
    finally:
        os.close(handle)


def copy_files(work: Path, patterns: Sequence[str], to: Path) -> None:
    """Copy the files of a work folder that match."""
    inside = work.resolve()
    for pattern in patterns:
        for found in work.glob(pattern):
            # A link of the agent may lead out of its folder, to files that it could not read itself.
            if os.path.isfile(found) and found.resolve().is_relative_to(inside) and not os.path.islink(found):
                copy = to / found.relative_to(work)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(found, copy)
