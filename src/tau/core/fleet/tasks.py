"""The task file: JSON lines to tasks, with the line and the field of every mistake."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tau.records.base import BadRecord, Value, convert, encode, parse, replace
from tau.records.fleet import Task, TaskBudget

MAX_LINE_BYTES = 1024 * 1024
MAX_ID = 120
DEFAULT_TIME_LIMIT_S = 3600.0
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Mistake(NamedTuple):
    """What is wrong in the task file, and where."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


class NamedTask(Value):
    """A task with its id and the hash of its normalised line."""

    id: str
    hash: str
    task: Task


def read_tasks(lines: Iterable[bytes], defaults: Mapping[str, Any]) -> tuple[list[NamedTask], list[Mistake]]:
    """All tasks of a file. `defaults` are fields for lines that lack them."""
    tasks: list[NamedTask] = []
    mistakes: list[Mistake] = []
    seen: dict[str, int] = {}
    for number, line in _content(lines):
        if len(line) > MAX_LINE_BYTES:
            mistakes.append(Mistake(number, f"longer than {MAX_LINE_BYTES:,} bytes"))
            continue
        found = read_task(line, defaults)
        if isinstance(found, str):
            mistakes.append(Mistake(number, found))
        elif (first := seen.get(found.id)) is not None:
            mistakes.append(Mistake(number, f"id: {found.id} is the id of line {first} too"))
        else:
            seen[found.id] = number
            tasks.append(found)
    return tasks, mistakes


def _content(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines with a task, with their numbers. Blank lines and comments (`#`, `//`) have none."""
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith((b"#", b"//")):
            yield number, text


def read_task(line: bytes, defaults: Mapping[str, Any]) -> NamedTask | str:
    """The task of a line, or what is wrong with it."""
    try:
        fields = parse(line)
    except BadRecord as error:
        return f"not JSON: {error}"
    if not isinstance(fields, dict):
        return "not an object"
    try:
        task = convert({**defaults, **fields}, Task)
    except BadRecord as error:
        return str(error)
    if problem := _problem(task):
        return problem
    if task.budget.time_limit is None:
        task = replace(task, budget=replace(task.budget, time_limit=DEFAULT_TIME_LIMIT_S))
    digest = hashlib.sha256(encode(task)).hexdigest()
    return NamedTask(task.id or digest[:12], digest, task)


def _problem(task: Task) -> str | None:
    if task.id and (len(task.id) > MAX_ID or not ID.match(task.id) or ".." in task.id):
        return f"id: {task.id[:40]!r} is not made of letters, digits, '.', '_' and '-' (at most {MAX_ID})"
    texts = [task.prompt] if isinstance(task.prompt, str) else task.prompt
    if (task.prompt_file is None) == (not any(text.strip() for text in texts)):
        return "prompt: give a prompt or a promptFile, and not both"
    if task.workspace in ("worktree", "clone", "copy", "in-place") and task.repo is None:
        return f"workspace: {task.workspace} needs a repo"
    if task.base is not None and (task.base.startswith("-") or task.repo is None):
        return "base: needs a repo" if task.repo is None else "base: begins with '-'"
    if task.repo is not None and task.repo.startswith("-"):
        return "repo: begins with '-'"
    if wrong := next((name for name in task.env if not VARIABLE.match(name)), None):
        return f"env: {wrong!r} is not the name of a variable; values are not allowed here"
    if not 0 <= task.retries <= 100:
        return "retries: not between 0 and 100"
    return _budget_problem(task.budget)


def _budget_problem(budget: TaskBudget) -> str | None:
    for name, value in (("maxTurns", budget.max_turns), ("maxTokens", budget.max_tokens)):
        if value is not None and value < 1:
            return f"budget.{name}: must be at least 1"
    for name, limit in (("maxCost", budget.max_cost), ("timeLimit", budget.time_limit)):
        if limit is not None and not 0 < limit < float("inf"):
            return f"budget.{name}: must be more than 0"
    return None
