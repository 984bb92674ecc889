"""Hook dispatcher: builds the payload of each hook, calls the extensions and applies their answers.

Payloads use the field names of the wire, and messages its format. An invalid answer is an error of the extension
and changes nothing; to a hook that can refuse, it is a refusal. Callers first check that a handler is registered:
without extensions none of this runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from tau.core.agent.draft import Update
from tau.core.agent.tool_results import ToolDone
from tau.core.conversation.branches import abandoned_entries
from tau.core.conversation.compaction import CompactionPlan
from tau.core.conversation.tree import Tree
from tau.errors import Aborted, CommandError
from tau.extension_api.hooks import HOOKS
from tau.llm.types import ModelRequest
from tau.records.base import (
    UNSET,
    Value,
    decode,
    encode,
    encode_parts,
    parse,
    parse_stored,
    replace,
    to_builtins,
    wire_json,
)
from tau.records.events import AgentStart, Event, MessageUpdate, Outcome, TurnEnd, TurnStart, event_json
from tau.records.messages import (
    Custom,
    Image,
    StoredMessage,
    Text,
    ToolCall,
    User,
)
from tau.records.replies import BashResult
from tau.records.settings import CompactionSettings
from tau.runtime.abort import AbortSignal
from tau.runtime.extensions.hook_answers import (
    CompactionGiven,
    check_bash,
    check_body,
    check_compaction,
    check_context,
    check_headers,
    check_input,
    check_result,
    check_start,
    check_tool_call,
    check_tree,
    read_bash_result,
    read_blocks,
    read_custom,
    read_images,
    read_one_message,
)
from tau.runtime.extensions.registry import ExtensionRegistry


class Destination(Value):
    """Target of a navigation: the entry to continue from, and how to treat the abandoned branch."""

    entry_id: str
    label: str | None = None
    summarize: bool = False
    instructions: str | None = None
    replace: bool = False  # the instructions replace the default ones


class HookDispatcher:
    """Calls the hooks of a session. `now` returns the time in milliseconds.

    `idle_signal` ends the wait for hooks that are called outside of a run; `abort` aborts it.
    """

    def __init__(self, extensions: ExtensionRegistry, now: Callable[[], int]) -> None:
        self.extensions = extensions
        self.idle_signal = AbortSignal()
        self._now = now
        self._turn = 0

    def abort(self) -> None:
        """End every wait for an extension outside of a run."""
        was, self.idle_signal = self.idle_signal, AbortSignal()
        was.abort()

    # Notifications.

    def observe(self, event: Event | Update, signal: AbortSignal) -> Awaitable[None] | None:
        """Notify extensions of an event, before the client receives it. Do not wait for them after an abort."""
        if isinstance(event, MessageUpdate):  # the delta `error`, which pi never sends; the others are Updates
            return None
        if isinstance(event, AgentStart):
            self._turn = 0
        extra: dict[str, Any] = {}
        if isinstance(event, TurnStart | TurnEnd):
            extra = {"turnIndex": self._turn}
            self._turn += isinstance(event, TurnEnd)
        if isinstance(event, TurnStart):
            extra["timestamp"] = self._now()
        name = "message_update" if isinstance(event, Update) else str(event.__struct_config__.tag)
        if not self.extensions.wants(name):
            return None

        def payload() -> dict[str, Any]:
            read: dict[str, Any] = parse(event.wire_json() if isinstance(event, Update) else event_json(event))
            return {**read, **extra}

        if HOOKS[name].streaming or signal.aborted:
            self.extensions.spread(name, payload, newest=HOOKS[name].streaming)
            return None
        return self.tell(name, payload(), signal)

    async def tell(self, hook: str, payload: Mapping[str, Any], signal: AbortSignal | None = None) -> None:
        """Notify the extensions, and wait until each handler has returned or timed out, or until an abort."""
        if not self.extensions.wants(hook):
            return
        try:
            await self.extensions.fire(hook, payload, self.idle_signal if signal is None else signal)
        except Aborted:
            return

    async def ask(self, hook: str, payload: Mapping[str, Any], signal: AbortSignal | None = None) -> dict[str, Any]:
        """Return the combined answer of the extensions; empty if there is no handler. Raises Aborted."""
        if not self.extensions.wants(hook):
            return {}
        return await self.extensions.fire(hook, payload, self.idle_signal if signal is None else signal)

    async def cancelled(self, hook: str, payload: Mapping[str, Any]) -> bool:
        """True if an extension cancels the operation, or on an abort."""
        try:
            return bool((await self.ask(hook, payload)).get("cancel"))
        except Aborted:
            return True

    # User input.

    async def input(
        self, text: str, images: Sequence[Image], source: str, behavior: str | None
    ) -> tuple[str, Sequence[Image]] | None:
        """Return the input as extensions changed it, or None if an extension has handled it. Raises Aborted."""
        if not self.extensions.wants("input"):
            return text, images
        payload: dict[str, Any] = {"text": text, "images": to_builtins(list(images)), "source": source}
        if behavior is not None:
            payload["streamingBehavior"] = behavior
        result = await self.extensions.fire("input", payload, self.idle_signal, check_input)
        if result.get("action") == "handled":
            return None
        return result.get("text", text), read_images(result["images"]) if "images" in result else images

    async def before_start(
        self, prompt: User | Custom, system: str, options: Mapping[str, Any], signal: AbortSignal
    ) -> tuple[list[Custom], str | None, Mapping[str, Any] | None]:
        """Return additional messages for this run, its system prompt if an extension replaced it, and changed options.

        `options` are the parts of the system prompt.
        """
        if not self.extensions.wants("before_agent_start"):
            return [], None, None
        content = prompt.content if isinstance(prompt.content, list) else [Text(prompt.content)]
        custom = {"message": parse(wire_json(prompt))} if isinstance(prompt, Custom) else {}
        payload = {
            "messageType": "custom" if custom else "user",
            **custom,
            "prompt": "".join(block.text for block in content if isinstance(block, Text)),
            "images": to_builtins([block for block in content if isinstance(block, Image)]),
            "systemPrompt": system,
            "systemPromptOptions": options,
        }
        try:
            result = await self.extensions.fire("before_agent_start", payload, signal, check_start)
        except Aborted:
            return [], None, None
        messages = [read_custom(message, self._now()) for message in result.get("messages", ())]
        return messages, result.get("systemPrompt"), result.get("systemPromptOptions")

    # Model requests and responses.

    async def context(self, messages: Sequence[StoredMessage]) -> Sequence[StoredMessage]:
        """Return the conversation as extensions changed it for this one model call."""
        shown = [parse(wire_json(message)) for message in messages]  # a copy that extensions may change
        given = {encode(one): message for one, message in zip(shown, messages, strict=True)}
        result = await self.extensions.fire("context", {"messages": shown}, check=check_context)
        if "messages" not in result:
            return messages
        return [given.get(encode(said)) or read_one_message(said, "messages") for said in result["messages"]]

    async def outgoing(self, request: ModelRequest) -> ModelRequest:
        """Return the request as extensions changed it; headers that are null are dropped."""
        if self.extensions.wants("before_provider_headers"):
            payload = {"headers": dict(request.headers)}
            result = await self.extensions.fire("before_provider_headers", payload, check=check_headers)
            if "headers" in result:
                kept = {name: value for name, value in result["headers"].items() if value is not None}
                request = ModelRequest(request.url, kept, request.body)
        if self.extensions.wants("before_provider_request"):
            body = parse(b"".join(encode_parts(request.body)))
            result = await self.extensions.fire("before_provider_request", {"payload": body}, check=check_body)
            request = ModelRequest(request.url, request.headers, result.get("payload", request.body))
        return request

    async def incoming(self, status: int, headers: Mapping[str, str]) -> None:
        await self.extensions.fire("after_provider_response", {"status": status, "headers": dict(headers)})

    # Tools.

    async def tool_call(self, call: ToolCall, arguments: dict[str, Any], signal: AbortSignal) -> dict[str, Any]:
        """Return `block` with a `reason`, or `input` with replaced arguments. Raises Aborted."""
        payload = {"toolName": call.name, "toolCallId": call.id, "input": parse(encode(arguments))}
        return await self.extensions.fire("tool_call", payload, signal, check_tool_call)

    async def tool_result(self, done: ToolDone, arguments: dict[str, Any], signal: AbortSignal) -> ToolDone:
        payload = {
            "toolName": done.call.name,
            "toolCallId": done.call.id,
            "input": arguments,
            "content": to_builtins(done.outcome.content),
            "details": None if done.outcome.details is UNSET else to_builtins(done.outcome.details),
            "isError": done.is_error,
        }
        try:
            result = await self.extensions.fire("tool_result", payload, signal, check_result)
        except Aborted:
            return done
        outcome = done.outcome
        if "content" in result:
            outcome = replace(outcome, content=read_blocks(result["content"]))
        if "details" in result:
            outcome = replace(outcome, details=result["details"])
        return ToolDone(done.call, outcome, result.get("isError", done.is_error))

    async def user_bash(self, command: str, exclude: bool, cwd: str, signal: AbortSignal) -> BashResult | None:
        """Return the result of an extension that runs the command itself, or None. Raises Aborted.

        Raises CommandError if an extension fails: it may have wanted to run the command elsewhere, so the command
        must not run here.
        """
        payload = {"command": command, "excludeFromContext": exclude, "cwd": cwd}
        result = await self.extensions.fire("user_bash", payload, signal, check_bash)
        if result.get("block"):
            raise CommandError(str(result["reason"]))
        return None if result.get("result") is None else read_bash_result(result["result"])

    # The session.

    async def before_tree(self, wanted: Destination, tree: Tree, at: int) -> dict[str, Any]:
        """Ask the extensions about the navigation from the leaf to `at`, and return their answer. Raises Aborted."""
        ancestors = set(tree.path(at))
        common = next((one for one in reversed(tree.branch) if one in ancestors), None)
        preparation = {
            "targetId": wanted.entry_id,
            "oldLeafId": tree.leaf_id,
            "commonAncestorId": None if common is None else tree.id(common),
            "entriesToSummarize": [parse(encode(entry)) for entry in abandoned_entries(tree, tree.leaf, at)],
            "userWantsSummary": wanted.summarize,
            "customInstructions": wanted.instructions,
            "replaceInstructions": wanted.replace,
            "label": wanted.label,
        }
        payload = {"preparation": preparation}
        return await self.extensions.fire("session_before_tree", payload, self.idle_signal, check_tree)

    async def before_compact(
        self,
        plan: CompactionPlan,
        settings: CompactionSettings,
        tree: Tree,
        about: Mapping[str, Any],
        signal: AbortSignal,
    ) -> CompactionGiven | None:
        """Return the compaction that an extension provides, or None. Raises Aborted if one cancels the compaction."""
        preparation = {
            "firstKeptEntryId": plan.first_kept_entry_id,
            "messagesToSummarize": [parse(wire_json(message)) for message in plan.history],
            "turnPrefixMessages": [parse(wire_json(message)) for message in plan.prefix],
            "isSplitTurn": bool(plan.prefix),
            "tokensBefore": plan.tokens_before,
            "previousSummary": plan.previous,
            "fileOps": plan.details,
            "settings": to_builtins(settings),
        }
        entries = [parse_stored(tree.line(at)) for at in tree.branch]
        payload = {"preparation": preparation, "branchEntries": entries, **about}

        check = check_compaction(lambda id: id in tree)
        said = await self.extensions.fire("session_before_compact", payload, signal, check)
        if said.get("cancel"):
            raise Aborted
        given = said.get("compaction")
        return None if given is None else decode(CompactionGiven, encode(given))


def refused(reason: Any) -> Outcome:
    """The result of a tool call that an extension blocked."""
    text = reason if isinstance(reason, str) and reason else "Tool execution was blocked by an extension"
    return Outcome([Text(text)], {})
