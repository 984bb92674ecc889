"""Read the configuration of servers from all its sources. Blocks: call it in a thread."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tau.mcp.config import Layer, Problem, ServerConfig, Source, merge_layers
from tau.records.base import Value
from tau.store.mcp import McpFile, Scope, project_files, read_mcp_file


class McpSources(Value):
    """Where servers may be configured.

    `settings`: `mcpServers` of the user's and of the project's settings file, with the path of each. `bound` is the
    content that trust in the project covers. `files` are given with --mcp-config, `given` by the calling program.
    """

    agent_dir: Path
    cwd: Path
    trusted: bool
    bound: Mapping[str, str] | None = None
    user_settings: tuple[str, Mapping[str, Any]] = ("", {})
    project_settings: tuple[str, Mapping[str, Any]] = ("", {})
    files: Sequence[str] = ()
    given: Mapping[str, Any] = {}
    only_given: bool = False  # --no-mcp


class LoadedServers(Value):
    configs: dict[str, ServerConfig]
    problems: list[str]
    allowed: Sequence[str]  # servers of projects that may run outside of the sandbox, or over HTTP


def load_servers(sources: McpSources, environment: Mapping[str, str]) -> LoadedServers:
    problems: list[str] = []
    files = [*([] if sources.only_given else _found_files(sources, problems)), *_given_files(sources, problems)]
    layers = [Layer(Source(file.path, file.scope), file.servers) for file in files]
    if sources.given:
        layers.append(Layer(Source("mcp_servers", "given"), sources.given))
    home = environment.get("HOME") or os.path.expanduser("~")
    configs, skipped = merge_layers(layers, environment, home)
    problems += [_problem_text(problem, files) for problem in skipped]
    allowed = [name for file in files if file.scope == "user" for name in file.allowed]
    return LoadedServers(configs, problems, allowed)


def _found_files(sources: McpSources, problems: list[str]) -> list[McpFile]:
    found: list[McpFile] = []
    path, servers = sources.user_settings
    if servers:
        found.append(McpFile(path, "user", servers))
    found += _read(sources.agent_dir / "mcp.json", "user", None, problems)
    return [*found, *read_project_files(sources, problems)] if sources.trusted else found


def read_project_files(sources: McpSources, problems: list[str]) -> list[McpFile]:
    """The files of the project that configure servers, the one that wins last."""
    path, servers = sources.project_settings
    found = [McpFile(path, "project", servers)] if servers else []
    for file in project_files(sources.cwd):
        if sources.bound is None or os.path.realpath(file) in sources.bound:
            found += _read(file, "project", sources.bound, problems)
    return found


def _given_files(sources: McpSources, problems: list[str]) -> list[McpFile]:
    """Files of --mcp-config. One inside of the working folder may have been written by the project."""
    found: list[McpFile] = []
    tree = os.path.realpath(sources.cwd).rstrip(os.sep) + os.sep
    for name in sources.files:
        path = sources.cwd / os.path.expanduser(name)
        scope: Scope = "project" if os.path.realpath(path).startswith(tree) else "user"
        files = _read(path, scope, None, problems)
        if not files and not os.path.exists(path):
            problems.append(f"--mcp-config {name}: there is no such file.")
        found += files
    return found


def _read(path: Path, scope: Scope, bound: Mapping[str, str] | None, problems: list[str]) -> list[McpFile]:
    file, problem = read_mcp_file(path, scope, bound)
    if problem is not None:
        problems.append(problem)
    return [] if file is None else [file]


def _problem_text(problem: Problem, files: Sequence[McpFile]) -> str:
    file = next((one for one in files if one.path == problem.source.path), None)
    where = file.location(problem.place) if file is not None else problem.source.path
    return f"{where}: {problem.place}: {problem.reason}. The server is skipped."
