"""git: clones repositories, without hooks, submodules and questions."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from tau.core.packages.sources import GitSource
from tau.store.files import make_folder, read_small
from tau.store.packages.errors import PackageError
from tau.store.packages.npm import NpmProgram, install_dependencies
from tau.store.packages.npm_lock import Packages
from tau.store.packages.programs import capture, run_program
from tau.store.packages.staging import copy_tree, exchange, staging_folder

OPTIONS = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "submodule.recurse=false"),
    *("-c", "advice.detachedHead=false", "-c", "protocol.ext.allow=never", "-c", "gc.auto=0"),
)
VARIABLES = {
    **{"GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "GIT_ASKPASS": "true", "SSH_ASKPASS": "true"},
    "GIT_OPTIONAL_LOCKS": "0",  # a `git status` that is killed would leave a lock in the folder
}
# Written by npm after a clone, so a difference there is not a change of the user's.
WRITTEN_BY_NPM = ("package-lock.json", "npm-shrinkwrap.json")


class GitFolder:
    """A repository in its folder. `root` is the folder of all repositories."""

    def __init__(
        self, source: GitSource, folder: Path, root: Path, npm: NpmProgram, show: Callable[[str], None]
    ) -> None:
        self.folder = folder
        self._source = source
        self._root = root
        self._npm = npm
        self._show = show

    @property
    def _marker(self) -> Path:
        """What pi writes beside a folder while it updates it."""
        return self.folder.parent / f".{self.folder.name}.pi-update-incomplete"

    def commit_id(self) -> str | None:
        """The commit that is checked out; None if that cannot be told."""
        if not os.path.exists(self.folder / ".git"):
            return None
        with suppress(PackageError):
            return self._ask(self.folder, "rev-parse", "HEAD")
        return None

    def changes(self) -> list[str]:
        """Return the files that the user changed or added. Raises PackageError."""
        lines = self._ask(self.folder, "status", "--porcelain", "--untracked-files=normal").splitlines()
        names = [line.split(maxsplit=1)[1] for line in lines if line.strip()]
        return [name for name in names if name not in WRITTEN_BY_NPM and not name.startswith("node_modules")]

    def install(
        self, allowed_scripts: Sequence[str], *, force: bool, before: Callable[[Path, Packages], None]
    ) -> Packages | None:
        """Make the folder have what the source says: the ref, or the newest state. Raises PackageError or OSError.

        `before` is called with the new state and its dependencies before it replaces the old one. Returns the
        dependencies; None if the folder has the state already.
        """
        is_new = not os.path.exists(self.folder)
        if is_new:
            make_folder(self._root)
        elif not force and (changed := self.changes()):
            raise PackageError(
                f"{self.folder} has changes of its own ({', '.join(changed[:3])}); --force discards them."
            )
        try:
            with self._staged() as staging:
                copy = staging / self.folder.name
                if is_new:
                    self._clone(copy)
                elif not self._update(copy) and not force and not allowed_scripts:
                    return None
                packages = self._finish(copy, allowed_scripts)
                before(copy, packages)
                exchange(copy, self.folder)
                self._marker.unlink(missing_ok=True)
                return packages
        finally:
            if is_new:
                self._prune()

    def remove(self) -> None:
        if os.path.exists(self.folder):
            with self._staged() as staging:  # renamed first: there is never half a folder
                self.folder.rename(staging / self.folder.name)
        self._marker.unlink(missing_ok=True)
        self._prune()

    def _staged(self) -> AbstractContextManager[Path]:
        """A private folder beside that of all repositories: trust in a project covers what is inside of that."""
        return staging_folder(Path(os.path.realpath(self._root)))

    def _clone(self, copy: Path) -> None:
        words = ("clone", "--no-recurse-submodules", "--template=", "--", self._source.repo, str(copy))
        self._run(copy.parent, *words)
        if self._source.ref:
            self._run(copy, "checkout", "--quiet", "--detach", self._resolved(copy, self._source.ref))

    def _resolved(self, copy: Path, ref: str) -> str:
        for name in (f"refs/tags/{ref}", f"refs/remotes/origin/{ref}", ref):
            with suppress(PackageError):
                return self._ask(copy, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        self._run(copy, "fetch", "--no-recurse-submodules", "origin", "--", ref)
        return self._ask(copy, "rev-parse", "FETCH_HEAD^{commit}")

    def _update(self, copy: Path) -> bool:
        """Copy the folder and fetch; False if there is nothing new."""
        was_cut_off = os.path.exists(self._marker)
        copy_tree(self.folder, copy)
        (copy / ".git" / "index.lock").unlink(missing_ok=True)  # of a git that was killed: none works in the copy
        fetch = ("fetch", "--quiet", "--no-recurse-submodules", "--prune", "--no-tags")
        if self._source.ref:
            self._run(copy, *fetch, "origin", "--", self._source.ref)
            target = self._ask(copy, "rev-parse", "FETCH_HEAD^{commit}")
        else:
            self._run(copy, *fetch, "origin")
            target = self._newest(copy)
        is_newer = target != self._ask(copy, "rev-parse", "HEAD")
        if not is_newer and not was_cut_off and not _lacks_dependencies(copy):
            return False
        self._run(copy, "reset", "--quiet", "--hard", target)
        self._run(copy, "clean", "--quiet", "-fdx")
        return True

    def _newest(self, copy: Path) -> str:
        """The commit of the branch that is followed, or of the default branch."""
        with suppress(PackageError):
            return self._ask(copy, "rev-parse", "--verify", "--quiet", "@{upstream}^{commit}")
        with suppress(PackageError):
            self._run(copy, "remote", "set-head", "origin", "--auto")
        return self._ask(copy, "rev-parse", "origin/HEAD^{commit}")

    def _finish(self, copy: Path, allowed_scripts: Sequence[str]) -> Packages:
        return install_dependencies(self._npm, copy, allowed_scripts) if _dependencies(copy) else {}

    def _prune(self) -> None:
        """Remove empty folders above, up to the root."""
        parent = self.folder.parent
        while parent != self._root and parent.is_relative_to(self._root):
            try:
                parent.rmdir()
            except OSError:
                return
            parent = parent.parent

    def _run(self, folder: Path, *words: str) -> None:
        run_program(["git", *OPTIONS, *words], folder, variables=VARIABLES, show=self._show)

    def _ask(self, folder: Path, *words: str) -> str:
        return capture(["git", *OPTIONS, *words], folder, variables=VARIABLES)


def _dependencies(folder: Path) -> list[str]:
    try:
        content = json.loads(read_small(folder / "package.json"))  # may be a link, to a file without end
        names = content.get("dependencies") if isinstance(content, dict) else None
    except (OSError, ValueError, RecursionError):
        return []
    return list(names) if isinstance(names, dict) else []


def _lacks_dependencies(folder: Path) -> bool:
    return any(not os.path.exists(folder / "node_modules" / name) for name in _dependencies(folder) if ".." not in name)
