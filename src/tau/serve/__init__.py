"""Host of many sessions (`tau serve`): sessions that outlive their clients, and any number of clients for each.

    connection ── Transport ── Channel ── Attachment ── LiveSession ── session
                  one per connection      one per client and session

Commands: a front end (unix_socket.py, web/websocket.py) passes a Transport to `Host.serve`. The Channel (channel.py)
finds the Attachment of a line; its Dispatcher runs the same handlers as RPC mode (rpc/commands.py).

Events: LiveSession opens the session with `EventStream.publish` as its client. The stream keeps events in one ring;
each Attachment has a cursor (StreamReader), and Outgoing (outgoing.py) reads from there when its transport can write.

A new transport implements runtime/protocol/transport.py and calls `Host.serve`.
"""

from __future__ import annotations

from tau.core.text.install_hints import install_hint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tau.serve.access import Access as Access
    from tau.serve.host import Host as Host
    from tau.serve.opening import HostConfig as HostConfig
    from tau.serve.web.mounting import app as app

# Public names and where they are loaded from on first use.
NAMES = {
    "Access": "tau.serve.access:Access",
    "Host": "tau.serve.host:Host",
    "HostConfig": "tau.serve.opening:HostConfig",
    "app": "tau.serve.web.mounting:app",
}
LIBRARIES = ("starlette", "uvicorn", "websockets", "anyio")


def __getattr__(name: str) -> object:
    if name not in NAMES:
        raise AttributeError(f"module 'tau.serve' has no attribute {name!r}")
    from importlib import import_module

    module, _, attribute = NAMES[name].partition(":")
    try:
        value: object = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in LIBRARIES:
            raise
        raise ImportError(f"tau.serve.{name} needs an extra: {install_hint('serve')}") from error
    globals()[name] = value
    return value
