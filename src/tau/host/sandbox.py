"""What commands and file tools may reach when the sandbox is on: one policy, whichever level carries it out.

    written to    the working folder, a private /tmp, and what the user's settings add
    read          besides that: the system's programs, Python and tau themselves, the
                  user's skills, the repository around the working folder
    seen, empty   the home folder
    not changed   what git, tau and others would execute or obey, though it lies in the
                  working folder: .git, .pi, the agent's own files, tau's own program

The innermost rule counts. Names are no part of it: confine.py makes mounts of the
list, and the kernel decides. A folder that is to be read-only is a mount, and so is
every folder on the way to it, because a mount cannot be moved out of the way.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import stat
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import tau
from tau.errors import UsageError
from tau.host.confine import SYSTEM, Mount, Plan, is_placeholder
from tau.host.runner import CONFINED
from tau.host.runner import __file__ as RUNNER
from tau.records.settings import SandboxLevel

LEVELS: tuple[SandboxLevel, ...] = ("workspace", "strict")

TEMPORARY = "/tmp"
ENVIRONMENT = {
    **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), TEMPORARY),
    "XDG_CACHE_HOME": f"{TEMPORARY}/.cache",  # the usual place, in the home folder, cannot be written
}
PROTECTED = (".git", ".pi")
CONFIGURED = "/etc"
_SUBMODULE = re.compile(r"^\s*path\s*=\s*(.+?)\s*$", re.MULTILINE)


class Sandbox:
    """The policy of one session. Raises UsageError where it would protect nothing.

    `sessions` is the folder of session files; `readable` and `writable` are what the
    user grants besides. `protected` are files and folders that tau loads or runs, such
    as extensions: where they lie in the working folder, commands cannot change them.
    """

    def __init__(
        self,
        level: str,
        tree: str,
        agent_dir: Path,
        sessions: Path | None = None,
        readable: Sequence[str] = (),
        writable: Sequence[str] = (),
        environment: Mapping[str, str] = os.environ,
        protected: Sequence[str] = (),
    ) -> None:
        if level not in LEVELS:
            raise UsageError(f'There is no sandbox "{level}". There are: {", ".join(LEVELS)}.')
        self.level = next(known for known in LEVELS if known == level)
        self.tree = os.path.realpath(tree)
        self._agent_dir = os.path.realpath(agent_dir)
        self._home = os.path.realpath(environment.get("HOME") or os.path.expanduser("~"))
        self._readable = [_granted(path, "readable") for path in readable]
        self._writable = [_granted(path, "writable") for path in writable]
        self._sessions = None if sessions is None else os.path.realpath(sessions)
        self._kept = [os.path.realpath(path) for path in protected]
        self._check()
        if _is_in(self._agent_dir, self.tree):  # or a command would make it
            os.makedirs(self._agent_dir, 0o700, exist_ok=True)
        self.environment = ENVIRONMENT  # what commands are told of it
        self._private: str | None = None
        self._outputs: list[str] = []

    def _check(self) -> None:
        homes = {self._home, os.path.realpath(os.path.expanduser(f"~{pwd.getpwuid(os.getuid()).pw_name}"))}
        for place, what in (*((home, "your home folder") for home in homes if home != "/"), (TEMPORARY, TEMPORARY)):
            for granted in (self.tree, *self._writable):
                if _is_in(os.path.realpath(place), granted):
                    raise UsageError(
                        f"--sandbox {self.level}: {granted} holds {what}, and everything in it could be read and "
                        "written. Start in the folder of a project."
                    )
        packages = [path for path in map(os.path.realpath, _program()) if path not in (sys.prefix, sys.base_prefix)]
        for place in (self._agent_dir, *packages, *self._kept):
            if _is_in(self.tree, place):
                raise UsageError(
                    f"--sandbox {self.level}: the working folder {self.tree} is a part of {place}, which decides what "
                    "tau itself does. Start somewhere else."
                )
        kept = list(self._protected())
        for place in _shadowing():
            if any(_is_in(place, granted) for granted in (self.tree, *self._writable)) and not any(
                _is_in(place, path) for path in kept
            ):
                raise UsageError(
                    f"--sandbox {self.level}: Python looks for modules in {place} before its own, and what commands "
                    "write there would run outside. Start it with -P or without PYTHONPATH, or from another folder."
                )
        for path in kept:
            if os.path.islink(path):
                raise UsageError(f"--sandbox {self.level}: {path} is a link, which cannot be kept from being replaced.")
        if self._sessions is not None and _is_in(self.tree, self._sessions):
            raise UsageError(
                f"--sandbox {self.level}: session files would lie in {self._sessions}, where commands can write them. "
                "Choose another folder with --session-dir."
            )

    def plan(self) -> Plan:
        """With a private folder of its own, which is removed when what is made of it ends."""
        base = self._outside()
        self.clear()  # if somebody has killed the process that should have done it
        private = self._private = tempfile.mkdtemp(prefix="tau-sandbox-", dir=base)
        try:
            self._outputs = [folder for folder in self._outputs if os.path.isdir(folder) and os.listdir(folder)]
            self._outputs.append(tempfile.mkdtemp(prefix="tau-output-", dir=base))
            return self._plan(private)
        except BaseException:
            self.clear()
            raise

    def clear(self) -> None:
        """Remove what only a sandbox that has ended, or never begun, would have needed."""
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)
        for folder in self._outputs:
            with suppress(OSError):
                os.rmdir(folder)

    def words(self) -> list[str]:
        """The command line of the process that makes the sandbox, and whose stdin is the line to the runner in it."""
        start = "import sys; sys.path.append(sys.argv.pop(1)); from tau.host.confine import main; main()"
        root = os.path.dirname(os.path.dirname(os.path.abspath(tau.__file__)))
        return [sys.executable, "-I", "-S", "-c", start, root, json.dumps(self.plan()._asdict())]

    @property
    def output(self) -> str:
        """A folder for what commands say, which they can read but not write. It stays if there is anything in it."""
        return self._outputs[-1]

    def _outside(self) -> str:
        """Where temporary files can be that no command reaches under their real names."""
        within = (self.tree, *self._writable)
        for folder in (os.path.realpath(tempfile.gettempdir()), TEMPORARY, "/var/tmp"):
            if not any(_is_in(folder, place) for place in within) and os.access(folder, os.W_OK):
                return folder
        raise UsageError(f"--sandbox {self.level}: there is no folder for temporary files outside of {self.tree}.")

    def _plan(self, private: str) -> Plan:
        empty, no_file = os.path.join(private, "empty"), os.path.join(private, "no-file")
        covers = {TEMPORARY: os.path.join(private, "tmp")}
        if self._home != "/" and os.path.isdir(self._home):
            covers[self._home] = os.path.join(private, "home")
        if os.path.isdir(self._agent_dir):
            covers[self._agent_dir] = os.path.join(private, "agent")
        for folder in (empty, *covers.values()):
            os.mkdir(folder, 0o700)
        Path(no_file).touch(0o400)

        readable, placeholders = [*self._roots(), *self._outputs], list[str]()
        found = {path: Mount(path, path, False) for path in readable if os.path.exists(path)}
        for path in not_for_all(CONFIGURED):
            found[path] = Mount(empty if os.path.isdir(path) else no_file, path, False)
        found |= {target: Mount(source, target, target == TEMPORARY) for target, source in covers.items()}
        found |= {path: Mount(path, path, True) for path in (*self._writable, self.tree)}
        for path in self._protected():
            if not os.path.lexists(path) or is_placeholder(path):
                placeholders.append(path)
            for folder in _between(self.tree, path):
                found.setdefault(folder, Mount(folder, folder, True))
            if path != self._agent_dir:
                found[path] = Mount(path, path, False)

        for target in list(found):
            _make_place(target, covers, is_folder=os.path.isdir(found[target].source))
            if (first := _first_below(TEMPORARY, target)) and first not in found:
                # What leads to the working folder stays where it is.
                found[first] = Mount(covers[TEMPORARY] + first.removeprefix(TEMPORARY), first, False)
        mounts = sorted(found.values(), key=lambda mount: mount.target.count("/"))
        words = [os.path.realpath(sys.executable), "-I", "-S", RUNNER, CONFINED]
        writable = [self.tree, *self._writable, TEMPORARY]
        return Plan(self.level, mounts, [*readable, *covers], writable, placeholders, private, self.output, words)

    def _roots(self) -> list[str]:
        """What has to be read besides the system: we ourselves, and what belongs to the work."""
        ours = [*_program(), sysconfig.get_path("scripts")]
        skills = [os.path.join(self._agent_dir, "skills"), os.path.join(self._home, ".agents", "skills")]
        roots = [*map(os.path.realpath, ours), *skills, *self._repositories(), *self._readable]
        kept = dict.fromkeys(path for path in roots if os.path.exists(path) and path != "/")
        seen = [place for place in map(os.path.realpath, SYSTEM) if not _is_in(self._home, place)]
        return [path for path in kept if not any(_is_in(path, place) for place in (*seen, *kept) if place != path)]

    def _protected(self) -> Iterator[str]:
        """Inside the working folder; the names in it may be missing, and must stay so."""
        yield from (os.path.join(self.tree, name) for name in PROTECTED)
        inside = [self._agent_dir, *map(os.path.realpath, _program()), *self._kept]
        if self._sessions is not None and not _is_in(self._sessions, self._agent_dir):
            inside.append(self._sessions)
        if (gitdir := _gitdir(os.path.join(self.tree, ".git"))) is not None:
            inside.append(gitdir)
        inside += [os.path.join(folder, ".git") for folder in self._submodules()]
        whole = [os.path.join(self.tree, name) for name in PROTECTED]
        for path in dict.fromkeys(inside):
            if path in self._kept and any(_is_in(path, place) for place in whole):
                continue  # it is read-only already
            if path != self.tree and _is_in(path, self.tree) and os.path.lexists(path):
                yield path

    def _submodules(self) -> Iterator[str]:
        with suppress(OSError, ValueError):
            text = Path(self.tree, ".gitmodules").read_text("utf-8", "replace")
            for path in _SUBMODULE.findall(text):
                yield os.path.realpath(os.path.join(self.tree, path.strip('"')))

    def _repositories(self) -> Iterator[str]:
        """The repository that the working folder is a part of, and the one that it is a work tree of."""
        above = os.path.dirname(self.tree)
        while above != "/" and not any(_is_in(place, above) for place in (self._home, TEMPORARY)):
            mark = os.path.join(above, ".git")
            if os.path.lexists(mark) and not is_placeholder(mark):
                yield above
                break
            above = os.path.dirname(above)
        gitdir = _gitdir(os.path.join(self.tree, ".git"))
        # A file in the working folder can name any folder; only what names it in return belongs to it.
        if gitdir is not None and not _is_in(gitdir, self.tree):
            with suppress(OSError, ValueError):
                back = Path(gitdir, "gitdir").read_text("utf-8").strip()
                if os.path.realpath(back) == os.path.join(self.tree, ".git"):
                    yield os.path.dirname(os.path.dirname(gitdir))


def _program() -> list[str]:
    """Where tau, its libraries and its Python are."""
    packages = [path for path in sys.path if path.endswith("-packages") and os.path.isabs(path)]
    # Python lists the folder that it finds us in.
    return [sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(tau.__file__)), *packages]


def not_for_all(folder: str) -> Iterator[str]:
    """What in a folder not everybody may read: passwords and keys, which root could, or a group that the user is in."""
    try:
        listed = list(os.scandir(folder))
    except OSError:
        return
    for entry in listed:
        with suppress(FileNotFoundError):
            if entry.is_symlink():
                continue
            needed = stat.S_IROTH | stat.S_IXOTH if entry.is_dir() else stat.S_IROTH
            if entry.stat().st_mode & needed != needed:
                yield entry.path
            elif entry.is_dir():
                yield from not_for_all(entry.path)


def _shadowing() -> Iterator[str]:
    """Where modules are found that take the place of Python's own: we, and extensions, load many only when needed."""
    library = sysconfig.get_path("stdlib")
    for place in sys.path:
        if os.path.realpath(place) == os.path.realpath(library):
            return
        yield os.path.realpath(place)


def _granted(path: str, setting: str) -> str:
    found = os.path.realpath(os.path.expanduser(path))
    if found == "/" or not os.path.exists(found):
        raise UsageError(
            f"sandbox.{setting}: {path} cannot be granted, it is " + ("/" if found == "/" else "not there")
        )
    return found


def _gitdir(mark: str) -> str | None:
    """Where a work tree's `.git`, if it is a file, says that the repository is."""
    with suppress(OSError, ValueError):
        if os.path.isfile(mark):
            said = Path(mark).read_text("utf-8")[:4096].strip()
            if said.startswith("gitdir:"):
                return os.path.realpath(os.path.join(os.path.dirname(mark), said.removeprefix("gitdir:").strip()))
    return None


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _between(top: str, path: str) -> Iterator[str]:
    """The folders on the way from one to the other, without both."""
    folder = os.path.dirname(path)
    while folder != top and _is_in(folder, top):
        yield folder
        folder = os.path.dirname(folder)


def _first_below(folder: str, path: str) -> str | None:
    """The first step from a folder to what is deeper in it; None if there is but one, or none."""
    if path == folder or not _is_in(path, folder):
        return None
    first, _, rest = path.removeprefix(folder + "/").partition("/")
    return os.path.join(folder, first) if rest else None


def _make_place(target: str, covers: Mapping[str, str], *, is_folder: bool) -> None:
    """Something to mount on, in the innermost of the folders that cover what is really there."""
    within = [cover for cover in covers if cover != target and _is_in(target, cover)]
    if not within:
        return
    cover = max(within, key=len)
    place = covers[cover] + target.removeprefix(cover)
    os.makedirs(place if is_folder else os.path.dirname(place), 0o700, exist_ok=True)
    if not is_folder:
        Path(place).touch(0o400)
