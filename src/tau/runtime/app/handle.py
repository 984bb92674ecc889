"""SessionHandle: all that a front end knows of a session: its operations, its dialogs and its life cycle.

Events reach the front end through the callback that it gave to the factory. The callback may return an awaitable:
the session then waits for it before it sends more (backpressure).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tau.core.models.pricing import OFFLINE_APIS
from tau.llm.http import Http
from tau.records.base import Value
from tau.runtime.extensions.dialogs import Dialogs
from tau.runtime.extensions.registry import ExtensionRegistry, PausableTimeout
from tau.runtime.machine.local import LocalMachine
from tau.runtime.runs.queue import RunQueue
from tau.runtime.session.operations import Operations
from tau.runtime.session.session import Session

if TYPE_CHECKING:
    from tau.runtime.app.login_control import LoginControl
    from tau.runtime.app.model_lists import ModelLists
    from tau.runtime.app.permission_control import PermissionControl
    from tau.runtime.app.session_files import SessionFiles
    from tau.runtime.app.settings_control import SettingsControl
    from tau.runtime.app.trust_control import TrustControl
    from tau.runtime.runs.permission_rules import LoadedRules
    from tau.runtime.runs.permissions import Permits
    from tau.tools.preview import FileChange

logger = logging.getLogger(__name__)
RELEASE_TIMEOUT_S = 1.0  # for connections to close


class ExtensionActions(Value):
    """What an extension in this process can do with its session, and what it knows of it."""

    act: Callable[[str, str, dict[str, Any], PausableTimeout | None], Awaitable[Any]]
    facts: Callable[[], dict[str, Any]]


class SessionHandle(Operations):
    def __init__(
        self,
        session: Session,
        machine: LocalMachine,
        http: Http,
        make_gate: Callable[[LoadedRules], Permits],
        make_settings_control: Callable[[], SettingsControl],
        make_login_control: Callable[[], LoginControl],
        make_trust_control: Callable[[], TrustControl],
    ) -> None:
        super().__init__(session)
        self._machine = machine
        self._http = http
        self._make_gate = make_gate
        self._permissions: PermissionControl | None = None
        self._make_settings_control = make_settings_control
        self._make_login_control = make_login_control
        self._make_trust_control = make_trust_control

    # Life cycle.

    async def start(self) -> None:
        """Start the extensions. Prompts are accepted afterwards."""
        if self.has_extensions:
            await self._session.extension_lifecycle.start()

    @property
    def has_extensions(self) -> bool:
        return self._session.extension_lifecycle.has_extensions

    async def settled(self, command_timeout_s: float | None = None) -> None:
        """Wait until nothing is left to do: runs, and commands of extensions with the runs that they start.

        With a timeout, a command that outlives it while no run is active is not waited for.
        """
        session = self._session
        while True:
            await session.runs.idle()
            ended = await session.running_commands.wait(command_timeout_s)
            if not session.runs.busy and (ended or command_timeout_s is not None):
                return

    async def close(self, timeout_s: float | None = None) -> bool:
        """End everything and write what is left. Whatever has not ended within the time is killed.

        Returns False if the time was not enough. No process that a tool or an extension started is left.
        """
        in_time = True
        try:
            async with asyncio.timeout(timeout_s):
                await self._session.close()
        except TimeoutError:
            logger.warning("the session did not end within %g s; giving up on it", timeout_s)
            in_time = False
        finally:
            self.kill()
        return in_time

    def kill(self) -> None:
        """Kill all processes at once."""
        self._machine.kill_all()
        self._session.extension_lifecycle.kill()
        if self._session.mcp is not None:
            self._session.mcp.kill()

    async def release(self) -> None:
        """After `close`, in a process that goes on: give back threads, connections and descriptors.

        That includes what a session that did not close in time still holds.
        """
        self._session.runs.cancel()
        await self._session.extension_lifecycle.stop()
        self._session.log.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(RELEASE_TIMEOUT_S):
                await self._http.close()
        await self._machine.release()

    def on_exit_request(self, callback: Callable[[], None]) -> None:
        """Call `callback` when an extension asks to exit the program."""
        self._session.request_exit = callback

    def on_move(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with a reason when another session, or another place in it, has become current."""
        self._session.navigator.moved = callback

    def preload(self) -> None:
        """Load what a prompt needs, in a thread, so that the first need not wait: modules, tools, the HTTP client."""
        from tau.runtime.runs import model_client, prompt_run  # noqa: F401

        list(self._session.services.tools.values())
        model = self._session.models.current
        if model is not None and model.api not in OFFLINE_APIS:
            self._http.preload(model.base_url)

    @property
    def resume_command(self) -> str | None:
        """The command that opens this session again; None if it is only in memory."""
        return None if self.log.path is None else f"tau --session {self.log.id}"

    # For a front end in this process that takes part in runs itself: hooks, dialogs, progress.

    @property
    def runs(self) -> RunQueue:
        return self._session.runs

    @property
    def extensions(self) -> ExtensionRegistry:
        return self._session.extensions

    @property
    def dialogs(self) -> Dialogs:
        return self._session.dialogs

    def actions(self) -> ExtensionActions:
        """The actions and facts that an extension in this process gets."""
        from tau.runtime.session.extension_actions import actions_for, session_facts

        return ExtensionActions(actions_for(self._session), lambda: session_facts(self._session))

    @property
    def permissions(self) -> PermissionControl:
        """The permissions of this session, to read, and to make them stricter."""
        from tau.runtime.app.permission_control import PermissionControl

        if self._permissions is None:
            self._permissions = PermissionControl(self._session.tool_runner, self._make_gate)
        return self._permissions

    @property
    def session_files(self) -> SessionFiles:
        """The files of other sessions: to list, search, rename, delete and import."""
        from tau.runtime.app.session_files import SessionFiles

        return SessionFiles(self._session)

    @property
    def model_lists(self) -> ModelLists:
        """The models to choose from and to cycle through, to reload and to save."""
        from tau.runtime.app.model_lists import ModelLists

        return ModelLists(self._session)

    @property
    def settings_control(self) -> SettingsControl:
        """Every setting, its value and where it comes from; to read and to change."""
        return self._make_settings_control()

    @property
    def login_control(self) -> LoginControl:
        """Keys and logins: which there are, to store one and to remove one."""
        return self._make_login_control()

    @property
    def trust_control(self) -> TrustControl:
        """Trust in the project: what it covers, and the user's decision."""
        return self._make_trust_control()

    async def wait_for_commands(self) -> None:
        """Wait until no slash command of an extension is running."""
        await self._session.running_commands.wait(None)

    # Changes of files, for a front end that shows them.

    def on_file_change(self, callback: Callable[[str, str, bytes | None, bytes], None]) -> None:
        """Call `callback` in a thread when a tool has changed a file: call id, path, contents before and after."""
        self._session.tool_runner.file_changed = callback

    def on_tool_defect(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with a sentence when a built-in tool breaks off with an error of tau itself."""
        self._session.tool_runner.broke_off = callback

    async def preview_change(self, tool: str, arguments: Mapping[str, Any]) -> FileChange | None:
        """What a call of edit or write would change; None for other calls, and for those that would fail."""
        from tau.tools.preview import file_change

        files, cwd = self._machine.files, self.cwd
        return await self._machine.in_thread(lambda: file_change(tool, arguments, cwd, files))

    # Dialogs.

    def close_dialogs(self) -> None:
        """There is no more input: cancel the open dialogs, and every later one at once."""
        self._session.dialogs.close()

    def abort_start(self) -> None:
        """Abort what extensions wait for while they start."""
        self._session.hooks.abort()
        self._session.dialogs.cancel()

    @property
    def denials(self) -> Sequence[str]:
        """Why tool calls were denied so far; the list grows."""
        gate = self._session.tool_runner.permission_gate
        return () if gate is None else gate.denials
