"""Session factory: build a session from flags, files and the environment."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tau.core.agent.budgets import NO_BUDGET, budget_problem, unknown_cost_error
from tau.core.agent.structured_output import BadSchema, OutputSchema, parse_output_schema
from tau.core.models.patterns import parse_level
from tau.core.models.pricing import OFFLINE_APIS
from tau.errors import CommandError, ModelError, UsageError
from tau.llm.catalog import LOCAL_MODEL, Catalog, CatalogProblem, parse_providers
from tau.llm.http import Http
from tau.llm.scripted import read_script
from tau.llm.types import Transport
from tau.records.base import BadRecord, Value, parse, replace
from tau.records.budgets import Budget
from tau.records.models import THINKING_LEVELS, ThinkingLevel
from tau.records.settings import Settings
from tau.runtime.app.config import ProjectConfig
from tau.runtime.app.extension_plan import ExtensionPlan
from tau.runtime.extensions.lifecycle import ExtensionLifecycle
from tau.runtime.history.session_log import SessionLog
from tau.runtime.machine.child_environment import filtered_environment
from tau.runtime.machine.files import LocalFiles
from tau.runtime.machine.jobs import ProcessLauncher
from tau.runtime.machine.local import LocalMachine
from tau.runtime.machine.protected_files import ProtectedFiles
from tau.runtime.machine.supervisor_client import SandboxUnavailable
from tau.runtime.models import bundled
from tau.runtime.models.selection import ModelSelection
from tau.runtime.services import Mode, Services
from tau.runtime.session.session import Client, Session
from tau.store.extension_files import FoundExtension
from tau.store.keys import Keys
from tau.store.listing import by_id, newest
from tau.store.models import read_models
from tau.store.paths import working_folder
from tau.store.proxy_setting import with_proxy
from tau.store.resource_query import RequestedResources, ResourceQuery
from tau.store.sessions import OpenedSession, folder_for, open_session
from tau.tools import Files, Tool
from tau.tools.registry import DEFAULT_TOOLS, TOOLS, ToolRegistry
from tau.wire.dialect import Dialect

log = logging.getLogger(__name__)
NO_KEY = "replayed"  # placeholder key for replayed sessions, which send no requests
_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


class SessionTarget(Value):
    """Selects the session to open; a new one by default."""

    kept: bool = True
    folder: str | None = None
    last: bool = False
    named: str | None = None  # a path, or the beginning of an id
    id: str | None = None
    copy_of: str | None = None
    name: str | None = None


class SessionOptions(Value):
    """Options of the caller for a session; None and empty mean the default."""

    model: str | None = None
    provider: str | None = None
    models: Sequence[str] = ()
    thinking: str | None = None
    key: str | None = None
    tools: Sequence[str | Tool] | None = None  # names of built-in tools, and tools of the caller
    script: str | bytes | None = None  # a file path, or the content of one
    session: SessionTarget = SessionTarget()
    approve: bool | None = None  # trust in the project for this run; None: the saved decision
    extensions: Sequence[str] = ()
    only_these_extensions: bool = False
    flags: Mapping[str, bool | str] = MappingProxyType({})  # flags that only an extension can know
    following: Mapping[str, str] = MappingProxyType({})  # words that follow these flags, which may be their values
    resources: RequestedResources = RequestedResources()
    dialect: str | None = None
    record: str | None = None  # a folder for recorded model requests and responses
    replay: str | None = None  # such a folder, to answer from
    budget: Budget = NO_BUDGET
    output_schema: str | None = None  # a file: the schema for every prompt
    keys: Mapping[str, str] = MappingProxyType({})  # by provider; they win over all other keys
    settings: Mapping[str, Any] = MappingProxyType({})  # they override the settings of all files, by the same names
    permissions: str | Mapping[str, Any] | None = None  # "ask", "rules FILE", or the content of such a file
    sandbox: str | None = None  # its level; None: the user's settings


class SessionFactory(Value):
    """All configuration, read and resolved; creates sessions."""

    config: ProjectConfig
    models: ModelSelection
    options: SessionOptions
    script: bytes
    warnings: list[str]
    folder: Path | None
    resumed: OpenedSession | None
    model_warnings: Sequence[str] = ()  # warnings about models; extensions may resolve them
    model_error: UsageError | None = None  # the requested model does not exist, unless an extension provides it
    cwd: str = ""
    environment: Mapping[str, str] = os.environ  # inherited by commands; names the proxies
    output_schema: OutputSchema | None = None
    permissions: Any = None  # as runtime.runs.permissions reads them
    processes: ProcessLauncher | None = None  # already started, because they are in a sandbox

    @property
    def settings(self) -> Settings:
        return self.config.settings

    @property
    def dialect(self) -> Dialect:
        return self.config.dialect

    @property
    def trusted(self) -> bool:
        """True if the project's settings, extensions and system prompt take effect."""
        return self.config.trust.trusted

    @property
    def extensions(self) -> Sequence[FoundExtension]:
        return self.config.extensions

    def create(
        self, client: Client, mode: Mode = "rpc", *, saves: bool = True, shared: bool = False
    ) -> tuple[Session, LocalMachine, Http]:
        """`saves`: client choices are saved in the user's settings. `shared`: this process has other sessions."""
        processes = self.with_sandbox().processes or ProcessLauncher(shared=shared)
        machine, http, tools = LocalMachine(processes=processes), Http(environment=self.environment), ToolRegistry()
        self.equip(machine, http, tools)
        file, transport, agent_dir = self.config.file if saves else None, self._transport(http), self.config.agent_dir
        level = processes.sandbox.level if processes.sandbox else None
        around = Services(self.cwd, machine, transport, tools, file, self.folder, self.script, mode, agent_dir, level)
        copied = self.options.session.copy_of is not None
        session = Session(
            around, self.settings, self.models, client, self.resource_query(), None if copied else self.resumed
        )
        session.extension_lifecycle = ExtensionLifecycle(session, ExtensionPlan(self, session, machine, http, tools))
        self._settle(session)
        session.budget.limits, session.output_schema = self.options.budget, self.output_schema
        if self.permissions is not None:
            from tau.runtime.runs.permissions import Permits

            asks = mode != "rpc" or self.dialect.dialogs
            inside = (lambda path: machine.files.real(path)) if level else None
            session.tool_runner.permission_gate = Permits(
                self.permissions, session.dialogs, self.cwd, machine.in_thread, asks=asks, inside=inside
            )
        return session, machine, http

    def with_sandbox(self) -> SessionFactory:
        """Return a factory with its sandbox, if one is wanted. Blocks; raises UsageError if it is not available."""
        level = self.options.sandbox or self.settings.sandbox.level
        if level is None or self.processes is not None:
            return self
        if sys.platform != "linux":
            raise UsageError(f"--sandbox {level} cannot be enforced, so nothing is started: it needs Linux.")
        from tau.runtime.sandbox.policy import Sandbox

        given = self.settings.sandbox
        granted = given.readable, given.writable
        try:
            protected = self.config.executables()
            sandbox = Sandbox(
                level, self.cwd, self.config.agent_dir, self.folder, *granted, self.environment, protected
            )
            return replace(self, processes=ProcessLauncher(sandbox=sandbox), cwd=sandbox.tree)
        except SandboxUnavailable as error:
            raise UsageError(f"--sandbox {level} cannot be enforced, so nothing is started: {error}.") from None

    def _transport(self, http: Http) -> Transport:
        if self.options.record is None and self.options.replay is None:
            return http
        from tau.runtime.models.record_replay import Recorder, Replayer, places

        signs = places(self.cwd, self.environment.get("HOME"))
        if self.options.record is not None:
            return Recorder(http, _in(self.cwd, self.options.record), signs)
        return Replayer(_in(self.cwd, self.options.replay or ""), signs)

    def equip(self, machine: LocalMachine, http: Http, tools: ToolRegistry) -> None:
        """Apply the settings to these parts, at the start and again while they are in use."""
        settings = self.settings
        confined = machine.sandbox is not None
        filters = settings.child_environment.filter_secrets or confined
        inherited = None if self.environment is os.environ else self.environment
        machine.use(
            shell_path=self.config.shell,
            shell_digest=self.config.shell_digest,
            prefix=settings.shell_command_prefix,
            env=self._without_secrets() if filters else inherited,
            files=self._confined_files(machine) if confined else self._files(),
        )
        http.set_timeouts(
            settings.http_idle_timeout_ms / 1000,
            settings.http_connect_timeout_ms / 1000,
            settings.http_first_byte_timeout_ms / 1000,
        )
        names = self.options.tools if self.options.tools is not None else settings.default_tools or DEFAULT_TOOLS
        tools.select(names)

    def _without_secrets(self) -> Mapping[str, str]:
        names = self.settings.child_environment
        return filtered_environment(
            self.environment, self.models.keys, more=names.secret_names, passed=names.pass_names
        )

    def _files(self) -> LocalFiles:
        guarded = None if self.settings.allow_config_writes else self._guarded()
        return LocalFiles(str(self.config.agent_dir / "auth.json"), guarded)

    def _confined_files(self, machine: LocalMachine) -> Files:
        from tau.runtime.sandbox.files import ConfinedFiles

        agent_dir = str(self.config.agent_dir)
        guarded = None if self.settings.allow_config_writes else agent_dir
        sessions = None if self.folder is None else str(self.folder)
        places = (os.path.join(agent_dir, "auth.json"), guarded, self.cwd, sessions, self.config.executables())
        return ConfinedFiles(machine.post, places)

    def choose_model(self, models: ModelSelection) -> list[str]:
        """Choose the model again, when extensions have added models; returns the warnings."""
        return choose_model(models, self.settings, self.options)

    def resource_query(self) -> ResourceQuery:
        settings = self.settings
        named = (settings.skills, settings.prompts, settings.enable_skill_commands)
        confined = (self.options.sandbox or settings.sandbox.level) is not None
        content = self.config.trust.content
        return ResourceQuery(
            self.cwd, self.config.agent_dir, self.trusted, self.options.resources, *named, content, confined
        )

    def _guarded(self) -> ProtectedFiles:
        return ProtectedFiles(self.config.agent_dir, self.cwd, self.folder, self.config.executables)

    def _settle(self, session: Session) -> None:
        """Apply the caller's choice of a path, an id, a copy of another session, or a name."""
        wanted = self.options.session
        if self.resumed is not None and wanted.copy_of is not None:
            # Only read, never locked: another process may be writing it.
            original = SessionLog(
                self.resumed.header, self.resumed.path.parent, session.write_failed, self.resumed.tree
            )
            original.path = self.resumed.path
            session.log = original.whole_copy(self.cwd, self.folder)
            session.navigator.restore_state(restore=True, starting=True)
        elif self.resumed is None and wanted.named is not None and self.folder is not None:
            path = _in(self.cwd, wanted.named)
            session.log.folder, session.log.path = path.parent, path
        elif self.resumed is None and wanted.id is not None:
            session.log = session.navigator.new_log(id=wanted.id)
        if wanted.name and wanted.name.strip():
            session.log.set_name(wanted.name.strip())


def load(
    agent_dir: Path, wishes: SessionOptions, environment: Mapping[str, str] = os.environ, cwd: str | None = None
) -> SessionFactory:
    """Read the user's files and choose a model. Raises UsageError for errors that the caller must fix."""
    cwd = working_folder() if cwd is None else cwd
    basis = ProjectConfig(
        agent_dir,
        Path(cwd),
        wishes.approve,
        wishes.extensions,
        only_given=wishes.only_these_extensions,
        dialect=wishes.dialect,
        overruled=wishes.settings,
    )
    settings = basis.settings
    environment = with_proxy(environment, settings.http_proxy)
    keys = Keys(agent_dir / "auth.json", environment)
    for provider, key in wishes.keys.items():
        keys.set_key(provider, key)
    if wishes.replay is not None:
        keys.set_key_for_all(NO_KEY)
    models, warnings = known_models(agent_dir, keys, environment)
    warnings += [*basis.warnings, *keys.problems]
    for name in wishes.tools or settings.default_tools or ():
        if isinstance(name, str) and name not in TOOLS:
            warnings.append(f'Unknown tool "{name}". Valid tools: {", ".join(TOOLS)}')
    untold, unfound = list[str](), None
    try:
        untold = choose_model(models, settings, wishes)
    except UsageError as error:
        if not basis.extensions:
            raise
        unfound = error
    if not basis.extensions:
        warnings, untold = warnings + untold, []
    warnings += [problem_text(problem, agent_dir / "models.json") for problem in models.catalog.problems]
    wanted = wishes.session
    folder, found = choose_session(agent_dir, replace(wanted, folder=wanted.folder or settings.session_dir), cwd)
    script, aim = _script(models, wishes.script), _output_schema(wishes.output_schema, cwd)
    permissions = _permissions(wishes.permissions, cwd)
    return SessionFactory(
        *(basis, models, wishes, script, warnings, folder, found, untold, unfound),
        *(cwd, environment, aim, permissions),
    )


def choose_model(models: ModelSelection, settings: Settings, wishes: SessionOptions) -> list[str]:
    """Select the initial model, and return warnings for the user. Raises UsageError."""
    warnings: list[str] = []
    level = _level(wishes.thinking, warnings)
    warnings += models.choose(
        settings, pattern=wishes.model, provider=wishes.provider, scoped=wishes.models, level=level
    )
    if models.current == LOCAL_MODEL and not bundled.installed():
        raise UsageError(bundled.HOW_TO_INSTALL)
    if wishes.key is not None:
        if models.current is None or not (wishes.model or wishes.provider or wishes.models):
            raise UsageError("--api-key requires a model to be specified via --model, --provider/--model, or --models")
        models.keys.set_key(models.current.provider, wishes.key)
    if (trouble := budget_problem(wishes.budget) or unknown_cost_error(wishes.budget, models.current)) is not None:
        raise UsageError(trouble)
    return [*warnings, *_of_recording(wishes, models)]


def choose_session(agent_dir: Path, wanted: SessionTarget, cwd: str) -> tuple[Path | None, OpenedSession | None]:
    """The folder for session files, and the session to resume. Raises UsageError if it cannot be opened."""
    if not wanted.kept:
        return None, None
    folder = _in(cwd, wanted.folder) if wanted.folder else folder_for(cwd, agent_dir)
    try:
        path = _path_of(folder, wanted, cwd)
        return folder, open_session(path) if path is not None and os.path.lexists(path) else None
    except CommandError as error:
        raise UsageError(str(error)) from None


def _path_of(folder: Path, wanted: SessionTarget, cwd: str) -> Path | None:
    if wanted.last:
        return newest(folder, cwd)
    if wanted.id is not None:
        if not _ID.fullmatch(wanted.id):
            raise UsageError("--session-id: letters, digits, '.', '_' and '-', with a letter or digit at both ends")
        exact = [path for path in by_id(folder, folder, wanted.id, cwd) if path.stem.endswith(f"_{wanted.id}")]
        return exact[0] if exact else None
    named = wanted.named or wanted.copy_of
    if named is None:
        return None
    if "/" in named or "\\" in named or named.endswith(".jsonl"):
        path = _in(cwd, named)
        if not path.parent.is_dir():
            raise UsageError(f"Cannot begin a session at {path}: there is no folder {path.parent}.")
        if wanted.copy_of is not None and not path.exists():
            raise UsageError(f"Cannot fork: there is no session {path}.")
        return path
    matching = by_id(folder, folder.parent, named, cwd)
    if not matching:
        raise UsageError(f"No session found matching '{named}'")
    return matching[0]


def _of_recording(wishes: SessionOptions, models: ModelSelection) -> list[str]:
    if wishes.record is not None and wishes.replay is not None:
        raise UsageError("--record and --replay cannot go together: what is replayed was recorded already.")
    flag = "--record" if wishes.record is not None else "--replay" if wishes.replay is not None else None
    if flag is None or models.current is None or models.current.api not in OFFLINE_APIS:
        return []
    return [f"{flag}: {models.current.id} answers without a network, so there is nothing to {flag.removeprefix('--')}."]


def _output_schema(path: str | None, cwd: str) -> OutputSchema | None:
    if path is None:
        return None
    try:
        return parse_output_schema(parse(_in(cwd, path).read_bytes()))
    except OSError as error:
        raise UsageError(f"--output-schema {path}: {error.strerror}") from None
    except (BadRecord, BadSchema) as error:
        raise UsageError(f"--output-schema {path}: {error}") from None


def _permissions(given: str | Mapping[str, Any] | None, cwd: str) -> Any:
    if given is None:
        return None
    from tau.runtime.runs.permissions import read_permissions

    return read_permissions(given, cwd)


def _in(cwd: str, path: str) -> Path:
    return Path(cwd, Path(path).expanduser()).absolute()


def known_models(
    agent_dir: Path, keys: Keys, environment: Mapping[str, str] = os.environ
) -> tuple[ModelSelection, list[str]]:
    """The models of this user, and the problems of the file that adds to them."""
    path = agent_dir / "models.json"
    content, trouble = read_models(path)
    if content is None:
        return ModelSelection(Catalog(environment=environment), keys), [trouble] if trouble else []
    given, problems = parse_providers(content)
    keys.configured = {name: provider.api_key for name, provider in given.items() if provider.api_key}
    keys.headers = [text for provider in given.values() for text in provider.headers.values()]
    keys.headers += [
        text for one in given.values() for model in one.models or () for text in (model.headers or {}).values()
    ]
    return ModelSelection(Catalog(given, environment), keys), [problem_text(problem, path) for problem in problems]


def problem_text(problem: CatalogProblem, path: Path) -> str:
    return f"{problem.text}\n\nFile: {path}"


def _level(wanted: str | None, warnings: list[str]) -> ThinkingLevel | None:
    if wanted is None:
        return None
    level = parse_level(wanted)
    if level is None:
        warnings.append(f'Invalid thinking level "{wanted}". Valid values: {", ".join(THINKING_LEVELS)}')
    return level


def _script(models: ModelSelection, path: str | bytes | None) -> bytes:
    scripted = models.current is not None and models.current.api == "scripted"
    if path is None:
        if scripted:
            raise UsageError("--model scripted needs --script FILE")
        return b""
    try:
        script = path if isinstance(path, bytes) else Path(path).read_bytes()
        if scripted:
            read_script(script)
    except OSError as error:
        raise UsageError(f"--script {path!s}: {error.strerror}") from None
    except ModelError as error:
        raise UsageError(f"--script {path}: {error}" if isinstance(path, str) else str(error)) from None
    return script
