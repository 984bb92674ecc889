"""Read a task file. Paths in it are relative to the folder of the file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from tau.core.fleet.tasks import Mistake, NamedTask, defaults_problem, is_url, read_tasks
from tau.errors import UsageError
from tau.records.base import BadRecord, parse, replace
from tau.records.fleet import Task

MAX_SHOWN_MISTAKES = 20
PACKAGE = re.compile(r"[a-z]+:")  # npm:name and their like are not paths
CHUNK_BYTES = 2 * 1024 * 1024


def load_tasks(path: Path, defaults: Mapping[str, Any]) -> list[NamedTask]:
    """The tasks of a file. Raises UsageError with the file, line and field of the first mistakes."""
    try:
        with path.open("rb") as file:
            tasks, mistakes = read_tasks(_lines(file), defaults)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if mistakes:
        raise UsageError(_listed(path, mistakes))
    if not tasks:
        raise UsageError(f"{path} has no tasks.")
    folder = path.absolute().parent
    return [NamedTask(task.id, task.hash, with_absolute_paths(task.task, folder)) for task in tasks]


def load_defaults(path: Path) -> dict[str, Any]:
    """Fields for tasks that lack them. Raises UsageError with the file and the field."""
    try:
        found = parse(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except BadRecord as error:
        raise UsageError(f"{path}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError(f"{path}: not an object")
    if "id" in found:
        raise UsageError(f"{path}: id: all tasks would have the same")
    if (problem := defaults_problem(found)) is not None:
        raise UsageError(f"{path}: {problem}")
    return found


def with_absolute_paths(task: Task, folder: Path) -> Task:
    """The task for a worker, whatever its working folder is."""

    def absolute(path: str) -> str:
        return os.path.normpath(folder / Path(path).expanduser())

    return replace(
        task,
        repo=task.repo if task.repo is None or is_url(task.repo) else absolute(task.repo),
        prompt_file=None if task.prompt_file is None else absolute(task.prompt_file),
        script=None if task.script is None else absolute(task.script),
        attachments=list(map(absolute, task.attachments)),
        extensions=[one if PACKAGE.match(one) else absolute(one) for one in task.extensions],
    )


def missing_files(tasks: Sequence[NamedTask]) -> Iterator[str]:
    """Files that tasks name and that are not there."""
    known: dict[str, bool] = {}
    for task in tasks:
        given = task.task
        named = [("promptFile", given.prompt_file), ("script", given.script)]
        named += [("attachments", file) for file in given.attachments]
        for field, path in named:
            if path is not None and not known.setdefault(path, os.path.isfile(path)):
                yield f"Task {task.id}: {field}: there is no file {path}"


def _lines(file: BinaryIO) -> Iterable[bytes]:
    """Lines; of one that is too long only the beginning, which is enough to refuse it."""
    while line := file.readline(CHUNK_BYTES):
        rest = line
        while not rest.endswith(b"\n") and (rest := file.readline(CHUNK_BYTES)):
            pass
        yield line


def _listed(path: Path, mistakes: Sequence[Mistake]) -> str:
    shown = [f"{path}:{mistake.line}: {mistake.text}" for mistake in mistakes[:MAX_SHOWN_MISTAKES]]
    more = len(mistakes) - len(shown)
    return "\n".join([*shown, *([f"… and {more:,} more"] if more else [])])
