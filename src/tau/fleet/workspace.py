"""The folder in which an attempt works: a work tree, a clone, a copy, or an empty folder; removed when it is done."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import shutil
import threading
import time
from collections.abc import AsyncIterator, Set
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

from tau.errors import TauError
from tau.fleet.git import GitError, git
from tau.fleet.private_repository import NO_PROGRAMS, PrivateRepository, git_in, private_repository
from tau.records.fleet import Order, Patch, Workspace
from tau.store.locks import lock

PATCH_LIMIT = 64 * 1024 * 1024
CLOCK_STEP_S = 0.02  # the clock of a file system may be late by this
LOCK_POLL_S = 0.02
FICLONE = 0x40049409  # ioctl: share the blocks of a file until one of the two changes


def kind_of(order: Order) -> Workspace:
    task = order.task
    return task.workspace or ("worktree" if task.repo is not None else "empty")


class WorkFolder:
    """`path` is where the agent works. `base` is the commit that changes are compared with.

    `left_out` are repositories that the agent has made in its folder: a patch cannot contain them.
    """

    def __init__(self, order: Order, root: Path) -> None:
        self._order = order
        self._root = root
        self._kind = kind_of(order)
        name = f"{order.task.id}-{order.number}"
        # Workers of other fleets may have the same root, and tasks of the same name.
        self.path = Path(order.task.repo or ".") if self._kind == "in-place" else root / "work" / order.run / name
        self._is_own = False
        self.base = order.base
        self._repo = order.task.repo
        self._is_confined = (order.task.sandbox or order.sandbox) != "none"
        self.left_out: list[str] = []

    async def prepare(self, mirror: str | None = None) -> None:
        """Make the folder; `mirror` is the local copy of a repository that a URL names. Raises GitError or OSError."""
        self._repo = repo = mirror or self._repo
        if self._kind != "in-place":
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(self.path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.path))
            self._is_own = True
        if self._kind == "empty":
            self.path.mkdir(mode=0o700)
        elif self._kind == "worktree" and repo is not None:
            await self._add_worktree(repo)
        elif self._kind == "clone" and repo is not None:
            await git(str(self.path.parent), "clone", "--quiet", "--no-checkout", "--", repo, str(self.path))
            await git(str(self.path), "checkout", "--quiet", "--detach", self.base or "HEAD")
        elif self._kind == "copy" and repo is not None:
            await asyncio.to_thread(_copy, repo, self.path, self._own_folders())
        if self._has_repository():
            self.base = self.base or await self._head()
            if self._is_confined and self._kind != "in-place":
                await self._refresh_index()

    async def _refresh_index(self) -> None:
        """Let git note which files are unchanged: with a sandbox, filters do not run when files are compared later."""
        try:
            found = await git(str(self.path), "config", "--name-only", "--get-regexp", r"^filter\.")
        except GitError:
            return  # there are no filters
        if self._kind != "copy" and any(not name.startswith(b"filter.lfs.") for name in found.split()):
            # git compares again what was written in the same second as its index.
            await asyncio.sleep(1 - time.time() % 1 + CLOCK_STEP_S)
        with suppress(GitError):  # the index of a copy may have conflicts
            await git(str(self.path), "update-index", "-q", "--refresh")

    async def take_up(self, path: Path) -> None:
        """Work in the folder of an attempt that was lost, instead of a new one. Raises GitError."""
        self.path, self._is_own = path, True
        if self.base is None and self._has_repository():
            self.base = await self._head()

    def _has_repository(self) -> bool:
        """An empty `.git` is left of a sandbox that was killed: git would search for a repository above the folder."""
        mark = self.path / ".git"
        return os.path.isfile(mark) or os.path.exists(mark / "HEAD")

    async def _head(self) -> str:
        return (await git_in(self.path, "rev-parse", "HEAD")).decode().strip()

    def _own_folders(self) -> set[str]:
        """The folders of the fleet, which may lie inside a folder that is copied."""
        return {os.path.realpath(self._root), os.path.realpath(Path(self._order.folder).parent.parent.parent)}

    async def _add_worktree(self, repo: str) -> None:
        """Concurrent additions to one repository disturb each other: one at a time, the checkout outside the lock.

        The entry is locked, so that `git worktree prune` on a machine that does not see the folder leaves it alone.
        """
        what = ["--detach", str(self.path), self.base or "HEAD"]
        if self._order.task.output == "branch":
            what = [str(self.path), f"tau/{self.path.name}"]
            await git(repo, "branch", "--no-track", what[1], self.base or "HEAD")
        async with changing_worktrees(repo):
            await git(repo, "worktree", "add", "--quiet", "--no-checkout", "--lock", *what)
        await git(str(self.path), "reset", "--quiet", "--hard")

    def _files(self, base: str, draft: Path) -> AbstractAsyncContextManager[PrivateRepository]:
        return private_repository(self.path, base, draft / "git", confined=self._is_confined)

    async def patch(self, to: Path) -> Patch | None:
        """Write what has changed since `base`, with new files. None if nothing has."""
        if self.base is None or not self._has_repository():
            return None
        async with self._files(self.base, to.parent) as files:
            await files.stage("--intent-to-add")
            self.left_out = files.left_out
            text = await files.git("diff", "--binary", *NO_PROGRAMS, self.base)
            if not text:
                return None
            if len(text) > PATCH_LIMIT:
                raise TauError(f"the patch has {len(text):,} bytes, more than {PATCH_LIMIT:,}")
            numbers = await files.git("diff", "--numstat", *NO_PROGRAMS, self.base)
        to.write_bytes(text)
        rows = [line.split("\t") for line in numbers.decode(errors="replace").splitlines()]
        added, removed = (sum(int(row[at]) for row in rows if row[at].isdigit()) for at in (0, 1))
        return Patch(to.name, hashlib.sha256(text).hexdigest(), len(rows), added, removed)

    async def commit(self, draft: Path) -> None:
        """With `output: branch`: keep the changes in the branch of the work tree."""
        parent = await self._head()
        who = ("-c", "user.name=tau", "-c", "user.email=tau@localhost")
        message = f"{self._order.task.id}: attempt {self._order.number}"
        async with self._files(parent, draft) as files:
            await files.stage()
            tree = (await files.git("write-tree")).decode().strip()
            made = (await files.git(*who, "commit-tree", "-p", parent, "-m", message, tree)).decode().strip()
            await git_in(self.path, *who, "update-ref", "-m", f"commit: {message}", "HEAD", made, parent)
            await files.write_index(made)

    async def remove(self) -> None:
        """Remove the folder that this has made, and the entry of a work tree in its repository."""
        if not self._is_own:
            return
        await asyncio.to_thread(shutil.rmtree, self.path, True)
        if self._kind == "worktree" and self._repo is not None:
            await remove_worktree(self._repo, self.path)


async def worktrees_of(repo: str, run: str) -> list[Path]:
    """The work trees that workers of a fleet have made, on this machine and others. Raises GitError."""
    found = []
    for place in (await _common_folder(repo)).glob("worktrees/*/gitdir"):
        with suppress(OSError):
            path = Path(place.read_text().strip()).parent
            found += [path] if path.parent.name == run else []
    return found


async def remove_worktree(repo: str, path: Path) -> None:
    """Remove one work tree, also if its folder is gone or on another machine. Raises GitError."""
    async with changing_worktrees(repo):
        await git(repo, "worktree", "remove", "--force", "--force", str(path))


@asynccontextmanager
async def changing_worktrees(repo: str) -> AsyncIterator[None]:
    """One process at a time changes the list of work trees, of all fleets and machines. Raises GitError."""
    async with locked(await _common_folder(repo) / "tau-fleet.lock"):
        yield


async def _common_folder(repo: str) -> Path:
    return Path(repo, os.fsdecode(await git(repo, "rev-parse", "--git-common-dir")).removesuffix("\n"))


def remove_leftovers(root: Path) -> None:
    """At a start: remove the work folders of workers that were killed, in the background."""
    root.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):
        (root / "work").rename(root / f"removed-{os.getpid()}")
    for old in root.glob("removed-*"):
        threading.Thread(target=shutil.rmtree, args=(old, True), daemon=True).start()


def _copy(source: str, to: Path, without: Set[str]) -> None:
    def ignored(folder: str, names: list[str]) -> list[str]:
        real = os.path.realpath(folder)
        return [name for name in names if os.path.join(real, name) in without]

    shutil.copytree(source, to, symlinks=True, ignore=ignored, copy_function=_copy_file)


def _copy_file(source: str, to: str) -> str:
    """Copy a file, by reference where the file system can."""
    try:
        with open(source, "rb") as old, open(to, "wb") as new:
            fcntl.ioctl(new.fileno(), FICLONE, old.fileno())
    except OSError:
        return shutil.copy2(source, to)
    shutil.copystat(source, to)
    return to


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """Exclude all others that lock this file."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)  # a repository may be that of a group
    try:
        while not lock(handle):
            await asyncio.sleep(LOCK_POLL_S)
        yield
    finally:
        os.close(handle)
