"""Which Node process runs which TypeScript extension.

All of them share one process, so that they can exchange functions and objects. After its second unexpected end within
ten minutes, each package has a process of its own: the next end shows which one it is, and the others stay up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping

from tau.errors import ExtensionFailure
from tau.records.settings import ExtensionSettings
from tau.runtime.extensions.node_process import NodeLine, NodeProcess
from tau.store.node_program import NodeMissing, find_node

MAX_SHARED_ENDS = 2
SPLIT_WINDOW_S = 600.0
SHARED = ""


class NodeHosts:
    """The Node processes of a session."""

    def __init__(
        self, settings: Callable[[], ExtensionSettings], cwd: str, environment: Mapping[str, str] | None = None
    ) -> None:
        """`environment`: None means that of tau."""
        self._settings = settings
        self._cwd = cwd
        self._environment = environment
        self._processes: dict[str, NodeProcess] = {}
        self._ends: deque[float] = deque(maxlen=MAX_SHARED_ENDS)

    def line(self, path: str, package: str) -> NodeLine:
        """Return the transport for an extension. `package` is its folder, or its file if it has none of its own.

        Raises ExtensionFailure if there is no Node.
        """
        settings = self._settings()
        key = package if settings.node_processes == "package" or self._is_split() else SHARED
        process = self._processes.get(key)
        if process is None or not process.usable:
            try:
                node = find_node(settings.node)
            except NodeMissing as missing:
                raise ExtensionFailure(str(missing)) from None
            limit = settings.memory_limit_mb
            process = NodeProcess(node, self._cwd, limit, self._environment, self._process_ended)
            self._processes[key] = process
        return process.line(path)

    def _is_split(self) -> bool:
        now = asyncio.get_running_loop().time()
        return len(self._ends) == MAX_SHARED_ENDS and now - self._ends[0] < SPLIT_WINDOW_S

    def _process_ended(self, process: NodeProcess, unexpected: bool) -> None:
        for key, known in list(self._processes.items()):
            if known is process:
                del self._processes[key]
                if unexpected and not self._is_split():
                    self._ends.append(asyncio.get_running_loop().time())
