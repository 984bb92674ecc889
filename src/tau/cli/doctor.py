"""`tau doctor`: report tau's configuration on this machine, and the problems in it.

Read-only, except for the mode of auth.json, which is fixed whenever it is read. It runs no commands from
configuration files, contacts no provider, and never shows a key: only where it was found.
"""

from __future__ import annotations

import difflib
import errno
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from tau import __version__
from tau.cli import doctor_packages, doctor_telemetry
from tau.cli.flags import ParsedArguments
from tau.client.host_socket import HostSocket
from tau.core.checks.secrets import is_secret
from tau.errors import CommandError, UsageError
from tau.llm.catalog import Catalog, ModelConfig, ProviderConfig, parse_providers
from tau.mcp.config import Layer, Source, merge_layers
from tau.records.base import BadRecord, Record, parse
from tau.records.settings import COMPAT_NAMES, IGNORED_SETTINGS, CompatSettings, Settings
from tau.runtime.app.config import read_settings
from tau.runtime.app.factory import load
from tau.runtime.app.options import SessionOptions
from tau.runtime.models.discovery import LocalServer, discover
from tau.runtime.models.logins import expired_login_error
from tau.runtime.models.selection import ModelSelection
from tau.runtime.terminal import say, say_marked
from tau.runtime.tmux import tmux_options
from tau.screen.terminal_report import TMUX_OPTIONS, environment_notes
from tau.store.auth import AuthFile, OAuthLogin
from tau.store.config_values import missing_variables, not_set
from tau.store.host_files import running_host
from tau.store.mcp import read_mcp_file
from tau.store.models import read_models
from tau.store.paths import agent_dir, working_folder
from tau.store.settings import SettingsFile
from tau.wire.comments import strip_comments
from tau.wire.position import line_of

FINE, WRONG, NOTE = "ok", "!!", "--"
COLOURS = {FINE: 32, WRONG: 31, NOTE: 2}
LEGEND = "ok works, -- note, !! needs to be fixed"
REFUSED = os.strerror(errno.ECONNREFUSED)


class Finding(NamedTuple):
    """One line of the report; `mark` says whether action is needed."""

    mark: str
    text: str


def main(arguments: ParsedArguments) -> int:
    folder = agent_dir()
    report = {
        "": [*_machine(), *_telemetry(folder)],
        f"files in {folder}": list(_files(folder)),
        "folders": list(_folders(folder)),
        "host": [_host(folder)],
        "terminal": list(_terminal(folder)),
        **_packages(folder),
        **_usable(folder),
    }
    for head, findings in report.items():
        if head:
            say()
        say(head or f"tau {__version__} ({LEGEND})")
        for mark, text in findings:
            first, *more = text.split("\n")
            say_marked(mark, first, COLOURS[mark])
            for line in more:
                say(f"     {line}")
    wrong = sum(mark == WRONG for findings in report.values() for mark, _ in findings)
    say()
    say(f"Problems found: {wrong}." if wrong else "No problems found.")
    say(f"Next: {_next_step(wrong, report['model'][0].mark == FINE)}")
    return 1 if wrong else 0


def _next_step(wrong: int, has_model: bool) -> str:
    if wrong:
        return "fix the lines marked !!, and run `tau doctor` again."
    if has_model:
        return "start `tau` in the folder of a project."
    return (
        "set the API key of a provider, for example ANTHROPIC_API_KEY (`tau --list-models` lists all of them),"
        " or try `tau --model demo`, which needs none."
    )


def _machine() -> Iterator[Finding]:
    yield Finding(FINE, f"Python {platform.python_version()} on {platform.platform()}")
    try:
        yield Finding(FINE, f"httptools {version('httptools')}, msgspec {version('msgspec')}")
    except PackageNotFoundError as error:
        yield Finding(WRONG, f"{error.name} is not installed")
    if sys.platform == "linux":
        yield Finding(NOTE, f"for --sandbox workspace: {_landlock()}; for --sandbox strict: {_bubblewrap()}")
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        if os.environ.get(name) or os.environ.get(name.lower()):
            yield Finding(NOTE, f"{name} is set")
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        if path := os.environ.get(name):
            there = os.path.exists(path)
            yield Finding(
                NOTE if there else WRONG, f"{name} names {path}" + ("" if there else ", which does not exist")
            )


def _telemetry(folder: Path) -> Iterator[Finding]:
    enabled = SettingsFile(folder / "settings.json").read().telemetry.enabled  # its problems are other findings
    for is_wrong, text in doctor_telemetry.findings(enabled, os.environ):
        yield Finding(WRONG if is_wrong else NOTE, text)


def _packages(folder: Path) -> dict[str, list[Finding]]:
    """The packages of the user and of a trusted project, if there are any."""
    cwd = Path(working_folder())
    layers, _, _ = read_settings(SettingsFile(folder / "settings.json"), cwd, None)
    lists = {scope: entries for scope, entries in layers.packages.items() if entries}
    if not lists:
        return {}
    found = doctor_packages.findings(lists, folder, cwd, layers.settings)
    marked = [Finding(WRONG if is_wrong else NOTE, text) for is_wrong, text in found]
    return {"packages": marked or [Finding(FINE, f"{sum(map(len, lists.values()))} installed")]}


def _landlock() -> str:
    from tau.runtime.sandbox import landlock

    return f"Landlock, version {known}" if (known := landlock.version()) else "no Landlock"


def _bubblewrap() -> str:
    return "bubblewrap" if os.access("/usr/bin/bwrap", os.X_OK) else "no bubblewrap (/usr/bin/bwrap)"


def _host(folder: Path) -> Finding:
    """Whether `tau serve` is running."""
    info = running_host(folder)
    if info is None:
        return Finding(NOTE, "no host is running (tau serve)")
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(info.started / 1000))
    what = f"tau serve {info.version} is running since {started} (process {info.pid})"
    try:
        with HostSocket(info.socket, "tau-doctor") as host:
            count = len(host.ask("list_sessions", live=True, all=True)["sessions"])
    except CommandError as error:
        return Finding(WRONG, f"{what}, but does not answer: {error}")
    return Finding(FINE, f"{what}, {count} sessions open")


# Problems in files are reported as file:line, which editors understand.


def _files(folder: Path) -> Iterator[Finding]:
    yield from _checked(folder / "settings.json", _settings(folder / "settings.json"))
    yield from _checked(folder / "models.json", _models_file(folder / "models.json"))
    yield from _checked(folder / "auth.json", _auth(folder / "auth.json"))
    if os.path.exists(folder / "mcp.json"):
        yield from _mcp(folder / "mcp.json")


def _mcp(path: Path) -> Iterator[Finding]:
    file, problem = read_mcp_file(path, "user")
    if problem is not None:
        yield Finding(WRONG, problem)
    if file is None:
        return
    layers = [Layer(Source(str(path), "user"), file.servers)]
    configs, skipped = merge_layers(layers, os.environ, os.path.expanduser("~"))
    for one in skipped:
        yield Finding(WRONG, f"{file.location(one.place)}: {one.place}: {one.reason}")
    if configs:
        names = ", ".join(config.name for config in configs.values())
        yield Finding(FINE, f"{path.name}: {names} (`tau mcp doctor` starts them)")


def _checked(path: Path, mistakes: Iterable[Finding]) -> Iterator[Finding]:
    found = list(mistakes)
    if not os.path.exists(path):
        yield Finding(NOTE, f"{path.name}: not found (optional)")
    elif not any(finding.mark == WRONG for finding in found):
        yield Finding(FINE, path.name)
    yield from found


def _settings(path: Path) -> Iterator[Finding]:
    file = SettingsFile(path)
    file.read()
    for problem in file.problems:
        yield Finding(WRONG, problem.replace(str(path), path.name, 1))
    with suppress(OSError, BadRecord):
        text = _text(path)
        content = parse(text.encode())
        if text != path.read_bytes().decode("utf-8", "replace").removeprefix("\ufeff"):
            yield Finding(NOTE, f"{path.name} has comments or trailing commas: tau accepts them, pi cannot read them")
        yield from _misspelt(path, "", content, Settings, (*COMPAT_NAMES, *IGNORED_SETTINGS))
        yield from _misspelt(
            path, "compat", content.get("compat") if isinstance(content, dict) else None, CompatSettings
        )


def _models_file(path: Path) -> Iterator[Finding]:
    content, trouble = read_models(path)
    if trouble:
        yield Finding(WRONG, trouble.partition("\n")[0])
    if content is None:
        return
    providers, problems = parse_providers(content)
    catalog = Catalog(providers)
    for name in providers:
        catalog.models_of(name)
    for problem in [*problems, *catalog.problems]:
        names_it = problem.what.startswith("Provider ")
        yield _at(path, problem.what if names_it else f"{problem.place}: {problem.what}", problem.place)
    entries = content.get("providers") if isinstance(content, dict) else None
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        yield from _provider(path, f"providers.{name}", entry)


def _provider(path: Path, place: str, entry: Any) -> Iterator[Finding]:
    yield from _misspelt(path, place, entry, ProviderConfig)
    models = entry.get("models") if isinstance(entry, dict) else None
    if isinstance(models, list):
        for at, model in enumerate(models):
            yield from _misspelt(path, f"{place}.models[{at}]", model, ModelConfig)


def _auth(path: Path) -> Iterator[Finding]:
    file = AuthFile(path)
    entries = file.read()
    for problem in file.problems:
        yield _at(path, problem.removeprefix(f"{path}: "))
    for provider, entry in entries.items():
        kind = entry.get("type") if isinstance(entry, dict) else None
        if kind == "oauth":
            yield _login(path, provider, entry)
        elif kind != "api_key" or not isinstance(entry.get("key"), str):
            yield _at(path, f'{provider}: expected {{"type": "api_key", "key": ...}}')


def _login(path: Path, provider: str, entry: Any) -> Finding:
    """An OAuth login. Whether tau can refresh it depends on models.json, so an expired one is not yet a problem."""
    login = OAuthLogin.of(entry)
    if login is None:
        return _at(path, f'{provider}: expected {{"type": "oauth", "access": ..., "refresh": ..., "expires": ...}}')
    state = "valid" if login.valid(time.time() * 1000) else "expired"
    return Finding(NOTE, f"{path.name}: {provider}: an OAuth login ({state})")


def _at(path: Path, mistake: str, place: str = "") -> Finding:
    """A problem as file:line. Without `place`, its text starts with the place."""
    try:
        line = line_of(_text(path), place or mistake.partition(": ")[0])
    except (OSError, BadRecord):
        return Finding(WRONG, f"{path.name}: {mistake}")
    return Finding(WRONG, f"{path.name}:{line}: {mistake}")


def _text(path: Path) -> str:
    text = strip_comments(path.read_bytes().decode("utf-8", "replace"))
    parse(text.encode())
    return text


def _misspelt(path: Path, place: str, entry: Any, kind: type[Record], more: tuple[str, ...] = ()) -> Iterator[Finding]:
    """Unknown keys may belong to another program; one that is nearly a known key is reported as a typo."""
    known = (*kind.__struct_encode_fields__, *more)
    for name in entry if isinstance(entry, dict) else ():
        similar = [
            known_name for known_name in known if known_name.lower() == name.lower()
        ] or difflib.get_close_matches(name, known, 1, 0.85)
        if name not in known and similar:
            where = f"{place}.{name}" if place else name
            yield _at(path, f'{where}: unknown; did you mean "{similar[0]}"?')


def _folders(agent: Path) -> Iterator[Finding]:
    for folder in (agent, Path(tempfile.gettempdir()), Path(working_folder())):
        try:
            folder.stat()
        except (FileNotFoundError, NotADirectoryError):
            there = next(parent for parent in folder.parents if os.path.exists(parent))
        except OSError as error:
            yield Finding(WRONG, f"{folder}: {error.strerror}")
            continue
        else:
            there = folder
        if os.access(there, os.W_OK | os.X_OK):
            yield Finding(FINE, f"{folder}" if there == folder else f"{folder} (will be created)")
        else:
            yield Finding(WRONG, f"{folder}: not writable")


def _terminal(folder: Path) -> Iterator[Finding]:
    """What the environment says. The terminal itself is asked only by the interface: /terminal shows its answers."""
    if not os.environ.get("TERM"):
        yield Finding(NOTE, "TERM is not set: tau starts in plain mode")
        return
    tmux = tmux_options(os.environ, TMUX_OPTIONS)
    true_color = SettingsFile(folder / "settings.json").read().terminal.true_color
    for note in environment_notes(os.environ, true_color, tmux):
        yield Finding(FINE if note.good else NOTE, note.text)
    yield Finding(NOTE, "/terminal in the interface shows what the terminal answers")


def _usable(folder: Path) -> dict[str, list[Finding]]:
    try:
        models = load(folder, SessionOptions()).models
    except UsageError as error:
        return {"model": [Finding(WRONG, str(error))]}
    servers = discover(models.catalog, models.keys)
    return {
        "providers with a key": list(_providers(models)) or [Finding(NOTE, "none")],
        "servers on this machine": list(_servers(servers)),
        "model": [_model(models, [name for name, server in servers.items() if server.models])],
    }


def _providers(models: ModelSelection) -> Iterator[Finding]:
    keys = models.keys
    for name in models.catalog.providers:
        source = keys.source(name)
        if source is None:
            continue
        if not keys.has(name) and keys.expired_login(name) is not None:
            yield Finding(NOTE, expired_login_error(name))
            continue
        if not keys.has(name):
            why = not_set(unset) if (unset := keys.missing(name)) else "it is empty"
            yield Finding(WRONG, f"{name}: {source} provides no key: {why}")
            continue
        how = f"{source}, from a command" if keys.runs_command(name) else source
        of = models.catalog.models_of(name)
        headers = {title: text for model in of for title, text in (model.headers or {}).items()}
        for title, text in headers.items():
            if unset := missing_variables(text, keys.environment(name), is_key=is_secret(title)):
                yield Finding(WRONG, f"{name}: the header {title} cannot be sent: {not_set(unset)}")
        yield Finding(FINE, f"{name}: {how}; {len(of)} models" if of else f"{name}: {how}")


def _servers(servers: Mapping[str, LocalServer]) -> Iterator[Finding]:
    """One line per server; those that do not run, which most people do not have, share a line."""
    silent = [name for name, server in servers.items() if server.trouble == REFUSED]
    yield from (_server(name, server) for name, server in servers.items() if name not in silent)
    if silent:
        yield Finding(NOTE, f"not running: {', '.join(silent)}")


def _server(name: str, server: LocalServer) -> Finding:
    if server.trouble is not None:
        return Finding(NOTE, f"{name}: {server.base_url}: {server.trouble}")
    return Finding(FINE, f"{name}: {server.base_url}: {', '.join(model.id for model in server.models) or 'no models'}")


def _model(models: ModelSelection, answering: Sequence[str]) -> Finding:
    """The model that a session starts with by default."""
    if models.current is not None:
        return Finding(FINE, f"{models.current.provider}/{models.current.id}, thinking {models.level}")
    if answering:
        return Finding(NOTE, f"none by default; choose one with --provider {answering[0]} --model ID")
    return Finding(NOTE, "none yet: it needs the API key of a provider")
