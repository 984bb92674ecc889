"""Handlers of the commands of the host: `handler(host, channel, command)` returns the data of the response."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tau.errors import CommandError
from tau.records import host_commands as h
from tau.records import host_events as e
from tau.records.base import UNSET, UnsetType
from tau.records.events import event_json

if TYPE_CHECKING:
    from tau.serve.channel import Channel
    from tau.serve.host import Host
    from tau.serve.live_session import LiveSession

Handler = TypeVar("Handler", bound=Callable[..., Any])


class HostHandlers:
    def __init__(self) -> None:
        self._handlers: dict[type[h.HostCommand], Callable[..., Any]] = {}

    def handles(self, kind: type[h.HostCommand]) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            self._handlers[kind] = handler
            return handler

        return register

    def call(self, host: Host, channel: Channel, command: h.HostCommand) -> Any:
        """The data of the response, or a coroutine that returns it. Raises CommandError."""
        return self._handlers[type(command)](host, channel, command)


HOST_HANDLERS = HostHandlers()
handles = HOST_HANDLERS.handles


@handles(h.Hello)
def hello(host: Host, channel: Channel, command: h.Hello) -> None:
    raise CommandError("hello: it was said already")


@handles(h.OpenSession)
async def open_session(host: Host, channel: Channel, command: h.OpenSession) -> e.Opened:
    live, created = await host.open(command)
    if command.attach is not False and not channel.bound:
        channel.attach(live)
    path = live.handle.log.path
    return e.Opened(live.id, live.stream.id, live.stream.last, UNSET if path is None else str(path), created)


@handles(h.Attach)
async def attach(host: Host, channel: Channel, command: h.Attach) -> e.Attached:
    if channel.bound:
        raise CommandError("attach: this channel is bound to a session")
    return channel.attach(await host.find(command.session, channel.access), command.after, command.entry)


@handles(h.Detach)
def detach(host: Host, channel: Channel, command: h.Detach) -> UnsetType:
    if channel.bound:  # its commands would still go there, to a session that may be released
        raise CommandError("detach: this channel is bound to a session")
    attachment = channel.attachment(_live(host, command.session))
    if attachment is not None:
        channel.detach(attachment)
    return UNSET


@handles(h.CloseSession)
async def close_session(host: Host, channel: Channel, command: h.CloseSession) -> UnsetType:
    live = _live(host, command.session)
    await host.close_session(live, abort=command.abort is True, client=channel.client)
    return UNSET


@handles(h.ListHostSessions)
async def list_sessions(host: Host, channel: Channel, command: h.ListHostSessions) -> e.HostSessions:
    return await host.list_sessions(command)


@handles(h.WatchSessions)
def watch_sessions(host: Host, channel: Channel, command: h.WatchSessions) -> UnsetType:
    channel.watches = command.enabled
    host.watch.enabled = any(other.watches for other in host.channels)
    return UNSET


@handles(h.Who)
def who(host: Host, channel: Channel, command: h.Who) -> e.Clients:
    live = _live(host, command.session)
    rows = [e.ClientRow(one.client, one.access.name, one.access.scope, one.since) for one in live.attachments]
    return e.Clients(sorted(rows, key=lambda row: row.since))


@handles(h.Ping)
def ping(host: Host, channel: Channel, command: h.Ping) -> UnsetType:
    channel.outgoing.send_first(event_json(e.Pong(UNSET if command.data is None else command.data)))
    return UNSET


def _live(host: Host, id: str) -> LiveSession:
    live = host.live(id)
    if live is None:
        raise CommandError(f"session: {id} is not live")
    return live
