"""A running session moves to the folder of the session that it opens: settings, trust, extensions and servers."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tau.errors import CommandError, UsageError
from tau.records.base import Value
from tau.records.entries import Header
from tau.runtime.app.config import ProjectConfig
from tau.runtime.app.extension_plan import Equipment, apply_settings
from tau.runtime.app.options import SessionOptions
from tau.runtime.history.session_log import SessionLog
from tau.runtime.session.session import Session
from tau.store.session_folder import Boundary, session_folder

if TYPE_CHECKING:
    from tau.runtime.app.factory import SessionFactory
    from tau.runtime.session.mcp_access import McpAccess

MakeMcp = Callable[["Session"], "McpAccess"]
logger = logging.getLogger(__name__)


def own_folder(config: ProjectConfig, options: SessionOptions, header: Header, path: Path, *, limited: bool) -> str:
    """The folder in which a session that is opened runs. `limited`: there are permission rules.

    Raises SessionFolderRefused or SessionFolderGone.
    """
    start, sandbox = str(config.start), config.settings.sandbox
    if config.settings.compat.session_folder == "start":
        return start
    level = sandbox.level if options.sandbox is None else options.sandbox
    granted = [] if level is None else [os.path.expanduser(path) for path in (*sandbox.readable, *sandbox.writable)]
    boundaries = [Boundary(options.roots)] if options.roots else []
    if level is not None:
        boundaries.append(Boundary([start, *granted], "a sandbox"))
    if limited:
        boundaries.append(Boundary([start, *granted], "permission rules"))
    return session_folder(header.cwd, path, start, boundaries)


def prepare_move(
    opening: SessionFactory, session: Session, log: SessionLog, folder: str | None, equipment: Equipment, mcp: MakeMcp
) -> Move | None:
    """Read the configuration of the folder for a session that is about to be opened; None if it is the present one.

    `folder` is what the caller has chosen instead of that of the session. Blocks. Raises CommandError.
    """
    assert log.path is not None
    if folder is None:
        limited = session.tool_runner.permission_gate is not None
        folder = own_folder(opening.config, opening.options, log.header, log.path, limited=limited)
    if folder == opening.cwd:
        return None
    config = opening.config.at(folder)
    if config.unknown_limits:
        raise CommandError(config.unknown_limits[0])
    return Move(opening, session, config, equipment, mcp)


class Move(Value):
    """Implements Move of runtime/session/session.py."""

    opening: SessionFactory
    session: Session
    config: ProjectConfig
    equipment: Equipment
    make_mcp: MakeMcp

    def apply(self) -> None:
        opening, session = self.opening, self.session
        opening.config.become(self.config)
        session.use_folder(opening.cwd, opening.folder)
        apply_settings(opening, session, self.equipment)
        session.resources.leave(opening.resource_query())
        inherited = session.settings.child_environment
        if inherited.filter_secrets or inherited.no_new_privileges:
            from tau.runtime.machine.hardening import harden  # which is slow to load

            harden(inherited)
        warnings = list(opening.config.warnings)
        try:
            warnings += opening.choose_model(session.models)
        except UsageError as error:
            warnings.append(str(error))
        for warning in warnings:
            logger.warning("%s", warning)

    async def finish(self) -> None:
        session = self.session
        if session.mcp is not None:
            await session.mcp.reload()
        elif self.opening.uses_mcp():
            session.use_mcp(self.make_mcp(session))
