"""Tasks as they are given to a fleet: the path of a task file, mappings with its fields, or records."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tau.core.fleet.tasks import NamedTask, read_task
from tau.errors import UsageError
from tau.fleet.callbacks import Prepare
from tau.fleet.task_files import load_tasks, with_absolute_paths
from tau.records.base import encode, replace
from tau.records.fleet import Task

Tasks = str | os.PathLike[str] | Iterable[NamedTask | Task | Mapping[str, Any]]


def named_tasks(tasks: Tasks, defaults: Mapping[str, Any], prepare: Prepare | None) -> list[NamedTask]:
    """The tasks with their ids and hashes. `defaults` are fields for those that lack them. Raises UsageError."""
    given = load_tasks(Path(tasks), defaults) if isinstance(tasks, str | os.PathLike) else tasks
    named = [_named(task, number, defaults, prepare) for number, task in enumerate(given, 1)]
    if repeated := [id for id, count in Counter(task.id for task in named).items() if count > 1]:
        raise UsageError(f"Two tasks have the id {repeated[0]}.")
    return named


def _named(
    task: NamedTask | Task | Mapping[str, Any], number: int, defaults: Mapping[str, Any], prepare: Prepare | None
) -> NamedTask:
    if isinstance(task, NamedTask):
        found: NamedTask | str = task
    elif isinstance(task, Task):
        found = read_task(encode(task), {})
    else:
        found = read_task(encode(dict(task)), defaults)
    if isinstance(found, NamedTask) and prepare is not None:
        found = read_task(encode(prepare(replace(found.task, id=found.id))), {})
    if isinstance(found, str):
        raise UsageError(f"Task {number} is not valid: {found}")
    return NamedTask(found.id, found.hash, with_absolute_paths(found.task, Path.cwd()))
