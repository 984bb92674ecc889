"""Opening sessions for clients: what a client asks for is checked against what the host was started with.

A client can narrow: fewer tools, a stricter sandbox, smaller budgets, more permission rules. It can never widen, and no
extension, environment, key or trust comes over the wire.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from tau.cli.session_options import hide_filtered
from tau.errors import CommandError, SessionFolderGone, UsageError
from tau.records.base import Value, replace
from tau.records.budgets import Budget
from tau.records.entries import Header
from tau.records.host_commands import MIN_ID_LENGTH, OpenSession
from tau.records.settings import SandboxLevel, Settings
from tau.runtime.app.factory import SessionFactory, load, project_config
from tau.runtime.app.handle import SessionHandle
from tau.runtime.app.options import SessionOptions, SessionTarget
from tau.runtime.session.operations import as_path
from tau.store.fleet_sessions import fleet_sessions
from tau.store.listing import check_shortage, project_folders, read_header, session_files
from tau.store.paths import NOT_BELOW, check_folder, is_inside
from tau.store.session_folder import Boundary, session_folder
from tau.store.sessions import folder_for
from tau.tools import Tool
from tau.tools.registry import DEFAULT_TOOLS

SANDBOX_RANK: dict[str | None, int] = {None: 0, "workspace": 1, "strict": 2}


class NoSession(CommandError):
    """No session file has the id."""


class HostConfig(Value):
    """What the host was started with. `roots` are the folders in which sessions may work."""

    agent_dir: Path
    options: SessionOptions
    roots: Sequence[str]
    environment: Mapping[str, str] = os.environ
    idle_s: float = 15 * 60
    max_live: int = 1000
    answer_timeout_s: float = 60
    drain_s: float = 10

    @property
    def cwd(self) -> str:
        return self.roots[0]


class SessionOpener:
    """Blocking: its methods are called in a thread."""

    def __init__(self, config: HostConfig) -> None:
        self._config = config

    def check(self) -> None:
        """Read the configuration once. Raises UsageError for mistakes in the flags of the host."""
        level, levels = self._config.options.sandbox, get_args(SandboxLevel)
        if level is not None and level not in levels:
            raise UsageError(f'There is no sandbox "{level}". There are: {", ".join(levels)}.')
        load(self._config.agent_dir, self._config.options, self._config.environment, self._config.cwd)

    def find(self, id: str) -> Path:
        """The file of a session, by its id or the beginning of it. Raises CommandError, NoSession if there is none.

        Whatever reads or opens a session finds its file here or with `file`: those of folders outside of the roots are
        refused.
        """
        if len(id) < MIN_ID_LENGTH:
            raise CommandError(f"session: give at least {MIN_ID_LENGTH} characters of the id")
        folders = self.folders()
        found = _with_id(id, (path for folder in folders for path in _named_after(folder, id)))
        if not found:  # a file may have any name
            found = _with_id(id, (path for folder in folders for path in session_files(folder)))
        if not found:
            _refuse_fleet_session(self._config.agent_dir, id)
            raise NoSession(f"session: there is no session {id}")
        served = {header.id: path for path, header in found.values() if self.serves(header.cwd)}
        if id in served:
            return served[id]
        if not served or id in found:
            raise CommandError(f"session: the folder of {id} {NOT_BELOW}")
        if len(served) > 1:
            raise CommandError(f"session: {len(served)} sessions have an id that begins with {id}")
        return next(iter(served.values()))

    def serves(self, cwd: str) -> bool:
        """True if sessions of this folder may be listed, read and opened."""
        return is_inside(os.path.join(self._config.cwd, cwd), self._config.roots)

    def folders(self) -> list[Path]:
        """All folders of sessions that this host knows."""
        chosen = self._config.options.session.folder
        if chosen is not None:
            return [Path(self._config.cwd, chosen)]
        usual = [folder_for(root, self._config.agent_dir) for root in self._config.roots]
        return list(dict.fromkeys([*usual, *project_folders(self._config.agent_dir / "sessions")]))

    def load_file(self, path: Path) -> SessionFactory:
        """Read a session file that was found. Raises CommandError."""
        return self._load(replace(self._config.options, session=self._target(named=str(path))), self._folder_of(path))

    def load(self, wanted: OpenSession) -> SessionFactory:
        """Prepare a new session, or one from a file. Raises CommandError."""
        options = self._config.options
        target = self._target(kept=wanted.memory is not True and options.session.kept, name=wanted.name)
        cwd = self.folder(wanted.cwd or self._config.cwd)
        if wanted.session is not None:
            path = self.file(wanted.session)
            cwd = self._folder_of(path) if wanted.cwd is None else cwd
            target = replace(target, named=str(path))
        elif wanted.fork_of is not None:
            path = self.file(wanted.fork_of)
            cwd = self._folder_of(path) if wanted.cwd is None else cwd
            target = replace(target, copy_of=str(path))
        settings = self._settings(cwd)
        sandbox = settings.sandbox.level if options.sandbox is None else options.sandbox
        narrowed = replace(
            options,
            session=target,
            tools=options.tools if wanted.tools is None else narrower_tools(options, settings, wanted.tools),
            model=wanted.model or options.model,
            provider=None if wanted.model else options.provider,
            thinking=wanted.thinking or options.thinking,
            budget=narrower_budget(options.budget, wanted.budget),
            sandbox=narrower_sandbox(sandbox, wanted.sandbox),
        )
        return self._load(narrowed, cwd)

    def add_permissions(self, handle: SessionHandle, given: Any) -> None:
        """Add the rules of a client: "ask", or rules as in a file. Raises CommandError."""
        if given != "ask" and not isinstance(given, dict):
            raise CommandError('permissions: expected "ask" or an object with rules')
        try:
            handle.permissions.add(given)
        except UsageError as error:
            raise CommandError(str(error)) from None

    def _load(self, options: SessionOptions, cwd: str) -> SessionFactory:
        try:
            options = replace(options, roots=self._config.roots)
            factory = load(self._config.agent_dir, options, self._config.environment, cwd)
            hide_filtered(factory.settings.child_environment)
            return factory.with_sandbox()
        except UsageError as error:
            raise CommandError(str(error)) from None

    def _target(self, *, kept: bool = True, named: str | None = None, name: str | None = None) -> SessionTarget:
        return SessionTarget(kept=kept, folder=self._config.options.session.folder, named=named, name=name)

    def file(self, given: str) -> Path:
        """A session by its id, or by a path below the session folders. Raises CommandError."""
        return self.find(given) if "/" not in given else self.check_file("session", given)

    def check_file(self, field: str, given: str) -> Path:
        """A path below the session folders. Raises CommandError, also if the folder of the session is not served."""
        as_path(field, given)
        if not is_inside(given, [str(folder) for folder in self.folders()]):
            raise CommandError(f"{field}: {given} is not in a folder of sessions")
        header = read_header(Path(given))
        if header is not None and not self.serves(header.cwd):
            raise CommandError(f"{field}: the folder of {header.id} {NOT_BELOW}")
        return Path(given)

    def _folder_of(self, path: Path) -> str:
        """The folder in which a session runs if the client names none. Raises CommandError."""
        header = read_header(path)
        if header is None:
            raise CommandError(f"session: {path} is not a session file")
        try:
            return session_folder(header.cwd, path, self._config.cwd, [Boundary(self._config.roots)])
        except SessionFolderGone:
            raise CommandError(
                f"session: the folder of {header.id} does not exist: {header.cwd}. "
                "Give `cwd` to open it in another one, or with `forkOf` a copy of it."
            ) from None

    def folder(self, cwd: str) -> str:
        """Check a working folder: it must be below a root. Raises CommandError."""
        as_path("cwd", cwd)
        return check_folder("cwd", cwd, self._config.roots)

    def _settings(self, cwd: str) -> Settings:
        """The settings of a session in this folder: they may limit more than the flags of the host."""
        return project_config(self._config.agent_dir, self._config.options, cwd).settings


def _refuse_fleet_session(agent_dir: Path, id: str) -> None:
    """Raises CommandError if a fleet of this user is running the session."""
    for one in fleet_sessions(agent_dir):
        header = read_header(one.path)
        if header is not None and header.id.startswith(id):
            raise CommandError(
                f"session: {header.id} belongs to task {one.task} of the fleet {one.out}, which is running it: "
                "it can be listed here, and not opened"
            )


def _named_after(folder: Path, id: str) -> Iterator[Path]:
    """The files whose names have an id that begins so. Few of many files are looked at."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.name.partition("_")[2].startswith(id)]
    except OSError as error:
        check_shortage(error)
        return iter(())
    return (folder / name for name in names if name.endswith(".jsonl"))


def _with_id(id: str, paths: Iterable[Path]) -> dict[str, tuple[Path, Header]]:
    found: dict[str, tuple[Path, Header]] = {}
    for path in paths:
        header = read_header(path)
        if header is not None and header.id.startswith(id):
            found.setdefault(header.id, (path, header))
    return found


def offered_tools(options: SessionOptions, settings: Settings) -> dict[str, str | Tool]:
    """The tools that a session has without a client's choice, by name."""
    tools = options.tools if options.tools is not None else settings.default_tools or DEFAULT_TOOLS
    return {tool if isinstance(tool, str) else tool.name: tool for tool in tools}


def narrower_tools(options: SessionOptions, settings: Settings, wanted: Sequence[str]) -> list[str | Tool]:
    """The wanted tools. Raises CommandError if one of them is not offered."""
    offered = offered_tools(options, settings)
    if missing := [name for name in wanted if name not in offered]:
        raise CommandError(f"tools: this host does not offer {', '.join(missing)}")
    return [offered[name] for name in wanted]


def narrower_budget(limit: Budget, wanted: Budget | None) -> Budget:
    """The smaller of each limit."""
    if wanted is None:
        return limit
    names = ("max_turns", "max_tokens", "max_cost", "time_limit")
    pairs = {name: [one for one in (getattr(limit, name), getattr(wanted, name)) if one is not None] for name in names}
    smaller = {name: min(given) if given else None for name, given in pairs.items()}
    unlimited = limit.max_cost is None
    return Budget(**smaller, allow_unknown_cost=wanted.allow_unknown_cost if unlimited else limit.allow_unknown_cost)


def narrower_sandbox(limit: str | None, wanted: str | None) -> str | None:
    """The wanted level. Raises CommandError if it is less strict."""
    if wanted is None:
        return limit
    if SANDBOX_RANK[wanted] < SANDBOX_RANK[limit]:
        raise CommandError(f"sandbox: this host requires {limit}")
    return wanted
