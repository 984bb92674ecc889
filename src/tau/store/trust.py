"""Trust in a project: decides if the files in its `.pi` take effect.

A decision is bound to the real path of the project and to the content of everything that trust covers. If a link leads
elsewhere, a folder was replaced or a file changed since, it is a different project, and undecided.

Decisions are stored in the user's trust.json, which pi uses too. pi allows only true, false and null there and looks up
absolute paths; so tau's entries are keys that are not paths and contain everything: "tau:sha256:<content>:<path>". tau
does not accept a yes of pi, which is bound to the path alone, but respects a no.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tau.records.base import BadRecord, Value, parse
from tau.records.settings import ProjectTrust
from tau.store.extension_files import in_folder, listed_extensions
from tau.store.extension_modules import ON_DISK, LockFiles, Program, ProjectFiles, program_of, without_locked
from tau.store.files import locked, read_small, replace_file
from tau.store.settings import SettingsFile, as_text, read_layers

if TYPE_CHECKING:
    from tau.store.packages.configured import ConfiguredPackage

# Files in `.pi` that can run code, send data elsewhere, or replace the system prompt. Packages are installed in git and
# npm; of their node_modules, the folders of the packages that settings name are covered, and a lock file stands for the
# others that it lists.
NAMES_NEEDING_TRUST = (
    *("settings.json", "mcp.json", "extensions", "SYSTEM.md", "APPEND_SYSTEM.md"),
    *("packages.lock.json", "npm", "git"),
)
SKIPPED_NAMES = ("__pycache__",)
SKIPPED_IN_PACKAGES = (*SKIPPED_NAMES, ".git")
# The same outside of `.pi`. A decision of a version of tau that did not read them does not cover them.
MCP_FILE = ".mcp.json"
# They are used only if the project is trusted, but have only values, for the terminal interface: trust is not bound to
# what is in them, and no other mode mentions them.
HARMLESS_NAMES = (".pi/themes",)
MAX_FILES, MAX_BYTES, MAX_DEPTH = 4096, 64 * 1024 * 1024, 32
_KEY = "tau:sha256:"
REMEDY = "`tau trust` trusts them as they are now, --approve for one run."
MCP_NOT_COVERED = (
    f"{MCP_FILE} is ignored, because the trust in this project does not cover it. "
    "`tau trust` trusts the project as it is now."
)


class Untrustable(ValueError):
    """Content that trust cannot be bound to: too large, or not regular files."""


class Decision(Value):
    """A decision about a project. `content` has the SHA-256 of every trusted file by real path.

    Only these bytes may be used. `content` is None if trust is not bound to content: with --approve, or
    "defaultProjectTrust": "always".
    """

    trusted: bool
    warnings: list[str]
    undecided: bool = False  # the user may be asked; the last warning applies unless the answer is yes
    content: Mapping[str, str] | None = None


def decide(
    cwd: Path,
    agent_dir: Path,
    *,
    approve: bool | None,
    otherwise: ProjectTrust = "ask",
    asked_about: Fingerprint | None = None,
) -> Decision:
    """Decide if the project in `cwd` is trusted, with warnings for the user.

    `approve` is the decision for this run only; `otherwise` is the user's setting for undecided projects.
    `asked_about` is the content that was approved for this run.
    """
    if approve and asked_about is not None:
        return _decide_as_asked(cwd, asked_about)
    if approve is not None:
        return Decision(approve, [])
    cwd = Path(os.path.realpath(cwd))
    file = TrustFile(agent_dir / "trust.json")
    stored = file.decision_for(cwd)
    names = names_needing_trust(cwd)
    reason = ""
    if not names:
        return Decision(False, file.problems)
    if stored.no:
        reason = f" {file.path} says that {stored.no} is not trusted."
    elif stored.contents:
        try:
            found = fingerprint(cwd)
            if found.digest in stored.contents:
                return Decision(True, file.problems, content=found.content)
            if os.path.lexists(cwd / MCP_FILE) and (older := fingerprint(cwd, mcp=False)).digest in stored.contents:
                return Decision(True, [*file.problems, MCP_NOT_COVERED], content=older.content)
            reason = " It was trusted, but its content has changed since."
        except Untrustable as error:
            reason = f" It was trusted, but {error}."
    elif otherwise == "always":
        return Decision(True, file.problems)
    elif stored.by_path:
        reason = f" pi trusts {stored.by_path} by its path only; tau requires trust in its content."
    names = [name for name in names if name not in HARMLESS_NAMES]
    if not names:
        return Decision(False, file.problems)
    what = ", ".join(names)
    warning = f"This project is not trusted, so these were ignored: {what}.{reason} {REMEDY}"
    return Decision(False, [*file.problems, warning], undecided=not stored.no and otherwise == "ask")


def _decide_as_asked(cwd: Path, asked_about: Fingerprint) -> Decision:
    try:
        found = fingerprint(cwd)
        if found.digest == asked_about.digest:
            return Decision(True, [], content=found.content)
        reason = "its content changed while that was decided"
    except Untrustable as error:
        reason = str(error)
    return Decision(False, [f"This project is not trusted, because {reason}. Nothing of it is used."])


def has_mcp_files(agent_dir: Path, cwd: Path) -> bool:
    """True if there is a file for MCP servers, of the user or of the project."""
    files = (agent_dir / "mcp.json", cwd / MCP_FILE, cwd / ".pi" / "mcp.json")
    return any(os.path.lexists(path) for path in files)


def names_needing_trust(cwd: Path, files: ProjectFiles | None = None) -> list[str]:
    """Return the files and folders that need trust, relative to the project."""
    names = [*(f".pi/{name}" for name in NAMES_NEEDING_TRUST), MCP_FILE, *HARMLESS_NAMES]
    return [name for name in names if (files or ON_DISK).exists(cwd / name)]


# Stored decisions


class StoredDecision(Value):
    """The entry of trust.json for a project."""

    contents: Sequence[str] = ()  # the digests of which the project must have one to be trusted
    by_path: str | None = None  # the folder that pi trusts, whatever it contains
    no: str | None = None  # the folder that is not trusted


class TrustFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[str] = []

    def decision_for(self, project: Path) -> StoredDecision:
        """Return the decision about a project, by its real path. A trust.json inside the project is ignored."""
        if Path(os.path.realpath(self.path)).is_relative_to(project):
            return StoredDecision()
        try:
            content = self._content()
        except BadRecord as error:
            self.problems.append(f"{self.path}: {error}")
            return StoredDecision()
        if content.get(str(project)) is False:
            return StoredDecision(no=str(project))
        trusted = [key for key, value in content.items() if value is True and _is_about(key, project)]
        if trusted:
            return StoredDecision([key.removeprefix(_KEY).partition(":")[0] for key in trusted])
        nearest = next((folder for folder in (project, *project.parents) if content.get(str(folder)) is not None), None)
        if nearest is None:
            return StoredDecision()
        return (
            StoredDecision(by_path=str(nearest)) if content[str(nearest)] is True else StoredDecision(no=str(nearest))
        )

    def trust(self, project: Path, digest: str) -> None:
        """Store a yes. Raises BadRecord if the file is damaged, or OSError; then nothing has changed."""
        self._change(project, {f"{_KEY}{digest}:{project}": True})

    def expect(self, project: Path, digest: str) -> None:
        """Store a yes for content that the project is about to have, beside that for its content now. As `trust`."""
        self._change(project, {f"{_KEY}{digest}:{project}": True}, keep=True)

    def refuse(self, project: Path) -> None:
        """Store a no, whatever the project contains. pi respects it too. Raises as `trust` does."""
        self._change(project, {str(project): False})

    def forget(self, project: Path) -> bool:
        """Remove tau's decision; returns False if there was none. A yes of pi is kept."""
        return self._change(project, {})

    def _change(self, project: Path, added: dict[str, bool], *, keep: bool = False) -> bool:
        with locked(self.path):
            content = self._content()
            others = {key: value for key, value in content.items() if keep or not _is_about(key, project)}
            if added and others.get(str(project)) is False:
                del others[str(project)]  # the new decision replaces this no
            changed = {**others, **added}
            if changed != content:
                replace_file(self.path, as_text(dict(sorted(changed.items()))) + b"\n")
            return changed != content

    def _content(self) -> dict[str, Any]:
        try:
            data = read_small(self.path).removeprefix(b"\xef\xbb\xbf")
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise BadRecord(error.strerror or str(error)) from None
        content = parse(data)
        if not isinstance(content, dict):
            raise BadRecord("line 1: expected a JSON object")
        return content


def _is_about(key: str, project: Path) -> bool:
    return key.startswith(_KEY) and key.removeprefix(_KEY).partition(":")[2] == str(project)


# Fingerprints


class Fingerprint(Value):
    digest: str
    files: list[str]  # relative to the project
    content: Mapping[str, str]  # SHA-256 of each file, by its real path


def fingerprint(cwd: Path, *, mcp: bool = True, files: ProjectFiles = ON_DISK) -> Fingerprint:
    """Hash the names and contents of everything that trust in a project covers. Raises Untrustable.

    Without `mcp`, as versions of tau did that did not know MCP_FILE.
    """
    cwd = Path(os.path.realpath(cwd))
    needing = names_needing_trust(cwd, files)
    covered = [name for name in needing if name not in HARMLESS_NAMES]
    roots = [cwd / name for name in covered if mcp or name != MCP_FILE]
    import hashlib

    digest, room = hashlib.sha256(), MAX_BYTES
    names: list[str] = []
    content: dict[str, str] = {}
    for path in _covered(cwd, roots, files):
        if len(names) == MAX_FILES:
            raise Untrustable(f"there are more than {MAX_FILES} files")
        try:
            data = files.read(path, room)
        except OSError as error:
            raise Untrustable(f"{path} cannot be read ({error.strerror})") from None
        room -= len(data)
        name = os.path.relpath(path, cwd)
        names.append(name)
        of_data = hashlib.sha256(data)
        digest.update(hashlib.sha256(os.fsencode(name)).digest() + of_data.digest())
        content[os.path.realpath(path)] = of_data.hexdigest()
    harmless = [name for name in needing if name in HARMLESS_NAMES]
    return Fingerprint(digest.hexdigest(), names + harmless, content)


def _covered(cwd: Path, roots: list[Path], files: ProjectFiles) -> Iterator[Path]:
    """Yield every file that trust is bound to, once."""
    repositories = cwd / ".pi" / "git"
    plain = [root for root in roots if root != repositories]
    named, problems = named_in_settings(cwd)
    if problems:
        raise Untrustable(f"in its settings, {problems[0].rpartition(': ')[0]}")
    plain += [path for path in named if not _is_in_any(path, roots)]
    packages = [*(root for root in roots if root == repositories), *packages_in_settings(cwd, files)]
    # A manifest can name a file that is in none of these folders, and any file can import others.
    programs = [*extension_programs(cwd), *package_programs(cwd, files)]
    bound = [path for program in programs for path in program.bound]
    seen: set[Path] = set()
    locks = LockFiles(files)
    found = chain(_files(plain, files, locks), _files([*packages, *bound], files, locks, skipped=SKIPPED_IN_PACKAGES))
    for path in chain(found, locks.used):  # the latter are complete by then
        if path not in seen:
            seen.add(path)
            yield path


def packages_in_settings(cwd: Path, files: ProjectFiles = ON_DISK) -> list[Path]:
    """Return the folders and files of the packages that the project's settings name, if they exist."""
    return [one.layout.folder(one.source) for one in _existing_packages(cwd, files)]


def package_programs(cwd: Path, files: ProjectFiles = ON_DISK) -> list[Program]:
    """Return what these packages would load as extensions."""
    packages = _existing_packages(cwd, files)
    if not packages:
        return []
    from tau.store.packages.extensions import entries_of

    found: list[Path] = []
    for one in packages:
        place, root = files.place(one.layout.folder(one.source)), one.layout.root(one.source)
        top = None if root is None else files.place(root)
        if place is not None:
            found += entries_of(one, place, place if top is not None and not place.is_relative_to(top) else top)
    return [program_of(path, files=files) for path in found if files.exists(path, follow=True)]


def _existing_packages(cwd: Path, files: ProjectFiles) -> list[ConfiguredPackage]:
    entries = files.packages(cwd)
    if not entries:
        return []
    from tau.store.packages.configured import parse_entries
    from tau.store.packages.layout import project_layout

    found, _ = parse_entries(entries, project_layout(cwd))
    return [one for one in found if files.exists(one.layout.folder(one.source), follow=True)]


def extension_programs(cwd: Path, within: Path | None = None) -> list[Program]:
    """Return the project's own extensions: those in `.pi/extensions`, and of its settings.

    `within`: globs that search in other folders are not expanded.
    """
    layers = read_layers(SettingsFile(cwd / ".pi" / "settings.json"), None)
    listed, _ = listed_extensions(layers.lists["user"].get("extensions", ()), within)
    found = [*in_folder(cwd / ".pi" / "extensions"), *listed]
    return [program_of(one.path, one.package) for one in found if os.path.exists(one.path)]


def named_in_settings(cwd: Path, within: Path | None = None) -> tuple[list[Path], list[str]]:
    """Return the files that the project's settings would run (extensions and the shell), and problems.

    `within`: globs that search in other folders are not expanded.
    """
    file = SettingsFile(cwd / ".pi" / "settings.json")
    layers = read_layers(file, None)
    listed, problems = listed_extensions(layers.lists["user"].get("extensions", ()), within)
    named = [one.top for one in listed]
    if layers.settings.shell_path:
        named.append(Path(os.path.normpath(cwd / layers.settings.shell_path)))
    return [path for path in dict.fromkeys(named) if os.path.exists(path)], problems


def _is_in_any(path: Path, roots: list[Path]) -> bool:
    return any(path.is_relative_to(root) for root in roots)


def _files(
    paths: list[Path],
    files: ProjectFiles,
    locks: LockFiles,
    above: tuple[tuple[int, int], ...] = (),
    *,
    skipped: tuple[str, ...] = SKIPPED_NAMES,
) -> Iterator[Path]:
    """Yield every file below the paths, following links, in an order that does not depend on the disk.

    Compiled Python is left out: the extension loader does not use it. So are installed packages of Node of which a lock
    file has the digests.
    """
    for path in paths:
        try:
            identity = files.folder_identity(path)
            if identity is None:
                yield path
                continue
            if identity in above or len(above) == MAX_DEPTH:
                raise Untrustable(f"{path} contains itself through a link, or is nested too deeply")
            names = sorted(name for name in files.names(path) if name not in skipped)
            below = [path / name for name in without_locked(path, names, locks)]
        except OSError as error:
            raise Untrustable(f"{path} cannot be read ({error.strerror})") from None
        yield from _files(below, files, locks, (*above, identity), skipped=skipped)


def save_decision(cwd: Path, agent_dir: Path, *, trusted: bool, asked_about: Fingerprint | None = None) -> None:
    """Store a decision: a yes is for the content that was asked about, or else for the current content.

    Raises ValueError or OSError if it cannot be stored.
    """
    project = Path(os.path.realpath(cwd))
    file = file_about(project, agent_dir)
    if trusted:
        file.trust(project, (asked_about or fingerprint(project)).digest)
    else:
        file.refuse(project)


def file_about(project: Path, agent_dir: Path) -> TrustFile:
    """Return the file for a decision. Raises Untrustable if it is inside the project."""
    file = TrustFile(agent_dir / "trust.json")
    if Path(os.path.realpath(file.path)).is_relative_to(project):
        raise Untrustable(f"{file.path} is inside this project, so it cannot decide about its trust")
    return file
