"""After a run: remove the work folders that workers had no time for, and their entries in repositories."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tau.core.fleet.tasks import NamedTask, is_url
from tau.fleet.git import GitError
from tau.fleet.mirror import mirror_path
from tau.fleet.workspace import remove_worktree, worktrees_of
from tau.records.fleet import Task


async def clean_up(root: Path, mirrors: Path, run: str, tasks: Iterable[NamedTask]) -> None:
    """`root` is the folder of local workers; all workers have ended. Nothing of other fleets is touched.

    `mirrors` has the copies of repositories that a URL names.
    """
    await asyncio.to_thread(shutil.rmtree, root / "work", True)
    for repo in sorted({repo for task in tasks if (repo := _worktree_repo(task.task, mirrors)) is not None}):
        with suppress(GitError, OSError):
            for path in await worktrees_of(repo, run):
                with suppress(GitError, OSError):
                    await remove_worktree(repo, path)


def _worktree_repo(task: Task, mirrors: Path) -> str | None:
    if task.repo is None or task.workspace not in (None, "worktree"):
        return None
    repo = str(mirror_path(mirrors, task.repo)) if is_url(task.repo) else task.repo
    return repo if os.path.isdir(repo) else None
