"""What must hold before a fleet starts: limits of tasks, repositories with their commits, and the sandbox."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tau.core.fleet.tasks import NamedTask, is_url
from tau.errors import UsageError
from tau.fleet.git import GitError, resolve
from tau.fleet.mirror import mirrored
from tau.fleet.probe import sandbox_problem


def check_money(tasks: Sequence[NamedTask], max_cost: float | None) -> None:
    """Raises UsageError if the fleet has a limit and a task has none."""
    if max_cost is None:
        return
    without = next((task.id for task in tasks if task.task.budget.max_cost is None), None)
    if without is not None:
        raise UsageError(f"Task {without} has no budget.maxCost: with --max-cost every task needs one.")


async def check_sandbox(tasks: Sequence[NamedTask], usual: str) -> None:
    """Raises UsageError if this machine lacks the sandbox of a task; `usual` is that of tasks that name none."""
    for level in sorted({task.task.sandbox or usual for task in tasks}):
        if (problem := await sandbox_problem(level)) is not None:
            raise UsageError(
                f"The sandbox {level} does not work here: {problem.rstrip('.')}. "
                "With --sandbox none, commands of tasks run without it."
            )


async def resolve_bases(tasks: Sequence[NamedTask], mirrors: Path) -> dict[str, str]:
    """The commit of each task with a repository, resolved once. Raises UsageError."""
    known: dict[tuple[str, str | None], str] = {}
    local: dict[str, str] = {}
    bases: dict[str, str] = {}
    for task in tasks:
        repo, base = task.task.repo, task.task.base
        if repo is None or task.task.workspace in ("copy", "in-place"):
            continue
        if not is_url(repo) and not os.path.isdir(repo):
            raise UsageError(f"Task {task.id}: repo {repo}: there is no such folder")
        try:
            if is_url(repo) and repo not in local:
                local[repo] = await mirrored(mirrors, repo, refresh=True)
            if (repo, base) not in known:
                known[repo, base] = await resolve(local.get(repo, repo), base)
        except (GitError, OSError) as error:
            raise UsageError(f"Task {task.id}: repo {repo}: {error}") from None
        bases[task.id] = known[repo, base]
    return bases
