"""git on the files that an agent wrote: with an index and, if the agent has a sandbox, a configuration of tau's own.

git executes what its configuration names: filters, hooks, fsmonitor, external diffs. That configuration may name or
include files that the agent has written, and in a nested repository the agent has written all of it. The git here runs
outside the sandbox, so it reads a git directory that nobody else writes, with only those settings of the user that say
how files are compared, and it never starts git in a nested repository: for that no gitlink is in the index when
`git add` runs, and `git diff` ignores them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tau.fleet.git import environment, git
from tau.fleet.variables import for_programs

# Values of the user's configuration that say how files are compared. None of them names a program.
KEPT_SETTINGS = frozenset(
    """
    core.autocrlf core.eol core.safecrlf core.filemode core.symlinks core.ignorecase core.precomposeunicode
    core.repositoryformatversion extensions.objectformat
    """.split()
)
PATH_SETTINGS = {"core.excludesfile": "ignore", "core.attributesfile": "attributes"}  # and the names of their defaults
INFO_FILES = ("info/exclude", "info/attributes")
GIT_FILES = ("index", "objects", *INFO_FILES)
NO_PROGRAMS = ("--no-ext-diff", "--no-textconv", "--submodule=short", "--ignore-submodules=all")
GITLINK = b"160000"


class PrivateRepository:
    """`left_out` are the nested repositories that are no part of what was staged."""

    def __init__(self, folder: Path, index: Path, env: Mapping[str, str]) -> None:
        self._folder = str(folder)
        self._index = index
        self._env = env
        self.left_out: list[str] = []

    async def git(self, *words: str, data: bytes | None = None) -> bytes:
        """Run git on the files. Raises GitError."""
        return await git(self._folder, *words, data=data, env=self._env)

    async def stage(self, *options: str) -> None:
        """Add all changes to the index, but for nested repositories. Submodules stay as they were. Raises GitError."""
        links = await self._gitlinks()
        await self._write_entries(_without(links))
        others = (await self.git("ls-files", "-z", "--others", "--exclude-standard")).split(b"\0")
        nested = [name.rstrip(b"/") for name in others if name.endswith(b"/")]
        paths = [b".", *(b":(exclude,literal)" + name for name in nested)]
        from_stdin = ("--pathspec-from-file=-", "--pathspec-file-nul")
        await self.git("add", "--all", *options, *from_stdin, data=b"\0".join(paths))
        # A process of the agent may have made another repository in the meantime.
        await self._write_entries([*_without(await self._gitlinks()), *links])
        submodules = {link.partition(b"\t")[2] for link in links}
        self.left_out = [os.fsdecode(name) for name in nested if name not in submodules]

    async def write_index(self, commit: str) -> None:
        """Make the index of the folder that of a commit. Raises GitError.

        Also for this git must not obey the configuration of the folder: it compares files when it writes an index.
        """
        env = {**self._env, "GIT_INDEX_FILE": str(self._index)}
        await git(self._folder, "read-tree", "-i", "-m", commit, env=env)

    async def _gitlinks(self) -> list[bytes]:
        """The submodules in the index, as lines of `ls-files --stage`."""
        lines = (await self.git("ls-files", "-z", "--stage")).split(b"\0")
        return [line for line in lines if line.startswith(GITLINK)]

    async def _write_entries(self, lines: list[bytes]) -> None:
        if lines:
            await self.git("update-index", "-z", "--index-info", data=b"".join(line + b"\0" for line in lines))


def _without(links: Iterable[bytes]) -> list[bytes]:
    """Lines for `update-index --index-info` that remove entries."""
    return [b"0" + link.removeprefix(GITLINK) for link in links]


@asynccontextmanager
async def private_repository(
    folder: Path, base: str, place: Path, *, confined: bool
) -> AsyncIterator[PrivateRepository]:
    """A repository for the files in `folder`, at `place`, where the agent cannot write; removed at the end.

    Objects are written to the repository of the folder. Raises GitError or OSError.
    """
    folder, place = folder.absolute(), place.absolute()  # git runs in the folder
    place.mkdir(mode=0o700)
    try:
        paths = await _git_paths(folder)
        if os.path.exists(index := paths["index"]):
            for path in [index, *index.parent.glob("sharedindex.*")]:
                shutil.copy2(path, place)  # with its time, by which git knows which entries it must compare
        env = {"GIT_INDEX_FILE": str(place / "index")}
        if confined:
            env |= _make_git_directory(place, folder, base, paths, await _settings(folder))
        yield PrivateRepository(folder, index, {**_environment(), **env})
    finally:
        shutil.rmtree(place, ignore_errors=True)


async def git_in(folder: Path, *words: str) -> bytes:
    """Run a git command that reads no file of the agent and no index: this one obeys the configuration of the folder.

    Raises GitError.
    """
    return await git(str(folder), *words, env=_environment())


def _environment() -> dict[str, str]:
    """Without keys."""
    return environment(for_programs(os.environ))


async def _git_paths(folder: Path) -> dict[str, Path]:
    """Where the repository of a folder has its files."""
    words = [word for name in GIT_FILES for word in ("--git-path", name)]
    found = os.fsdecode(await git_in(folder, "rev-parse", *words)).split("\n")
    return {name: folder / path for name, path in zip(GIT_FILES, found, strict=False)}


def _make_git_directory(
    place: Path, folder: Path, base: str, paths: Mapping[str, Path], settings: Mapping[str, bytes]
) -> dict[str, str]:
    """Returns the variables with which git uses this directory and no other configuration."""
    for name in ("refs", "info", "home"):
        (place / name).mkdir()
    (place / "HEAD").write_text(f"{base}\n")
    (place / "config").write_bytes(_as_config(settings))
    for name in INFO_FILES:
        if os.path.isfile(paths[name]):
            shutil.copyfile(paths[name], place / name)
    return {
        "HOME": str(place / "home"),
        "XDG_CONFIG_HOME": str(place / "home"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_DIR": str(place),
        "GIT_WORK_TREE": str(folder),
        "GIT_OBJECT_DIRECTORY": str(paths["objects"]),
    }


async def _settings(folder: Path) -> dict[str, bytes]:
    """What the user's configuration says about comparing files."""
    lines = (await git_in(folder, "config", "--null", "--list")).split(b"\0")
    given = {name.decode(errors="replace"): value if equals else b"true" for name, equals, value in map(_halves, lines)}
    found = {name: value for name, value in given.items() if name in KEPT_SETTINGS}
    usual = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    for name, file in PATH_SETTINGS.items():
        found[name] = os.path.expanduser(given.get(name) or os.fsencode(f"{usual}/git/{file}"))
    return found


def _halves(line: bytes) -> tuple[bytes, bytes, bytes]:
    return line.partition(b"\n")


def _as_config(settings: Mapping[str, bytes]) -> bytes:
    lines = [b"[core]\n\tbare = false\n"]
    for name, value in settings.items():
        section, _, key = name.partition(".")
        escaped = value.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
        lines.append(f"[{section}]\n\t{key} = ".encode() + b'"' + escaped + b'"\n')
    return b"".join(lines)
