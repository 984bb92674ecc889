"""Trust in the project of a running session: what it covers, and the user's decision."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from tau.errors import CommandError
from tau.records.base import BadRecord
from tau.runtime.app.config import ProjectConfig
from tau.runtime.mcp.project_listing import describe_servers
from tau.store.trust import Fingerprint, Untrustable, fingerprint, save_decision


class TrustState(NamedTuple):
    trusted: bool
    files: Sequence[str]  # that need trust, relative to the project
    fixed_for_run: bool  # the command line has decided
    content: Fingerprint  # what a yes is about
    servers: Sequence[str]  # lines about the MCP servers of the project


class TrustControl:
    """Blocks. Raises CommandError."""

    def __init__(self, config: ProjectConfig) -> None:
        self._config = config

    def state(self) -> TrustState:
        try:
            found = fingerprint(self._config.cwd)
        except (Untrustable, OSError) as error:
            raise CommandError(f"This project cannot be trusted: {error}") from None
        servers = describe_servers(self._config.cwd, found.content, os.environ)
        return TrustState(self._config.trust.trusted, found.files, self._config.approve is not None, found, servers)

    def decide(self, *, trusted: bool, asked_about: TrustState) -> None:
        """Save a decision: a yes is for the content that was shown."""
        try:
            save_decision(self._config.cwd, self._config.agent_dir, trusted=trusted, asked_about=asked_about.content)
        except (ValueError, OSError, BadRecord) as error:
            raise CommandError(f"The decision could not be saved: {error}") from None
