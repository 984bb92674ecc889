"""`tau config`: turn single resources of packages, and those in the usual folders, on and off.

It writes the entries that pi writes: `+path` and `-path` in the lists of the settings; with -l, an entry with
`autoload: false` for a package of the user's.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tau.cli.packages import Folders, as_json, is_empty, open_folders, renew_trust, trust_upcoming
from tau.errors import UsageError
from tau.records.base import Value
from tau.runtime.terminal import complain, emit, say
from tau.store.extension_files import in_folder
from tau.store.packages.entries import change_entries, identity_of
from tau.store.packages.layout import Layout, project_layout, user_layout
from tau.store.packages.loading import load_packages
from tau.store.packages.offers import KINDS
from tau.store.path_lists import PathList
from tau.store.settings import SettingsFile, read_layers
from tau.store.skills import find_skill_files

Action = Literal["on", "off", "reset"]
ACTIONS: tuple[Action, ...] = ("on", "off", "reset")


class Resource(Value):
    """`package` is the source of the package that offers it; "" for one in a usual folder, which `name` is below."""

    kind: str
    path: Path
    name: str
    used: bool
    scope: str
    package: str = ""

    @property
    def label(self) -> str:
        return f"{self.package} {self.name}".lstrip()


def run_config(arguments: Namespace, folders: Folders) -> int:
    resources, was_empty = _resources(folders), is_empty(folders.cwd)
    if arguments.action is not None:
        if arguments.action not in ACTIONS:
            raise UsageError(f"tau config {arguments.action}: the actions are {', '.join(ACTIONS)}.")
        if not arguments.names:
            raise UsageError(
                f"tau config {arguments.action} needs a resource, by its name or number; tau config lists them."
            )
        for one in [one for name in arguments.names for one in _find(name, resources)]:
            change(one, arguments.action, folders, local=arguments.local, was_empty=was_empty)
        if arguments.local:
            renew_trust(folders, was_empty=was_empty)
        _print(_resources(open_folders(arguments)))
        return 0
    if arguments.json:
        rows = [(one.kind, one.scope, one.package, one.name, str(one.path), one.used) for one in resources]
        names = ("kind", "scope", "package", "name", "path", "enabled")
        emit(as_json([dict(zip(names, row, strict=True)) for row in rows]))
        return 0
    _print(resources)
    if sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty():
        _ask(arguments, folders, resources)
    return 0


def _ask(arguments: Namespace, folders: Folders, resources: Sequence[Resource]) -> None:
    """Let the user toggle resources by number, until an empty line."""
    while resources:
        say("Number to turn on or off, Enter to end: ", end="")
        answer = sys.stdin.readline().strip()
        if not answer:
            return
        try:
            found = _find(answer, resources)
        except UsageError as error:
            complain(str(error))
            continue
        was_empty = is_empty(folders.cwd)
        for one in found:
            change(one, "off" if one.used else "on", folders, local=arguments.local, was_empty=was_empty)
        if arguments.local:
            renew_trust(folders, was_empty=was_empty)
        folders = open_folders(arguments)
        resources = _resources(folders)
        _print(resources)


def _print(resources: Sequence[Resource]) -> None:
    if not resources:
        say("There are no resources to turn on or off.")
    for kind in KINDS:
        of_kind = [(at, one) for at, one in enumerate(resources, 1) if one.kind == kind]
        for first, (at, one) in enumerate(of_kind):
            if first == 0:
                say(f"{kind}:")
            say(f"  {at:>3} [{'x' if one.used else ' '}] {one.label}{' (project)' if one.scope == 'project' else ''}")


def _resources(folders: Folders) -> list[Resource]:
    found = load_packages(folders.lists, folders.agent_dir, folders.cwd)
    for problem in found.problems:
        complain(f"Warning: {problem}")
    resources = [
        Resource(kind, one.path, os.path.relpath(one.path, one.base), one.used, one.scope, one.source)
        for kind in KINDS
        for one in found.files.get(kind, ())
    ]
    resources += _usual(user_layout(folders.agent_dir))
    if folders.trust.trusted:
        resources += _usual(project_layout(folders.cwd))
    return sorted(resources, key=lambda one: KINDS.index(one.kind))


def _usual(layout: Layout) -> list[Resource]:
    """The resources in the usual folders of a scope."""
    file = SettingsFile(layout.base / "settings.json")
    lists = read_layers(file, None).lists["user"]
    found: list[tuple[str, Path]] = [("extensions", one.top) for one in in_folder(layout.base / "extensions")]
    found += [("skills", path) for path in find_skill_files(layout.base / "skills")]
    found += [("prompts", path) for path in sorted((layout.base / "prompts").glob("*.md"))]
    return [
        Resource(
            kind,
            path,
            os.path.relpath(path, layout.base),
            PathList(lists.get(kind, ())).allows(path),
            layout.scope,
        )
        for kind, path in found
    ]


def _find(name: str, resources: Sequence[Resource]) -> list[Resource]:
    """The resource with a number, a name or a label. Raises UsageError if there is none, or more than one."""
    if name.isdecimal() and len(name) < 10 and 0 < int(name) <= len(resources):
        return [resources[int(name) - 1]]
    found = [
        one
        for one in resources
        if name in (one.label, one.name, os.path.dirname(one.name), one.path.name, str(one.path))
    ]
    if len(found) == 1:
        return found
    if not found:
        raise UsageError(f'There is no resource "{name}"; tau config lists them.')
    raise UsageError(f'"{name}" is not unique: {", ".join(one.label for one in found)}. Use the number.')


def change(one: Resource, action: Action, folders: Folders, *, local: bool, was_empty: bool) -> None:
    """Write the setting. Raises OSError, or BadRecord if the file is damaged."""
    scope_is_project = one.scope == "project"
    if scope_is_project and not local:
        raise UsageError(f"{one.label} belongs to the project: use -l.")
    layout = folders.layout(local=local)
    file = folders.file(local=local)
    if one.package:
        expect = trust_upcoming(folders, local=local, was_empty=was_empty)
        change_entries(file, lambda entries: _with_filter(entries, one, action, layout, folders), expect)
        return
    own = one.name if scope_is_project == local else str(one.path)
    file.change_list(one.kind, lambda entries: _with_sign(entries, own, action))


def _with_sign(entries: Sequence[Any], name: str, action: Action) -> list[Any]:
    """A list of entries with `+name` or `-name` at its end, or without either."""
    kept = [entry for entry in entries if not isinstance(entry, str) or entry.lstrip("!+-") != name or entry == name]
    return kept if action == "reset" else [*kept, f"{'+' if action == 'on' else '-'}{name}"]


def _with_filter(entries: list[Any], one: Resource, action: Action, layout: Layout, folders: Folders) -> list[Any]:
    wanted = identity_of(one.package, folders.layout(local=one.scope == "project"))
    at = next((at for at, entry in enumerate(entries) if identity_of(entry, layout) == wanted), None)
    if at is None:
        if action == "reset":
            return entries
        at = len(entries)
        entries = [*entries, {"source": _source_for(one, layout, folders), "autoload": False}]
    entry = dict(entries[at]) if isinstance(entries[at], Mapping) else {"source": entries[at]}
    filters = _with_sign(entry.get(one.kind) or [], one.name, action)
    entry = {
        **{key: value for key, value in entry.items() if key != one.kind},
        **({one.kind: filters} if filters else {}),
    }
    if any(kind in entry for kind in KINDS):
        return [*entries[:at], entry, *entries[at + 1 :]]
    if entry.get("autoload") is False:
        return [*entries[:at], *entries[at + 1 :]]
    return [*entries[:at], entry["source"], *entries[at + 1 :]]


def _source_for(one: Resource, layout: Layout, folders: Folders) -> str:
    """How the project's settings name a package of the user's."""
    identity = identity_of(one.package, folders.layout(local=False)) or ""
    if not identity.startswith("local:"):
        return one.package
    return os.path.relpath(identity.removeprefix("local:"), layout.base)
