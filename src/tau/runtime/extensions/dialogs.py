"""Extension dialogs: questions to the user at the client, and other UI requests.

A dialog always ends with a value: the answer, or a default if it is cancelled, times out, or cannot be shown. The
timeout is enforced here; a client need not track it. An answer to a dialog that is not open, or no longer open, is
ignored.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from tau.records.base import UNSET, Value
from tau.records.dialogs import Confirm, Editor, Input, Select, UiRequest
from tau.runtime.extensions.registry import ExtensionRegistry, current_timeout

if TYPE_CHECKING:  # only sessions with permissions have them
    from tau.records.permissions import PermissionDetails

Question = Select | Confirm | Input | Editor

_UNATTENDED = object()  # the answer of `end_unattended`

# First and last option of a permission question. At a terminal, y and n mean these.
ALLOW_ONCE, DENY = "Allow once", "Deny"
ANSWER_TIMEOUT_S = 60.0  # for a permission question, where perhaps nobody is there to answer it


class Refusal(Value):
    """The answer to a permission question that denies the call, with a reason for the model."""

    reason: str


class _OpenDialog(Value):
    question: Question
    answer: asyncio.Future[Any]
    ended: Any  # the answer if `cancel` ends the dialog
    timeout: asyncio.Timeout
    details: PermissionDetails | None


class Dialogs:
    """The open dialogs of a session. `show` sends a request to the client; without `has_ui` nothing is sent."""

    def __init__(
        self,
        show: Callable[[UiRequest], asyncio.Future[None] | None],
        extensions: ExtensionRegistry,
        *,
        has_ui: bool,
    ) -> None:
        self.has_ui = has_ui
        # How long a permission question waits if the rules do not say: None as long as it takes. It is for a client
        # that perhaps has no user; one that has answered a dialog has one.
        self.answer_timeout_s: float | None = None
        self._closed = False
        self._show = show
        self._extensions = extensions
        self._open: dict[str, _OpenDialog] = {}
        self.over: Callable[[str], None] = lambda id: None  # on the end of a dialog; for a front end that shows it
        # For a front end that shows a form or an address of an MCP server at once (mcp/elicitation_request.py).
        # It returns the result of the elicitation, or None if it cannot show this one.
        self.elicit: Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]] | None = None
        self.terminal_facts: Callable[[], dict[str, Any]] = dict  # TERMINAL_FACTS of extension_api/messages.py

    def show(self, request: UiRequest) -> asyncio.Future[None] | None:
        """Send a request without an answer. Returns a future that is done when there is room for more (or None)."""
        return self._show(request) if self.has_ui else None

    @property
    def attended(self) -> bool:
        """True if a user can answer."""
        return self.has_ui and not self._closed

    async def ask(
        self,
        question: Question,
        *,
        on_timeout: Any = UNSET,
        on_cancel: Any = UNSET,
        on_unattended: Any = UNSET,
        details: PermissionDetails | None = None,
    ) -> Any:
        """Show a dialog and return the answer. The wait does not count against the extension's time limit.

        A cancelled caller leaves no open dialog behind. `on_timeout` is returned on a timeout; `on_cancel` if no user
        can answer, or if `cancel` ends the dialog; `on_unattended`, by default the same, if `end_unattended` ends it.
        `details` are for a front end in this process; the client does not receive them.
        """
        default = _default(question)
        on_timeout, on_cancel = (default if value is UNSET else value for value in (on_timeout, on_cancel))
        if not self.attended:
            return on_cancel
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        about = {"kind": question.__struct_config__.tag, "title": question.title}
        limit = current_timeout.get()
        milliseconds = getattr(question, "timeout", UNSET) or None
        timeout = asyncio.timeout(None if milliseconds is None else milliseconds / 1000)
        self._open[question.id] = _OpenDialog(question, answer, on_cancel, timeout, details)
        try:
            with limit.paused() if limit is not None else nullcontext():
                self._extensions.spread("ui_prompt_start", lambda: about, newest=False)
                async with timeout:
                    self._show(question)
                    await answer
        except TimeoutError:
            if not answer.done() or answer.cancelled():
                return on_timeout  # otherwise the answer came in time, and the deadline in the same turn of the loop
        finally:
            del self._open[question.id]
            self.over(question.id)
            self._extensions.spread("ui_prompt_end", lambda: about, newest=False)
        given = answer.result()
        return given if given is not _UNATTENDED else on_cancel if on_unattended is UNSET else on_unattended

    def answer(self, response: Mapping[str, Any]) -> bool:
        """Handle an extension_ui_response. One without a valid value counts as cancelled. False if it is too late."""
        dialog = self._waiting(response.get("id"))
        if dialog is None:
            return False
        self.answer_timeout_s = None
        question, answer = dialog.question, dialog.answer
        if response.get("cancelled"):
            answer.set_result(_default(question))
        elif isinstance(question, Confirm):
            answer.set_result(response.get("confirmed") is True)
        else:
            value = response.get("value")
            answer.set_result(value if isinstance(value, str) else None)
        return True

    def cancel(self) -> None:
        """End all open dialogs without an answer."""
        for dialog in list(self._open.values()):
            if not dialog.answer.done():
                dialog.answer.set_result(dialog.ended)

    def end_unattended(self, id: str) -> None:
        """End a dialog because there is no client that could answer it."""
        if (dialog := self._waiting(id)) is not None:
            dialog.answer.set_result(_UNATTENDED)

    def close(self) -> None:
        """No user can answer from now on: end all dialogs. Other UI requests are still sent."""
        self._closed = True
        self.cancel()

    # For a front end in this process.

    def deny(self, id: str, reason: str) -> None:
        """Deny the tool call that a permission question is about. The model reads the reason."""
        dialog = self._waiting(id)
        if dialog is not None and dialog.details is not None:
            dialog.answer.set_result(Refusal(reason))

    def details(self, id: str) -> PermissionDetails | None:
        """What a permission question is about; None for other dialogs, and for those that are not open."""
        dialog = self._open.get(id)
        return None if dialog is None else dialog.details

    def deadline(self, id: str) -> float | None:
        """When an open dialog times out, in the time of the event loop; None if it does not."""
        dialog = self._open.get(id)
        return None if dialog is None else dialog.timeout.when()

    def stop_clock(self, id: str) -> bool:
        """Let a permission question wait without a deadline. False if that is not allowed."""
        dialog = self._waiting(id)
        if dialog is None or dialog.details is None or not dialog.details.can_stop_clock or dialog.timeout.expired():
            return False
        dialog.timeout.reschedule(None)
        return True

    def _waiting(self, id: Any) -> _OpenDialog | None:
        dialog = self._open.get(id) if isinstance(id, str) else None
        return None if dialog is None or dialog.answer.done() else dialog


def asks_permission(question: Question) -> bool:
    return isinstance(question, Select) and (*question.options[:1], *question.options[1:][-1:]) == (ALLOW_ONCE, DENY)


def _default(question: Question) -> bool | None:
    return False if isinstance(question, Confirm) else None


def dialog_id() -> str:
    """Return a new version 4 UUID."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
