"""Questions to the person at the client: permissions for tool calls, and dialogs of extensions and MCP servers.

Permissions go as `session/request_permission`, dialogs as `elicitation/create`, or as a permission question for
clients without forms. Only an answer that was offered counts. Everything else is no answer: a tool call is then denied.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from tau.acp.client import Client, ClientRequest
from tau.acp.diffs import diffs_of_change
from tau.acp.open_calls import OpenCalls
from tau.acp.updates import Contained, OptionKind, PermissionOption, Severity, TextContent, ToolCallFields, ToolContent
from tau.records.dialogs import Confirm, Editor, Input, Notify, Select, UiRequest
from tau.records.permissions import PermissionDetails
from tau.runtime.app.handle import SessionHandle
from tau.runtime.extensions.dialogs import ALLOW_ONCE, DENY

logger = logging.getLogger(__name__)
Question = Select | Confirm | Input | Editor
CONFIRMED, DECLINED = "Yes", "No"


class Questions:
    """`spawn` runs a task of the session, `notice` shows a message."""

    def __init__(
        self,
        client: Client,
        handle: SessionHandle,
        calls: OpenCalls,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        notice: Callable[[Severity, str], None],
    ) -> None:
        self._session_id = handle.log.id  # of the client; an extension may switch the session
        self._client = client
        self._handle = handle
        self._calls = calls
        self._spawn = spawn
        self._notice = notice
        self._open: dict[str, ClientRequest | None] = {}  # by the id of the dialog
        handle.dialogs.over = self._over
        handle.dialogs.elicit = self._elicit_at_once

    def show(self, request: UiRequest) -> None:
        """Show a request of an extension, or ask a question."""
        match request:
            case Select() | Confirm() | Input() | Editor():
                self._open[request.id] = None
                self._spawn(self._ask(request))
            case Notify(_, message, kind):
                self._notice(kind or "info", message)

    def _over(self, id: str) -> None:
        """The dialog has ended: the client need not answer any more."""
        request = self._open.pop(id, None)
        if request is not None:
            request.withdraw()

    async def _ask(self, question: Question) -> None:
        answer: Mapping[str, Any] = {"cancelled": True}
        try:
            details = self._handle.dialogs.details(question.id)
            if details is not None and isinstance(question, Select):
                answer = await self._ask_permission(question, details)
            elif self._client.capabilities.form:
                answer = await self._elicit(question)
            else:
                answer = await self._ask_without_forms(question)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # else the request was withdrawn, or the client is gone
        except Exception:  # a question that cannot be asked must not wait for an answer
            logger.exception("a question could not be asked")
        self._handle.answer_dialog({"id": question.id, **answer})

    async def _request(self, question: Question, method: str, params: Any) -> Any:
        """Returns the result; None if the client answered with an error. Raises CancelledError if it is withdrawn."""
        if question.id not in self._open:
            return None
        request = self._open[question.id] = self._client.request(method, params)
        result = await request.answer
        return result if isinstance(result, dict) else None

    # Permissions.

    async def _ask_permission(self, question: Select, details: PermissionDetails) -> dict[str, Any]:
        once, session, deny = question.options
        offered = [_option("allow_once", once), _option("allow_always", session), _option("reject_once", deny)]
        values = {"allow_once": ALLOW_ONCE, "allow_always": session, "reject_once": DENY}
        view = self._calls.view(details.tool, details.arguments)
        call = ToolCallFields(
            tool_call_id=self._calls.id_of(details.call_id),
            title=view.title,
            kind=view.kind,
            content=await self._preview(question, details),
            locations=view.locations,
            raw_input=details.arguments,
        )
        chosen = await self._choose(question, call, offered)
        return {"value": values[chosen]} if chosen is not None else {"cancelled": True}

    async def _preview(self, question: Select, details: PermissionDetails) -> list[ToolContent]:
        change = await self._handle.preview_change(details.tool, details.arguments)
        if change is not None:
            return [*diffs_of_change(*change)]
        return [Contained(TextContent(question.title))]

    async def _choose(
        self, question: Question, call: ToolCallFields, offered: Sequence[PermissionOption]
    ) -> str | None:
        """The id of the chosen option; None if none was chosen."""
        params = {"sessionId": self._session_id, "toolCall": call, "options": offered}
        result = await self._request(question, "session/request_permission", params)
        outcome = result.get("outcome") if result is not None else None
        if not isinstance(outcome, dict) or outcome.get("outcome") != "selected":
            return None
        chosen = outcome.get("optionId")
        return chosen if chosen in [option.option_id for option in offered] else None

    # Dialogs.

    async def _elicit(self, question: Question) -> dict[str, Any]:
        message, schema = _form(question)
        params = {
            "sessionId": self._session_id,
            "mode": "form",
            "message": message,
            "requestedSchema": {"type": "object", "properties": {"value": schema}, "required": ["value"]},
        }
        result = await self._request(question, "elicitation/create", params)
        content = result.get("content") if result is not None and result.get("action") == "accept" else None
        value = content.get("value") if isinstance(content, dict) else None
        if isinstance(question, Confirm):
            return {"confirmed": value} if isinstance(value, bool) else {"cancelled": True}
        fits = isinstance(value, str) and (not isinstance(question, Select) or value in question.options)
        return {"value": value} if fits else {"cancelled": True}

    async def _elicit_at_once(self, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """A form or an address of an MCP server; None if the client cannot show it."""
        known = self._client.capabilities
        if not (known.url if request.get("mode") == "url" else known.form):
            return None
        asked = self._client.request("elicitation/create", {"sessionId": self._session_id, **request})
        try:
            result = await asked.answer
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            result = None  # the client is gone
        finally:
            asked.withdraw()
        return result if isinstance(result, dict) else {"action": "cancel"}

    async def _ask_without_forms(self, question: Question) -> dict[str, Any]:
        if isinstance(question, Input | Editor):
            self._notice("warning", f"An extension asks “{question.title}”, which this client cannot show.")
            return {"cancelled": True}
        call = ToolCallFields(tool_call_id=f"dialog-{question.id}", title=question.title, kind="other")
        if isinstance(question, Confirm):
            options = [_option("allow_once", CONFIRMED), _option("reject_once", DECLINED)]
            call = ToolCallFields(
                tool_call_id=call.tool_call_id,
                title=question.title,
                kind="other",
                content=[Contained(TextContent(question.message))],
            )
            chosen = await self._choose(question, call, options)
            return {"cancelled": True} if chosen is None else {"confirmed": chosen == "allow_once"}
        listed = {f"option-{at}": option for at, option in enumerate(question.options)}
        options = [PermissionOption(id, option, "allow_once") for id, option in listed.items()]
        chosen = await self._choose(question, call, options)
        return {"cancelled": True} if chosen is None else {"value": listed[chosen]}


def _option(kind: OptionKind, name: str) -> PermissionOption:
    """An option whose id is its kind: some clients go by the id and know no other."""
    return PermissionOption(kind, name, kind)


def _form(question: Question) -> tuple[str, dict[str, Any]]:
    """The message and the schema of the only field of a form."""
    match question:
        case Select(_, title, options):
            return title, {"type": "string", "title": title, "enum": options}
        case Confirm(_, title, message):
            return f"{title}\n\n{message}" if message else title, {"type": "boolean", "title": title}
        case Input(_, title, placeholder):
            hint = {"description": placeholder} if isinstance(placeholder, str) else {}
            return title, {"type": "string", "title": title, **hint}
        case Editor(_, title, prefill):
            default = {"default": prefill} if isinstance(prefill, str) else {}
            return title, {"type": "string", "title": title, **default}
