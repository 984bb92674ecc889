"""A call of a tool that is under way: its work, its progress, and its questions to the user of the client.

A legacy client is asked with a request of the server's own, `elicitation/create`. A modern client gets an interim
result, "input_required", and repeats the call with the answers; until then the work waits here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tau.mcp_server.protocol import Refused, RequestFacts
from tau.wire.jsonrpc import INVALID_PARAMS

PARKED_TIMEOUT_S = 600.0  # for a modern client to repeat a call with the answers
QUESTION = "question"

Ask = Callable[[Mapping[str, Any]], Awaitable[Any]]
Notify = Callable[[str, Mapping[str, Any]], None]
Work = Callable[["Call"], Awaitable[dict[str, Any]]]


class Call:
    """`ask` sends a form to a legacy client and returns its answer; `notify` sends a notification."""

    def __init__(self, facts: RequestFacts, work: Work, ask: Ask, notify: Notify) -> None:
        self.facts = facts
        self._ask = ask
        self._notify = notify
        self._steps = 0
        self._asking = asyncio.Lock()  # one question at a time
        self._question: Mapping[str, Any] | None = None
        self._answer: asyncio.Future[Any] | None = None
        self._asked = asyncio.Event()
        self.task = asyncio.ensure_future(work(self))

    # For the work.

    def progress(self, message: str) -> None:
        """Tell the client what is being done, if it wants to know."""
        self._steps += 1
        if self.facts.progress_token is not None:
            params = {"progressToken": self.facts.progress_token, "progress": self._steps, "message": message}
            self._notify("notifications/progress", params)

    @property
    def can_ask(self) -> bool:
        return self.facts.can_ask

    async def ask(self, form: Mapping[str, Any]) -> Any:
        """Show a form to the user of the client and return the answer: {"action": "accept", "content": {…}}."""
        async with self._asking:
            if self.facts.era == "legacy":
                return await self._ask(form)
            self._answer = asyncio.get_running_loop().create_future()
            self._question = form
            self._asked.set()
            try:
                return await self._answer
            finally:
                self._asked.clear()
                self._question = self._answer = None

    # For the server.

    async def next_result(self) -> dict[str, Any] | None:
        """Wait for the result of the work, or None for a question. Cancelling this cancels the work."""
        asked = asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait({self.task, asked}, return_when=asyncio.FIRST_COMPLETED)
            return self.task.result() if self.task.done() else None
        except asyncio.CancelledError:
            await self.cancel()
            raise
        finally:
            asked.cancel()

    def input_required(self, token: str) -> dict[str, Any]:
        form = {"method": "elicitation/create", "params": self._question}
        return {"resultType": "input_required", "inputRequests": {QUESTION: form}, "requestState": token}

    def resume(self, facts: RequestFacts) -> None:
        """The client has repeated the call, with an answer."""
        self.facts = facts
        self._asked.clear()  # there may be another question before the work sees this answer
        answers = facts.params.get("inputResponses")
        answer = answers.get(QUESTION) if isinstance(answers, Mapping) else None
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    async def cancel(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


class ParkedCalls:
    """Calls of modern clients that wait for an answer, by the token that the client sends back."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[Call, asyncio.TimerHandle]] = {}

    def park(self, call: Call) -> str:
        token = os.urandom(16).hex()
        timer = asyncio.get_running_loop().call_later(PARKED_TIMEOUT_S, self._expire, token)
        self._calls[token] = call, timer
        return token

    def take(self, facts: RequestFacts) -> Call:
        """The call that a request continues. Raises Refused."""
        found = self._calls.pop(str(facts.params.get("requestState")), None)
        if found is None:
            raise Refused(INVALID_PARAMS, "requestState: no call waits for this answer")
        call, timer = found
        timer.cancel()
        call.resume(facts)
        return call

    async def cancel_all(self) -> None:
        while self._calls:
            _, (call, timer) = self._calls.popitem()
            timer.cancel()
            await call.cancel()

    def _expire(self, token: str) -> None:
        call, _ = self._calls.pop(token)
        call.task.cancel()
