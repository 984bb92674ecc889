"""Convert a conversation to the messages that a provider accepts.

Messages of clients and extensions become user messages; failed answers are omitted together with their tool calls;
every call has exactly one result. A provider rejects any other conversation, on every retry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tau.records.base import replace
from tau.records.messages import (
    Assistant,
    BashExecution,
    BranchSummary,
    CompactionSummary,
    Custom,
    Image,
    StoredMessage,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from tau.records.models import Model

ModelMessage = User | Assistant | ToolResult
NO_RESULT = "No result provided"
COMPACTION_PREFIX = "The earlier part of this conversation was replaced by the following summary:"
BRANCH_PREFIX = "The user followed another branch of the conversation and then came back here. Its summary:"


# Placeholders for omitted images.
BLOCKED_IMAGE = "Image reading is disabled."
UNSEEN_IMAGE = "(image omitted: the model cannot see images)"


class ProviderMessages:
    """A conversation as a model may see it: converted on each iteration, one message at a time.

    Most messages of a long conversation pass unchanged: no step copies what it does not change.
    """

    def __init__(self, messages: Iterable[StoredMessage], model: Model, *, block_images: bool = False) -> None:
        self.sources = messages
        self.model = model
        self.block_images = block_images

    def __iter__(self) -> Iterator[ModelMessage]:
        return self.part(self.sources, set())

    def part(self, sources: Iterable[StoredMessage], used_ids: set[str]) -> Iterator[ModelMessage]:
        """Convert a part of the conversation, which must begin with an answer if it is not the first.

        `used_ids` are the ids of tool calls before it; those of the part are added.
        """
        return _with_api_ids(_with_results(self._converted(sources)), self.model, used_ids)

    def _converted(self, sources: Iterable[StoredMessage]) -> Iterator[ModelMessage]:
        sees = "image" in self.model.input
        for message in sources:
            # Compares exact types here and below: for records that is much cheaper than isinstance.
            converted = message if type(message) is ToolResult or type(message) is User else _to_model_message(message)
            if converted is not None:
                yield _drop_unreadable(_block_images(converted) if self.block_images else converted, self.model, sees)


def is_blank(text: str) -> bool:
    """True for empty or whitespace text. Unlike `strip`, this does not copy the text."""
    return not text or text.isspace()


def bash_text(message: BashExecution) -> str:
    """A shell command of the client and its output, as text for the model."""
    parts = [f"Ran `{message.command}`"]
    parts.append(f"```\n{message.output}\n```" if message.output else "(no output)")
    text = "\n".join(parts)
    if message.cancelled:
        text += "\n\n(command cancelled)"
    elif isinstance(message.exit_code, int) and message.exit_code != 0:
        text += f"\n\nCommand exited with code {message.exit_code}"
    if message.truncated and message.full_output_path:
        text += f"\n\n[Output truncated. Full output: {message.full_output_path}]"
    return text


def _to_model_message(message: StoredMessage) -> ModelMessage | None:
    match message:
        case User() | ToolResult():
            return message
        case Assistant():
            return None if message.failed else message
        case BashExecution():
            if message.exclude_from_context is True:
                return None
            return User([Text(bash_text(message))], message.timestamp)
        case Custom():
            return User(_blocks(message.content), message.timestamp)
        case CompactionSummary():
            return User([Text(f"{COMPACTION_PREFIX}\n\n<summary>\n{message.summary}\n</summary>")], message.timestamp)
        case BranchSummary():
            return User([Text(f"{BRANCH_PREFIX}\n\n<summary>\n{message.summary}</summary>")], message.timestamp)
    return None  # a role that another program wrote


def _blocks(content: str | list[Text | Image]) -> list[Text | Image]:
    return [Text(content)] if isinstance(content, str) else content


def _block_images(message: ModelMessage) -> ModelMessage:
    """Replace images by a placeholder; consecutive ones become one."""
    if isinstance(message, Assistant):
        return message
    shown: list[Text | Image] = []
    for block in _blocks(message.content):
        replaced = Text(BLOCKED_IMAGE) if isinstance(block, Image) else block
        if replaced is block or not shown or shown[-1] != replaced:
            shown.append(replaced)
    return replace(message, content=shown)


def _drop_unreadable(message: ModelMessage, model: Model, sees: bool) -> ModelMessage:
    """Remove what this model cannot read; `sees` is True if it accepts images."""
    if isinstance(message, Assistant):
        if same_model(message, model):
            for block in message.content:
                if type(block) is Thinking and _empty_thought(block):
                    break
            else:
                return message
            return replace(message, content=[block for block in message.content if not _empty_thought(block)])
        return replace(
            message, content=[readable for block in message.content if (readable := _foreign_block(block)) is not None]
        )
    blocks = _blocks(message.content)
    if sees:
        return message if blocks is message.content else replace(message, content=blocks)
    texts = [block for block in blocks if isinstance(block, Text)]
    if len(texts) == len(blocks) and blocks is message.content:
        return message
    if len(texts) < len(blocks) and all(is_blank(block.text) for block in texts):
        texts = [Text(UNSEEN_IMAGE)]
    return replace(message, content=texts)


def same_model(message: Assistant, model: Model) -> bool:
    """True if `model` gave this answer, so that its signatures are still valid."""
    return message.model == model.id and message.provider == model.provider and message.api == model.api


def _empty_thought(block: Text | Thinking | ToolCall) -> bool:
    return isinstance(block, Thinking) and is_blank(block.thinking) and not block.thinking_signature


def _foreign_block(block: Text | Thinking | ToolCall) -> Text | ToolCall | None:
    """A block of another model. Signatures are not valid here. Thinking is dropped: sent as text, it would make this
    model think aloud in its answers.
    """
    match block:
        case Thinking():
            return None
        case Text():
            return Text(block.text)
        case ToolCall():
            return ToolCall(block.id, block.name, block.arguments)


def _with_results(messages: Iterable[ModelMessage]) -> Iterator[ModelMessage]:
    """Give each call a result before any other message; drop results without a call."""
    waiting: list[ToolCall] = []
    for message in messages:
        if type(message) is ToolResult:
            for at, call in enumerate(waiting):
                if call.id == message.tool_call_id:
                    del waiting[at]
                    yield message
                    break
            continue
        if waiting:
            yield from map(_no_result, waiting)
        waiting = message.tool_calls if type(message) is Assistant else []
        yield message
    yield from map(_no_result, waiting)


def _no_result(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, call.name, [Text(NO_RESULT)], {}, True)


# Ids of tool calls. Every API has its own format; all require them to be unique within a request.

IdRule = Callable[[str, Model, bool, int], str]
_UNSAFE = r"[^A-Za-z0-9_-]"


def _with_api_ids(messages: Iterable[ModelMessage], model: Model, used: set[str]) -> Iterator[ModelMessage]:
    """Rewrite tool-call ids to the format of the model's API; results follow their calls.

    The same history always gives the same ids, so that prompt caches recognise the prefix.
    """
    rule = ID_RULES.get(model.api)
    if rule is None:
        yield from messages
        return
    waiting: list[tuple[str, str]] = []  # old and new ids of the calls of the last answer
    for message in messages:
        if type(message) is Assistant:
            waiting = []
            if calls := message.tool_calls:
                same = same_model(message, model)
                waiting = [(call.id, _unique_id(call.id, rule, model, same, used)) for call in calls]
            if any([old != new for old, new in waiting]):
                fresh = iter([new for _, new in waiting])
                content = [
                    replace(block, id=next(fresh)) if isinstance(block, ToolCall) else block
                    for block in message.content
                ]
                message = replace(message, content=content)
        elif type(message) is ToolResult:
            for pair in waiting:  # always found: `_with_results` dropped the others
                if pair[0] == message.tool_call_id:
                    break
            waiting.remove(pair)
            if pair[0] != pair[1]:
                message = replace(message, tool_call_id=pair[1])
        yield message


def _unique_id(id: str, rule: IdRule, model: Model, same: bool, used: set[str]) -> str:
    attempt = 1
    while (call := (new := rule(id, model, same, attempt)).partition("|")[0]) in used:
        attempt += 1
    used.add(call)
    return new


def _limit_length(id: str, limit: int, attempt: int) -> str:
    """`id` cut to `limit` characters; each attempt after the first gives a different id."""
    tail = "" if attempt == 1 else f"_{attempt}"
    return (id or "call")[: limit - len(tail)] + tail


def _plain_id(id: str, model: Model, same: bool, attempt: int) -> str:
    if attempt == 1 and 0 < len(id) <= 64 and id.isascii() and id.isalnum():  # the usual case
        return id
    return _limit_length(re.sub(_UNSAFE, "_", id), 64, attempt)


def _chat_id(id: str, model: Model, same: bool, attempt: int) -> str:
    if model.provider == "mistral" or "mistral.ai" in model.base_url:
        return _mistral_id(id, model, same, attempt)
    if "|" in id:  # from the Responses API
        return _limit_length(re.sub(_UNSAFE, "_", id.partition("|")[0]), 40, attempt)
    return _limit_length(id, 40 if model.provider == "openai" else max(len(id), 1) + 8, attempt)


def _response_id(id: str, model: Model, same: bool, attempt: int) -> str:
    """call_id|item_id. Only the model that created an item knows its id; a call may omit it."""
    call, _, item = (re.sub(_UNSAFE, "_", part) for part in id.partition("|"))
    call = _limit_length(call.rstrip("_")[:64].rstrip("_"), 64, attempt)
    if not same or not item:
        return call
    item = (item if item.startswith("fc") else f"fc_{item}")[:64].rstrip("_")
    return f"{call}|{item}"


def _google_id(id: str, model: Model, same: bool, attempt: int) -> str:
    """Gemini gets back the ids that it gave; other models behind this API need their format."""
    if needs_call_ids(model):
        return _plain_id(id, model, same, attempt)
    return _limit_length(id, max(len(id), 1) + 8, attempt)


def needs_call_ids(model: Model) -> bool:
    """True for the models behind Google's APIs that need an id for every call. Gemini also matches calls and results
    by their order.
    """
    return model.id.startswith(("claude-", "gpt-oss-"))


def _mistral_id(id: str, model: Model, same: bool, attempt: int) -> str:
    """Mistral accepts exactly nine letters and digits."""
    if attempt == 1 and re.fullmatch(r"[A-Za-z0-9]{9}", id):
        return id
    import hashlib

    return hashlib.sha256(f"{id}#{attempt}".encode("utf-8", "replace")).hexdigest()[:9]


ID_RULES: dict[str, IdRule] = {
    "anthropic-messages": _plain_id,
    "bedrock-converse-stream": _plain_id,
    "bedrock-anthropic-messages": _plain_id,
    "openai-completions": _chat_id,
    "openai-responses": _response_id,
    "azure-openai-responses": _response_id,
    "google-generative-ai": _google_id,
    "google-vertex": _google_id,
    "mistral-conversations": _mistral_id,
}


# Text that can be sent: APIs accept only UTF-8.


def strip_surrogates(text: str) -> str:
    """Remove lone surrogates; two adjacent halves of a pair become one character."""
    if text.isascii():  # O(1): str stores this flag
        return text
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


def strip_surrogates_in(value: Any) -> Any:
    """Apply `strip_surrogates` to every string inside a JSON value."""
    if isinstance(value, str):
        return strip_surrogates(value)
    if isinstance(value, dict):
        return {strip_surrogates(key): strip_surrogates_in(item) for key, item in value.items()}
    return [strip_surrogates_in(item) for item in value] if isinstance(value, list) else value
