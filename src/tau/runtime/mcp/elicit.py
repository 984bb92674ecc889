"""Elicitation: a server's questions to the user, as dialogs.

A form becomes one dialog per field. A form that cannot be asked, or that asks for a secret, is declined without a
dialog; so is everything if no user can answer. An address is only shown: tau opens nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tau.mcp.definitions import safe_text
from tau.mcp.elicitation import BadAnswer, FormField, checked, parse_answer, parse_form
from tau.mcp.elicitation_request import checked_content, form_request, url_request
from tau.records.base import UNSET
from tau.records.dialogs import Confirm, Input, Select
from tau.runtime.extensions.dialogs import Dialogs, dialog_id

ATTEMPTS = 3  # for an answer that the schema does not allow
YES, NO, SKIP, DONE = "yes", "no", "(leave empty)", "done"
MAX_URL_BYTES = 4 * 1024


class _Cancelled(Exception):
    """The user closed a dialog."""


class DialogAsker:
    """Implements Asker of connection.py, for one call of a server's tool."""

    def __init__(self, server: str, dialogs: Dialogs) -> None:
        self._server = server
        self._dialogs = dialogs

    @property
    def session(self) -> object:
        return self._dialogs

    async def elicit(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if not self._dialogs.attended:
            return {"action": "decline"}
        if params.get("mode") == "url":
            return await self._show_url(params)
        form = parse_form(params)
        if form is None:
            return {"action": "decline"}
        if (result := await self._ask_at_once(form_request(self._server, form))) is not None:
            if result.get("action") != "accept":
                return {"action": "decline" if result.get("action") == "decline" else "cancel"}
            answers = checked_content(form, result.get("content"))
            return {"action": "cancel"} if answers is None else {"action": "accept", "content": answers}
        content: dict[str, Any] = {}
        try:
            for field in form.fields:
                value = await self._ask(form.message, field)
                if value is not UNSET:
                    content[field.name] = value
        except _Cancelled:
            return {"action": "cancel"}
        return {"action": "accept", "content": content}

    async def _ask_at_once(self, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The result, from a front end that shows the whole request; None if it has to be asked in dialogs."""
        return None if self._dialogs.elicit is None else await self._dialogs.elicit(request)

    async def _show_url(self, params: Mapping[str, Any]) -> dict[str, Any]:
        url = safe_text(params.get("url"), MAX_URL_BYTES)
        if url != params.get("url") or not _is_web_address(url):  # the user must see the whole address
            return {"action": "decline"}
        message = safe_text(params.get("message"), MAX_URL_BYTES)
        request = url_request(self._server, message, url, safe_text(params.get("elicitationId"), 256) or dialog_id())
        if (result := await self._ask_at_once(request)) is not None:
            return {"action": "accept" if result.get("action") == "accept" else "decline"}
        text = f"{message}\n\nOpen this address in a browser, then answer yes:\n{url}"
        confirmed = await self._dialogs.ask(Confirm(dialog_id(), f"{self._server}: open an address?", text))
        return {"action": "accept" if confirmed else "decline"}

    async def _ask(self, message: str, field: FormField) -> Any:
        """The value of one field; UNSET if it was left empty. Raises _Cancelled."""
        title = f"{self._server}: {message}\n{field.title}"
        if field.description and field.description != field.title:
            title += f"\n{field.description}"
        if field.kind == "several":
            return await self._ask_several(title, field)
        problem = ""
        for _ in range(ATTEMPTS):
            shown = f"{title}\n({problem})" if problem else title
            try:
                if field.kind in ("select", "boolean"):
                    return await self._ask_choice(shown, field)
                return await self._ask_text(shown, field)
            except BadAnswer as error:
                problem = str(error)
        raise _Cancelled

    async def _ask_choice(self, title: str, field: FormField) -> Any:
        values: dict[str, Any] = {YES: True, NO: False} if field.kind == "boolean" else dict(field.options)
        options = [*values, *([] if field.required else [SKIP])]
        answer = await self._dialogs.ask(Select(dialog_id(), title, options))
        if answer is None:
            raise _Cancelled
        if answer == SKIP and not field.required:
            return UNSET
        if answer not in values:
            raise BadAnswer("it must be one of the options")
        return checked(field, values[answer])

    async def _ask_text(self, title: str, field: FormField) -> Any:
        answer = await self._dialogs.ask(Input(dialog_id(), title, field.default or UNSET))
        if answer is None:
            raise _Cancelled
        if not answer.strip() and not field.required:
            return UNSET
        return parse_answer(field, answer)

    async def _ask_several(self, title: str, field: FormField) -> Any:
        chosen: list[str] = []
        left = dict(field.options)
        done = DONE if DONE not in left else f"({DONE})"
        while left:
            answer = await self._dialogs.ask(Select(dialog_id(), title, [*left, done]))
            if answer is None:
                raise _Cancelled
            if answer not in left:
                break
            chosen.append(left.pop(answer))
        if not chosen and not field.required:
            return UNSET
        try:
            return checked(field, chosen)
        except BadAnswer:
            raise _Cancelled from None


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
