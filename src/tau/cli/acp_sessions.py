"""Configuration of the sessions of `tau acp`: the flags of the command line, resolved in the folder of each session."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tau.cli.flags import ParsedArguments
from tau.cli.session_options import harden_host, hide_filtered, session_options
from tau.cli.suggestions import unknown_flags_error
from tau.errors import UsageError
from tau.records.base import replace
from tau.runtime.app.config import ProjectConfig
from tau.runtime.app.factory import SessionFactory, load
from tau.runtime.app.model_choice import known_models
from tau.runtime.app.options import SessionTarget
from tau.runtime.app.session_choice import absolute
from tau.runtime.app.stored_sessions import StoredSessions
from tau.runtime.terminal import hide_in_log, log_to_stderr
from tau.store.empty_sessions import EmptySessions
from tau.store.keys import Keys
from tau.store.paths import agent_dir
from tau.store.sessions import folder_for


class FlagLoader:
    """The Loader of acp/sessions.py."""

    def __init__(self, arguments: ParsedArguments) -> None:
        log_to_stderr(logging.INFO if "verbose" in arguments.flags else logging.WARNING)
        harden_host(arguments)
        self._key = arguments.flags.get("api-key", "")
        options = session_options(arguments)
        self.asks = options.permissions == "ask"
        # "ask" is a mode that the user of the client can change; rules are fixed.
        self._options = replace(options, permissions=None) if self.asks else options
        self._unknown = arguments.unknown

    def load(self, cwd: str, target: SessionTarget, mcp_servers: Mapping[str, Any]) -> SessionFactory:
        given = self._options.session
        target = replace(target, kept=given.kept, folder=given.folder)
        factory = load(agent_dir(), replace(self._options, session=target, mcp_servers=mcp_servers), os.environ, cwd)
        if self._unknown and not factory.extensions:  # else an extension may define it
            raise UsageError(unknown_flags_error(self._unknown))
        hide_in_log(factory.models.keys.known_secrets)
        hide_filtered(factory.settings.child_environment)
        return factory.with_sandbox()

    def stored_sessions(self, cwd: str) -> StoredSessions:
        given = self._options.session
        if not given.kept:
            return StoredSessions(None, cwd, per_project=False)
        config = ProjectConfig(agent_dir(), Path(cwd), self._options.approve, only_given=True)
        chosen = given.folder or config.settings.session_dir
        folder = absolute(cwd, chosen) if chosen else folder_for(cwd, agent_dir())
        return StoredSessions(folder, cwd, per_project=not chosen)

    @property
    def empty_sessions(self) -> EmptySessions:
        return EmptySessions(agent_dir())

    def has_key(self) -> bool:
        keys = Keys(agent_dir() / "auth.json", os.environ)
        for provider, key in self._options.keys.items():
            keys.set_key(provider, key)
        models, _ = known_models(agent_dir(), keys)
        return bool(self._key) or any(keys.has(provider) for provider in models.catalog.providers)
