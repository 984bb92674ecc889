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
COMMAND_TIMEOUT_S = 600.0  # for `setup`, and for `check`
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(?=://|::)")
URL_SCHEMES = ("https", "http", "ssh", "git", "file")
SCP_LIKE = re.compile(r"[^/:\s@]+(?:@[^/:\s@]+)+:")  # git@host:path
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
    folders: dict[str, int] = {}
    for number, line in _content(lines):
        if len(line) > MAX_LINE_BYTES:
            mistakes.append(Mistake(number, f"longer than {MAX_LINE_BYTES:,} bytes"))
            continue
        found = read_task(line, defaults)
        if isinstance(found, str):
            mistakes.append(Mistake(number, found))
        elif (first := seen.get(found.id)) is not None:
            mistakes.append(Mistake(number, f"id: {found.id} is the id of line {first} too"))
        elif (other := _shared_folder(found.task, number, folders)) is not None:
            mistakes.append(Mistake(number, f"workspace: in-place, and line {other} works in {found.task.repo} too"))
        else:
            seen[found.id] = number
            tasks.append(found)
    return tasks, mistakes


def _shared_folder(task: Task, number: int, folders: dict[str, int]) -> int | None:
    """The line of another task that works in the same folder."""
    if task.workspace != "in-place" or task.repo is None:
        return None
    first = folders.setdefault(task.repo.rstrip("/"), number)
    return None if first == number else first


def defaults_problem(defaults: Mapping[str, Any]) -> str | None:
    """What is wrong with fields that are to fill in what tasks lack."""
    usual = {"repo": "."} if "promptFile" in defaults else {"repo": ".", "prompt": "-"}
    found = read_task(encode({**usual, **defaults}), {})
    return found if isinstance(found, str) else None


def merge_defaults(defaults: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a line, and those of `defaults` that it lacks; the limits of a budget count one by one."""
    merged = {**defaults, **fields}
    for name, other in (("prompt", "promptFile"), ("promptFile", "prompt")):
        if name in fields and other not in fields:
            merged.pop(other, None)
    usual, own = defaults.get("budget"), fields.get("budget")
    if isinstance(usual, dict) and isinstance(own, dict):
        merged["budget"] = {**usual, **own}
    return merged


def longest_attempt(task: Task) -> float:
    """How many seconds an attempt may take: the agent, `setup` and `check`."""
    commands = (task.setup is not None) + (task.check is not None)
    return (task.budget.time_limit or DEFAULT_TIME_LIMIT_S) + commands * COMMAND_TIMEOUT_S


def is_url(repo: str) -> bool:
    """True if a repository is not a folder of this machine."""
    return bool(SCHEME.match(repo) or SCP_LIKE.match(repo))


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
        task = convert(merge_defaults(defaults, fields), Task)
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
    if task.repo is not None and (problem := _repo_problem(task.repo, task.workspace)):
        return problem
    if task.container is not None:
        return "container: containers are not supported; start workers in them instead, with --worker 'docker run …'"
    if isinstance(task.output, dict):
        if not task.output.get("files"):
            return "output.files: give at least one pattern"
        if (wrong := next(filter(_leaves_folder, task.output["files"]), None)) is not None:
            return f"output.files: {wrong!r} is not a pattern below the work folder"
    if wrong := next((name for name in task.env if not VARIABLE.match(name)), None):
        return f"env: {wrong!r} is not the name of a variable; values are not allowed here"
    if not 0 <= task.retries <= 100:
        return "retries: not between 0 and 100"
    return _budget_problem(task.budget)


def _repo_problem(repo: str, workspace: str | None) -> str | None:
    if not repo or repo.startswith("-"):
        return "repo: begins with '-'" if repo else "repo: is empty"
    if "\0" in repo or "\n" in repo:
        return "repo: has a control character"
    if (scheme := SCHEME.match(repo)) and (scheme[1].lower() not in URL_SCHEMES or "::" in repo[: scheme.end() + 2]):
        return f"repo: {scheme[1]} is not one of {', '.join(URL_SCHEMES)}"
    if workspace in ("copy", "in-place") and is_url(repo):
        return f"repo: workspace {workspace} needs a folder, not a URL"
    return None


def _leaves_folder(pattern: str) -> bool:
    return not pattern or pattern.startswith(("/", "~")) or ".." in pattern.split("/") or "\0" in pattern


def _budget_problem(budget: TaskBudget) -> str | None:
    for name, value in (("maxTurns", budget.max_turns), ("maxTokens", budget.max_tokens)):
        if value is not None and value < 1:
            return f"budget.{name}: must be at least 1"
    for name, limit in (("maxCost", budget.max_cost), ("timeLimit", budget.time_limit)):
        if limit is not None and not 0 < limit < float("inf"):
            return f"budget.{name}: must be more than 0"
    return None
