"""`tau install`, `remove`, `update`, `list` and `config`: manage packages. `pi install` and the others are the same."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from tau.cli.command_help import COMMAND_HELP
from tau.core.packages.sources import BadSource, LocalSource, Source, parse_source
from tau.errors import TauError, UsageError
from tau.records.base import BadRecord, Value, replace
from tau.records.settings import Settings
from tau.runtime.app.config import node_problem, read_settings
from tau.runtime.terminal import complain, emit, say
from tau.store.packages.configured import ConfiguredPackage, parse_entries
from tau.store.packages.entries import absolute, add_entry, remove_entry, settings_text, suggestion
from tau.store.packages.errors import PackageError
from tau.store.packages.installer import Installation, Installer
from tau.store.packages.layout import Layout, project_layout, user_layout
from tau.store.packages.offers import KINDS
from tau.store.packages.session import is_offline
from tau.store.paths import agent_dir, working_folder
from tau.store.settings import Scope, SettingsFile
from tau.store.trust import HARMLESS_NAMES, Decision, Untrustable, names_needing_trust, save_decision

NAMES = {"extensions": "extension", "skills": "skill", "prompts": "prompt template", "themes": "theme"}
SELF_UPDATE = "tau does not update itself: use the program that installed it. `tau update` updates packages."
UPDATES_PACKAGES = "tau updates packages here, not itself."


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


class Folders(Value):
    """What the commands work with: settings, and trust in the project of the working folder."""

    cwd: Path
    agent_dir: Path
    settings: Settings
    lists: dict[Scope, list[Any]]
    trust: Decision
    approve: bool | None

    def layout(self, *, local: bool) -> Layout:
        return project_layout(self.cwd) if local else user_layout(self.agent_dir)

    def file(self, *, local: bool) -> SettingsFile:
        return SettingsFile(self.layout(local=local).base / "settings.json")

    def packages(self) -> list[ConfiguredPackage]:
        """The configured packages, those of the user first. Problems are printed."""
        found: list[ConfiguredPackage] = []
        scopes: list[tuple[Scope, bool]] = [("user", False), ("project", True)]
        for scope, local in scopes:
            packages, problems = parse_entries(self.lists.get(scope, ()), self.layout(local=local))
            found += packages
            for problem in problems:
                complain(f"Warning: {problem}")
        return found


def main(argv: list[str]) -> int:
    """Run a command with the words after it. Returns the exit code."""
    name, *words = argv
    name = "remove" if name == "uninstall" else name
    if "-h" in words or "--help" in words:
        emit(COMMAND_HELP[name])
        return 0
    arguments = argument_parser(name).parse_args(words)
    try:
        if name in ("list", "config"):
            module = import_module(f"tau.cli.packages_{name}")
            code: int = module.run(arguments, open_folders(arguments))
            return code
        return _RUN[name](arguments, open_folders(arguments))
    except UsageError:
        raise
    except BadSource as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        complain(f"Error: {f'{error.filename}: ' if error.filename else ''}{error.strerror or error}")
    except (TauError, PackageError, BadRecord, Untrustable) as error:
        complain(f"Error: {error}")
    return 1


def argument_parser(name: str) -> ArgumentParser:
    """The parser of the words after a command."""
    parser = _Parser(prog=f"tau {name}", add_help=False, allow_abbrev=False)
    add = parser.add_argument
    if name in ("install", "remove"):
        add("source", metavar="SOURCE")
    if name in ("install", "remove", "config"):
        add("-l", "--local", action="store_true")
    if name == "install":
        add("--allow-scripts", action="append", default=[], metavar="NAME")
        add("--dry-run", action="store_true")
    if name in ("install", "update"):
        add("--offline", action="store_true")
        add("--force", action="store_true")
    if name == "update":
        add("source", nargs="?", metavar="SOURCE")
        add("--extension", metavar="SOURCE")
        add("--extensions", action="store_true")
        for word in ("self", "models", "all"):
            add(f"--{word}", action="store_true", dest=f"{word}_update")
    if name in ("list", "config"):
        add("--json", action="store_true")
    if name == "config":
        add("action", nargs="?", metavar="on|off|reset")
        add("names", nargs="*", metavar="RESOURCE")
    add("-a", "--approve", action="store_true")
    add("-na", "--no-approve", action="store_true")
    return parser


def open_folders(arguments: Namespace) -> Folders:
    """Read the settings of the user and, if it is trusted, of the project."""
    cwd, folder = Path(working_folder()), agent_dir()
    approve = True if arguments.approve else False if arguments.no_approve else None
    layers, trust, _ = read_settings(SettingsFile(folder / "settings.json"), cwd, approve)
    for problem in layers.problems:
        complain(f"Warning: {problem}")
    if arguments.__dict__.get("local"):
        _require_trust(cwd, trust)
    elif not trust.trusted:
        for warning in trust.warnings:
            complain(f"Warning: {warning}")
    return Folders(cwd, folder, layers.settings, layers.packages, trust, approve)


def _require_trust(cwd: Path, trust: Decision) -> None:
    """A project that has nothing yet that needs trust can be changed: all that it then has is the user's own."""
    if not trust.trusted and not is_empty(cwd):
        raise PackageError("This project is not trusted. Run `tau trust` first, or use --approve.")


def is_empty(cwd: Path) -> bool:
    """True if a project has nothing that needs trust."""
    return all(name in HARMLESS_NAMES for name in names_needing_trust(cwd))


def renew_trust(folders: Folders, *, was_empty: bool) -> None:
    """After a change of the project's packages by the user: the trust that it had covers them too."""
    if folders.approve is None and (folders.trust.content is not None or was_empty):
        save_decision(folders.cwd, folders.agent_dir, trusted=True)


def _resolved(text: str, folders: Folders, *, local: bool) -> Source:
    """Parse a source of the command line: a path is relative to the working folder."""
    source = parse_source(text)
    if isinstance(source, LocalSource):
        return replace(source, path=str(absolute(source, folders.cwd)))
    return source


def _install(arguments: Namespace, folders: Folders) -> int:
    local = arguments.local
    layout, file = folders.layout(local=local), folders.file(local=local)
    source = _resolved(arguments.source, folders, local=local)
    if _is_offline(arguments) and not isinstance(source, LocalSource):
        raise PackageError(f"{source.text} is not installed: nothing is fetched offline.")
    text = settings_text(source, layout, folders.cwd)
    was_empty = is_empty(folders.cwd)
    installer = Installer(layout, folders.settings.npm_command, complain)
    done = installer.install(
        source,
        lambda: add_entry(file, layout, layout.identity(source), text),
        allowed_scripts=arguments.allow_scripts,
        dry_run=arguments.dry_run,
        force=arguments.force,
    )
    if local and not arguments.dry_run:
        renew_trust(folders, was_empty=was_empty)
    for line in _report(arguments, folders, ConfiguredPackage(text, source, layout), done):
        say(line)
    return 0


def _report(arguments: Namespace, folders: Folders, package: ConfiguredPackage, done: Installation) -> list[str]:
    needs = f", {_count(done.dependencies, 'dependency', 'dependencies')}" if done.dependencies else ""
    what = f"{arguments.source}{f' ({done.version})' if done.version else ''}{needs}"
    lines = [f"Would install {what}" if arguments.dry_run else f"Installed {what}"]
    if not arguments.dry_run:
        lines += _offered(package, folders.settings)
    if done.scripts:
        flags = " ".join(f"--allow-scripts {name}" for name in done.scripts)
        lines.append(f"Install scripts that were not run: {', '.join(done.scripts)}. To run them: {flags}")
    return lines


def _offered(package: ConfiguredPackage, settings: Settings) -> list[str]:
    contents = package.contents()
    if isinstance(package.source, LocalSource) and not contents.has_resources():
        files = {"extensions": {str(contents.root): True}}
    else:
        files = contents.files(None)
    counts = [_count(len(files[kind]), NAMES[kind]) for kind in KINDS if files.get(kind)]
    lines = [
        f"It brings {', '.join(counts)}."
        if counts
        else "It offers nothing: no pi manifest, and no folder of resources."
    ]
    if files.get("extensions"):
        lines.append("Extensions run with your rights.")
        needs_node = [path for path in files["extensions"] if not path.endswith(".py")]
        if needs_node and (problem := node_problem(settings)):
            lines.append(f"Not used here: {_count(len(needs_node), 'extension')}. {problem}.")
    return [*lines, *(f"Warning: {problem}" for problem in contents.problems)]


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def _remove(arguments: Namespace, folders: Folders) -> int:
    local = arguments.local
    layout, file = folders.layout(local=local), folders.file(local=local)
    source = _resolved(arguments.source, folders, local=local)
    identity = layout.identity(source)
    configured = [one for one in folders.packages() if one.layout.scope == layout.scope]
    if identity not in [one.identity for one in configured]:
        raise PackageError(_no_match(arguments.source, configured))
    was_empty = is_empty(folders.cwd)
    installer = Installer(layout, folders.settings.npm_command, complain)
    installer.remove(source, lambda: remove_entry(file, layout, identity))
    if local:
        renew_trust(folders, was_empty=was_empty)
    say(f"Removed {arguments.source}")
    return 0


def _no_match(text: str, configured: Sequence[ConfiguredPackage]) -> str:
    meant = suggestion(text, [one.text for one in configured])
    return f"No matching package found for {text}" + (f". Did you mean {meant}?" if meant else "")


def _update(arguments: Namespace, folders: Folders) -> int:
    if arguments.self_update or arguments.models_update or arguments.all_update:
        raise UsageError(SELF_UPDATE)
    wanted = arguments.source or arguments.extension
    if wanted in ("self", "pi"):
        raise UsageError(SELF_UPDATE)
    packages = folders.packages()
    if wanted is not None:
        source = _resolved(wanted, folders, local=False)
        chosen = [one for one in packages if one.identity == one.layout.identity(source)]
        if not chosen:
            raise PackageError(_no_match(wanted, packages))
        packages = chosen
    elif not arguments.extensions:
        say(UPDATES_PACKAGES)
    if _is_offline(arguments):
        say("Nothing is updated: nothing is fetched offline.")
        return 0
    failed = False
    for local in (False, True):
        layout = folders.layout(local=local)
        results = Installer(layout, folders.settings.npm_command, complain).update(
            [one for one in packages if one.scope == layout.scope], force=arguments.force
        )
        if local and any(isinstance(done, Installation) and done.changed for done in results.values()):
            renew_trust(folders, was_empty=False)
        for text, done in results.items():
            failed = failed or isinstance(done, str)
            _tell_update(text, done)
    say("Updated packages" if wanted is None else f"Updated {wanted}") if not failed else None
    return 1 if failed else 0


def _tell_update(text: str, done: Installation | str) -> None:
    if isinstance(done, str):
        complain(f"Error: {text}: {done}")
        return
    say(f"{text}: {'updated to ' if done.changed else 'unchanged, '}{done.version or '?'}")
    if done.scripts and done.changed:
        say(f"  install scripts that were not run: {', '.join(done.scripts)}")


def _is_offline(arguments: Namespace) -> bool:
    return arguments.offline or is_offline(os.environ)


_RUN = {"install": _install, "remove": _remove, "update": _update}


def as_json(rows: Sequence[dict[str, Any]]) -> str:
    return json.dumps(rows, indent=2, ensure_ascii=False)
