"""Loading plan for the extensions of one session: when they are loaded, and how they change the session."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tau.llm.http import Http
from tau.runtime.machine.local import LocalMachine
from tau.runtime.session.session import Session
from tau.store.extension_files import FoundExtension
from tau.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from tau.runtime.app.factory import SessionFactory
    from tau.runtime.extensions.lifecycle import LoadedExtensions

logger = logging.getLogger(__name__)
Equipment = tuple[LocalMachine, Http, ToolRegistry]


class ExtensionPlan:
    """Implements lifecycle.LoadPlan."""

    def __init__(
        self, opening: SessionFactory, session: Session, machine: LocalMachine, http: Http, tools: ToolRegistry
    ) -> None:
        self.flags = opening.options.flags
        self.following = opening.options.following
        self._opening = opening
        self._basis = opening.config
        self._session = session
        self._equipment = machine, http, tools
        self._chooses = opening.model_error is not None

    @property
    def found(self) -> Sequence[FoundExtension]:
        return self._basis.extensions

    async def load(self) -> LoadedExtensions:
        """Load the extensions. Imports the extension runtime lazily."""
        from tau.runtime.extensions.file_loader import load_extensions
        from tau.runtime.session.extension_actions import actions_for, session_facts

        session = self._session
        return await load_extensions(
            session.extensions,
            self.found,
            actions_for(session),
            lambda: {**session_facts(session), "projectTrusted": self._basis.trust.trusted},
            lambda: session.services.cwd,
            str(self._basis.agent_dir),
            session.services.mode,
            session.dialogs.has_ui,
            self.flags,
            self.following,
            self._opening.environment,
        )

    @property
    def undecided(self) -> bool:
        return self._basis.trust.undecided

    async def ask(self) -> None:
        await self._session.services.machine.in_thread(self._basis.ask)

    async def decided(self, trusted: bool | None, *, remember: bool) -> Sequence[FoundExtension]:
        basis, session = self._basis, self._session
        if remember and trusted is not None:
            try:
                await session.services.machine.in_thread(lambda: basis.remember(trusted=trusted))
            except (ValueError, OSError) as error:
                logger.warning("what was decided about this project is not remembered: %s", error)
        if not trusted:
            if basis.untrusted:
                logger.warning("%s", basis.untrusted)
            return []
        before = {os.path.realpath(one.path) for one in self.found}
        await session.services.machine.in_thread(lambda: basis.read(trusted=True))
        await self._renew()
        session.tool_runner.reset()
        self._chooses = True
        return [one for one in self.found if os.path.realpath(one.path) not in before]

    def settle(self) -> None:
        opening, models, said = self._opening, self._session.models, self._session.log
        untold = opening.model_warnings
        if self._chooses or self._session.extensions.providers:
            untold = opening.choose_model(models)
            if opening.resumed is not None:
                self._session.navigator.restore(starting=True)
            elif models.current is not None:
                if said.last_model() != (models.current.provider, models.current.id):
                    said.set_model(models.current)
                if said.last_level() != models.level:
                    said.set_level(models.level)
        unknown = opening.unknown_tools(self._session.extensions.tools) if self.found else []
        for warning in [*untold, *unknown]:
            logger.warning("%s", warning)

    async def again(self) -> Sequence[FoundExtension]:
        await self._session.services.machine.in_thread(self._basis.read)
        self._session.resources.withdraw()
        await self._renew()
        return self.found

    async def _renew(self) -> None:
        apply_settings(self._opening, self._session, self._equipment)
        for warning in self._basis.warnings:
            logger.warning("%s", warning)
        await self._session.resources.reload(self._opening.resource_query())


def apply_settings(opening: SessionFactory, session: Session, equipment: Equipment) -> None:
    """Let a running session use the settings that were read last."""
    settings = opening.settings
    session.settings = settings
    session.queues.modes = {"steer": settings.steering_mode, "follow_up": settings.follow_up_mode}
    opening.equip(*equipment)
