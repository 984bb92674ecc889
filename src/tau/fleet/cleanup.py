"""After a run: remove the work folders that workers had no time for, and their entries in repositories."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tau.core.fleet.tasks import NamedTask, is_url
from tau.fleet.git import GitError, git
from tau.fleet.workspace import locked


async def clean_up(root: Path, tasks: Iterable[NamedTask], *, keeps: bool) -> None:
    """`root` is the folder of local workers, which have ended. `keeps`: the work folders that are left stay."""
    if not keeps:
        await asyncio.to_thread(shutil.rmtree, root / "work", True)
    repos = {
        task.task.repo for task in tasks if task.task.repo is not None and task.task.workspace in (None, "worktree")
    }
    for repo in sorted(repos):
        if not is_url(repo):
            with suppress(GitError, OSError):
                async with locked(root / "locks", repo):
                    await git(repo, "worktree", "prune")
