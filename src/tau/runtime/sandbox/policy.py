"""Sandbox policy: which paths commands and file tools may access, the same for every level.

    writable      the working folder, a private /tmp, and what the user's settings add
    readable      in addition: the system's programs, Python and tau themselves, the user's skills, the repository
                  around the working folder
    empty         the home folder
    protected     what git, tau and other programs would execute or obey, even in a writable folder
                  (protected_paths.py)

The innermost rule wins. Names are not compared at access time: launcher.py turns the list into mounts, and the kernel
decides. A read-only folder is a mount, and so is every folder on the way to it, because a mount cannot be moved out
of the way. Each mount is planned with the identity of its source, so that a name that refers to another file by the
time it is mounted is refused.
"""

from __future__ import annotations

import os
import pwd
import stat
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import tau
from tau.errors import UsageError
from tau.records.settings import SandboxLevel
from tau.runtime.machine.supervisor import CONFINED
from tau.runtime.machine.supervisor import __file__ as RUNNER
from tau.runtime.machine.supervisor_client import SandboxUnavailable
from tau.runtime.sandbox.git_layout import is_git_directory, is_in, repository_of_worktree, stops_search
from tau.runtime.sandbox.import_paths import code_paths, is_importable
from tau.runtime.sandbox.launcher import SYSTEM, Plan, main, python_words
from tau.runtime.sandbox.mounts import Mount
from tau.runtime.sandbox.placeholders import is_placeholder
from tau.runtime.sandbox.protected_paths import Guard, Unprotectable, guards
from tau.runtime.sandbox.safe_open import Identity, identify, links_to
from tau.runtime.sandbox.tree_removal import remove_tree

LEVELS: tuple[SandboxLevel, ...] = ("workspace", "strict")

TMP = "/tmp"
ENVIRONMENT = {
    **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), TMP),
    "XDG_CACHE_HOME": f"{TMP}/.cache",  # the default, in the home folder, is not writable
}
ETC = "/etc"
PROGRAMS = ("tau", "pi")
MAX_MOUNTS = 1000  # bubblewrap accepts three times as many


class Sandbox:
    """The policy of one session. Raises UsageError if it could not protect anything.

    `sessions` is the folder of session files; `readable` and `writable` are additional paths that the user grants.
    `protected` are further files and folders that commands must not change if they lie where commands can write, such
    as loaded extensions.
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
        self._temporary = os.path.realpath(TMP)
        self._readable = [_granted(path, "readable") for path in readable]
        self._writable = [_granted(path, "writable") for path in writable]
        self._sessions = None if sessions is None else os.path.realpath(sessions)
        self._named = [*readable, *writable, str(agent_dir), *([] if sessions is None else [str(sessions)]), *protected]
        self._own = [self._agent_dir, *map(os.path.realpath, (*_program(), *_scripts(), *protected))]
        if self._sessions is not None:
            self._own.append(self._sessions)
        self._places = (self.tree, *self._writable)
        self._check()
        for folder in (self._agent_dir, self._sessions):
            if folder is not None and self._is_in_a_place(folder):  # else a command could create it
                os.makedirs(folder, 0o700, exist_ok=True)
        # The folders are fixed now: a sandbox that is created again later must use the same ones.
        self._identities = {path: identify(path) for path in self._places if os.path.isdir(path)}
        self.environment = ENVIRONMENT  # variables that are added for commands
        self._private: str | None = None
        self._outputs: list[str] = []

    def _check(self) -> None:
        homes = {self._home, os.path.realpath(os.path.expanduser(f"~{pwd.getpwuid(os.getuid()).pw_name}"))}
        for place, what in (
            *((home, "your home folder") for home in homes if home != "/"),
            (self._temporary, TMP),
        ):
            for granted in self._places:
                if is_in(os.path.realpath(place), granted):
                    raise self._refusal(
                        f"{granted} contains {what}, and everything in it could be read and written. "
                        "Start in the folder of a project."
                    )
        self._check_own()
        self._check_repository()
        guards = self._guards()
        for path in self._named:
            for link in links_to(os.path.abspath(os.path.expanduser(path))):
                if self._is_in_a_place(link) and not any(is_in(link, guard.path) for guard in guards):
                    raise self._refusal(f"{path} is reached by {link}, a link that commands can replace.")
        self._check_code_paths(guards)

    def _check_own(self) -> None:
        prefixes = (sys.prefix, sys.base_prefix)  # which may be /usr
        for place in self._own:
            if is_in(self.tree, place) and (place not in prefixes) and place != self._sessions:
                raise self._refusal(
                    f"the working folder {self.tree} is a part of {place}, which configures tau itself. "
                    "Start in another folder."
                )
        if self._agent_dir in self._writable:
            raise self._refusal(f"{self._agent_dir}, which configures tau itself, cannot be granted.")
        if self._sessions is not None and any(is_in(place, self._sessions) for place in self._places):
            raise self._refusal(
                f"session files would be in {self._sessions}, where commands can write them. "
                "Choose another folder with --session-dir."
            )

    def _check_repository(self) -> None:
        folder = self.tree
        while True:
            if is_git_directory(folder):
                raise self._refusal(
                    f"{folder} is a git repository without a work tree, whose files control git. Start in a work tree."
                )
            if folder == "/" or stops_search(os.path.join(folder, ".git")):
                return
            folder = os.path.dirname(folder)

    def _check_code_paths(self, guards: Sequence[Guard]) -> None:
        rules = {**dict.fromkeys(self._places, True), **{guard.path: guard.writable for guard in guards}}
        for path, loader, remedy in code_paths([os.getcwd(), self.tree]):
            enclosing = [place for place in rules if is_in(path, place)]
            if (enclosing and rules[max(enclosing, key=len)]) or any(
                is_importable(place, path) for place in self._places
            ):
                raise self._refusal(
                    f"{loader} {path}, and what commands write there would run outside of the sandbox. {remedy}."
                )

    def _refusal(self, sentence: str) -> UsageError:
        return UsageError(f"--sandbox {self.level}: {sentence}")

    def _guards(self) -> list[Guard]:
        try:
            return guards(self._places, self._own)
        except Unprotectable as error:
            raise self._refusal(str(error)) from None

    def _is_in_a_place(self, path: str) -> bool:
        """True if commands could write to the path if it were not protected."""
        return any(is_in(path, place) for place in self._places)

    def plan(self) -> Plan:
        """Plan a sandbox and create its private temp folder, which is removed when the sandbox ends.

        Raises SandboxUnavailable.
        """
        base = self._outside()
        self.clear()  # in case the launcher, which normally does this, was killed
        private = self._private = tempfile.mkdtemp(prefix="tau-sandbox-", dir=base)
        try:
            self._outputs = [folder for folder in self._outputs if os.path.isdir(folder) and os.listdir(folder)]
            self._outputs.append(tempfile.mkdtemp(prefix="tau-output-", dir=base))
            return self._plan(private)
        except UsageError as error:  # protected paths have changed since this sandbox was first created
            self.clear()
            raise SandboxUnavailable(str(error).rstrip(".")) from None
        except BaseException:
            self.clear()
            raise

    def clear(self) -> None:
        """Remove the private folders of a sandbox that has ended, or was never started."""
        if self._private is not None:
            remove_tree(self._private)
        for folder in self._outputs:
            with suppress(OSError):
                os.rmdir(folder)

    def words(self) -> list[str]:
        """Return the command line of the launcher. Its stdin is the connection to the supervisor in the sandbox."""
        return python_words(main.__name__, self.plan().arguments())

    @property
    def output(self) -> str:
        """Folder for the output of commands, which they can read but not write. It is kept unless it is empty."""
        return self._outputs[-1]

    def _outside(self) -> str:
        """Return a folder for temporary files that commands cannot access under their real names."""
        for folder in (os.path.realpath(tempfile.gettempdir()), self._temporary, "/var/tmp"):
            if not self._is_in_a_place(folder) and os.access(folder, os.W_OK):
                return folder
        raise self._refusal(f"there is no folder for temporary files outside of {self.tree}.")

    def _plan(self, private: str) -> Plan:
        covers = self._covers(private)
        targets, placeholders = self._targets(private, covers), list[str]()
        for guard in self._guards():
            if not os.path.lexists(guard.path) or is_placeholder(guard.path):
                placeholders.append(guard.path)
            self._keep_in_place(guard.path, targets)
            if guard.path != self._agent_dir:
                targets[guard.path] = (guard.path, guard.writable)
        for place in self._places:
            self._keep_in_place(place, targets)
        self._make_places(targets, covers)
        if len(targets) > MAX_MOUNTS:
            raise SandboxUnavailable(f"there are more than {MAX_MOUNTS} paths to protect in {self.tree}")
        mounts = [
            Mount(source, target, writable, None if target in placeholders else self._identify(source))
            for target, (source, writable) in sorted(targets.items(), key=lambda item: item[0].count("/"))
        ]
        words = [os.path.realpath(sys.executable), "-I", "-S", RUNNER, CONFINED]
        return Plan(self.level, mounts, placeholders, private, self.output, words)

    def _covers(self, private: str) -> dict[str, str]:
        """Create and return the empty folders that replace real ones: real folder to replacement."""
        covers = {self._temporary: os.path.join(private, "tmp")}
        if self._home != "/" and os.path.isdir(self._home):
            covers[self._home] = os.path.join(private, "home")
        if os.path.isdir(self._agent_dir):
            covers[self._agent_dir] = os.path.join(private, "agent")
        for folder in covers.values():
            os.mkdir(folder, 0o700)
        return covers

    def _targets(self, private: str, covers: Mapping[str, str]) -> dict[str, tuple[str, bool]]:
        """Return the mounts without the protected paths: target to source and whether it is writable."""
        empty, no_file = os.path.join(private, "empty"), os.path.join(private, "no-file")
        os.mkdir(empty, 0o700)
        Path(no_file).touch(0o400)
        found = {path: (os.path.realpath(path), False) for path in (*self._roots(), *self._outputs)}
        for path in not_for_all(ETC):
            found[path] = (empty if os.path.isdir(path) else no_file, False)
        found |= {target: (source, target == self._temporary) for target, source in covers.items()}
        return found | {path: (path, True) for path in (*self._writable, self.tree)}

    def _keep_in_place(self, path: str, targets: dict[str, tuple[str, bool]]) -> None:
        """Add a mount for each folder on the way to a path from the outermost folder that commands may write."""
        enclosing = [place for place in self._places if is_in(path, place)]
        for folder in _between(min(enclosing, key=len), path):
            if not is_in(folder, self._agent_dir):
                targets.setdefault(folder, (folder, True))

    def _make_places(self, targets: dict[str, tuple[str, bool]], covers: Mapping[str, str]) -> None:
        """Create mount points for targets in folders that are replaced by empty ones."""
        for target in list(targets):
            enclosing = [other for other in targets if other != target and is_in(target, other)]
            cover = max(enclosing, key=len, default="")
            if cover in covers:
                _make_place(covers[cover] + target.removeprefix(cover), is_folder=os.path.isdir(targets[target][0]))
        for target in list(targets):
            if (first := _first_below(self._temporary, target)) and first not in targets:
                # A mount, so that commands cannot move the folder that leads to the working folder.
                targets[first] = (covers[self._temporary] + first.removeprefix(self._temporary), False)

    def _identify(self, path: str) -> Identity:
        try:
            found = identify(path)
        except OSError as error:
            raise SandboxUnavailable(f"{path} cannot be opened without following links: {error.strerror}") from None
        if found != self._identities.get(path, found):
            raise SandboxUnavailable(f"{path} is not the same folder as when this session began")
        return found

    def _roots(self) -> list[str]:
        """Return the paths to read besides the system's: tau itself, skills, repositories, the user's grants."""
        own_paths = [*_program(), sysconfig.get_path("scripts")]
        skills = [os.path.join(self._agent_dir, "skills"), os.path.join(self._home, ".agents", "skills")]
        roots = [*map(os.path.realpath, own_paths), *skills, *self._repositories(), *self._readable]
        existing = dict.fromkeys(path for path in roots if os.path.exists(path) and path != "/")
        seen = [place for place in map(os.path.realpath, SYSTEM) if not is_in(self._home, place)]
        return [
            path for path in existing if not any(is_in(path, place) for place in (*seen, *existing) if place != path)
        ]

    def _repositories(self) -> Iterator[str]:
        """Yield the repository that contains the working folder, and the one that it is a linked work tree of."""
        above = os.path.dirname(self.tree)
        while not self._holds_too_much(above):
            mark = os.path.join(above, ".git")
            if os.path.lexists(mark) and not is_placeholder(mark):
                yield above
                break
            above = os.path.dirname(above)
        repository = repository_of_worktree(self.tree)
        if repository is not None and not is_in(repository, self.tree) and not self._holds_too_much(repository):
            yield repository

    def _holds_too_much(self, folder: str) -> bool:
        return folder == "/" or any(is_in(place, folder) for place in (self._home, self._temporary))


def _program() -> list[str]:
    """Return the folders of tau, its libraries and its Python."""
    packages = [path for path in sys.path if path.endswith("-packages") and os.path.isabs(path)]
    # The folder that contains the package, not only the package, because Python lists that folder to import us.
    return [sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(tau.__file__)), *packages]


def _scripts() -> Iterator[str]:
    """Yield the scripts with which the user starts tau."""
    for scheme in (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user")):
        folder = sysconfig.get_path("scripts", scheme)
        yield from (path for path in (os.path.join(folder, name) for name in PROGRAMS) if os.path.exists(path))


def not_for_all(folder: str) -> Iterator[str]:
    """Yield the paths in a folder that are not world-readable.

    They may contain passwords and keys, which root, or a member of their group, could otherwise read.
    """
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


def _granted(path: str, setting: str) -> str:
    found = os.path.realpath(os.path.expanduser(path))
    if found == "/" or not os.path.exists(found):
        raise UsageError(
            f"sandbox.{setting}: {path} cannot be granted, it is " + ("/" if found == "/" else "not there")
        )
    return found


def _between(top: str, path: str) -> Iterator[str]:
    """Yield the folders between the two, excluding both."""
    folder = os.path.dirname(path)
    while folder != top and is_in(folder, top):
        yield folder
        folder = os.path.dirname(folder)


def _first_below(folder: str, path: str) -> str | None:
    """Return the child of a folder that contains a path; None if the path is a child itself or not in the folder."""
    if path == folder or not is_in(path, folder):
        return None
    first, _, rest = path.removeprefix(folder + "/").partition("/")
    return os.path.join(folder, first) if rest else None


def _make_place(path: str, *, is_folder: bool) -> None:
    os.makedirs(path if is_folder else os.path.dirname(path), 0o700, exist_ok=True)
    if not is_folder:
        Path(path).touch(0o400)
