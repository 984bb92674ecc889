"""Model calls of a session: the next answer of the conversation, and summaries outside it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tau import llm
from tau.core.agent.draft import Draft, MessageDone, Update
from tau.core.conversation.branches import Branch
from tau.core.conversation.provider_messages import ProviderMessages
from tau.core.conversation.summaries import SummaryRequest
from tau.core.conversation.tokens import CHARS_PER_TOKEN, context_tokens
from tau.core.models.failures import NEWEST_TOO_LARGE, WAIT_TOO_LONG, refused_on_this_machine
from tau.errors import ModelError, error_text
from tau.llm.catalog import LOCAL_MODEL, takes_tools
from tau.llm.types import CallEnvironment, CallOptions, ModelContext, Relay
from tau.records.base import Value, encode, replace
from tau.records.messages import Assistant, Image, StoredMessage, Text, User
from tau.records.models import Model, ThinkingLevel
from tau.records.settings import Settings
from tau.runtime.clock import now
from tau.runtime.extensions.hooks import HookDispatcher
from tau.runtime.extensions.model_streams import ModelStreams
from tau.runtime.history.ids import session_id
from tau.runtime.history.session_log import SessionLog
from tau.runtime.models.bundled import Local
from tau.runtime.models.selection import ModelAccess, ModelSelection
from tau.runtime.resources import Resources
from tau.runtime.runs.budget import BudgetTracker
from tau.runtime.runs.tool_runner import ToolRunner
from tau.runtime.services import Services
from tau.wire.unfinished import PartialJson

if TYPE_CHECKING:
    from tau.runtime.telemetry.observer import SessionObserver

# Name and start command of known servers on this machine.
LOCAL_SERVERS = {
    "ollama": ("Ollama", "ollama serve"),
    "llama.cpp": ("llama-server", "llama-server -m MODEL.gguf"),
    "lmstudio": ("the server of LM Studio", "lms server start"),
    "vllm": ("vLLM", "vllm serve MODEL"),
}
UNKNOWN_MODEL = Model("unknown", "unknown", "unknown", "unknown", "")  # the origin of an answer without a model


class ModelCall(Value):
    """The input and options of a model call. `used` is the length of the conversation, in tokens."""

    context: ModelContext
    level: ThinkingLevel
    session: str
    max_tokens: int | None
    used: int


if TYPE_CHECKING:

    class Owner(Protocol):
        """The session of a model call. Its settings and its log can be replaced."""

        settings: Settings
        log: SessionLog


class ModelClient:
    def __init__(
        self,
        owner: Owner,
        services: Services,
        models: ModelSelection,
        resources: Resources,
        tool_runner: ToolRunner,
        hooks: HookDispatcher,
        budget: BudgetTracker,
        local: Local,
        observer: SessionObserver | None,
    ) -> None:
        self._owner = owner
        self._services = services
        self._models = models
        self._resources = resources
        self._tool_runner = tool_runner
        self._hooks = hooks
        self._budget = budget
        self._local = local
        self._calls = 0
        self._kept: dict[str, Any] = {}  # by the API, between the calls of a run
        self.system_override: str | None = None  # set by an extension, for this run
        self._observer = observer

    def end_run(self) -> None:
        """Free what is kept between the calls of a run."""
        self._kept.clear()

    async def system_prompt(self) -> str:
        return await self._resources.prompt(list(self._tool_runner.tools.values()))

    def new_draft(self) -> Draft:
        """Return an empty draft for the current model; it keeps its model if the session changes to another."""
        model = self._models.current
        if model is None:
            raise ModelError("No model selected.")
        return Draft(model, now(), PartialJson, provider_details=self._owner.settings.compat.provider_details)

    def failed_answer(self, error: str) -> Assistant:
        """Return an answer that reports an error; possible without a model too, so that a run can always end."""
        return Draft(self._models.current or UNKNOWN_MODEL, now(), PartialJson).fail("error", error).message

    def stream_answer(
        self, messages: Iterable[StoredMessage], draft: Draft, relay: Relay
    ) -> AsyncIterator[Sequence[Any]]:
        return self._stream(draft, lambda: self._answer_call(messages, draft), relay=relay)

    async def _answer_call(self, messages: Iterable[StoredMessage], draft: Draft) -> ModelCall:
        if self._tool_runner.mcp is not None:
            await self._tool_runner.mcp.before_model_call()
        level, session = self._models.level, self._owner.log.id
        tools = list(self._tool_runner.tools.values()) if takes_tools(draft.model) else []
        kept: dict[str, Any] | None = self._kept
        if self._hooks.extensions.wants("context"):
            messages, kept = await self._hooks.context([*messages]), None
        block_images = self._owner.settings.images.block_images
        provider_messages = ProviderMessages(messages, draft.model, block_images=block_images)
        system = await self._resources.prompt(tools) if self.system_override is None else self.system_override
        context = ModelContext(system, provider_messages, tools, kept)
        used = context_tokens(Branch(self._owner.log.tree))
        return ModelCall(context, level, session, None, used)

    def stream_summary(self, request: SummaryRequest, draft: Draft) -> AsyncIterator[Sequence[Any]]:
        """Call the model outside the conversation: without tools, and without using its prompt cache."""
        return self._stream(draft, lambda: self._summary_call(request))

    async def _summary_call(self, request: SummaryRequest) -> ModelCall:
        context = ModelContext(request.system, [User([Text(request.prompt)], now())], ())
        used = len(request.prompt) // CHARS_PER_TOKEN
        return ModelCall(context, request.thinking, session_id(), request.max_tokens, used)

    def stream_call(self, draft: Draft, call: ModelCall, key: str | None = None) -> AsyncIterator[Sequence[Any]]:
        """Call a model outside the conversation. `key` is used instead of the one that tau knows."""

        async def prepare() -> ModelCall:
            return call

        return self._stream(draft, prepare, key)

    async def _stream(
        self,
        draft: Draft,
        prepare: Callable[[], Awaitable[ModelCall]],
        own_key: str | None = None,
        relay: Relay | None = None,
    ) -> AsyncIterator[Sequence[Any]]:
        """Stream a model call. `prepare` is awaited first, within the call: a delta must not pass another generator.

        Nor need it pass this one, if `relay` takes it and nothing counts or observes deltas here.
        """
        prepared = await prepare()
        if own_key is None:
            access = await self._with_credentials(draft.model)
        else:
            access = ModelAccess(draft.model, own_key, self._models.keys.environment(draft.model.provider))
        model, context, options = access.model, prepared.context, self._options(access, prepared)
        budget, characters, counted = self._budget, 0, False
        observed = None if self._observer is None else self._observer.model_call(draft)
        call = self._environment(None if observed is not None or budget.limits_tokens else relay)
        if observed is not None and (headers := observed.sent(model, options, context)):
            model = replace(model, headers={**(model.headers or {}), **headers})
        try:
            async for facts in llm.stream(model, context, options, draft, call):
                if observed is not None:
                    observed.received(facts)
                if facts and type(facts[-1]) is MessageDone:
                    # Count the usage before a consumer can act on the answer.
                    budget.add_usage(draft)
                    counted = True
                    self._models.accepted(model)
                    if observed is not None:
                        observed.done(facts[-1].message)
                yield facts
                if not counted and budget.limits_tokens:
                    characters += sum(fact.weight for fact in facts if isinstance(fact, Update))
                    budget.check_streamed(draft, characters)
        except ModelError as error:
            if draft.model != LOCAL_MODEL and refused_on_this_machine(str(error), model.base_url):
                raise ModelError(f"{error}. {server_hint(model)}", transient=False) from None
            if not (is_authentication_failure(error) and self._models.refresh_credentials(model)):
                raise self._explained(error, None if relay is None else context) from None
            raise ModelError(str(error), status=error.status, transient=True) from None
        finally:
            if not counted:
                budget.add_usage(draft)
            if observed is not None:
                observed.ended(sys.exception())

    def _explained(self, error: ModelError, conversation: ModelContext | None) -> ModelError:
        """The error, with what only a session knows: a wait longer than allowed, a message that no compaction helps."""
        max_delay_ms, why = self._owner.settings.retry.max_delay_ms, ""
        if error.status == 413 and conversation is not None:
            why = newest_too_large(conversation)
        elif error.transient and 0 < max_delay_ms < (error.retry_after_ms or 0):
            asked, allowed = (error.retry_after_ms or 0) / 1000, max_delay_ms / 1000
            why = f"{WAIT_TOO_LONG} {asked:,.0f} s; the setting retry.maxDelayMs allows {allowed:,.0f} s."
        if not why:
            return error
        text = error_text(str(error), why)
        return ModelError(text, status=error.status, transient=False, retry_after_ms=error.retry_after_ms)

    def _options(self, access: ModelAccess, prepared: ModelCall) -> CallOptions:
        settings = self._owner.settings
        return CallOptions(
            access.key,
            prepared.level,
            settings.thinking_budgets,
            prepared.session,
            prepared.max_tokens,
            access.environment,
            now(),
            settings.interleaved_thinking,
            prepared.used,
        )

    def _environment(self, relay: Relay | None) -> CallEnvironment:
        """The dependencies of the next call."""
        extensions, services, turn = self._hooks.extensions, self._services, self._calls
        hooks = self._hooks if extensions.handlers else None
        streams = ModelStreams(extensions) if extensions.streams else None
        self._calls += 1
        return CallEnvironment(services.transport, asyncio.sleep, turn, services.script, hooks, streams, relay)

    async def _with_credentials(self, model: Model) -> ModelAccess:
        """Return the model as it is to be called: with its key, headers and base URL."""
        if model == LOCAL_MODEL:
            return ModelAccess(replace(model, base_url=await self._local.base_url()), None, {})
        if self._models.takes_time(model):
            return await self._services.machine.in_thread(lambda: self._models.asked(model))
        return self._models.asked(model)


def is_authentication_failure(error: ModelError) -> bool:
    """True for an authentication failure (401, or an expired token)."""
    return error.status == 401 or (error.status in (400, 403) and "expired" in str(error).lower())


def newest_too_large(context: ModelContext) -> str:
    """Why a request is too large, if the messages since the last answer are more than half of it; else nothing."""
    total = len(context.system) + sum(len(tool.description) + len(encode(tool.parameters)) for tool in context.tools)
    newest = images = 0
    for message in context.messages:
        total += (size := len(encode(message)))
        if isinstance(message, Assistant):
            newest = images = 0
            continue
        newest += size
        if not isinstance(message.content, str):
            images += sum(len(block.data) for block in message.content if isinstance(block, Image))
    if newest * 2 <= total:
        return ""
    of_images = f", {images:,} of them images" if images else ""
    return (
        f"{NEWEST_TOO_LARGE} {newest:,} bytes{of_images}, which is more than the provider takes: send less, or choose "
        "another model. The conversation before it is unchanged."
    )


def server_hint(model: Model) -> str:
    """What to start when nothing listens at the address of a model server on this machine."""
    name, command = LOCAL_SERVERS.get(model.provider, (f"the server of {model.provider}", ""))
    return f"Is {name} running?" + (f" Start it with `{command}`." if command else "")
