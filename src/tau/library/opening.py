"""tau.open: an agent from what its caller wants."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from tau.core.answering import DialogHandler, Method
from tau.core.budgets import NO_BUDGET
from tau.errors import UsageError
from tau.host.opening import Wanted, Wishes, read_up
from tau.library.agent import Agent
from tau.library.functions import as_tool
from tau.library.readers import EventHandler, Hub
from tau.library.taking_part import Hook, Partners, Permission, Setup
from tau.library.threads import Threads
from tau.records.base import encode
from tau.records.budgets import Budget
from tau.records.models import ThinkingLevel
from tau.records.settings import SandboxLevel
from tau.store import places
from tau.store.sought import Requested
from tau.tools import Tool
from tau.tools.table import DEFAULT, TOOLS

log = logging.getLogger(__name__)
DEFAULT_TOOLS: tuple[str, ...] = DEFAULT
Where = str | os.PathLike[str]
ToolGiven = str | Tool | Callable[..., Any]
Script = Mapping[str, Any] | Sequence[Any] | bytes | Where


@dataclass(frozen=True, eq=False)
class Opening(Awaitable[Agent]):
    """An agent to be opened: `async with` it, or `await` it and close the agent yourself.

    Raises UsageError for what cannot be, CommandError for a session that another
    process has, and ExtensionFailure if an extension that was named does not load.
    """

    cwd: Where | None = None
    """the folder it works in; the process's own"""
    _: KW_ONLY
    model: str | None = None
    """an id, "provider/id", a part of a name; ":high" sets thinking"""
    provider: str | None = None
    """of the model, where several have one of that name"""
    scoped_models: Sequence[str] = ()
    """what `cycle_model` goes through, as patterns"""
    thinking: ThinkingLevel | None = None
    """how hard it thinks at first"""
    tools: Sequence[ToolGiven] | None = None
    """all that the model has: names of built-in tools, functions, `tau.Tool`s; by default `tau.DEFAULT_TOOLS`"""
    api_key: str | None = field(default=None, repr=False)
    """for the provider of the model that is named"""
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    """API keys by provider"""
    session: bool | Where = True
    """True: a new one in a file; False: in memory; a path, or the beginning of an id: that one"""
    resume: bool = False
    """go on with the newest session of this folder"""
    session_id: str | None = None
    """go on with the session of exactly this id, or begin one"""
    fork_of: Where | None = None
    """go on in a copy of a session: a path, or the beginning of an id"""
    session_dir: Where | None = None
    """where session files are"""
    name: str | None = None
    """of the session"""
    system_prompt: str | None = None
    """a text, or a file with it, instead of our own words"""
    append_system_prompt: str | Sequence[str] = ()
    """what the model is told after that"""
    context_files: bool = True
    """read AGENTS.md and its relatives"""
    skills: bool | Sequence[Where] = True
    """False: none; paths: those besides the ones that are found"""
    templates: bool | Sequence[Where] = True
    """the same for prompt templates"""
    extensions: Sequence[Where | Setup] = ()
    """files, which run in processes of their own, and functions `setup(pi)`, which run here"""
    find_extensions: bool = True
    """also load those of the user, and of the project if it is trusted"""
    hooks: Mapping[str, Hook | Sequence[Hook]] = field(default_factory=dict)
    """functions for the moments that extensions take part in, as `agent.on`"""
    permission: Permission | None = None
    """asked before every call of a tool, with its name and input: True, False, or why not"""
    permissions: str | os.PathLike[str] | Mapping[str, Any] | None = None
    """rules for tools: "ask", a file of them, or what would be in it; `dialogs` answers what they ask"""
    dialogs: DialogHandler | Mapping[Method, DialogHandler] | None = None
    """who answers questions of extensions, as `agent.on_dialog`"""
    on_event: EventHandler | None = None
    """called with every event, as `agent.subscribe`"""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """over those of all files, in the names that these have: `{"retry": {"enabled": False}}`"""
    trust: bool | None = None
    """whether what the project brings is executed and heeded; None: as the user has decided"""
    budget: Budget = NO_BUDGET
    """limits for each prompt"""
    record: Where | None = None
    """a folder for what is asked of models, and what they answer"""
    replay: Where | None = None
    """such a folder, to answer from it instead of asking"""
    sandbox: SandboxLevel | None = None
    """what commands and file tools are kept to, "workspace" or "strict"; None: as the settings say"""
    agent_dir: Where | None = None
    """the user's files; by default ~/.pi/agent"""
    env: Mapping[str, str] | None = field(default=None, repr=False)
    """instead of the process's environment: where keys are looked for, and what commands inherit"""
    script: Script | None = None
    """what the scripted model says: its answers, or a file; `model` is then "scripted" """
    _agent: list[Agent] = field(default_factory=list, init=False, repr=False)

    def __await__(self) -> Generator[Any, None, Agent]:
        return self._opened().__await__()

    async def __aenter__(self) -> Agent:
        self._agent.append(await self)
        return self._agent[-1]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._agent.pop().close()

    async def _opened(self) -> Agent:
        threads, environment = Threads(), os.environ if self.env is None else self.env
        folder = _absolute(self.agent_dir) if self.agent_dir is not None else places.agent_dir(environment)
        cwd, wishes = _folder(self.cwd), self._wishes(threads, environment)
        read = await asyncio.to_thread(lambda: read_up(folder, wishes, environment, cwd).confined())
        for warning in read.warnings:
            log.warning("%s", warning)
        hub = Hub()
        session, machine, http = read.session(hub.hear, "library", saves=False, shared=True)
        partners = Partners(session, threads)
        hub.listen(partners.hear)
        agent = Agent(session, machine, http, hub, threads, partners, read.warnings)
        try:
            await self._begin(agent, partners)
            await session.guests.begin()
        except BaseException:
            await agent.close()
            raise
        return agent

    async def _begin(self, agent: Agent, partners: Partners) -> None:
        if self.permission is not None:
            partners.ask_before_tools(self.permission)
        if isinstance(self.dialogs, Mapping):
            for method, handler in self.dialogs.items():
                partners.answer_dialogs(handler, (method,))
        elif self.dialogs is not None:
            partners.answer_dialogs(self.dialogs)
        if self.on_event is not None:
            agent.subscribe(self.on_event)
        await partners.begin([one for one in self.extensions if callable(one)], self.hooks)

    def _wishes(self, threads: Threads, environment: Mapping[str, str]) -> Wishes:
        scripted = self.script is not None and self.model is None and self.provider is None
        return Wishes(
            model="scripted" if scripted else self.model,
            provider=self.provider,
            models=self.scoped_models,
            thinking=self.thinking,
            key=self.api_key,
            tools=None if self.tools is None else [_tool(one, threads) for one in self.tools],
            script=None if self.script is None else _script(self.script),
            session=self._wanted(environment),
            approve=self.trust,
            extensions=[os.fspath(one) for one in self.extensions if not callable(one)],
            only_these_extensions=not self.find_extensions,
            resources=self._requested(),
            keys=self.keys,
            settings=self.settings,
            budget=self.budget,
            record=_path(self.record),
            replay=_path(self.replay),
            permissions=_permissions(self.permissions),
            sandbox=self.sandbox,
        )

    def _wanted(self, environment: Mapping[str, str]) -> Wanted:
        return Wanted(
            kept=self.session is not False,
            folder=_path(self.session_dir) or environment.get("PI_CODING_AGENT_SESSION_DIR"),
            last=self.resume,
            named=None if isinstance(self.session, bool) else _path(self.session),
            id=self.session_id,
            copy_of=_path(self.fork_of),
            name=self.name,
        )

    def _requested(self) -> Requested:
        added = self.append_system_prompt
        return Requested(
            system=self.system_prompt,
            appended=[added] if isinstance(added, str) else added,
            skills=() if isinstance(self.skills, bool) else [os.fspath(one) for one in self.skills],
            templates=() if isinstance(self.templates, bool) else [os.fspath(one) for one in self.templates],
            no_skills=self.skills is False,
            no_templates=self.templates is False,
            no_context=not self.context_files,
        )


open = Opening


def _absolute(path: Where) -> Path:
    return Path(path).expanduser().absolute()


def _folder(cwd: Where | None) -> str:
    place = places.working_folder() if cwd is None else str(_absolute(cwd))
    if not os.path.isdir(place):
        raise UsageError(f"cwd: there is no folder {place}")
    return place


def _permissions(given: Where | Mapping[str, Any] | None) -> str | Mapping[str, Any] | None:
    return given if given is None or given == "ask" or isinstance(given, Mapping) else f"rules {os.fspath(given)}"


def _tool(given: ToolGiven, threads: Threads) -> str | Tool:
    if isinstance(given, Tool):
        return given
    if callable(given):
        return as_tool(given, threads)
    if given not in TOOLS:
        raise UsageError(f'tools: there is no "{given}". There are: {", ".join(TOOLS)}, and functions of your own')
    return given


def _script(given: Script) -> str | bytes:
    match given:
        case bytes():
            return given
        case str() | os.PathLike():
            return os.fspath(given)
        case Mapping():
            return encode(dict(given))
    return encode({"answers": list(given)})


def _path(given: Where | None) -> str | None:
    return None if given is None else os.fspath(given)
