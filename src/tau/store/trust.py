"""Trust in a project: whether what lies in its `.pi` is executed and heeded.

A decision is bound to the real path of the project and to the content of
everything that trust lets in. A link that leads elsewhere, a folder put in the
place of another, or a file changed since, is another project, about which nothing
was decided.

Decisions are in the user's trust.json, which is real pi's, too. pi wants nothing
but true, false and null there, and looks up absolute paths; so ours are keys that
are no paths and hold everything: "tau:sha256:<content>:<path>". What pi decided by
the path alone is not enough for us when it is a yes; a no is heeded.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tau.records.base import BadRecord, Value, parse
from tau.records.settings import ProjectTrust
from tau.store.extension_files import listed
from tau.store.files import locked, read_small, replaced
from tau.store.settings import SettingsFile, as_text, layered

# In `.pi`: what can run something, send something elsewhere, or take the place of the system prompt. Packages are
# named in the settings and not loaded yet; the folders they are installed in (git, npm) will belong here.
NEEDING = ("settings.json", "mcp.json", "extensions", "SYSTEM.md", "APPEND_SYSTEM.md")
FILES, BYTES, DEPTH = 4096, 64 * 1024 * 1024, 32
_KEY = "tau:sha256:"


class Untrustable(ValueError):
    """Content that cannot be bound: too much of it, or no plain files."""


class Decision(Value):
    """`content` has the SHA-256 of every file that was trusted, by its real path. Only these bytes may be used.

    It is None where trust is not bound to content: after --approve, or with "defaultProjectTrust": "always".
    """

    trusted: bool
    warnings: list[str]
    undecided: bool = False  # somebody may still be asked; the last warning is what to say if nobody says yes
    content: Mapping[str, str] | None = None


def decide(
    cwd: Path,
    agent_dir: Path,
    *,
    approve: bool | None,
    otherwise: ProjectTrust = "ask",
    asked_about: Fingerprint | None = None,
) -> Decision:
    """Whether the project in `cwd` is trusted, and what a person should know about it.

    `approve` is what was said for this run; `otherwise` what the user's settings say
    about projects nobody decided about. `asked_about` is the content that a yes for
    this run was given to.
    """
    if approve and asked_about is not None:
        return _decide_as_asked(cwd, asked_about)
    if approve is not None:
        return Decision(approve, [])
    cwd = Path(os.path.realpath(cwd))
    file = TrustFile(agent_dir / "trust.json")
    says = file.says(cwd)
    things = needing(cwd)
    reason = ""
    if not things:
        return Decision(False, file.problems)
    if says.no:
        reason = f" {file.path} says that {says.no} is not trusted."
    elif says.content:
        try:
            found = fingerprint(cwd)
            if found.digest == says.content:
                return Decision(True, file.problems, content=found.content)
            reason = " It was trusted, but its content has changed since."
        except Untrustable as error:
            reason = f" It was trusted, but {error}."
    elif otherwise == "always":
        return Decision(True, file.problems)
    elif says.by_path:
        reason = f" pi trusts {says.by_path} by its path; tau also wants its content."
    what = ", ".join(f".pi/{name}" for name in things)
    told = (
        f"This project is not trusted, so these were ignored: {what}.{reason} "
        "`tau trust` trusts them as they are now, --approve for one run."
    )
    return Decision(False, [*file.problems, told], undecided=not says.no and otherwise == "ask")


def _decide_as_asked(cwd: Path, asked_about: Fingerprint) -> Decision:
    try:
        found = fingerprint(cwd)
        if found.digest == asked_about.digest:
            return Decision(True, [], content=found.content)
        why = "its content changed while that was decided"
    except Untrustable as error:
        why = str(error)
    return Decision(False, [f"This project was to be trusted, but {why}, so nothing of it is used."])


def needing(cwd: Path) -> list[str]:
    """What is there that needs trust."""
    return [name for name in NEEDING if os.path.lexists(cwd / ".pi" / name)]


# What is said


class Said(Value):
    content: str | None = None  # what the project must be like to be trusted
    by_path: str | None = None  # the folder that pi trusts whatever is in it
    no: str | None = None  # the folder that is not to be trusted


class TrustFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[str] = []

    def says(self, project: Path) -> Said:
        """About a project, by its real path. A file that lies in the project says nothing about it."""
        if Path(os.path.realpath(self.path)).is_relative_to(project):
            return Said()
        try:
            content = self._content()
        except BadRecord as error:
            self.problems.append(f"{self.path}: {error}")
            return Said()
        if content.get(str(project)) is False:
            return Said(no=str(project))
        ours = [key for key, value in content.items() if value is True and _is_about(key, project)]
        if ours:
            return Said(content=ours[-1].removeprefix(_KEY).partition(":")[0])
        nearest = next((folder for folder in (project, *project.parents) if content.get(str(folder)) is not None), None)
        if nearest is None:
            return Said()
        return Said(by_path=str(nearest)) if content[str(nearest)] is True else Said(no=str(nearest))

    def trust(self, project: Path, digest: str) -> None:
        """Remember a yes. Raises BadRecord if the file is broken, and OSError; then nothing has changed."""
        self._change(project, {f"{_KEY}{digest}:{project}": True})

    def refuse(self, project: Path) -> None:
        """Remember a no, whatever the project contains. pi heeds it as well. Raises as `trust` does."""
        self._change(project, {str(project): False})

    def forget(self, project: Path) -> bool:
        """Whether there was something to forget. pi's own yes is left to pi."""
        return self._change(project, {})

    def _change(self, project: Path, added: dict[str, bool]) -> bool:
        with locked(self.path):
            content = self._content()
            kept = {key: value for key, value in content.items() if not _is_about(key, project)}
            if added and kept.get(str(project)) is False:
                del kept[str(project)]  # a newer decision than this no
            changed = {**kept, **added}
            if changed != content:
                replaced(self.path, as_text(dict(sorted(changed.items()))) + b"\n")
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


# What is bound


class Fingerprint(Value):
    digest: str
    files: list[str]  # as a person would name them
    content: Mapping[str, str]  # SHA-256 of each file, by its real path


def fingerprint(cwd: Path) -> Fingerprint:
    """Everything that trust in a project lets in, by name and content. Raises Untrustable."""
    cwd = Path(os.path.realpath(cwd))
    roots = [cwd / ".pi" / name for name in needing(cwd)]
    import hashlib

    digest, room = hashlib.sha256(), BYTES
    names: list[str] = []
    content: dict[str, str] = {}
    for path in _files([*roots, *(path for path in named_in_settings(cwd) if not _is_in_any(path, roots))]):
        if len(names) == FILES:
            raise Untrustable(f"there are more than {FILES} files")
        try:
            data = read_small(path, room)
        except OSError as error:
            raise Untrustable(f"{path} cannot be read ({error.strerror})") from None
        room -= len(data)
        name = os.path.relpath(path, cwd)
        names.append(name)
        of_data = hashlib.sha256(data)
        digest.update(hashlib.sha256(os.fsencode(name)).digest() + of_data.digest())
        content[os.path.realpath(path)] = of_data.hexdigest()
    return Fingerprint(digest.hexdigest(), names, content)


def named_in_settings(cwd: Path) -> Iterator[Path]:
    """What the project's settings would run: extensions and the shell."""
    file = SettingsFile(cwd / ".pi" / "settings.json")
    layers = layered(file, None)
    named = listed(layers.lists["user"].get("extensions", ()))
    if layers.settings.shell_path:
        named.append(Path(os.path.normpath(cwd / layers.settings.shell_path)))
    for path in dict.fromkeys(named):
        if path.exists():
            yield path


def _is_in_any(path: Path, roots: list[Path]) -> bool:
    return any(path.is_relative_to(root) for root in roots)


def _files(paths: list[Path], above: tuple[tuple[int, int], ...] = ()) -> Iterator[Path]:
    """Every file below, links followed, in an order that does not depend on the disk.

    Compiled Python is left out: whoever runs extensions must not take it from here.
    """
    for path in paths:
        try:
            status = os.stat(path)
            if not stat.S_ISDIR(status.st_mode):
                yield path
                continue
            here = (status.st_dev, status.st_ino)
            if here in above or len(above) == DEPTH:
                raise Untrustable(f"{path} leads back into itself, or too deep")
            names = sorted(name for name in os.listdir(path) if name != "__pycache__")
        except OSError as error:
            raise Untrustable(f"{path} cannot be read ({error.strerror})") from None
        yield from _files([path / name for name in names], (*above, here))


def remember(cwd: Path, agent_dir: Path, *, trusted: bool, asked_about: Fingerprint | None = None) -> None:
    """Write a decision down: a yes for what it was asked about, or else for what is there now.

    Raises ValueError or OSError if that cannot be done.
    """
    project = Path(os.path.realpath(cwd))
    file = TrustFile(agent_dir / "trust.json")
    if Path(os.path.realpath(file.path)).is_relative_to(project):
        raise Untrustable(f"{file.path} lies in this project, and so cannot say whether to trust it")
    if trusted:
        file.trust(project, (asked_about or fingerprint(project)).digest)
    else:
        file.refuse(project)
