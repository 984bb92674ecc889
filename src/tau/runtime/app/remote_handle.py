"""RemoteHandle: a session at a host, for front ends that know a SessionHandle.

Operations are commands to the host. What a front end reads (entries, totals, the model) comes from a copy of the
session that is kept up to date (remote_mirror.py). What a host does not offer is refused with one sentence, and so is
every member of SessionHandle that is not defined here, unless INHERITED names it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from tau.client.catch_up import Heard
from tau.client.client import RpcClient, line_of, send_line
from tau.client.connection import noted_ids
from tau.client.errors import AgentGone
from tau.client.events import read_event
from tau.client.remote import RemoteLine
from tau.client.replies import read
from tau.core.agent.draft import Update
from tau.core.agent.queues import QueueName
from tau.core.agent.structured_output import OutputSchema
from tau.errors import CommandError, TauError
from tau.records import commands as c
from tau.records import replies as r
from tau.records.base import UNSET, encode, replace, wire_json
from tau.records.dialogs import Confirm, Editor, Input, Select, UiRequest
from tau.records.entries import CommandKey
from tau.records.events import (
    AgentSettled,
    AgentStart,
    AutoRetryEnd,
    AutoRetryStart,
    BashUpdate,
    CompactionEnd,
    CompactionResult,
    CompactionStart,
    EntryAppended,
    Event,
    MessageEnd,
    MessageStart,
    QueueUpdate,
    SessionInfoChanged,
    ThinkingLevelChanged,
)
from tau.records.host_events import DialogResolved, SessionChanged, Snapshot
from tau.records.messages import Attachment, Image
from tau.records.models import Model, ThinkingLevel
from tau.records.settings import TERMINAL_SETTINGS
from tau.runtime.app.handle import SessionHandle
from tau.runtime.app.remote_dialogs import RemoteDialogs
from tau.runtime.app.remote_mirror import RemoteModels, SessionMirror
from tau.runtime.extensions.dialogs import Dialogs
from tau.runtime.extensions.hooks import Destination
from tau.runtime.session.operations import Blocks
from tau.runtime.session.refusals import refuses_others

if TYPE_CHECKING:
    from tau.client.events import RpcEvent
    from tau.runtime.app.model_lists import ModelLists
    from tau.runtime.app.settings_control import SettingsControl

T = TypeVar("T")
Show = Callable[[Event | Update | UiRequest], Any]
BEHAVIORS: dict[QueueName, Any] = {"steer": "steer", "follow_up": "followUp"}
# Events after which the session has new entries.
ADDING_EVENTS = (MessageEnd, AgentSettled, CompactionEnd, SessionInfoChanged, ThinkingLevelChanged, EntryAppended)
NOT_AT_A_HOST = "{name}: not for a session of a host. Use it where the host runs."
# Members that read the copy of the session, or what belongs to this terminal: its folder, its settings, its processes.
READ_FROM_THE_COPY = frozenset(
    "context_usage entries_after index_entries last_assistant_text log models stats tree".split()
)
OF_THE_TERMINAL = frozenset("cwd extensions kill on_exit_request release settings start_folder".split())


@refuses_others(NOT_AT_A_HOST, READ_FROM_THE_COPY | OF_THE_TERMINAL)
class RemoteHandle(SessionHandle):
    """`local` is a session of this process without extensions that runs nothing: it holds the copy.

    `show` gets events for the front end, `moved` is called when the session went to another one, and `synced` when the
    copy was updated; `connection_changed` when the connection was lost or made again, `ended` with the reason if it is
    lost for good.
    """

    def __init__(self, local: SessionHandle, client: RpcClient, show: Show) -> None:
        self.__dict__.update(local.__dict__)
        self._client = client
        self._show = show
        self._mirror = SessionMirror(self._session, client)
        self.state = self._mirror.state
        self._heard = Heard(snapshots=False)
        self._remote_dialogs = RemoteDialogs(show, self._session.extensions, self._answer)
        self._bash_ids: dict[str, Any] = {}  # our ids of shell commands, by those of their commands
        self._tasks: set[asyncio.Task[None]] = set()
        self._first = True
        self._own_moves = 0  # commands of this client that move the session
        self._queues = r.Queues([], [])
        self._retry_attempt = 0
        self._folder = self.cwd
        self.moved: Callable[[], None] = lambda: None
        self.synced: Callable[[], None] = lambda: None
        self.connection_changed: Callable[[bool], None] = lambda connected: None
        self.ended: Callable[[str], None] = lambda why: None
        client.on_event(self._receive)

    # Life cycle.

    async def connect(self) -> None:
        """Connect and read the session. Raises AgentGone."""
        await self._client.start()
        line = line_of(self._client)
        if isinstance(line, RemoteLine):
            line.on_change = lambda connected: self.connection_changed(connected)
        await self._mirror.load()
        self._start(self._watch_end())

    async def _watch_end(self) -> None:
        """Wait for the end of the client, which is not expected before `close`."""
        try:
            async for _ in self._client.events(None):
                pass
        except AgentGone as gone:
            self.ended(str(gone))

    async def start(self) -> None:
        return

    @property
    def has_extensions(self) -> bool:
        return False

    async def settled(self, command_timeout_s: float | None = None) -> None:
        await self._client.wait_for_idle(None)
        await self._mirror.update()

    async def wait_idle(self) -> None:
        await self._client.wait_for_idle(None)

    async def close(self, timeout_s: float | None = None) -> bool:
        """Detach. What runs goes on."""
        await self._client.stop()
        return await super().close(timeout_s)

    @property
    def resume_command(self) -> str | None:
        return f"tau attach {self.log.id}"

    def preload(self) -> None:
        return

    def close_dialogs(self) -> None:
        return

    @property
    def session_folder(self) -> str:
        return self._folder

    # Events.

    def _receive(self, event: RpcEvent) -> None:
        if isinstance(event, Snapshot | SessionChanged):
            self._folder = event.cwd or self.cwd
        if isinstance(event, Snapshot):
            self._on_snapshot(event)
            return
        if isinstance(event, UiRequest):
            self._on_request(event)
        elif isinstance(event, DialogResolved):
            self._remote_dialogs.ended(event.id)
        elif isinstance(event, SessionChanged):
            if not self._own_moves:
                self._start(self._follow())
        elif isinstance(event, Event):
            line = wire_json(event)
            repairs = self._heard.repairs(line)
            if repairs is not None:
                for missing in repairs:
                    self._on_event(missing)
                self._heard.on_line(line)
                self._on_event(event)

    def _on_snapshot(self, snapshot: Snapshot) -> None:
        """The first one: show what is in progress. A later one: show what was missed, and read the session again."""
        if self._first:
            self._first = False
            self._heard.know(snapshot)
        else:
            self._start(self._reload())
        for event in self._heard.missed(snapshot):
            self._on_event(event)
        for line in self._heard.new_dialogs(snapshot):
            request = read_event("extension_ui_request", line)
            if isinstance(request, UiRequest):
                self._on_request(request)

    def _on_request(self, request: UiRequest) -> None:
        if not isinstance(request, Select | Confirm | Input | Editor) or self._remote_dialogs.opened(request):
            self._show(request)

    def _on_event(self, event: Event) -> None:
        state = self._mirror.state
        match event:
            case AgentStart():
                state.streaming = True
                self._retry_attempt = 0
            case AgentSettled():
                state.streaming = False
                self._retry_attempt = 0
            case AutoRetryStart():
                self._retry_attempt = event.attempt
            case AutoRetryEnd() | MessageStart():
                self._retry_attempt = 0
            case CompactionStart() | CompactionEnd():
                state.compacting = isinstance(event, CompactionStart)
            case QueueUpdate():
                self._queues = r.Queues(event.steering, event.follow_up)
                state.queued = len(event.steering) + len(event.follow_up)
            case ThinkingLevelChanged():
                self._mirror.models.level = event.level
            case BashUpdate() if event.id in self._bash_ids:
                event = replace(event, id=self._bash_ids[event.id])
        self._show(event)
        if isinstance(event, ADDING_EVENTS):
            self._start(self._update(facts=isinstance(event, AgentSettled)))

    async def _update(self, *, facts: bool) -> None:
        if facts:
            await self._mirror.read_facts()
        await self._mirror.update()
        self.synced()

    async def _reload(self) -> None:
        await self._mirror.load()
        self.synced()

    async def _follow(self) -> None:
        await self._mirror.load()
        self.moved()

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(self._carry_out(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, work: Any) -> None:
        try:
            await work
        except TauError:
            return  # the connection was lost for good, and the front end is told by the end of the client

    def _answer(self, response: Mapping[str, Any]) -> None:
        self._start(send_line(self._client, encode(response)))

    @property
    def dialogs(self) -> Dialogs:
        return self._remote_dialogs

    # Prompts and runs.

    async def submit(
        self,
        text: str,
        blocks: Blocks,
        behavior: QueueName | None,
        *,
        queue_only: bool = False,
        attachments: Sequence[Attachment] = (),
        output_schema: OutputSchema | None = None,
        trace_parent: str | None = None,
        key: CommandKey | None = None,
    ) -> r.Disposition:
        """`blocks` begins with one for each attachment, which the host makes again."""
        own = blocks[len(attachments) :]
        images = [c.ImageGiven("image", block.data, block.mime_type) for block in own if isinstance(block, Image)]
        if len(images) < len(own):
            _refuse("Text beside the prompt")
        if key is not None or (queue_only and (attachments or output_schema is not None or trace_parent is not None)):
            _refuse("A key, or attachments, an output schema or a trace with a queued message")
        command: c.Command
        if queue_only:
            command = (c.FollowUp if behavior == "follow_up" else c.Steer)(text, images or None)
        else:
            command = c.Prompt(
                text,
                images or None,
                BEHAVIORS[behavior] if behavior else None,
                list(attachments) or None,
                output_schema.schema if output_schema is not None else None,
                trace_parent,
            )
        return read(r.Accepted, await self._client.call(command), "prompt").disposition

    @property
    def queues(self) -> r.Queues:
        return self._queues

    @property
    def retry_attempt(self) -> int:
        return self._retry_attempt

    async def clear_queues(self) -> r.Queues:
        return await self._client.clear_queue()

    async def abort(self) -> None:
        await self._client.abort()

    async def abort_retry(self) -> None:
        await self._client.abort_retry()

    async def abort_compaction(self) -> None:
        """Aborts a run, too: the protocol has no command for the compaction alone."""
        await self._client.abort()

    async def compact(self, instructions: str | None) -> CompactionResult:
        result = await self._client.compact(instructions)
        await self._mirror.update()
        return result

    async def bash(self, command: str, *, exclude: bool = False, id: Any = UNSET) -> r.BashResult:
        with noted_ids(lambda wire_id: self._bash_ids.update({wire_id: id})):
            return await self._client.bash(command, exclude_from_context=exclude or None)

    def abort_bash(self) -> None:
        self._start(self._client.abort_bash())

    def answer_dialog(self, answer: Any) -> None:
        self._remote_dialogs.answer(answer)

    # Model and thinking level. A host saves no choice of a client, whatever `save` says.

    async def set_model(self, provider: str, id: str, *, save: bool = True) -> Model:
        return self._use_model(await self._client.set_model(provider, id))

    async def choose_model(self, name: str, *, save: bool = True) -> Model:
        models = self._mirror.models.offered
        fits = [model for model in models if name in (model.id, f"{model.provider}/{model.id}")]
        if not fits:
            raise CommandError(f"The host has no model {name!r}. /model lists those that it has.")
        return await self.set_model(fits[0].provider, fits[0].id)

    async def cycle_model(
        self, *, backward: bool = False, save: bool = True
    ) -> tuple[Model, ThinkingLevel, bool] | None:
        if backward:
            _refuse("Cycling backward through the models")
        cycled = await self._client.cycle_model()
        if cycled is None:
            return None
        self._mirror.models.level = cycled.thinking_level
        return self._use_model(cycled.model), cycled.thinking_level, cycled.is_scoped

    async def set_thinking_level(self, level: ThinkingLevel, *, save: bool = True) -> ThinkingLevel:
        await self._client.set_thinking_level(level)
        return await self._read_level()

    async def cycle_thinking_level(self, *, save: bool = True) -> ThinkingLevel | None:
        level = await self._client.cycle_thinking_level()
        await self._read_level()
        return level

    def _use_model(self, model: Model) -> Model:
        self._mirror.models.current = model
        return model

    async def _read_level(self) -> ThinkingLevel:
        await self._mirror.read_state()
        return self._mirror.models.level

    @property
    def model_lists(self) -> ModelLists:
        return RemoteModelLists(self._mirror.models, self._client)  # type: ignore[return-value]

    # Settings and tools.

    async def set_queue_mode(self, queue: QueueName, mode: c.QueueMode) -> None:
        await (self._client.set_steering_mode if queue == "steer" else self._client.set_follow_up_mode)(mode)
        await self._mirror.read_state()

    async def set_auto_compaction(self, enabled: bool) -> None:
        await self._client.set_auto_compaction(enabled)
        await self._mirror.read_state()

    async def set_auto_retry(self, enabled: bool) -> None:
        await self._client.set_auto_retry(enabled)

    @property
    def settings_control(self) -> SettingsControl:
        """The settings of this terminal that concern the terminal."""
        control = self._make_settings_control()
        control.only = TERMINAL_SETTINGS
        return control

    def active_tools(self) -> list[str]:
        return list(self._mirror.active_tools)

    async def listed_tools(self) -> list[r.ListedTool]:
        return await self._client.get_tools()

    async def mcp_servers(self) -> r.McpServers:
        return await self._client.get_mcp_servers()

    async def restart_mcp_server(self, name: str) -> r.McpServerRow:
        return await self._client.restart_mcp_server(name)

    # Sessions.

    async def new_session(self, parent: str | None = None) -> bool:
        return not (await self._move(self._client.new_session(parent))).cancelled

    async def switch_session(self, path: str) -> bool:
        return not (await self._move(self._client.switch_session(path))).cancelled

    async def fork(self, entry_id: str) -> tuple[str, bool]:
        forked = await self._move(self._client.fork(entry_id))
        return forked.text, not forked.cancelled

    async def clone(self) -> bool:
        return not (await self._move(self._client.clone())).cancelled

    async def navigate(self, destination: Destination) -> r.Navigated:
        return await self._move(
            self._client.navigate(
                destination.entry_id,
                summarize=destination.summarize or None,
                custom_instructions=destination.instructions,
                label=destination.label,
            )
        )

    async def _move(self, command: Coroutine[Any, Any, T]) -> T:
        """Send a command that moves the session, and read it again. The front end that asked shows it itself."""
        self._own_moves += 1
        try:
            result = await command
        finally:
            self._own_moves -= 1
        await self._mirror.load()
        return result

    async def set_session_name(self, name: str) -> None:
        await self._client.set_session_name(name)
        await self._mirror.update()

    async def sessions(self, *, everywhere: bool) -> list[r.SessionRow]:
        return await self._client.list_sessions(all=everywhere or None)

    async def commands(self) -> list[r.SlashCommand]:
        return await self._client.get_commands()

    async def export_html(self, path: str | None) -> str:
        return await self._client.export_html(path)


def _refuse(what: str) -> NoReturn:
    raise CommandError(NOT_AT_A_HOST.format(name=what))


class RemoteModelLists:
    """The models of the host, to choose from. Defaults are those of the host's user."""

    def __init__(self, models: RemoteModels, client: RpcClient) -> None:
        self._models, self._client = models, client

    async def reload(self) -> list[str]:
        self._models.offered = await self._client.get_available_models()
        return []

    def is_name(self, text: str) -> bool:
        return any(text in (model.id, f"{model.provider}/{model.id}") for model in self._models.offered)

    async def save_default_model(self, model: Model) -> None:
        _refuse("Default model")

    async def save_default_level(self, level: ThinkingLevel) -> None:
        _refuse("Default thinking level")

    def set_scope(self, models: object) -> None:
        _refuse("The scope of models")

    async def save_scope(self) -> None:
        _refuse("The scope of models")
