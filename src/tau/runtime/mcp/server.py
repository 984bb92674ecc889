"""One configured server of a session: started when it is needed, started again after a crash, stopped when idle.

    cached ──► starting ──► ready ──► stopped (idle, or crashed) ──► starting …
                       └──► failed, needs_login

A start is shared by all callers that wait for it. A crash fails the requests in progress; the next request starts the
server again, at most MAX_CRASHES times within CRASH_WINDOW_S.

After an abort or a timeout of a call, a process that answers no ping within PING_TIMEOUT_S, or lets the next call
time out too, is ended, unless another call keeps it busy. The next request starts it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from tau.mcp.config import ServerConfig
from tau.mcp.definitions import Listing, changed_names, changed_tools
from tau.mcp.messages import McpError, NoAnswer
from tau.runtime.mcp.backoff import Backoff
from tau.runtime.mcp.connection import Connection, RequestOptions
from tau.runtime.mcp.handshake import Connected, MakeConnection, connect, fetch_listing, stderr_of
from tau.runtime.mcp.server_environment import Environment
from tau.runtime.mcp.stdio import StdioTransport
from tau.wire.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND

logger = logging.getLogger(__name__)
State = Literal["cached", "starting", "ready", "needs_login", "failed", "stopped", "disabled"]

MAX_CRASHES = 3
CRASH_WINDOW_S = 600.0
STOP_GRACE_S = 2.0
PING_TIMEOUT_S = 5.0
HUNG = "It did not answer any more after a call was given up, and was ended."
REFRESH_INTERVAL_S = 0.5  # between two fetches of a list that the server says has changed
READ_RETRY_DELAYS_S = (0.2, 1.0)  # of lists and reads; a call is never repeated
RETRIED_STATUS = (408, 429, 500, 502, 503, 504)
SUBSCRIPTION_S = 365 * 86_400.0
NO_SUBSCRIPTIONS = (INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS)


class McpServer:
    """Implements Events for its connection."""

    def __init__(self, config: ServerConfig, environment: Environment, listing: Listing | None) -> None:
        self.config = config
        self.listing = listing
        self.state: State = "disabled" if not config.enabled else "cached" if listing is not None else "stopped"
        self.error = ""
        self.restarts = 0
        self.was_ended = False  # because it hung; until the next call is told
        self.stderr = ""  # of the last process
        self._environment = environment
        self._connected: Connected | None = None
        self._starting: asyncio.Future[Connected] | None = None
        self._closing: Connection | None = None  # the last connection that tau closed
        self._ending: asyncio.Future[None] | None = None  # its end
        self._crashes: deque[float] = deque()
        self._restarting = False  # who waits for a start that is cancelled now waits for the next one
        self._checking: asyncio.Future[None] | None = None  # whether the server still answers
        self._unanswered = False  # since a call was given up, no other was answered
        self._users = 0
        self._idle: asyncio.TimerHandle | None = None
        self._idle_since = 0.0
        self._refreshing: asyncio.Task[None] | None = None
        self._stale = False  # the server has announced a change of its lists
        self._subscription = Backoff()  # of the connection to a modern server
        self._tasks: set[asyncio.Future[Any]] = set()
        self._closed = False
        self._reported: set[str] = set()  # errors that were logged: each is logged once

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def can_start(self) -> bool:
        """True if it does not run, and an attempt to start it is allowed."""
        return self.state not in ("disabled", "starting", "ready") and not self._closed and not self._gave_up

    @property
    def is_closed(self) -> bool:
        """True if it can no longer be started."""
        return self._closed

    # Requests.

    async def call(self, method: str, params: Mapping[str, Any], options: RequestOptions) -> Any:
        """Send a request that may change something: once. Raises McpError."""
        if self._checking is not None:
            await asyncio.wait([self._checking])
        with self._in_use():
            connected = await self._connection()
            try:
                return await self._send(connected, method, params, options)
            except McpError as error:
                if not await self._is_refused(connected, error):
                    raise
            return await self._send(await self._connection(), method, params, options)

    async def read(self, method: str, params: Mapping[str, Any], timeout_s: float) -> Any:
        """Send a request that only reads: again if the connection broke or the server is busy. Raises McpError."""
        delays = iter(READ_RETRY_DELAYS_S)
        while True:
            try:
                return await self.call(method, params, RequestOptions(timeout_s))
            except McpError as error:
                broken = error.code is None and not error.login and (not error.status or error.status in RETRIED_STATUS)
                delay = next(delays, None) if broken and not self._gave_up else None
                if delay is None:
                    raise
                await asyncio.sleep(delay)

    async def _send(self, connected: Connected, method: str, params: Mapping[str, Any], options: RequestOptions) -> Any:
        unanswered = self._unanswered
        try:
            result = await connected.connection.request(method, params, options)
        except asyncio.CancelledError:
            self._give_up(connected)
            raise
        except McpError as error:
            if isinstance(error, NoAnswer):
                self._give_up(connected, hangs=unanswered and self._unanswered)
            else:
                self._unanswered = False
            error.args = (self._environment.hide(self.config, str(error)),)
            if error.login:
                self._set("needs_login", str(error))
            raise
        self._unanswered = False
        return result

    def _give_up(self, connected: Connected, *, hangs: bool = False) -> None:
        """A call was given up. Its process is watched also if nobody calls again: it may keep a core busy.

        `hangs`: the call before was given up as well, so that it does not matter whether the process answers a ping.
        """
        self._unanswered = True
        watched = self.config.transport == "stdio" and self._connected is connected
        if watched and not self._closed and (self._checking is None or self._checking.done()):
            self._checking = asyncio.ensure_future(self._end_if_hung(connected, hangs))
            self._keep(self._checking)

    async def _end_if_hung(self, connected: Connected, hangs: bool) -> None:
        while self._connected is connected and (hangs or not await _answers(connected.connection)):
            if self._connected is connected and not self._users:
                self.restarts += 1
                self.was_ended = True
                self._unanswered = False
                self.report(HUNG)
                await self._disconnect(0)
                self._set("stopped", HUNG)
            hangs = False

    async def _is_refused(self, connected: Connected, error: McpError) -> bool:
        """True if the server has certainly not carried a request out, and another attempt may succeed."""
        if error.login:
            if not await self._environment.new_token(self.config):
                return False
            self._set("ready", "")
            return True
        if error.status == 404 and not error.sent:  # its session has ended
            if self._connected is connected:
                self._connected = None
                self._spawn(connected.connection.close(0))
            return True
        return False

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._start_idle_timer()

    # Life cycle.

    async def start(self) -> None:
        """Start the server if it does not run. Raises McpError."""
        await self._connection()

    async def _connection(self) -> Connected:
        while self._connected is None or self._connected.connection.error is not None:
            if self._starting is None:
                self._check_startable()
                self._starting = asyncio.ensure_future(self._start())
                self._starting.add_done_callback(self._start_ended)
            starting = self._starting
            await asyncio.wait({starting})  # unlike a shield, this does not pass on that the start was cancelled
            if not starting.cancelled():
                return starting.result()
            if not self._restarting:
                raise McpError(f"The MCP server {self.name} was stopped.", sent=False)
        return self._connected

    def _check_startable(self) -> None:
        if self._closed:
            raise McpError(f"The MCP server {self.name} was stopped.", sent=False)
        if self.state == "disabled":
            raise McpError(f"The MCP server {self.name} is disabled.", sent=False)
        if self._gave_up:
            raise McpError(f"The MCP server {self.name} failed too often and is not started again: {self.error}")

    @property
    def _gave_up(self) -> bool:
        now = self._environment.now()
        while self._crashes and now - self._crashes[0] > CRASH_WINDOW_S:
            self._crashes.popleft()
        return len(self._crashes) > MAX_CRASHES

    async def _start(self) -> Connected:
        config, environment = self.config, self._environment
        self.restarts += bool(self._crashes)
        self._set("starting", "")
        if self._ending is not None:  # there is never more than one process
            await asyncio.wait([self._ending])
        made: list[Connection] = []

        def make(old: bool) -> Connection:
            made.append(environment.connection(self, old=old))
            return made[-1]

        try:
            async with asyncio.timeout(config.startup_timeout):
                await environment.prepare(config)
                connected = await self._connect(make)
                made = [connected.connection]
                listing = await fetch_listing(connected, config.startup_timeout, environment.now())
        except TimeoutError:
            raise self._failed_start(made, McpError(f"It was not ready after {config.startup_timeout:g} s.")) from None
        except McpError as error:
            raise self._failed_start(made, error) from None
        except Exception as error:  # a fault of tau that a server has found must not leave it starting for ever
            logger.exception("MCP server %s could not be started", self.name)
            raise self._failed_start(made, McpError(f"Unforeseen: {type(error).__name__}")) from None
        except BaseException:
            for connection in made:
                connection.kill()
            raise
        self._connected = connected
        self._use_listing(listing)
        self._set("ready", "")
        self._subscribe(connected)
        self._start_idle_timer()
        await environment.save(config, listing)
        return connected

    async def _connect(self, make: MakeConnection) -> Connected:
        client, known = self._environment.client, None if self.listing is None else self.listing.era
        try:
            return await connect(make, client, known, self.config.startup_timeout)
        except McpError as error:
            if not error.login or not await self._environment.new_token(self.config):
                raise
        return await connect(make, client, known, self.config.startup_timeout)

    def _failed_start(self, made: list[Connection], error: McpError) -> McpError:
        for connection in made:
            self._keep_stderr(connection)
            words = connection.transport.last_words if isinstance(connection.transport, StdioTransport) else ""
            if words and words not in str(error):
                error = McpError(f"{error} Its last words: {words}", code=error.code, login=error.login)
            connection.kill()
        error = McpError(self._environment.hide(self.config, str(error)), code=error.code, login=error.login)
        if error.login:
            self._set("needs_login", str(error))
            return McpError(f"The MCP server {self.name} needs a login: run `tau mcp login {self.name}`.", login=True)
        self._crashes.append(self._environment.now())
        self._set("failed", str(error))
        return McpError(f"The MCP server {self.name} could not be started: {error}", sent=False)

    def _keep_stderr(self, connection: Connection) -> None:
        self.stderr = self._environment.hide(self.config, stderr_of(connection)) or self.stderr

    def _start_ended(self, started: asyncio.Future[Connected]) -> None:
        self._starting = None
        if not started.cancelled():
            started.exception()  # marks it as retrieved: the callers may have been cancelled

    async def restart(self) -> None:
        """Stop the server, forget its crashes and start it again. Raises McpError."""
        self._crashes.clear()
        self._restarting = True
        try:
            await self._disconnect(STOP_GRACE_S)
        finally:
            self._restarting = False
        await self._connection()

    async def stop(self) -> None:
        """Stop the server; the next request starts it again."""
        await self._disconnect(STOP_GRACE_S)
        if self.state in ("ready", "starting"):
            self._set("stopped", "")

    async def _disconnect(self, grace_s: float) -> None:
        self._stop_idle_timer()
        if (starting := self._starting) is not None:
            starting.cancel()
            await asyncio.wait([starting])
        connected, self._connected = self._connected, None
        if connected is not None:
            self._keep_stderr(connected.connection)
            self._closing = connected.connection
            self._ending = asyncio.ensure_future(self._closing.close(grace_s))
        if self._ending is not None:
            try:
                await asyncio.wait([self._ending])
            except asyncio.CancelledError:
                self._ending.cancel()
                raise

    def terminate(self) -> None:
        """The program ends: ask the process to end too. Does not wait."""
        self._closed = True
        self._stop_idle_timer()
        if self._starting is not None:
            self._starting.cancel()
        for task in self._tasks:
            task.cancel()
        if self._connected is not None and isinstance(self._connected.connection.transport, StdioTransport):
            self._connected.connection.transport.terminate()

    async def close(self, grace_s: float) -> None:
        """The program ends, or the session. The server is not started again."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await self._disconnect(grace_s)

    def kill(self) -> None:
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
        if self._closing is not None:
            self._closing.kill()
        if self._connected is not None:
            self._connected.connection.kill()

    def _start_idle_timer(self) -> None:
        """Let the time run in which the server is not used. The timer itself is not restarted for every call."""
        loop = asyncio.get_running_loop()
        self._idle_since = loop.time()
        if self._idle is None and self._connected is not None and not self._closed:
            self._idle = loop.call_later(self.config.idle_timeout, self._idle_timer_ran)

    def _idle_timer_ran(self) -> None:
        self._idle = None
        loop = asyncio.get_running_loop()
        until = self._idle_since + self.config.idle_timeout
        if self._users == 0 and loop.time() >= until:
            self._spawn(self._stop_if_idle())
        elif self._users == 0:
            self._idle = loop.call_at(until, self._idle_timer_ran)

    def _stop_idle_timer(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    async def _stop_if_idle(self) -> None:
        if self._users == 0:
            await self.stop()

    # Events of the connection.

    def notified(self, method: str, params: Mapping[str, Any]) -> None:
        if method in ("notifications/tools/list_changed", "notifications/prompts/list_changed"):
            self._stale = True
            if self._connected is not None and (self._refreshing is None or self._refreshing.done()):
                self._refreshing = asyncio.create_task(self._refresh())
                self._keep(self._refreshing)
        elif method == "notifications/subscriptions/acknowledged":
            if self._subscription.opened():
                self.notified("notifications/tools/list_changed", {})
        elif method == "notifications/message":
            self._environment.log_message(self.config, params)

    def noted(self, text: str) -> None:
        self._environment.log(self.name, self._environment.hide(self.config, text))

    def disconnected(self, error: McpError) -> None:
        if self._connected is None:
            return  # while it starts: `_start` handles the error
        self._keep_stderr(self._connected.connection)
        self._connected = None
        self._stop_idle_timer()
        self._crashes.append(self._environment.now())
        self._set("failed" if self._gave_up else "stopped", self._environment.hide(self.config, str(error)))

    async def _refresh(self) -> None:
        """Fetch the lists again, as long as the server says that they have changed; also after a restart of it."""
        while self._stale and (connected := self._connected) is not None:
            self._stale = False
            try:
                listing = await fetch_listing(connected, self.config.startup_timeout, self._environment.now())
            except Exception as error:
                self.noted(f"its lists could not be fetched again: {error}")
            else:
                if self._connected is connected:
                    self._use_listing(listing)
                    self._environment.changed(self)
                    await self._environment.save(self.config, listing)
            await asyncio.sleep(REFRESH_INTERVAL_S)

    def _use_listing(self, listing: Listing) -> None:
        before, self.listing = self.listing, listing
        if before is not None:
            changed, _ = changed_tools(before.tools, listing.tools)
            if changed:
                self.noted(f"the definitions of these tools have changed: {', '.join(changed)}")
            if names := changed_names(self.name, before.tools, listing.tools):
                self._environment.names_changed(self, names)

    def _subscribe(self, connected: Connected) -> None:
        """Ask a modern server to announce changes of its lists. A legacy server does so without being asked.

        A legacy server is asked for its warnings; modern requests say so themselves.
        """
        profile = connected.profile
        if profile.era == "legacy" and profile.has("logging"):
            options = RequestOptions(self.config.timeout)
            self._spawn(_request_quietly(connected.connection, "logging/setLevel", {"level": "warning"}, options))
        wanted = {f"{name}ListChanged": True for name in ("tools", "prompts") if profile.tells_changes(name)}
        if profile.era == "modern" and wanted:
            self._spawn(self._keep_subscribed(connected.connection, {"notifications": wanted}))
        elif self._stale:
            self.notified("notifications/tools/list_changed", {})

    async def _keep_subscribed(self, connection: Connection, params: Mapping[str, Any]) -> None:
        """Subscribe, and again when the subscription has ended: a proxy may cut its stream."""
        self._subscription = backoff = Backoff()
        while connection.error is None:
            try:
                await connection.request("subscriptions/listen", params, RequestOptions(SUBSCRIPTION_S))
            except McpError as error:
                logger.debug("an MCP subscription ended: %s", error)
                if error.code in NO_SUBSCRIPTIONS or error.status in (404, 405) or connection.error is not None:
                    return
            await backoff.wait()

    def _set(self, state: State, error: str) -> None:
        if (state, error) == (self.state, self.error):
            return
        self.state, self.error = state, error
        if state == "failed":
            self.report(error)
        self._environment.changed(self)

    def report(self, problem: str) -> None:
        """Log a problem, once."""
        if problem not in self._reported:
            self._reported.add(problem)
            logger.warning("MCP server %s: %s", self.name, problem)

    def _spawn(self, work: Awaitable[Any]) -> None:
        self._keep(asyncio.ensure_future(work))

    def _keep(self, task: asyncio.Future[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _answers(connection: Connection) -> bool:
    try:
        await connection.request("ping", {}, RequestOptions(PING_TIMEOUT_S, cancellable=False))
    except NoAnswer:
        return False
    except McpError:  # an error is an answer as well, and a connection that has ended is not this one's concern
        return True
    return True


async def _request_quietly(
    connection: Connection, method: str, params: Mapping[str, Any], options: RequestOptions
) -> None:
    try:
        await connection.request(method, params, options)
    except McpError as error:
        logger.debug("an MCP request failed: %s", error)
