"""`tau install`, `remove`, `update`, `list` and `config`: manage packages. `pi install` and the others are the same."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from tau.cli.command_help import COMMAND_HELP
from tau.core.packages.sources import BadSource
from tau.errors import TauError, UsageError
from tau.records.base import BadRecord, Value
from tau.records.settings import Settings
from tau.runtime.app.config import read_settings
from tau.runtime.terminal import complain, emit
from tau.store.packages.configured import ConfiguredPackage, parse_entries
from tau.store.packages.errors import PackageError
from tau.store.packages.layout import Layout, project_layout, user_layout
from tau.store.paths import agent_dir, working_folder
from tau.store.settings import Scope, SettingsFile
from tau.store.trust import (
    HARMLESS_NAMES,
    MCP_NOT_COVERED,
    Decision,
    Untrustable,
    names_needing_trust,
    save_decision,
)
from tau.store.upcoming_changes import Expect, expect_change

# Where each command is implemented: the function `run_` and its name.
COMMANDS = {
    "install": "tau.cli.packages_change",
    "remove": "tau.cli.packages_change",
    "update": "tau.cli.packages_change",
    "list": "tau.cli.packages_list",
    "config": "tau.cli.packages_config",
}


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
    if "-h" in words or "--help" in words:
        emit(COMMAND_HELP[name])
        return 0
    name = "remove" if name == "uninstall" else name
    arguments = argument_parser(name).parse_args(words)
    try:
        module = import_module(COMMANDS[name])
        code: int = module.__dict__[f"run_{name}"](arguments, open_folders(arguments))
        return code
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
    if MCP_NOT_COVERED in trust.warnings:  # a renewed trust would cover it
        raise PackageError(MCP_NOT_COVERED)


def is_empty(cwd: Path) -> bool:
    """True if a project has nothing that needs trust."""
    return all(name in HARMLESS_NAMES for name in names_needing_trust(cwd))


def renew_trust(folders: Folders, *, was_empty: bool) -> None:
    """After a change of the project's packages by the user: the trust that it had covers them too."""
    if _has_trust(folders, was_empty):
        save_decision(folders.cwd, folders.agent_dir, trusted=True)


def trust_upcoming(folders: Folders, *, local: bool, was_empty: bool) -> Expect | None:
    """Before each step of a change: the project stays trusted if the change is cut off after it."""
    if not local or not _has_trust(folders, was_empty):
        return None
    return lambda change: expect_change(folders.cwd, folders.agent_dir, change)


def _has_trust(folders: Folders, was_empty: bool) -> bool:
    """True if the project is trusted by its content, or had nothing that needs trust."""
    is_bound = folders.trust.content is not None and MCP_NOT_COVERED not in folders.trust.warnings
    return folders.approve is None and (is_bound or was_empty)


def as_json(rows: Sequence[dict[str, Any]]) -> str:
    return json.dumps(rows, indent=2, ensure_ascii=False)
