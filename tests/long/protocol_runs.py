"""The reference model of runs: the order of agent, turn, message, tool, retry and compaction events."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from long.protocol_answers import SLEEP, Answer
from long.protocol_queues import Queue, Queues
from long.protocol_rules import Json, Rule, broken, require, short, text_of

SKIPPED = "Skipped due to queued user message."
LONG_WAIT_MS = 1000


@dataclass
class Config:
    """The settings that change the order of events. A set has more than one value while a change is under way."""

    steer_after: str = "tool"
    parallel: bool = False
    streaming_until: str = "end"
    keep_bash_after: str = "prompt"
    retry_success: str = "answer"
    max_retries: int = 3
    max_delay_ms: int = 60_000
    retry: set[bool] = field(default_factory=lambda: {True})
    modes: dict[Queue, set[str]] = field(
        default_factory=lambda: {"steering": {"one-at-a-time"}, "followUp": {"one-at-a-time"}}
    )
    compaction: set[bool] = field(default_factory=lambda: {True})
    limit: int | None = None  # of turns
    budget: bool = False  # some limit is set, or was when the prompt under way began
    script: list[Json] = field(default_factory=list)


@dataclass
class Prompt:
    text: str
    content: list[Json]
    accepted: int  # its place in the transcript
    recorded: Json | None  # the message that is in the session already, without its time
    begun: bool = False
    said: bool = False
    settled: bool = False
    exceeded: bool = False


class Tools:
    """The tool calls of one answer."""

    def __init__(self, answer: Json, config: Config, queues: Queues) -> None:
        self.calls = [block for block in answer["content"] if block["type"] == "toolCall"]
        if answer["stopReason"] in ("error", "aborted"):
            self.calls = []
        self.length = answer["stopReason"] == "length"
        self.side_by_side = config.parallel and len(self.calls) > 1
        self.skips = config.steer_after == "tool" and not self.side_by_side
        self.started = 0
        self.ended: dict[int, Json] = {}
        self.results: list[Json] = []
        self.must_skip = False
        self.skipped = False
        self._queues = queues

    @property
    def running(self) -> Json | None:
        open_calls = [self.calls[at] for at in range(self.started) if at not in self.ended]
        return open_calls[-1] if open_calls else None

    def start(self, event: Json) -> None:
        at = self.started
        require(at < len(self.calls), Rule.TOOLS, f"no call is left for {short(event)}")
        call = self.calls[at]
        named = event["toolCallId"], event["toolName"], event["args"]
        require(named == (call["id"], call["name"], call["arguments"]), Rule.TOOLS, f"{short(event)} for {short(call)}")
        if not self.side_by_side:
            require(
                len(self.results) == at, Rule.TOOLS, f"a tool started before the last one had a result: {short(event)}"
            )
        self.started += 1

    def update(self, event: Json) -> None:
        self._place(event)

    def _place(self, event: Json) -> int:
        ids = [self.calls[at]["id"] for at in range(self.started)]
        require(event["toolCallId"] in ids, Rule.TOOLS, f"no such tool runs: {short(event)}")
        at = ids.index(event["toolCallId"])
        require(at not in self.ended, Rule.TOOLS, f"the tool has ended already: {short(event)}")
        return at

    def end(self, event: Json, stopping: bool) -> None:
        at = self._place(event)
        self.ended[at] = event
        text = text_of(event["result"])
        if self.length:
            require(event["isError"], Rule.TOOLS, f"a call of an answer that was cut off has run: {short(event)}")
        if text == SKIPPED:
            require(self.must_skip and event["isError"], Rule.STEERED, f"skipped without steering: {short(event)}")
            self.skipped = True
        elif not stopping:
            require(not self.must_skip, Rule.STEERED, f"it ran although steering was queued: {short(event)}")

    def result(self, message: Json) -> None:
        at = len(self.results)
        require(at in self.ended, Rule.TOOLS, f"a result before its tool has ended: {short(message)}")
        if self.side_by_side:
            require(len(self.ended) == len(self.calls), Rule.TOOLS, f"a result before all have ended: {short(message)}")
        end = self.ended[at]
        for name, value in (
            ("toolCallId", end["toolCallId"]),
            ("toolName", end["toolName"]),
            ("isError", end["isError"]),
            ("content", end["result"]["content"]),
        ):
            require(message[name] == value, Rule.TOOLS, f"{name} of {short(message)} is not that of {short(end)}")
        self.results.append(message)
        if self.skips and self._queues.waiting["steering"]:
            self.must_skip = True

    @property
    def done(self) -> bool:
        return len(self.results) == len(self.calls)


class Runs:
    """`record` gets every message that is said, `drop` an answer that is asked again."""

    def __init__(
        self, config: Config, queues: Queues, record: Callable[[Json], None], drop: Callable[[Json], None]
    ) -> None:
        self.config = config
        self.queues = queues
        self._record = record
        self._drop = drop
        self.accepted: deque[Prompt] = deque()
        self.prompt: Prompt | None = None  # begun, and not settled
        self.in_run = False
        self.compacting = False
        self.stopping: Callable[[], bool] = lambda: False  # a command that stops runs is under way
        self.answers: list[Json] = []  # of the prompt under way
        self._turn = False
        self._open: Json | None = None  # a message between its start and its end
        self._answer: Answer | None = None
        self._tools: Tools | None = None
        self._turn_answer: Json | None = None
        self._messages: list[Json] = []
        self._left_in_queue: list[str] = []  # when the last run ended
        self._retries = 0
        self._retry_due: Json | None = None  # the agent_end that announced it
        self._waiting: Json | None = None  # auto_retry_start
        self._end_due: bool | None = None  # auto_retry_end with this success is due
        self._again = False  # an overflow was compacted, and the question is asked again
        self.budget_exceeded = False

    # What can be asked.

    @property
    def busy(self) -> bool:
        return self.prompt is not None or bool(self.accepted)

    @property
    def streaming(self) -> bool:
        after_end = self.prompt is not None and self.config.streaming_until == "settled"
        return self.in_run or bool(self.accepted) or after_end

    @property
    def hangs(self) -> bool:
        """Whether only a command can end what runs now."""
        if self._waiting is not None and self._waiting["delayMs"] >= LONG_WAIT_MS:
            return True
        running = self._tools.running if self._tools is not None else None
        sleeps = running is not None and running["arguments"].get("command") == SLEEP
        return sleeps or (self._answer is not None and self._answer.hangs)

    # Events.

    def event(self, event: Json) -> Prompt | None:
        """Returns the prompt that has settled, if one has."""
        handler = getattr(self, f"_{event['type']}", None)
        if handler is None:
            broken(Rule.NESTING, f"an event that is not documented, or not due: {short(event)}")
        if self._end_due is not None and event["type"] != "auto_retry_end":
            broken(Rule.RETRY, f"auto_retry_end is due, and {event['type']} came")
        settled: Prompt | None = handler(event)
        return settled

    def _agent_start(self, event: Json) -> None:
        require(not self.in_run, Rule.NESTING, "agent_start inside a run")
        if self.prompt is None:
            require(self.accepted, Rule.BY_ITSELF, "a run began, and no prompt was accepted for it")
            self.prompt, self.answers = self.accepted.popleft(), []
            self._retries, self.budget_exceeded = 0, False
        elif self._waiting is not None:
            self._waiting = None
        elif self._again:
            self._again = False
        else:
            good = self.queues.leaving and self.answers and not _failed(self.answers[-1])
            require(good, Rule.BY_ITSELF, "another run began without a retry or a message that was queued")
        self.in_run, self._messages = True, []

    def _turn_start(self, event: Json) -> None:
        require(self.in_run and not self._turn, Rule.NESTING, "turn_start outside a run, or in another turn")
        self._turn, self._turn_answer, self._tools = True, None, None

    def _message_start(self, event: Json) -> None:
        message = event["message"]
        require(self._turn and self._open is None, Rule.NESTING, f"a message outside a turn: {short(message)}")
        self._open = message
        match message["role"]:
            case "user":
                require(self._turn_answer is None, Rule.NESTING, f"a user message after the answer: {short(message)}")
            case "assistant":
                require(self._turn_answer is None, Rule.NESTING, f"a second answer in a turn: {short(message)}")
                first = self.prompt is not None and not self.prompt.said
                require(not first, Rule.DELIVERED, f"the model is asked before the prompt is said: {short(message)}")
                require(not self.queues.leaving, Rule.DELIVERED, f"{self.queues.leaving} left the queue unsaid")
                self.queues.answer_begins(self.config.modes)
                self._answer = Answer()
            case "toolResult":
                require(self._tools is not None, Rule.TOOLS, f"a result without a call: {short(message)}")
            case _:
                broken(Rule.NESTING, f"a message of this role is not announced: {short(message)}")

    def _message_update(self, event: Json) -> None:
        if self._answer is None:
            broken(Rule.NESTING, f"an update outside an answer: {short(event)}")
        self._answer.update(event)

    def _message_end(self, event: Json) -> None:
        message = event["message"]
        if self._open is None or self._open["role"] != message["role"]:
            broken(Rule.NESTING, f"message_end without message_start: {short(message)}")
        if message["role"] != "assistant":
            require(message == self._open, Rule.NESTING, f"{short(self._open)} ended as {short(message)}")
        self._open = None
        self._messages.append(message)
        match message["role"]:
            case "user":
                self._said(message)
            case "assistant":
                self._answered(message)
            case "toolResult":
                assert self._tools is not None
                self._record(message)
                self._tools.result(message)

    def _said(self, message: Json) -> None:
        text, prompt = text_of(message), self.prompt
        if prompt is not None and not prompt.said and text == prompt.text:
            prompt.said = True
            require(
                message["content"] == prompt.content,
                Rule.DELIVERED,
                f"said {short(message)} for {short(prompt.content)}",
            )
            if prompt.recorded is None:
                self._record(message)
            else:
                prompt.recorded["timestamp"] = message["timestamp"]
            return
        queue = self.queues.said(text)
        require(queue is not None, Rule.DELIVERED, f"said, and not accepted or said before: {short(message)}")
        if queue == "followUp":
            good = not self.answers or not _calls(self.answers[-1]) or len(self._messages) == 1
            require(good, Rule.QUEUE_ORDER, f"a follow-up is said while tools are called: {text!r}")
        self._record(message)

    def _answered(self, message: Json) -> None:
        assert self._answer is not None
        self._answer.end(message, self.config.script)
        self._answer, self._turn_answer = None, message
        self._tools = Tools(message, self.config, self.queues)
        self.answers.append(message)
        self._record(message)
        if self._retries and not _failed(message) and self.config.retry_success == "answer":
            self._end_due = True

    def _tool_execution_start(self, event: Json) -> None:
        self._with_tools(event).start(event)

    def _tool_execution_update(self, event: Json) -> None:
        self._with_tools(event).update(event)

    def _tool_execution_end(self, event: Json) -> None:
        self._with_tools(event).end(event, self.stopping() or self.config.budget)

    def _with_tools(self, event: Json) -> Tools:
        if self._tools is None or not self._turn:
            broken(Rule.TOOLS, f"a tool event outside a turn: {short(event)}")
        return self._tools

    def _turn_end(self, event: Json) -> None:
        require(self._turn and self._open is None, Rule.NESTING, "turn_end outside a turn, or in a message")
        require(self._tools is not None and self._tools.done, Rule.TOOLS, "turn_end before every call has its result")
        assert self._tools is not None
        require(event["message"] == self._turn_answer, Rule.NESTING, f"turn_end has another answer: {short(event)}")
        require(
            event["toolResults"] == self._tools.results, Rule.NESTING, f"turn_end has other results: {short(event)}"
        )
        self._turn = False

    def _agent_end(self, event: Json) -> None:
        require(self.in_run and not self._turn, Rule.NESTING, "agent_end outside a run, or in a turn")
        require(
            event["messages"] == self._messages,
            Rule.NESTING,
            f"agent_end has {len(event['messages'])} messages, events told of {len(self._messages)}",
        )
        self.in_run, self._tools = False, None
        last = self.answers[-1]
        if (expected := self._will_retry(last)) is not None:
            require(event["willRetry"] == expected, Rule.RETRY, f"willRetry should be {expected} after {short(last)}")
        if event["willRetry"]:
            self._retry_due = event
            return
        self._left_in_queue = [text for texts in self.queues.waiting.values() for text in texts]
        if self._retries:
            if _failed(last):
                self._end_due = False
            elif self.config.retry_success == "run":
                self._end_due = True

    def _will_retry(self, last: Json) -> bool | None:
        """Whether the answer is asked again; None while that is being changed."""
        if last["stopReason"] != "error" or self._retries >= self.config.max_retries:
            return False
        if self.stopping():
            return None
        error = next((one["error"] for one in self.config.script if _error_of(one) == last.get("errorMessage")), None)
        if error is None:
            return None
        if not error["message"].startswith("529") or (error.get("retryAfterMs") or 0) > self.config.max_delay_ms:
            return False
        return next(iter(self.config.retry)) if len(self.config.retry) == 1 else None

    def _auto_retry_start(self, event: Json) -> None:
        require(self._retry_due is not None, Rule.RETRY, f"no agent_end announced it: {short(event)}")
        self._retry_due = None
        self._retries += 1
        self._drop(self.answers[-1])
        told = event["attempt"], event["maxAttempts"], event["errorMessage"]
        expected = self._retries, self.config.max_retries, self.answers[-1]["errorMessage"]
        require(told == expected, Rule.RETRY, f"{short(event)}, expected {expected}")
        self._waiting = event

    def _auto_retry_end(self, event: Json) -> None:
        require(event["attempt"] == self._retries, Rule.RETRY, f"attempt {self._retries} ended as {short(event)}")
        if self._waiting is not None:
            good = not event["success"] and event["finalError"] == "Retry cancelled"
            require(good, Rule.RETRY, f"a retry that was not made ended as {short(event)}")
            self._waiting = None
            self._left_in_queue = []
        else:
            require(event["success"] == self._end_due, Rule.RETRY, f"not due: {short(event)}")
            if not event["success"]:
                error = self.answers[-1]["errorMessage"]
                require(event["finalError"] == error, Rule.RETRY, f"the last error is {error!r}: {short(event)}")
        self._end_due, self._retries = None, 0

    def _auto_compaction_start(self, event: Json) -> None:
        good = self.busy and not self.compacting and True in self.config.compaction
        require(good, Rule.COMPACTION_EVENTS, f"not due: {short(event)}")
        self.compacting = True

    def _auto_compaction_end(self, event: Json) -> None:
        if not self.compacting:
            good = event["result"] is None and event.get("errorMessage") and not event["willRetry"]
            require(good, Rule.COMPACTION_EVENTS, f"without a start: {short(event)}")
        self.compacting = False
        if event["willRetry"]:
            require(event["result"] is not None, Rule.COMPACTION_EVENTS, f"willRetry without a result: {short(event)}")
            self._again = True
            self._drop(self.answers[-1])

    def _budget_exceeded(self, event: Json) -> None:
        require(self.prompt and self.config.budget, Rule.BUDGET, f"no limit was set: {short(event)}")
        assert self.prompt is not None
        require(not self.prompt.exceeded, Rule.BUDGET, f"told twice for one prompt: {short(event)}")
        self.prompt.exceeded = True

    def _agent_settled(self, event: Json) -> Prompt:
        prompt = self.prompt
        if prompt is None or self.in_run:
            broken(Rule.SETTLED, "agent_settled without a prompt, or inside a run")
        require(self._retry_due is None and self._waiting is None, Rule.RETRY, "settled while a retry is due")
        require(not self._again, Rule.COMPACTION_EVENTS, "settled, and the question was to be asked again")
        require(not self.queues.leaving, Rule.DELIVERED, f"settled, and {self.queues.leaving} were never said")
        require(not self.compacting, Rule.COMPACTION_EVENTS, "settled during a compaction")
        well = not event["aborted"] and not _failed(self.answers[-1]) and not prompt.exceeded
        waiting = [text for texts in self.queues.waiting.values() for text in texts]
        stranded = [text for text in self._left_in_queue if text in waiting]
        require(not (well and stranded), Rule.STRANDED, f"settled, and {stranded} wait")
        stopped = self.answers[-1]["stopReason"] == "aborted"
        require(
            event["aborted"] or prompt.exceeded or not stopped, Rule.ABORTED, "an aborted run settled as not aborted"
        )
        self.prompt, prompt.settled = None, True
        return prompt


def _failed(answer: Json) -> bool:
    return answer["stopReason"] in ("error", "aborted")


def _calls(answer: Json) -> bool:
    return any(block["type"] == "toolCall" for block in answer["content"])


def _error_of(said: Json) -> str | None:
    error = said.get("error")
    return error["message"] if error else None
