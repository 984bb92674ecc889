"""`tau install`, `tau remove` and `tau update`."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence

from tau.cli.packages import Folders, is_empty, renew_trust, trust_upcoming
from tau.core.packages.sources import LocalSource, Source, parse_source
from tau.errors import UsageError
from tau.records.base import replace
from tau.records.settings import Settings
from tau.runtime.app.config import node_problem
from tau.runtime.terminal import complain, say
from tau.store.packages.configured import ConfiguredPackage
from tau.store.packages.entries import absolute, add_entry, remove_entry, settings_text, suggestion
from tau.store.packages.errors import PackageError
from tau.store.packages.installer import Installation, Installer
from tau.store.packages.offers import KINDS
from tau.store.packages.session import is_offline

NAMES = {"extensions": "extension", "skills": "skill", "prompts": "prompt template", "themes": "theme"}
SELF_UPDATE = "tau does not update itself: use the program that installed it. `tau update` updates packages."
UPDATES_PACKAGES = "tau updates packages here, not itself."


def _resolved(text: str, folders: Folders) -> Source:
    """Parse a source of the command line: a path is relative to the working folder."""
    source = parse_source(text)
    if isinstance(source, LocalSource):
        return replace(source, path=str(absolute(source, folders.cwd)))
    return source


def run_install(arguments: Namespace, folders: Folders) -> int:
    local = arguments.local
    layout, file = folders.layout(local=local), folders.file(local=local)
    source = _resolved(arguments.source, folders)
    if _is_offline(arguments) and not isinstance(source, LocalSource):
        raise PackageError(f"{source.text} is not installed: nothing is fetched offline.")
    text = settings_text(source, layout, folders.cwd)
    was_empty = is_empty(folders.cwd)
    expect = trust_upcoming(folders, local=local, was_empty=was_empty)
    installer = Installer(layout, folders.settings.npm_command, complain, expect=expect)
    done = installer.install(
        source,
        lambda: add_entry(file, layout, layout.identity(source), text, expect),
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


def run_remove(arguments: Namespace, folders: Folders) -> int:
    local = arguments.local
    layout, file = folders.layout(local=local), folders.file(local=local)
    source = _resolved(arguments.source, folders)
    identity = layout.identity(source)
    configured = [one for one in folders.packages() if one.layout.scope == layout.scope]
    if identity not in [one.identity for one in configured]:
        raise PackageError(_no_match(arguments.source, configured))
    was_empty = is_empty(folders.cwd)
    expect = trust_upcoming(folders, local=local, was_empty=was_empty)
    installer = Installer(layout, folders.settings.npm_command, complain, expect=expect)
    installer.remove(source, lambda: remove_entry(file, layout, identity, expect))
    if local:
        renew_trust(folders, was_empty=was_empty)
    say(f"Removed {arguments.source}")
    return 0


def _no_match(text: str, configured: Sequence[ConfiguredPackage]) -> str:
    meant = suggestion(text, [one.text for one in configured])
    return f"No matching package found for {text}" + (f". Did you mean {meant}?" if meant else "")


def run_update(arguments: Namespace, folders: Folders) -> int:
    if arguments.self_update or arguments.models_update or arguments.all_update:
        raise UsageError(SELF_UPDATE)
    wanted = arguments.source or arguments.extension
    if wanted in ("self", "pi"):
        raise UsageError(SELF_UPDATE)
    packages = folders.packages()
    if wanted is not None:
        source = _resolved(wanted, folders)
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
        expect = trust_upcoming(folders, local=local, was_empty=False)
        results = Installer(layout, folders.settings.npm_command, complain, expect=expect).update(
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
