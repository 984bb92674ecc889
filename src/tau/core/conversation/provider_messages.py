"""A conversation as a model may see it.

What clients and extensions put in becomes user messages; answers that failed
are left out together with their tool calls; every call has exactly one result.
A model that gets less than that refuses the whole conversation, for ever.
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
    Stored,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from tau.records.models import Model

Spoken = User | Assistant | ToolResult
NO_RESULT = "No result provided"
COMPACTED = "The earlier part of this conversation was replaced by the following summary:"
BRANCHED = "The conversation went down another branch before it came back here. A summary of that branch:"


# What stands where an image was.
BLOCKED_IMAGE = "Image reading is disabled."
UNSEEN_IMAGE = "(image omitted: the model cannot see images)"


class Retold:
    """A conversation as a model may see it, told anew each time it is gone through, one message at a time.

    Most messages of a long conversation pass as they are: no step copies what it does not change.
    """

    def __init__(self, messages: Iterable[Stored], model: Model, *, block_images: bool = False) -> None:
        self._messages = messages
        self._model = model
        self._block_images = block_images

    def __iter__(self) -> Iterator[Spoken]:
        return _renamed(_paired(self._readable()), self._model)

    def _readable(self) -> Iterator[Spoken]:
        sees = "image" in self._model.input
        for message in self._messages:
            # The exact type is asked for here and below: for records that is much cheaper than isinstance.
            said = message if type(message) is ToolResult or type(message) is User else _said(message)
            if said is not None:
                yield _readable(_blocked(said) if self._block_images else said, self._model, sees)


def blank(text: str) -> bool:
    """Whether nothing can be seen of it; `strip` would copy all the rest to find out."""
    return not text or text.isspace()


def bash_text(message: BashExecution) -> str:
    """How a client's shell command is told to the model."""
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


def _said(message: Stored) -> Spoken | None:
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
            return User([Text(f"{COMPACTED}\n\n<summary>\n{message.summary}\n</summary>")], message.timestamp)
        case BranchSummary():
            return User([Text(f"{BRANCHED}\n\n<summary>\n{message.summary}</summary>")], message.timestamp)
    return None  # a role of another program


def _blocks(content: str | list[Text | Image]) -> list[Text | Image]:
    return [Text(content)] if isinstance(content, str) else content


def _blocked(message: Spoken) -> Spoken:
    """`message` with words where its images were; several in a row are told once."""
    if isinstance(message, Assistant):
        return message
    shown: list[Text | Image] = []
    for block in _blocks(message.content):
        told = Text(BLOCKED_IMAGE) if isinstance(block, Image) else block
        if told is block or not shown or shown[-1] != told:
            shown.append(told)
    return replace(message, content=shown)


def _readable(message: Spoken, model: Model, sees: bool) -> Spoken:
    """`message` without what this model cannot read; `sees` says whether it reads images."""
    if isinstance(message, Assistant):
        if same_model(message, model):
            for block in message.content:
                if type(block) is Thinking and _empty_thought(block):
                    break
            else:
                return message
            return replace(message, content=[block for block in message.content if not _empty_thought(block)])
        return replace(message, content=[said for block in message.content if (said := _foreign(block)) is not None])
    blocks = _blocks(message.content)
    if sees:
        return message if blocks is message.content else replace(message, content=blocks)
    texts = [block for block in blocks if isinstance(block, Text)]
    if len(texts) == len(blocks) and blocks is message.content:
        return message
    if len(texts) < len(blocks) and all(blank(block.text) for block in texts):
        texts = [Text(UNSEEN_IMAGE)]
    return replace(message, content=texts)


def same_model(message: Assistant, model: Model) -> bool:
    """Whether `model` gave this answer, so that signatures in it still mean something."""
    return message.model == model.id and message.provider == model.provider and message.api == model.api


def _empty_thought(block: Text | Thinking | ToolCall) -> bool:
    return isinstance(block, Thinking) and blank(block.thinking) and not block.thinking_signature


def _foreign(block: Text | Thinking | ToolCall) -> Text | ToolCall | None:
    """A block of another model: signatures mean nothing here, thinking becomes text."""
    match block:
        case Thinking():
            return None if blank(block.thinking) or block.redacted is True else Text(block.thinking)
        case Text():
            return Text(block.text)
        case ToolCall():
            return ToolCall(block.id, block.name, block.arguments)


def _paired(messages: Iterable[Spoken]) -> Iterator[Spoken]:
    """Each call gets a result before anything else is said; results without a call are dropped."""
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


# Ids of tool calls. Every API has its own idea of what an id looks like, all want them unique in one request.

IdRule = Callable[[str, Model, bool, int], str]
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def _renamed(messages: Iterable[Spoken], model: Model) -> Iterator[Spoken]:
    """Ids as the model's API wants them; results follow their calls.

    The same history always gives the same ids, or no prompt cache would know its beginning again.
    """
    rule = ID_RULES.get(model.api)
    if rule is None:
        yield from messages
        return
    used: set[str] = set()
    waiting: list[tuple[str, str]] = []  # old and new ids of the calls of the last answer
    for message in messages:
        if type(message) is Assistant:
            waiting = []
            if calls := message.tool_calls:
                same = same_model(message, model)
                waiting = [(call.id, _fresh(call.id, rule, model, same, used)) for call in calls]
            if any([old != new for old, new in waiting]):
                fresh = iter([new for _, new in waiting])
                content = [
                    replace(block, id=next(fresh)) if isinstance(block, ToolCall) else block
                    for block in message.content
                ]
                message = replace(message, content=content)
        elif type(message) is ToolResult:
            for pair in waiting:  # there is one: `_paired` has seen to it
                if pair[0] == message.tool_call_id:
                    break
            waiting.remove(pair)
            if pair[0] != pair[1]:
                message = replace(message, tool_call_id=pair[1])
        yield message


def _fresh(id: str, rule: IdRule, model: Model, same: bool, used: set[str]) -> str:
    attempt = 1
    while (call := (new := rule(id, model, same, attempt)).partition("|")[0]) in used:
        attempt += 1
    used.add(call)
    return new


def _fitted(id: str, limit: int, attempt: int) -> str:
    """`id` cut to its limit; every attempt after the first gives another one."""
    tail = "" if attempt == 1 else f"_{attempt}"
    return (id or "call")[: limit - len(tail)] + tail


def _plain_id(id: str, model: Model, same: bool, attempt: int) -> str:
    if attempt == 1 and 0 < len(id) <= 64 and id.isascii() and id.isalnum():  # as most are
        return id
    return _fitted(_UNSAFE.sub("_", id), 64, attempt)


def _chat_id(id: str, model: Model, same: bool, attempt: int) -> str:
    if model.provider == "mistral" or "mistral.ai" in model.base_url:
        return _nine_characters(id, model, same, attempt)
    if "|" in id:  # of the Responses API
        return _fitted(_UNSAFE.sub("_", id.partition("|")[0]), 40, attempt)
    return _fitted(id, 40 if model.provider == "openai" else max(len(id), 1) + 8, attempt)


def _response_id(id: str, model: Model, same: bool, attempt: int) -> str:
    """call_id|item_id. Items are known only to the model that made them; a call may do without."""
    call, _, item = (_UNSAFE.sub("_", part) for part in id.partition("|"))
    call = _fitted(call.rstrip("_")[:64].rstrip("_"), 64, attempt)
    if not same or not item:
        return call
    item = (item if item.startswith("fc") else f"fc_{item}")[:64].rstrip("_")
    return f"{call}|{item}"


def _google_id(id: str, model: Model, same: bool, attempt: int) -> str:
    """Gemini tells calls apart by their order; other models behind this API by ids."""
    if sends_ids(model):
        return _plain_id(id, model, same, attempt)
    return _fitted(id, max(len(id), 1) + 8, attempt)


def sends_ids(model: Model) -> bool:
    return model.id.startswith(("claude-", "gpt-oss-"))


def _nine_characters(id: str, model: Model, same: bool, attempt: int) -> str:
    """Mistral takes exactly nine letters and digits."""
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
    "mistral-conversations": _nine_characters,
}


# Text that can be sent: APIs take UTF-8 only.


def clean(text: str) -> str:
    """Without lone surrogates; two halves that met are one character."""
    if text.isascii():  # known without a look at the text
        return text
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


def clean_all(value: Any) -> Any:
    """The same for every text inside a JSON value."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): clean_all(item) for key, item in value.items()}
    return [clean_all(item) for item in value] if isinstance(value, list) else value
