"""The encoded beginning of a conversation, reused by the requests of one run.

Every turn of a run sends the whole conversation and adds a few messages. The messages before the last answer are
encoded once: a conversation may be converted in two parts if the second one begins with an answer, because

- the results of tool calls, and the substitutes for missing ones, come before the next answer,
- an answer is never merged with the message before it,
- ids of tool calls depend only on the ids that were used before, which are kept.

Messages are frozen records. The prefix is used only for the same objects, model and options; anything else (another
branch, a compaction, another model) starts again. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import is_
from typing import Any

from tau.core.conversation.provider_messages import ModelMessage, ProviderMessages
from tau.records.base import PackedList, encode, packed_list
from tau.records.messages import Assistant, StoredMessage

# Larger conversations are encoded for each request: it is freed while it is sent, and a prefix would be kept.
MAX_PREFIX_BYTES = 4 * 1024 * 1024
MAX_PARTS = 64  # before they are joined
GROUP_LENGTH = 256  # messages that are encoded at a time
Convert = Callable[[Iterable[ModelMessage]], Iterable[Any]]


class RequestPrefix:
    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._made_for: tuple[Any, ...] = ()
        self._sources: list[StoredMessage] = []
        self._used_ids: set[str] = set()
        self._parts: list[bytes] = []
        self._size = 0

    def pack(
        self, messages: ProviderMessages, options: tuple[Any, ...], convert: Convert, convert_last: Convert
    ) -> list[Any] | PackedList:
        """The messages in the form of an API, of which `options` are all other options.

        `convert_last` is for the last part of the conversation, which may be marked as such, `convert` for all others.
        """
        try:
            return self._pack(messages, (messages.model, messages.block_images, *options), convert, convert_last)
        except BaseException:
            self.clear()  # it may have been extended in part
            raise

    def _pack(
        self, messages: ProviderMessages, made_for: tuple[Any, ...], convert: Convert, convert_last: Convert
    ) -> list[Any] | PackedList:
        sources = self._after_prefix(messages.sources) if self._is_made_for(made_for) else None
        if sources is None:
            self.clear()
            self._made_for = made_for
            sources = iter(messages.sources)
        ready: list[StoredMessage] = []
        last: list[StoredMessage] = []  # since the last answer
        for message in sources:
            if last and _is_answer(message):
                ready += last
                last = []
                if len(ready) >= GROUP_LENGTH:
                    self._extend(messages, ready, convert)
                    ready = []
            last.append(message)
        if ready:
            self._extend(messages, ready, convert)
        rest = list(convert_last(messages.part(last, set(self._used_ids))))
        parts = list(self._parts)
        if self._size > MAX_PREFIX_BYTES:
            self.clear()
        if not rest:
            return packed_list(convert_last(messages))  # what is last is in the prefix
        return PackedList(parts, rest) if parts else rest

    def _is_made_for(self, made_for: tuple[Any, ...]) -> bool:
        return len(self._made_for) == len(made_for) and all(map(is_, self._made_for, made_for))

    def _after_prefix(self, sources: Iterable[StoredMessage]) -> Iterator[StoredMessage] | None:
        """The messages after the prefix; None if they do not begin with it, or no answer follows."""
        rest = iter(sources)
        if not self._sources:
            return rest
        if not all(known is next(rest, None) for known in self._sources):
            return None
        first = next(rest, None)
        return chain([first], rest) if first is not None and _is_answer(first) else None

    def _extend(self, messages: ProviderMessages, new: list[StoredMessage], convert: Convert) -> None:
        packed = packed_list(convert(messages.part(new, self._used_ids)))
        parts, rest = (packed.parts, packed.rest) if isinstance(packed, PackedList) else ([], packed)
        self._parts += parts
        if rest:
            self._parts.append(encode(rest)[1:-1])
        self._size = sum(map(len, self._parts))
        if self._size > MAX_PREFIX_BYTES:
            self._sources.clear()  # `pack` forgets the prefix; its messages need not stay in memory until then
            return
        self._sources += new
        if len(self._parts) > MAX_PARTS:
            self._parts = [b",".join(self._parts)]


def _is_answer(message: StoredMessage) -> bool:
    return type(message) is Assistant and not message.failed
