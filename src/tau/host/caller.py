"""Ask models: for the next answer of the conversation, and for summaries beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from tau import llm
from tau.core.convert import for_model
from tau.core.draft import Draft
from tau.core.images import blocked
from tau.core.prompt import system_prompt
from tau.core.summaries import SummaryRequest
from tau.errors import ModelError
from tau.host.around import Surroundings
from tau.host.log import Log, now, session_id
from tau.host.models import Models
from tau.llm.calls import Context, Options, World
from tau.records.messages import Stored, Text, User
from tau.records.settings import Settings
from tau.wire.unfinished import Unfinished


class Owner(Protocol):
    """What a call needs of its session."""

    around: Surroundings
    settings: Settings
    models: Models
    log: Log


class Caller:
    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._calls = 0

    def draft(self) -> Draft:
        """A blank answer of the current model. It may be changed while the answer streams: this one keeps its own."""
        model = self._owner.models.current
        if model is None:
            raise ModelError("No model selected.")
        return Draft(model, now(), Unfinished)

    async def answer(self, messages: Sequence[Stored], draft: Draft) -> AsyncIterator[Sequence[Any]]:
        owner = self._owner
        tools = list(owner.around.tools.values())
        if owner.settings.images.block_images:
            messages = blocked(messages)
        context = Context(system_prompt(tools, owner.around.cwd), for_model(messages, draft.model), tools)
        options = Options(
            await self._key(draft.model.provider), owner.models.level, owner.settings.thinking_budgets, owner.log.id
        )
        async for facts in self._stream(context, options, draft):
            yield facts

    async def summary(self, request: SummaryRequest, draft: Draft) -> AsyncIterator[Sequence[Any]]:
        """A call outside the conversation: no tools, and no part in its cache."""
        context = Context(request.system, [User([Text(request.prompt)], now())], ())
        key = await self._key(draft.model.provider)
        budgets = self._owner.settings.thinking_budgets
        options = Options(key, request.thinking, budgets, session_id(), request.max_tokens)
        async for facts in self._stream(context, options, draft):
            yield facts

    async def _stream(self, context: Context, options: Options, draft: Draft) -> AsyncIterator[Sequence[Any]]:
        around = self._owner.around
        world = World(around.transport, asyncio.sleep, self._calls, around.script)
        self._calls += 1
        async for facts in llm.stream(draft.model, context, options, draft, world):
            yield facts

    async def _key(self, provider: str) -> str | None:
        keys = self._owner.models.keys
        if keys.takes_time(provider):
            return await self._owner.around.machine.in_thread(lambda: keys.get(provider))
        return keys.get(provider)
