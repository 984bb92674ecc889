"""tau.open: create an agent from the caller's options."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, Field, dataclass, field, fields
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from tau.core.agent.budgets import NO_BUDGET
from tau.core.checks.dialog_handlers import DialogHandler, Method
from tau.errors import UsageError
from tau.functions.function_tools import check_tool, function_tool
from tau.functions.threads import Threads
from tau.library.agent import Agent
from tau.library.arguments import check_names, check_open
from tau.library.hooks import Hook, Permission, ProgramHooks, Setup
from tau.library.subscriptions import EventHandler, EventHub
from tau.library.wording import in_python, python_errors
from tau.records.base import encode
from tau.records.budgets import Budget
from tau.records.models import ThinkingLevel
from tau.records.settings import SandboxLevel
from tau.runtime.app.factory import load
from tau.runtime.app.options import SessionOptions, SessionTarget
from tau.store import paths
from tau.store.resource_query import RequestedResources
from tau.tools import Tool
from tau.tools.registry import TOOLS

logger = logging.getLogger(__name__)
logging.getLogger("tau").addHandler(logging.NullHandler())  # without a handler, Python prints warnings to stderr
IS_ASYNC = (
    "tau.open is async: `async with tau.open(...) as agent`. Without an event loop: `with tau.sync.open(...) as agent`."
)
StrPath = str | os.PathLike[str]
ToolLike = str | Tool | Callable[..., Any]
Script = Mapping[str, Any] | Sequence[Any] | bytes | StrPath


@dataclass(frozen=True, eq=False, repr=False)
class Opening(Awaitable[Agent]):
    """The options of an agent: use it with `async with`, or `await` it and close the agent yourself.

    Raises UsageError for invalid options, CommandError for a session that is in use by another process, and
    ExtensionFailure if an extension that was named cannot be loaded.
    """

    cwd: StrPath | None = None
    """working directory; default: that of the session that is opened, else that of the process"""
    _: KW_ONLY
    model: str | None = None
    """an id, "provider/id" or part of a name; ":high" sets the thinking level"""
    provider: str | None = None
    """provider of the model, if several offer a model of that name"""
    scoped_models: Sequence[str] = ()
    """patterns of the models that `cycle_model` cycles through"""
    thinking: ThinkingLevel | None = None
    """initial thinking level"""
    tools: Sequence[ToolLike] | None = None
    """all tools of the model: names of built-in tools, functions, `tau.Tool`s; default: `tau.DEFAULT_TOOLS`"""
    api_key: str | None = field(default=None, repr=False)
    """API key for the provider of `model`"""
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    """API keys by provider"""
    session: bool | StrPath = True
    """True: a new session in a file; False: in memory; a path or the beginning of an id: that session"""
    resume: bool = False
    """open the newest session of this folder"""
    session_id: str | None = None
    """open the session with exactly this id, or create it"""
    fork_of: StrPath | None = None
    """open a copy of a session: a path or the beginning of an id"""
    session_dir: StrPath | None = None
    """folder of the session files"""
    name: str | None = None
    """name of the session"""
    system_prompt: str | None = None
    """text, or a file with it, that replaces the built-in system prompt"""
    append_system_prompt: str | Sequence[str] = ()
    """text appended to the system prompt"""
    context_files: bool = True
    """read AGENTS.md and similar files"""
    skills: bool | Sequence[StrPath] = True
    """False: none; paths: additional skills besides those that are found"""
    templates: bool | Sequence[StrPath] = True
    """the same for prompt templates"""
    extensions: Sequence[StrPath | Setup] = ()
    """files, which run in their own processes, and functions `setup(pi)`, which run in this process"""
    find_extensions: bool = True
    """also load the extensions of the user, and those of the project if it is trusted"""
    hooks: Mapping[str, Hook | Sequence[Hook]] = field(default_factory=dict)
    """hook functions by hook name, as `agent.on`"""
    permission: Permission | None = None
    """called before every tool call with its name and input; returns True, False or the reason for a denial"""
    permissions: str | os.PathLike[str] | Mapping[str, Any] | None = None
    """permission rules: "ask", a rules file or its contents; `dialogs` answers the questions"""
    dialogs: DialogHandler | Mapping[Method, DialogHandler] | None = None
    """handlers of dialogs, as `agent.on_dialog`"""
    on_event: EventHandler | None = None
    """called with every event, as `agent.subscribe`"""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """settings that override those of all files, with the same names: `{"retry": {"enabled": False}}`"""
    trust: bool | None = None
    """whether the project's settings, extensions and system prompt take effect; None: as the user decided"""
    budget: Budget = NO_BUDGET
    """limits for each prompt"""
    record: StrPath | None = None
    """folder to which model requests and responses are recorded"""
    replay: StrPath | None = None
    """folder of recorded responses that are replayed instead of calling models"""
    sandbox: SandboxLevel | None = None
    """sandbox level, "workspace" or "strict"; None: as in the settings"""
    telemetry: Any = None
    """OpenTelemetry: True, a tracer provider, or False; None: as the environment and the user's settings say"""
    mcp_servers: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """MCP servers by name, as in `mcp.json`; they win over servers of files with the same name"""
    agent_dir: StrPath | None = None
    """folder of the user's files; default: ~/.pi/agent"""
    env: Mapping[str, str] | None = field(default=None, repr=False)
    """replaces the process's environment, for API keys, proxies and commands"""
    script: Script | None = None
    """answers of the scripted model, or a file with them; "scripted" is then the default `model`"""
    _agent: list[Agent] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        check_open(self)

    def __repr__(self) -> str:
        given = {one.name: getattr(self, one.name) for one in fields(self) if one.repr}
        shown = [f"{one.name}={_short(given[one.name])}" for one in fields(self) if one.repr and self._is_given(one)]
        return f"tau.open({', '.join(shown)})"

    def _is_given(self, option: Field[Any]) -> bool:
        default = option.default if option.default_factory is MISSING else option.default_factory()
        value = getattr(self, option.name)
        return value is not default and value != default

    def __await__(self) -> Generator[Any, None, Agent]:
        return self._open_agent().__await__()

    async def __aenter__(self) -> Agent:
        self._agent.append(await self)
        return self._agent[-1]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._agent.pop().close()

    if not TYPE_CHECKING:  # type checkers know that an Opening has none of these

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("_") and hasattr(Agent, name):
                raise AttributeError(f"{name} is a member of the agent. {IS_ASYNC}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

        def __enter__(self) -> NoReturn:
            raise TypeError(IS_ASYNC)

        def __exit__(self, *raised: object) -> None:
            """Python looks for it before it calls `__enter__`."""

    async def _open_agent(self) -> Agent:
        with python_errors():
            try:
                return await self._create_agent()
            except UsageError as error:
                error.args = (self._with_parameter(str(error)),)
                raise

    def _with_parameter(self, problem: str) -> str:
        """Begin a message about a model or a session with the name of the parameter that selects it."""
        session = "session" if self.fork_of is None else "fork_of"
        about = {'Model "': "model", 'Unknown provider "': "provider", "No session": session, "Cannot fork": session}
        parameter = next((name for start, name in about.items() if problem.startswith(start)), None)
        return problem if parameter is None else f"{parameter}: {problem}"

    async def _create_agent(self) -> Agent:
        threads, environment = Threads(), os.environ if self.env is None else self.env
        agent_folder = _absolute(self.agent_dir) if self.agent_dir is not None else paths.agent_dir(environment)
        cwd = None if self.cwd is None else _folder(self.cwd)
        options = self._options(threads, environment)
        factory = await asyncio.to_thread(lambda: load(agent_folder, options, environment, cwd).with_sandbox())
        warnings = [in_python(warning) for warning in factory.warnings]
        for warning in warnings:
            logger.warning("%s", warning)
        hub = EventHub()
        handle = factory.open(hub.publish, "library", saves=False, shared=True)
        program_hooks = ProgramHooks(handle, threads)
        hub.add_listener(program_hooks.on_event)
        agent = Agent(handle, hub, threads, program_hooks, warnings)
        try:
            await self._attach(agent, program_hooks)
            await handle.start()
        except BaseException:
            await agent.close()
            raise
        return agent

    async def _attach(self, agent: Agent, program_hooks: ProgramHooks) -> None:
        if self.permission is not None:
            program_hooks.ask_before_tools(self.permission)
        if isinstance(self.dialogs, Mapping):
            for method, handler in self.dialogs.items():
                program_hooks.answer_dialogs(handler, (method,))
        elif self.dialogs is not None:
            program_hooks.answer_dialogs(self.dialogs)
        if self.on_event is not None:
            agent.subscribe(self.on_event)
        await program_hooks.load([extension for extension in self.extensions if callable(extension)], self.hooks)

    def _options(self, threads: Threads, environment: Mapping[str, str]) -> SessionOptions:
        scripted = self.script is not None and self.model is None and self.provider is None
        return SessionOptions(
            model="scripted" if scripted else self.model,
            provider=self.provider,
            models=self.scoped_models,
            thinking=self.thinking,
            key=self.api_key,
            tools=None if self.tools is None else [_tool(item, threads) for item in self.tools],
            script=None if self.script is None else _script(self.script),
            session=self._target(environment),
            approve=self.trust,
            extensions=[os.fspath(item) for item in self.extensions if not callable(item)],
            only_these_extensions=not self.find_extensions,
            resources=self._resource_query(),
            keys=self.keys,
            settings=self.settings,
            budget=self.budget,
            record=_path(self.record),
            replay=_path(self.replay),
            permissions=_permissions(self.permissions),
            sandbox=self.sandbox,
            telemetry=self.telemetry,
            mcp_servers=self.mcp_servers,
        )

    def _target(self, environment: Mapping[str, str]) -> SessionTarget:
        return SessionTarget(
            kept=self.session is not False,
            folder=_path(self.session_dir) or environment.get("PI_CODING_AGENT_SESSION_DIR"),
            last=self.resume,
            named=None if isinstance(self.session, bool) else _path(self.session),
            id=self.session_id,
            copy_of=_path(self.fork_of),
            name=self.name,
        )

    def _resource_query(self) -> RequestedResources:
        added = self.append_system_prompt
        return RequestedResources(
            system=self.system_prompt,
            appended=[added] if isinstance(added, str) else added,
            skills=() if isinstance(self.skills, bool) else [os.fspath(path) for path in self.skills],
            templates=() if isinstance(self.templates, bool) else [os.fspath(path) for path in self.templates],
            no_skills=self.skills is False,
            no_templates=self.templates is False,
            no_context=not self.context_files,
        )


def _checked_init(init: Callable[..., None]) -> Callable[..., None]:
    """Report unknown and positional arguments in the words of the library."""
    parameters = [option.name for option in fields(Opening) if option.init]

    @wraps(init)
    def checked(self: Opening, *args: Any, **named: Any) -> None:
        check_names(named, parameters)
        if len(args) > 1:
            raise UsageError("tau.open takes one positional argument, cwd. Pass the others by name.")
        init(self, *args, **named)

    return checked


Opening.__init__ = _checked_init(Opening.__init__)  # type: ignore[method-assign]
open = Opening


def _short(value: Any) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:39] + "…")
    return repr(value) if isinstance(value, bool | os.PathLike) else f"<{type(value).__name__}>"


def _absolute(path: StrPath) -> Path:
    return Path(path).expanduser().absolute()


def _folder(cwd: StrPath) -> str:
    folder = str(_absolute(cwd))
    if not os.path.isdir(folder):
        hint = ". It is the working folder; a prompt is for `agent.prompt`." if " " in os.path.basename(folder) else ""
        raise UsageError(f"cwd: there is no folder {folder}{hint}")
    return folder


def _permissions(rules: StrPath | Mapping[str, Any] | None) -> str | Mapping[str, Any] | None:
    return rules if rules is None or rules == "ask" or isinstance(rules, Mapping) else f"rules {os.fspath(rules)}"


def _tool(tool: ToolLike, threads: Threads) -> str | Tool:
    if isinstance(tool, Tool):
        check_tool(tool.name, tool.parameters)
        return tool
    if callable(tool):
        return function_tool(tool, threads)
    if tool not in TOOLS:
        raise UsageError(f'tools: there is no tool "{tool}". Available: {", ".join(TOOLS)}, and your own functions')
    return tool


def _script(script: Script) -> str | bytes:
    match script:
        case bytes():
            return script
        case str() | os.PathLike():
            return os.fspath(script)
        case Mapping():
            return encode(dict(script))
    return encode({"answers": list(script)})


def _path(path: StrPath | None) -> str | None:
    return None if path is None else os.fspath(path)
