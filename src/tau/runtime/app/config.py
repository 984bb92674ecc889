"""Project configuration: settings, trust in the project, and its extensions.

Read at start-up, on a reload, and when the user decides to trust the project. The command line stays in force.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tau.errors import ExtensionFailure, UsageError
from tau.records.base import BadRecord, decode, encode, replace, to_builtins
from tau.records.settings import Settings
from tau.runtime.app.session_choice import absolute
from tau.store.extension_files import FoundExtension, extension_paths, in_folder
from tau.store.extension_modules import Program, module_files, program_of
from tau.store.path_lists import PathList
from tau.store.resource_query import is_remote
from tau.store.settings import Layers, SettingsFile, group_compat, merge, read_layers
from tau.store.trust import (
    REMEDY,
    Decision,
    Fingerprint,
    Untrustable,
    decide,
    extension_programs,
    fingerprint,
    named_in_settings,
    names_needing_trust,
    save_decision,
)
from tau.wire import dialects
from tau.wire.dialect import Dialect

if TYPE_CHECKING:
    from tau.store.packages.session import SessionPackages


class ProjectConfig:
    """Settings, trust and extensions of one project.

    `approve` is the trust decision of the command line, `given` the extensions it names, `dialect` its dialect.
    `overruled` are settings that win over all files, by the names that these use. `fetches`: a
    package of the command line may be fetched, and a missing one if the settings say so.

    Raises UsageError for a named extension that cannot be one.
    """

    def __init__(
        self,
        agent_dir: Path,
        cwd: Path,
        approve: bool | None,
        given: Sequence[str] = (),
        *,
        only_given: bool = False,
        dialect: str | None = None,
        overruled: Mapping[str, Any] = MappingProxyType({}),
        fetches: bool = False,
    ) -> None:
        self.agent_dir = agent_dir
        self.cwd = cwd
        self.file = SettingsFile(agent_dir / "settings.json")
        self.start, self._start_approve = cwd, approve
        self._approve = approve
        self._given = given
        self._only_given = only_given
        self._dialect = dialect
        self._overruled = overruled
        self._fetches = fetches
        self._asked_about: Fingerprint | None = None
        self._trusted_for_run = False  # by an answer of the user that may not be stored
        self.read()

    def read(self, *, trusted: bool = False) -> None:
        """Read the files as they are now. Blocks. `trusted`: the user has decided to trust the project."""
        self._trusted_for_run = trusted
        approve, asked_about = (True, self._asked_about) if trusted else (self._approve, None)
        layers, trust, self.dialect = read_settings(self.file, self.cwd, approve, self._dialect, asked_about)
        self.packages = self._read_packages(layers)
        found, told = extension_paths(
            layers.lists,
            self.agent_dir,
            self.cwd,
            trusted=trust.trusted,
            given=[text for text in self._given if not is_remote(text)],
            only_given=self._only_given,
            content=trust.content,
            node_problem=lambda: node_problem(layers.settings),
            packaged=self._packaged_extensions(trust.content),
        )
        self._lists = layers.lists
        self.origins = layers.origins
        self._shell_of_project = layers.origins.get("shellPath") == self.cwd / ".pi" / "settings.json"
        self.settings = settings_with(layers.settings, self._overruled)
        self.trust, self.extensions = trust, found
        self.unknown_limits = layers.unknown_limits
        self.warnings = [*trust.warnings, *layers.problems, *self._package_problems(), *told]
        self.untrusted = ""  # message to show if the project stays untrusted because no client can be asked
        if trust.undecided and found:
            self.untrusted = trust.warnings[-1]
            self.warnings.remove(self.untrusted)

    def at(self, folder: str) -> ProjectConfig:
        """The configuration of another folder, for a session that runs there. Blocks.

        A yes of the command line is about the folder where the program was started: elsewhere, saved decisions count.
        """
        other = object.__new__(ProjectConfig)
        other.become(self)
        other.cwd = Path(folder)
        other._approve = self._start_approve if other.cwd == self.start or not self._start_approve else None
        other._dialect = self.dialect.name  # the client speaks it
        other._given = [text if is_remote(text) else str(absolute(str(self.start), text)) for text in self._given]
        other._asked_about = None
        other.read()
        remedy = f"`tau trust` in {folder} trusts them as they are now."
        other.warnings = [warning.replace(REMEDY, remedy) for warning in other.warnings]
        other.untrusted = other.untrusted.replace(REMEDY, remedy)
        return other

    def become(self, other: ProjectConfig) -> None:
        """Continue as the configuration of another folder."""
        vars(self).update(vars(other))

    def _read_packages(self, layers: Layers) -> SessionPackages | None:
        """Find the packages of the settings and of the command line. Blocks, also for an installation."""
        named = [text for text in self._given if is_remote(text)]
        if not named and not any(layers.packages.values()):
            return None
        from tau.store.packages.session import SessionPackages

        settings = settings_with(layers.settings, self._overruled)
        return SessionPackages(self.agent_dir, self.cwd, layers.packages, named, settings, fetches=self._fetches)

    def _package_problems(self) -> Sequence[str]:
        return () if self.packages is None else self.packages.problems

    def _packaged_extensions(self, content: Mapping[str, str] | None) -> list[FoundExtension]:
        if self.packages is None or not self.packages.extensions:
            return []
        from tau.store.packages.extensions import found_extensions

        return found_extensions(self.packages.extensions, content)

    @property
    def approve(self) -> bool | None:
        """The decision of the command line about trust; None if it has none."""
        return self._approve

    def read_again(self) -> None:
        """Read the files again; what was decided about trust for this run stays decided. Blocks."""
        self.read(trusted=self._trusted_for_run)

    @property
    def project_file(self) -> SettingsFile:
        return SettingsFile(self.cwd / ".pi" / "settings.json", self.trust.content)

    def trust_own_change(self) -> None:
        """After a change of the project's settings by the user: the trust that the project had covers it too. Blocks.

        Raises ValueError or OSError if the decision cannot be saved.
        """
        if self.trust.content is None:
            return
        self.ask()
        if not self._trusted_for_run:
            self.remember(trusted=True)

    def is_overruled(self, place: str) -> bool:
        """True if the command line or the caller sets a setting, such as "retry.maxRetries", whatever the files say."""
        name, _, inner = place.partition(".")
        given = self._overruled.get(name) if inner else self._overruled
        return (isinstance(given, Mapping) and (inner or name) in given) or (place == "dialect" and bool(self._dialect))

    @property
    def shell(self) -> str | None:
        """Absolute path of the shell from the settings: it is looked up here, but executed by another process."""
        path = self.settings.shell_path
        return None if path is None else os.path.normpath(self.cwd / path)

    @property
    def shell_digest(self) -> str | None:
        """The SHA-256 that the shell must have; None if none is required, "" for a shell that was not trusted."""
        if self.shell is None or not self._shell_of_project or self.trust.content is None:
            return None
        return self.trust.content.get(os.path.realpath(self.shell), "")

    def executables(self) -> list[str]:
        """Name and real path of all that is loaded or run because a file or flag names it, wherever it is. Blocks.

        Also the files of a project without a trust decision, if they are inside it: it may be trusted later.
        """
        programs = [program_of(one.path, one.package) for one in self.extensions]
        named = [path for program in programs for path in program.guarded]
        for scope in ("user", "project"):
            named += PathList(self._lists[scope].get("extensions", ())).paths()[0]
        named += [self.cwd / os.path.expanduser(text) for text in self._given if not is_remote(text)]
        if self.shell is not None:
            named.append(Path(self.shell))
        found = [*map(os.path.abspath, named), *map(os.path.realpath, named)]
        found += _linked(programs)
        return list(dict.fromkeys((*found, *_of_project(self.cwd))))

    def ask(self) -> None:
        """Prepare for asking the user about trust: a yes applies to the content as it is now. Blocks."""
        try:
            self._asked_about = fingerprint(self.cwd)
        except Untrustable:  # such content has no fingerprint, so a yes is for this run only
            self._asked_about = None

    def remember(self, *, trusted: bool) -> None:
        """Save the trust decision. Blocks; raises ValueError or OSError if it cannot be saved."""
        save_decision(self.cwd, self.agent_dir, trusted=trusted, asked_about=self._asked_about)


def node_problem(settings: Settings) -> str:
    """Say why TypeScript extensions cannot be run; "" if they can."""
    from tau.store.node_program import NodeMissing, find_node

    try:
        find_node(settings.extension_host.node)
    except NodeMissing as missing:
        return str(missing)
    return ""


def _of_project(cwd: Path) -> Iterator[str]:
    """The real paths, below `cwd`, of what would be used of the project if it were trusted."""
    top = os.path.realpath(cwd).rstrip(os.sep) + os.sep
    found = [cwd / name for name in names_needing_trust(cwd)]
    with suppress(OSError):  # what cannot be read cannot be loaded either
        found += [one.top for one in in_folder(cwd / ".pi" / "extensions")]
        found += named_in_settings(cwd, within=cwd)[0]
        found += [path for program in extension_programs(cwd, within=cwd) for path in program.guarded]
    for path in found:
        with suppress(OSError):
            if (real := os.path.realpath(path)).startswith(top):
                yield real


def _linked(programs: Iterable[Program]) -> Iterator[str]:
    """Modules of extensions that are symbolic links to files elsewhere."""
    for program in programs:
        with suppress(ExtensionFailure):  # the loader reports it
            folder = os.path.realpath(program.bound[0]) + os.sep
            files = module_files(program, installed=False)
            yield from (real for file in files if not (real := os.path.realpath(file)).startswith(folder))


def read_settings(
    user: SettingsFile,
    cwd: Path,
    approve: bool | None,
    dialect: str | None = None,
    asked_about: Fingerprint | None = None,
) -> tuple[Layers, Decision, Dialect]:
    """The user's settings, overridden by the project's if it is trusted; defaults come from the dialect."""
    otherwise = user.read().default_project_trust
    trust = decide(cwd, user.path.parent, approve=approve, otherwise=otherwise, asked_about=asked_about)
    project = SettingsFile(cwd / ".pi" / "settings.json", trust.content) if trust.trusted else None
    layers = read_layers(user, project)
    spoken = dialects.find(dialect or layers.settings.dialect)
    if spoken.defaults:
        layers = read_layers(user, project, spoken.defaults)
    return replace(layers, settings=replace(layers.settings, dialect=spoken.name)), trust, spoken


def settings_with(settings: Settings, given: Mapping[str, Any]) -> Settings:
    """Return `settings` with the values in `given` replaced. Raises UsageError."""
    if not given:
        return settings
    given, known = group_compat(given), to_builtins(settings)
    if unknown := given.keys() - known.keys():
        raise UsageError(f"settings: there is no {', '.join(sorted(unknown))}. There are: {', '.join(known)}")
    try:
        return decode(Settings, encode(merge(known, given)))
    except BadRecord as error:
        raise UsageError(f"settings: {error}") from None
