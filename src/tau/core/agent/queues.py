"""Message queues of a session: steering is delivered during a run, follow-ups at its end.

1. `Session.queue` (runtime/session/session.py) adds a message and records it in the session file
   (runtime/history/pending_queue.py). It starts no run.
2. The agent loop requests it with TakeQueued (loop.py). Steering: at the start of a run, after a tool call if
   `compat.steerAfter` is "tool", and after each turn. Follow-ups: when the run would end.
3. `PromptRun.take_queued` (runtime/runs/prompt_run.py) takes it, unless the budget allows no further turn. An aborted
   run takes nothing.

A message is in exactly one of three places: in a queue, in the conversation, or rejected. Both queues are bounded; a
full queue is a CommandError for the client.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from tau.errors import CommandError
from tau.records.commands import QueueMode
from tau.records.messages import Custom, Text, User

QueueName = Literal["steer", "follow_up"]
QueuedMessage = User | Custom
MAX_QUEUED_MESSAGES = 256


class MessageQueues:
    def __init__(self, steering: QueueMode = "one-at-a-time", follow_up: QueueMode = "one-at-a-time") -> None:
        self.modes: dict[QueueName, QueueMode] = {"steer": steering, "follow_up": follow_up}
        self._waiting: dict[QueueName, list[QueuedMessage]] = {"steer": [], "follow_up": []}
        self.count = 0  # number of queued messages; `len` is the same, and slower

    def add(self, queue: QueueName, message: QueuedMessage) -> None:
        waiting = self._waiting[queue]
        if len(waiting) >= MAX_QUEUED_MESSAGES:
            name = "steering" if queue == "steer" else "follow-up"
            raise CommandError(
                f"The {name} queue is full ({MAX_QUEUED_MESSAGES} messages). Try again after some have been delivered."
            )
        waiting.append(message)
        self.count += 1

    def take(self, queue: QueueName) -> list[QueuedMessage]:
        """Remove and return the messages to deliver now: the oldest, or all, depending on the queue mode."""
        waiting = self._waiting[queue]
        count = len(waiting) if self.modes[queue] == "all" else 1
        taken, self._waiting[queue] = waiting[:count], waiting[count:]
        self.count -= len(taken)
        return taken

    def clear(self) -> tuple[list[str], list[str]]:
        removed = self.texts("steer"), self.texts("follow_up")
        self._waiting = {"steer": [], "follow_up": []}
        self.count = 0
        return removed

    def texts(self, queue: QueueName) -> list[str]:
        return message_texts(self._waiting[queue])

    def __iter__(self) -> Iterator[tuple[QueueName, QueuedMessage]]:
        return iter([(queue, message) for queue, waiting in self._waiting.items() for message in waiting])

    def __len__(self) -> int:
        return self.count


def message_texts(messages: Sequence[QueuedMessage]) -> list[str]:
    return [_text(message) for message in messages]


def _text(message: QueuedMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "".join(block.text for block in message.content if isinstance(block, Text))
