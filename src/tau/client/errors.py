"""The error of a client whose agent cannot be reached."""

from __future__ import annotations

from tau.errors import TauError


class AgentGone(TauError, ConnectionError):
    """The agent's process has ended, or was never started. `exit_code` is a negative signal number if a signal killed
    it. For an agent at a host: the connection was lost, or refused.
    """

    def __init__(self, message: str, exit_code: int | None = None, stderr: str = "") -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.stderr = stderr
