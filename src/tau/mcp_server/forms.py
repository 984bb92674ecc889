"""Dialogs as elicitation forms: the form for a question, and the response that an answer means. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tau.records.base import UNSET
from tau.records.dialogs import Confirm, Editor, Input, Select

Question = Select | Confirm | Input | Editor
FIELD = "answer"


def form_of(question: Question) -> dict[str, Any]:
    """The parameters of `elicitation/create` for a question."""
    match question:
        case Select(title=title, options=options):
            return _form(title, {"type": "string", "enum": options})
        case Confirm(title=title, message=message):
            return _form(f"{title}\n\n{message}" if message else title, {"type": "boolean"})
        case Input(title=title, placeholder=placeholder):
            return _form(title, {"type": "string"} | ({} if placeholder is UNSET else {"description": placeholder}))
        case Editor(title=title, prefill=prefill):
            return _form(title, {"type": "string"} | ({} if prefill is UNSET else {"default": prefill}))


def _form(message: str, field: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {FIELD: {"title": "Answer", **field}}, "required": [FIELD]}
    return {"mode": "form", "message": message, "requestedSchema": schema}


def dialog_answer(question: Question, answer: Any) -> dict[str, Any]:
    """The answer of a client as an `extension_ui_response`; anything but a valid one cancels the dialog."""
    response: dict[str, Any] = {"type": "extension_ui_response", "id": question.id}
    content = answer.get("content") if isinstance(answer, Mapping) and answer.get("action") == "accept" else None
    value = content.get(FIELD) if isinstance(content, Mapping) else None
    if isinstance(question, Confirm) and isinstance(value, bool):
        return {**response, "confirmed": value}
    if isinstance(question, Input | Editor) and isinstance(value, str):
        return {**response, "value": value}
    if isinstance(question, Select) and value in question.options:
        return {**response, "value": value}
    return {**response, "cancelled": True}
