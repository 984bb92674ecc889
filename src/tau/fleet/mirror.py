"""Local copies of repositories that a URL names: a bare repository for each, shared by all tasks."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from tau.core.fleet.tasks import is_url
from tau.fleet.git import GitError, git
from tau.fleet.workspace import locked
from tau.records.fleet import Order


async def mirrored(folder: Path, url: str, commit: str | None = None, *, refresh: bool = False) -> str:
    """The local copy of a repository. Clones it if there is none, and fetches if it lacks `commit` or with `refresh`.

    Raises GitError.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = mirror_path(folder, url)
    async with locked(path.with_suffix(".lock")):
        if not os.path.exists(path):
            draft = path.with_suffix(".partial")
            shutil.rmtree(draft, ignore_errors=True)
            await git(str(folder), "clone", "--quiet", "--bare", "--", url, str(draft))
            draft.rename(path)
        elif refresh or (commit is not None and not await _has(path, commit)):
            await git(str(path), "fetch", "--quiet", "--tags", "origin", "+refs/heads/*:refs/heads/*")
    return str(path)


def mirror_path(folder: Path, url: str) -> Path:
    return folder / f"{hashlib.sha256(url.encode()).hexdigest()[:24]}.git"


async def mirror_of(order: Order, root: Path) -> str | None:
    """The local copy of the repository of an order, if a URL names it. Raises GitError."""
    repo = order.task.repo
    if repo is None or not is_url(repo):
        return None
    return await mirrored(Path(order.mirror) if order.mirror else root / "mirrors", repo, order.base)


async def _has(repo: Path, commit: str) -> bool:
    try:
        await git(str(repo), "cat-file", "-e", f"{commit}^{{commit}}")
    except GitError:
        return False
    return True
