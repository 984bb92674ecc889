"""npm: installs packages into a root that pi uses too. bun and pnpm work with the arguments that pi uses for them.

npm works in two steps: first it only makes the lock file, whose entries are checked, then it fetches what the lock file
names into a copy of the root and compares the digests. The copy is exchanged with the root at the end.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tau.records.base import Value
from tau.store.files import make_folder
from tau.store.packages.errors import PackageError
from tau.store.packages.npm_lock import (
    Packages,
    check_origins,
    dependencies_of,
    read_packages,
    with_scripts,
)
from tau.store.packages.programs import run_program
from tau.store.packages.staging import copy_tree, exchange, make_independent, staging_folder

COMMON = ("--no-audit", "--no-fund", "--no-progress")
# A configuration file in a repository must not decide which program is git, or which shell runs.
FIXED = ("--git=git", "--script-shell=/bin/sh", "--node-options=")
# Makes the lock file only, with the origin of each package, whatever the user's configuration leaves out.
PLANS = ("--package-lock-only", "--omit-lockfile-registry-resolved=false")
PLANNED = ("package.json", "package-lock.json", ".npmrc")
IGNORED_BY_GIT = "*\n!.gitignore\n"


class NpmProgram(Value):
    """`words` is the setting npmCommand. `show` gets the lines that the program prints."""

    words: Sequence[str]
    show: Callable[[str], None]

    @property
    def manager(self) -> str:
        """The package manager: behind `--` if there is one, as in `mise exec node@22 -- npm`."""
        words = list(self.words)
        at = len(words) - 1 - words[::-1].index("--") + 1 if "--" in words else 0
        name = os.path.basename(words[at]) if at < len(words) else ""
        return name.removesuffix(".cmd").removesuffix(".exe")

    @property
    def is_npm(self) -> bool:
        return self.manager not in ("bun", "pnpm")

    def run(self, *arguments: str, cwd: Path) -> None:
        quiet = {"npm_config_update_notifier": "false"}
        run_program([*self.words, *arguments], cwd, variables=quiet, show=self.show)


class NpmState(Value):
    """A new state of a root, before it replaces the old one. `plan` has its package.json and lock file."""

    staging: Path
    plan: Path
    packages: Packages

    @property
    def folder(self) -> Path:
        """The copy of the root."""
        return self.staging / "npm"

    def version(self, name: str) -> str | None:
        version = self.packages.get(f"node_modules/{name}", {}).get("version")
        return version if isinstance(version, str) else None

    def integrity(self, name: str) -> str | None:
        integrity = self.packages.get(f"node_modules/{name}", {}).get("integrity")
        return integrity if isinstance(integrity, str) else None

    def needs(self, name: str) -> Packages:
        """The entries of a package's dependencies."""
        return dependencies_of(self.packages, f"node_modules/{name}")

    def scripts(self, name: str) -> list[str]:
        """The packages with install scripts among a package and its dependencies."""
        own = f"node_modules/{name}"
        return with_scripts({own: self.packages.get(own, {}), **self.needs(name)})


class NpmRoot:
    def __init__(self, root: Path, program: NpmProgram) -> None:
        self._root = root
        self._program = program

    @contextmanager
    def staged(self) -> Iterator[Path]:
        """Yield a private folder beside the root, which is removed at the end."""
        with staging_folder(self._root) as staging:
            yield staging

    def resolve(self, staging: Path, specs: Sequence[str]) -> NpmState:
        """Let npm decide what to install, and check where it comes from. Fetches no package. Raises PackageError."""
        plan = staging / "plan"  # not in the copy: npm would take its new lock file for what is installed
        plan.mkdir(mode=0o700)
        for name in PLANNED:
            if os.path.isfile(self._root / name):
                shutil.copy2(self._root / name, plan / name)
        prepare_root(plan)
        known = read_packages(plan)
        self._install(plan, specs, *PLANS)
        packages = read_packages(plan)
        check_origins(packages, known)
        return NpmState(staging, plan, packages)

    def fetch(self, state: NpmState, allowed_scripts: Sequence[str] = ()) -> None:
        """Make a copy of the root that has what was resolved. Raises PackageError."""
        check_scripts(state.packages, allowed_scripts)
        copy = self.copy(state.staging)
        for name in PLANNED:
            if os.path.isfile(state.plan / name):
                shutil.copy2(state.plan / name, copy / name)
        self._install(copy, ())
        run_scripts(self._program, copy, allowed_scripts)

    def copy(self, staging: Path) -> Path:
        copy = staging / "npm"
        if os.path.isdir(self._root):
            copy_tree(Path(os.path.realpath(self._root)), copy)
        else:
            copy.mkdir(mode=0o700)
        prepare_root(copy)
        return copy

    def remove(self, staging: Path, name: str) -> None:
        """Make a copy of the root without a package. Raises PackageError."""
        copy = self.copy(staging)
        words = ("uninstall", name, "--prefix", str(copy), "--legacy-peer-deps", "--ignore-scripts")
        self._program.run(*words, *COMMON, cwd=copy)

    def commit(self, staging: Path) -> None:
        """Exchange the copy with the root."""
        exchange(staging / "npm", self._root)

    def _install(self, copy: Path, specs: Sequence[str], *more: str) -> None:
        words = ("install", *specs, "--prefix", str(copy), "--legacy-peer-deps", "--ignore-scripts", "--omit=dev")
        self._program.run(*words, *COMMON, *more, cwd=copy)

    # bun and pnpm: in place, because their folders refer to their own path.

    def install_in_place(self, specs: Sequence[str]) -> None:
        make_folder(self._root)
        prepare_root(self._root)
        root = str(self._root)
        if self._program.manager == "bun":
            words = ["install", *specs, "--cwd", root, "--omit=peer", "--ignore-scripts"]
        else:
            words = ["install", *specs, "--prefix", root, "--config.auto-install-peers=false"]
            words += ["--config.strict-peer-dependencies=false", "--config.strict-dep-builds=false", "--ignore-scripts"]
        self._program.run(*words, cwd=self._root)

    def remove_in_place(self, name: str) -> None:
        place = "--cwd" if self._program.manager == "bun" else "--prefix"
        self._program.run("uninstall", name, place, str(self._root), cwd=self._root)


def prepare_root(root: Path) -> None:
    """Write the files that pi expects in a root, unless they are there."""
    if not os.path.exists(root / ".gitignore"):
        (root / ".gitignore").write_text(IGNORED_BY_GIT)
    if not os.path.exists(root / "package.json"):
        (root / "package.json").write_text(json.dumps({"name": "pi-extensions", "private": True}, indent=2))


def install_dependencies(program: NpmProgram, folder: Path, allowed_scripts: Sequence[str]) -> Packages:
    """Install what the package.json of a repository needs, beside it. Raises PackageError."""
    if not program.is_npm:
        program.run("install", "--ignore-scripts", cwd=folder)
        return {}
    words = ("install", "--legacy-peer-deps", "--ignore-scripts", "--omit=dev", *COMMON, *FIXED)
    program.run(*words, *PLANS, cwd=folder)
    packages = {place: entry for place, entry in read_packages(folder).items() if not entry.get("dev")}
    check_origins(packages, {})
    check_scripts(packages, allowed_scripts)
    program.run(*words, cwd=folder)
    run_scripts(program, folder, allowed_scripts)
    return packages


def check_scripts(packages: Packages, allowed: Sequence[str]) -> None:
    """Refuse the name of a package without an install script: it is probably misspelt."""
    having = with_scripts(packages)
    for name in allowed:
        if name not in having:
            known = ", ".join(having) or "none"
            raise PackageError(f"--allow-scripts {name}: it has no install script. Packages with one: {known}")


def run_scripts(program: NpmProgram, folder: Path, allowed: Sequence[str]) -> None:
    """Run the install scripts of the packages that the user named."""
    if not allowed:
        return
    for name in allowed:
        path = folder / "node_modules" / name
        if os.path.isdir(path):
            make_independent(path)
    words = ("rebuild", *allowed, "--prefix", str(folder), "--ignore-scripts=false", "--foreground-scripts")
    program.run(*words, *COMMON, cwd=folder)
