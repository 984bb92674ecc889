"""The part of `tau doctor` about packages."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tau.concurrency.helper_commands import run_helper
from tau.core.packages.sources import LocalSource
from tau.core.packages.versions import Version, parse_range, parse_version
from tau.records.settings import Settings
from tau.store.node_program import NodeMissing, find_node
from tau.store.packages.configured import ConfiguredPackage
from tau.store.packages.loading import find_packages
from tau.store.packages.lock_file import LockEntry, read_lock
from tau.store.settings import Scope

PI_MODULES = ("pi-coding-agent", "pi-ai", "pi-tui", "pi-agent-core")
PI_SCOPES = ("@earendil-works", "@mariozechner")
NODE_TIMEOUT_S = 10.0  # to print its version


def findings(
    lists: Mapping[Scope, list[Any]], agent_dir: Path, cwd: Path, settings: Settings
) -> Iterator[tuple[bool, str]]:
    """Yield what is noticed about the packages of the settings, and whether it needs to be fixed."""
    packages, problems = find_packages(lists, agent_dir, cwd)
    yield from ((True, problem) for problem in problems)
    locks: dict[Path, Mapping[str, LockEntry]] = {}
    node: list[Version | None] = []
    for one in packages:
        if one.is_override:
            continue
        if problem := one.problem():
            yield True, problem
            continue
        locked = locks.setdefault(one.layout.lock_file, read_lock(one.layout.lock_file))
        yield from _state(one, locked)
        engines = one.contents().manifest.get("engines")
        wanted = engines.get("node") if isinstance(engines, dict) else None
        if isinstance(wanted, str):
            node = node or [_node_version(settings)]
            yield from _node(one, wanted, node[0])


def _state(one: ConfiguredPackage, locked: Mapping[str, LockEntry]) -> Iterator[tuple[bool, str]]:
    if one.is_changed(locked):
        yield True, f"{one.text}: its files changed since it was installed"
    elif one.identity not in locked and not isinstance(one.source, LocalSource):
        yield False, f"{one.text}: installed by another program, so its files are not checked"
    copies = sorted(_copies(one.folder() / "node_modules"))
    if copies:
        yield False, f"{one.text} brings its own copy of {', '.join(copies)}, which is not used"


def _copies(modules: Path) -> Iterator[str]:
    return (f"{scope}/{name}" for scope in PI_SCOPES for name in PI_MODULES if os.path.exists(modules / scope / name))


def _node(one: ConfiguredPackage, wanted: str, node: Version | None) -> Iterator[tuple[bool, str]]:
    range_ = parse_range(wanted)
    if range_ is None or node is None or range_.accepts(node):
        return
    yield False, f"{one.text} wants Node {wanted}; there is {'.'.join(map(str, node.numbers))}"


def _node_version(settings: Settings) -> Version | None:
    try:
        program = find_node(settings.extension_host.node)
        _, printed = run_helper([program, "--version"], timeout=NODE_TIMEOUT_S, cwd=os.sep)
    except (NodeMissing, OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(printed.decode("utf-8", "replace"))
