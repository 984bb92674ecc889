"""Session factory: resolve the options with the user's files and the environment, and build complete sessions."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tau.errors import ModelError, UsageError
from tau.llm.http import Http
from tau.records.base import BadRecord, Value, parse, replace
from tau.records.settings import Settings
from tau.runtime.app.config import ProjectConfig
from tau.runtime.app.extension_plan import ExtensionPlan
from tau.runtime.app.handle import SessionHandle
from tau.runtime.app.model_choice import choose_model, known_models, problem_text
from tau.runtime.app.options import SessionOptions
from tau.runtime.app.session_choice import absolute, choose_session, session_store
from tau.runtime.extensions.dialogs import Dialogs
from tau.runtime.machine.child_environment import filtered_environment
from tau.runtime.machine.files import LocalFiles
from tau.runtime.machine.jobs import ProcessLauncher
from tau.runtime.machine.local import LocalMachine
from tau.runtime.machine.protected_files import ProtectedFiles
from tau.runtime.machine.supervisor_client import SandboxUnavailable
from tau.runtime.models.selection import ModelSelection
from tau.runtime.services import Client, Mode, Services
from tau.runtime.session.initial_log import InitialLog
from tau.runtime.session.session import Session
from tau.store.extension_files import FoundExtension
from tau.store.keys import Keys
from tau.store.paths import working_folder
from tau.store.proxy_setting import with_proxy
from tau.store.resource_query import ResourceQuery
from tau.store.sessions import OpenedSession
from tau.store.trust import has_mcp_files
from tau.tools.registry import DEFAULT_TOOLS, TOOLS, ToolRegistry
from tau.wire.dialect import Dialect

if TYPE_CHECKING:
    from tau.core.agent.structured_output import OutputSchema
    from tau.llm.types import Transport
    from tau.runtime.app.extension_plan import Equipment
    from tau.runtime.app.login_control import LoginControl
    from tau.runtime.app.settings_control import SettingsControl
    from tau.runtime.app.trust_control import TrustControl
    from tau.runtime.history.session_log import SessionLog
    from tau.runtime.runs.permission_rules import LoadedRules as PermissionRules
    from tau.runtime.runs.permissions import Permits, TerminalQuestions
    from tau.runtime.runs.tool_runner import PermissionGate
    from tau.runtime.session.mcp_access import McpAccess
    from tau.runtime.session.session import Move, Relocate
    from tau.runtime.telemetry.start import Observe
    from tau.tools import Files

logger = logging.getLogger(__name__)
SCREEN_READ_INTERVAL_S = 0.016  # for the interface, which paints less often
NO_LIMITS = "It was meant to limit what commands can do, so nothing is started without it: correct the file."
NO_KEY = "replayed"  # placeholder key for replayed sessions, which send no requests
SHOWING_MODES = ("tui", "acp", "print")  # their front ends show what a call would change; plain mode is of "print"


class SessionFactory(Value):
    """All configuration, read and resolved; creates sessions."""

    config: ProjectConfig
    models: ModelSelection
    options: SessionOptions
    script: bytes
    warnings: list[str]
    resumed: OpenedSession | None
    model_warnings: Sequence[str] = ()  # warnings about models; extensions may resolve them
    model_error: UsageError | None = None  # the requested model does not exist, unless an extension provides it
    environment: Mapping[str, str] = os.environ  # inherited by commands; names the proxies
    output_schema: OutputSchema | None = None
    permissions: PermissionRules | None = None
    processes: ProcessLauncher | None = None  # already started, because they are in a sandbox

    @property
    def settings(self) -> Settings:
        return self.config.settings

    @property
    def start(self) -> str:
        """The folder where the program was started, or the one that the caller gave."""
        return str(self.config.start)

    @property
    def cwd(self) -> str:
        """The folder in which the session runs."""
        return str(self.config.cwd)

    @property
    def folder(self) -> Path | None:
        """The folder for session files."""
        wanted = self.options.session
        if not wanted.kept:
            return None
        if wanted.folder:
            return absolute(self.start, wanted.folder)
        return session_store(self.config.agent_dir, self.settings.session_dir, self.cwd)

    def at_start(self, path: str) -> str:
        """A path of the command line: it is relative to the folder where the program was started."""
        return path if self.cwd == self.start else str(absolute(self.start, path))

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

    def open(
        self, client: Client, mode: Mode = "rpc", *, saves: bool = True, shared: bool = False, front_end: str = ""
    ) -> SessionHandle:
        """Build a session. `client` receives its events.

        `saves`: choices of the client are saved in the user's settings. `shared`: this process has other sessions.
        `front_end` is the mode that telemetry shows, if it is another.
        Raises CommandError if another process has the session open.
        """
        processes = self.with_sandbox().processes or ProcessLauncher(shared=shared)
        http = Http(environment=self.environment, read_interval_s=SCREEN_READ_INTERVAL_S if mode == "tui" else 0.0)
        machine, tools = LocalMachine(processes=processes), ToolRegistry()
        self.equip(machine, http, tools)
        services = Services(
            cwd=self.cwd,
            start=self.start,
            machine=machine,
            transport=self._transport(http),
            tools=tools,
            settings_file=self.config.file if saves else None,
            sessions=self.folder,
            script=self.script,
            mode=mode,
            agent_dir=self.config.agent_dir,
            sandbox=processes.sandbox.level if processes.sandbox else None,
            observe=self._telemetry(front_end or mode, processes.sandbox.level if processes.sandbox else None),
        )
        make_gate = self._gate_maker(services, machine)
        session = Session(
            services,
            self.settings,
            self.models,
            client,
            self.resource_query(),
            self._initial_log(),
            budget=self.options.budget,
            output_schema=self.output_schema,
            permissions=self._permission_gate(make_gate),
            extension_plan=lambda session: ExtensionPlan(self, session, machine, http, tools),
            mcp=self._mcp(machine, mode) if self.uses_mcp() else None,
            relocate=self._relocate((machine, http, tools), mode),
        )
        return SessionHandle(
            session,
            machine,
            http,
            lambda rules: make_gate(rules, session.dialogs),
            lambda: self._settings_control(session, (machine, http, tools)),
            lambda: self._login_control(session),
            self._trust_control,
        )

    def _telemetry(self, mode: str, sandbox: str | None) -> Observe | None:
        option, settings = self.options.telemetry, self.settings.telemetry
        if option is None and not settings.enabled and not self.environment.get("TAU_TELEMETRY"):
            return None
        from tau.runtime.telemetry.start import is_asked_for, prepare

        if not is_asked_for(option, settings, self.environment):
            return None
        return prepare(
            option,
            settings,
            self.environment,
            mode=mode,
            dialect=self.dialect.name,
            sandbox=sandbox,
            offline=self.options.offline,
            secrets=self.models.keys.known_secrets,
            warn=lambda problem: logger.warning("%s", problem),
        )

    def uses_mcp(self) -> bool:
        """True if MCP servers may be configured. Fast; reads no file."""
        options = self.options
        if options.mcp_files or options.mcp_servers:
            return True
        if options.no_mcp:
            return False
        return bool(self.settings.mcp_servers) or has_mcp_files(self.config.agent_dir, Path(self.cwd))

    def _mcp(self, machine: LocalMachine, mode: Mode) -> Callable[[Session], McpAccess]:
        from tau.runtime.app.mcp_start import make_access

        return lambda session: make_access(self, session, machine, asks=mode != "rpc" or self.dialect.dialogs)

    def _relocate(self, equipment: Equipment, mode: Mode) -> Relocate:
        def relocate(session: Session, log: SessionLog, folder: str | None) -> Move | None:
            from tau.runtime.app.relocation import prepare_move

            return prepare_move(self, session, log, folder, equipment, self._mcp(equipment[0], mode))

        return relocate

    def _settings_control(self, session: Session, equipment: Equipment) -> SettingsControl:
        from tau.runtime.app.settings_control import SettingsControl

        return SettingsControl(self, session, equipment)

    def _trust_control(self) -> TrustControl:
        from tau.runtime.app.trust_control import TrustControl

        return TrustControl(self.config)

    def _login_control(self, session: Session) -> LoginControl:
        from tau.runtime.app.login_control import LoginControl

        return LoginControl(self, session)

    def _initial_log(self) -> InitialLog:
        """The caller's choice of a path, an id, a copy of another session, or a name."""
        wanted = self.options.session
        named = wanted.named if self.resumed is None and self.folder is not None else None
        return InitialLog(
            cwd=self.cwd,
            folder=self.folder,
            resumed=self.resumed,
            copied=wanted.copy_of is not None,
            path=None if named is None else absolute(self.start, named),
            id=wanted.id,
            name=(wanted.name or "").strip() or None,
        )

    def _permission_gate(
        self, make_gate: Callable[[PermissionRules, Dialogs], Permits]
    ) -> Callable[[Dialogs], PermissionGate] | None:
        rules = self.permissions
        return None if rules is None else lambda dialogs: make_gate(rules, dialogs)

    def _gate_maker(self, services: Services, machine: LocalMachine) -> Callable[[PermissionRules, Dialogs], Permits]:
        def make_gate(rules: PermissionRules, dialogs: Dialogs) -> Permits:
            from tau.runtime.runs.permissions import Permits

            return Permits(
                rules,
                dialogs,
                self.cwd,
                machine.in_thread,
                asks=services.mode != "rpc" or self.dialect.dialogs,
                inside=(lambda path: machine.files.real(path)) if services.sandbox else None,
                terminal=self._question_details(services, machine) if services.mode in SHOWING_MODES else None,
            )

        return make_gate

    def _question_details(self, services: Services, machine: LocalMachine) -> TerminalQuestions:
        from tau.runtime.runs.permissions import TerminalQuestions
        from tau.tools.preview import preview_change

        if services.mode == "acp":  # it shows whole texts instead: SessionHandle.preview_change
            return TerminalQuestions(services.sandbox, lambda tool, arguments: "")

        def preview(tool: str, arguments: Mapping[str, Any]) -> str:
            return preview_change(tool, arguments, self.cwd, machine.files)

        return TerminalQuestions(services.sandbox, preview)

    def _sandbox_level(self) -> str | None:
        """The wanted level. An empty name is wanted too, and refused as any other that does not exist."""
        return self.settings.sandbox.level if self.options.sandbox is None else self.options.sandbox

    def with_sandbox(self) -> SessionFactory:
        """Return a factory with its sandbox, if one is wanted. Blocks; raises UsageError if it is not available."""
        level = self._sandbox_level()
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
                level, self.start, self.config.agent_dir, self.folder, *granted, self.environment, protected
            )
            self.config.cwd, self.config.start = Path(os.path.realpath(self.cwd)), Path(sandbox.tree)
            return replace(self, processes=ProcessLauncher(sandbox=sandbox))
        except SandboxUnavailable as error:
            raise UsageError(f"--sandbox {level} cannot be enforced, so nothing is started: {error}.") from None

    def _transport(self, http: Http) -> Transport:
        if self.options.record is None and self.options.replay is None:
            return http
        from tau.runtime.models.record_replay import Recorder, Replayer, places

        signs = places(self.cwd, self.environment.get("HOME"))
        if self.options.record is not None:
            return Recorder(http, absolute(self.start, self.options.record), signs)
        return Replayer(absolute(self.start, self.options.replay or ""), signs)

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
            env=self.without_secrets() if filters else inherited,
            files=self._confined_files(machine) if confined else self._files(),
        )
        http.set_timeouts(
            settings.http_idle_timeout_ms / 1000,
            settings.http_connect_timeout_ms / 1000,
            settings.http_first_byte_timeout_ms / 1000,
        )
        names = self.options.tools if self.options.tools is not None else settings.default_tools or DEFAULT_TOOLS
        tools.select(names)

    def without_secrets(self) -> Mapping[str, str]:
        """The environment without anything that looks like a secret."""
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

    def unknown_tools(self, tools: Iterable[str]) -> list[str]:
        """Warnings for requested tools that do not exist, when extensions have added `tools`. Raises UsageError."""
        return unknown_tools(self.options, self.settings, tools)

    def resource_query(self) -> ResourceQuery:
        settings = self.settings
        named = (settings.skills, settings.prompts, settings.enable_skill_commands)
        confined = self._sandbox_level() is not None
        content = self.config.trust.content
        packages = self.config.packages.resources if self.config.packages is not None else None
        return ResourceQuery(
            *(self.cwd, self.config.agent_dir, self.trusted, self.options.resources, *named, content, confined),
            packages,
            "" if self.cwd == self.start else self.start,
        )

    def _guarded(self) -> ProtectedFiles:
        return ProtectedFiles(self.config.agent_dir, self.cwd, self.folder, self.config.executables)


def load(
    agent_dir: Path,
    options: SessionOptions,
    environment: Mapping[str, str] = os.environ,
    cwd: str | None = None,
    *,
    stays: bool = False,
) -> SessionFactory:
    """Read the user's files and choose a model. Raises UsageError for errors that the caller must fix.

    Without `cwd` the session runs in the folder that its file names; with `stays` in the one of this process.
    """
    follows = cwd is None and not stays
    cwd = working_folder() if cwd is None else cwd
    config = project_config(agent_dir, options, cwd)
    check_limits(config)
    permissions = _permissions(options.permissions, cwd)
    resumed = _resumed(config, options)
    if follows and resumed is not None and resumed.header.cwd not in ("", cwd) and options.session.copy_of is None:
        config = _at_own_folder(config, options, resumed, limited=permissions is not None)
    settings = config.settings
    environment = with_proxy(environment, settings.http_proxy)
    keys = Keys(agent_dir / "auth.json", environment)
    for provider, key in options.keys.items():
        keys.set_key(provider, key)
    if options.replay is not None:
        keys.set_key_for_all(NO_KEY)
    models, file_problems = known_models(agent_dir, keys, environment, max_level=settings.compat.max_level)
    warnings = [*file_problems, *config.warnings, *keys.problems]
    if not config.extensions:  # else they may define more: ExtensionPlan checks the names when they are loaded
        warnings += unknown_tools(options, settings, ())
    model_warnings, model_error = list[str](), None
    try:
        model_warnings = choose_model(models, settings, options)
    except UsageError as error:
        if not config.extensions:  # a mistake in models.json may be why the model does not exist
            raise UsageError("\n".join([str(error), *file_problems])) from None
        model_error = error
    if not config.extensions:
        warnings, model_warnings = warnings + model_warnings, []
    warnings += [problem_text(problem, agent_dir / "models.json") for problem in models.catalog.problems]
    return SessionFactory(
        config=config,
        models=models,
        options=options,
        script=_script(models, options.script),
        warnings=warnings,
        resumed=resumed,
        model_warnings=model_warnings,
        model_error=model_error,
        environment=environment,
        output_schema=_output_schema(options.output_schema, cwd),
        permissions=permissions,
    )


def project_config(agent_dir: Path, options: SessionOptions, cwd: str) -> ProjectConfig:
    return ProjectConfig(
        agent_dir,
        Path(cwd),
        options.approve,
        options.extensions,
        only_given=options.only_these_extensions,
        dialect=options.dialect,
        overruled=options.settings,
        fetches=not options.offline,
    )


def _resumed(config: ProjectConfig, options: SessionOptions) -> OpenedSession | None:
    wanted = options.session
    chosen = replace(wanted, folder=wanted.folder or config.settings.session_dir)
    return choose_session(config.agent_dir, chosen, str(config.cwd))[1]


def _at_own_folder(
    config: ProjectConfig, options: SessionOptions, resumed: OpenedSession, *, limited: bool
) -> ProjectConfig:
    """The configuration of the folder in which a session runs. Raises UsageError."""
    from tau.runtime.app.relocation import own_folder

    folder = own_folder(config, options, resumed.header, resumed.path, limited=limited)
    if folder == str(config.cwd):
        return config
    config = config.at(folder)
    check_limits(config)
    return config


def check_limits(config: ProjectConfig) -> None:
    """Raise UsageError for a setting of an unknown name or value that was meant to limit something."""
    if config.unknown_limits:
        raise UsageError(f"{config.unknown_limits[0]} {NO_LIMITS}")


def unknown_tools(options: SessionOptions, settings: Settings, more: Iterable[str]) -> list[str]:
    """Warnings for tools that do not exist. `more`: tools of extensions. Raises UsageError if the caller is strict.

    MCP servers may offer theirs later, so their names are never refused.
    """
    valid = [*TOOLS, *more]
    problems = [
        f'Unknown tool "{name}". Valid tools: {", ".join(valid)}'
        for name in options.tools or settings.default_tools or ()
        if isinstance(name, str) and name not in valid and not name.startswith("mcp__")
    ]
    if problems and options.strict and options.tools:
        raise UsageError("\n".join(problems))
    return problems


def _output_schema(path: str | None, cwd: str) -> OutputSchema | None:
    if path is None:
        return None
    from tau.core.agent.structured_output import BadSchema, parse_output_schema

    try:
        return parse_output_schema(parse(absolute(cwd, path).read_bytes()))
    except OSError as error:
        raise UsageError(f"--output-schema {path}: {error.strerror}") from None
    except (BadRecord, BadSchema) as error:
        raise UsageError(f"--output-schema {path}: {error}") from None


def _permissions(given: str | Mapping[str, Any] | None, cwd: str) -> PermissionRules | None:
    if given is None:
        return None
    from tau.runtime.runs.permission_rules import read_permissions

    return read_permissions(given, cwd)


def _script(models: ModelSelection, path: str | bytes | None) -> bytes:
    scripted = models.current is not None and models.current.api == "scripted"
    if path is None:
        if scripted:
            raise UsageError("--model scripted needs --script FILE")
        return b""
    try:
        script = path if isinstance(path, bytes) else Path(path).read_bytes()
        if scripted:
            from tau.llm.scripted import read_script

            read_script(script)
    except OSError as error:
        raise UsageError(f"--script {path!s}: {error.strerror}") from None
    except ModelError as error:
        raise UsageError(f"--script {path}: {error}" if isinstance(path, str) else str(error)) from None
    return script
