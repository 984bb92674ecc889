"""The reference model of the two message queues, as queue_update tells of them.

Every text of a test is unique, so each can be followed from its command to the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from long.protocol_rules import Json, Rule, require, short

Queue = Literal["steering", "followUp"]
QUEUES: tuple[Queue, Queue] = ("steering", "followUp")


class Queues:
    def __init__(self) -> None:
        self.waiting: dict[Queue, list[str]] = {"steering": [], "followUp": []}
        self.leaving: list[tuple[Queue, str]] = []  # taken out, and not said or returned yet
        self.queued: set[str] = set()  # every text that was ever in a queue
        self._since_answer: dict[Queue, int] = {"steering": 0, "followUp": 0}
        self._due: dict[Queue, list[str]] = {"steering": [], "followUp": []}  # what must be said together

    def __len__(self) -> int:
        return sum(map(len, self.waiting.values()))

    @property
    def content(self) -> tuple[list[str], list[str]]:
        return list(self.waiting["steering"]), list(self.waiting["followUp"])

    def update(self, event: Json, commands: Mapping[str, Queue], opened: Iterable[str], *, moving: bool) -> bool:
        """Returns whether a command has queued something.

        `commands` are texts of commands without a response, `opened` those that a session to be opened may have.
        """
        told: dict[Queue, list[str]] = {queue: event[queue] for queue in QUEUES}
        # It may have been told already that a message was taken out, if another was queued right then.
        changed = told != self.waiting or self.leaving or moving
        require(changed, Rule.QUEUE_UPDATE, f"nothing has changed: {short(event)}")
        expected, queued = set(opened), False
        for queue in QUEUES:
            before, now = self.waiting[queue], told[queue]
            gone = next(count for count in range(len(before) + 1) if now[: len(before) - count] == before[count:])
            for text in now[len(before) - gone :]:
                good = commands.get(text) == queue and text not in self.queued
                require(good or text in expected, Rule.DELIVERED, f"{text!r} was queued by no command: {short(event)}")
                self.queued.add(text)
                queued = queued or good
            if queue == "followUp" and gone and not self.leaving:
                steering = [text for text in self.waiting["steering"] if text in told["steering"]]
                require(
                    not steering, Rule.QUEUE_ORDER, f"{before[:gone]} left the queue while {steering} were steering"
                )
            if gone and not self._since_answer[queue] and not self._due[queue]:
                self._due[queue] = list(before)
            self.leaving += [(queue, text) for text in before[:gone]]
        self.waiting = told
        return queued

    def said(self, text: str) -> Queue | None:
        """A user message is announced; None if it does not come from a queue."""
        found = next(((queue, one) for queue, one in self.leaving if one == text), None)
        if found is None:
            require(
                text not in self.queued or text not in [*self.waiting["steering"], *self.waiting["followUp"]],
                Rule.QUEUE_UPDATE,
                f"{text!r} is said, and queue_update did not tell that it left its queue",
            )
            return None
        queue = found[0]
        first = next(one for name, one in self.leaving if name == queue)
        require(first == text, Rule.QUEUE_ORDER, f"{text!r} is said before {first!r}")
        self._since_answer[queue] += 1
        self._due[queue] = [one for one in self._due[queue] if one != text]
        self.leaving.remove(found)
        return queue

    def answer_begins(self, modes: Mapping[Queue, set[str]]) -> None:
        """The model is asked: what is said before it is as much as the modes allow and demand."""
        for queue in QUEUES:
            said, due = self._since_answer[queue], self._due[queue]
            if modes[queue] == {"one-at-a-time"}:
                require(said <= 1, Rule.QUEUE_ORDER, f"{said} {queue} messages at once, in the mode one-at-a-time")
            if modes[queue] == {"all"} and said:
                require(not due, Rule.QUEUE_ORDER, f"{due} of {queue} were not said, in the mode all")
        self._since_answer = dict.fromkeys(QUEUES, 0)
        self._due = {"steering": [], "followUp": []}

    def cleared(self, data: Json) -> None:
        """The response to clear_queue."""
        for queue in QUEUES:
            for text in data[queue]:
                good = (queue, text) in self.leaving
                require(good, Rule.QUEUE_UPDATE, f"clear_queue returned {text!r}, and queue_update did not tell of it")
                self.leaving.remove((queue, text))
            self._due[queue] = [text for text in self._due[queue] if text not in data[queue]]
        require(
            not len(self), Rule.QUEUE_UPDATE, f"clear_queue was answered, and the last queue_update has {self.content}"
        )

    def moved(self, content: tuple[list[str], list[str]]) -> None:
        """Another session is there. What waited in the old one is not said any more."""
        require(
            self.content == content,
            Rule.QUEUE_UPDATE,
            f"the session has {content}, and the last queue_update told {self.content}",
        )
        self.leaving = []
        self._due = {"steering": [], "followUp": []}

    def opened(self, content: tuple[list[str], list[str]]) -> None:
        """A process begins with what waited at the end of another. No event tells of it."""
        self.waiting = {"steering": list(content[0]), "followUp": list(content[1])}
        self.leaving = []
        self._since_answer = dict.fromkeys(QUEUES, 0)
        self._due = {"steering": [], "followUp": []}
