"""Dialogs: requests of extensions to the user interface, and the user's answers."""

from __future__ import annotations

from typing import Literal

from tau.records.base import UNSET, Record, UnsetType, encode


class UiRequest(Record, tag_field="method"):
    """Base class of the requests of extensions. The answer to a dialog has the same `id`."""

    id: str


class Select(UiRequest, tag="select"):
    """Ask the user to choose one of `options`. `timeout` is in milliseconds."""

    title: str
    options: list[str]
    timeout: int | UnsetType = UNSET


class Confirm(UiRequest, tag="confirm"):
    """Ask the user a yes-or-no question. `timeout` is in milliseconds."""

    title: str
    message: str
    timeout: int | UnsetType = UNSET


class Input(UiRequest, tag="input"):
    """Ask the user for one line of text. `timeout` is in milliseconds."""

    title: str
    placeholder: str | UnsetType = UNSET
    timeout: int | UnsetType = UNSET


class Editor(UiRequest, tag="editor"):
    """Ask the user for text of several lines. `prefill` is the initial text."""

    title: str
    prefill: str | UnsetType = UNSET


class Notify(UiRequest, tag="notify"):
    """Show a message to the user."""

    message: str
    notify_type: Literal["info", "warning", "error"] | UnsetType = UNSET


class SetStatus(UiRequest, tag="setStatus"):
    """Without `statusText`, the status entry is removed."""

    status_key: str
    status_text: str | UnsetType = UNSET


class SetWidget(UiRequest, tag="setWidget"):
    """Without `widgetLines`, the widget is removed."""

    widget_key: str
    widget_lines: list[str] | UnsetType = UNSET
    widget_placement: Literal["aboveEditor", "belowEditor"] | UnsetType = UNSET


class SetTitle(UiRequest, tag="setTitle"):
    """Set the title of the terminal or window."""

    title: str


class SetEditorText(UiRequest, tag="set_editor_text"):
    """Replace the text of the prompt editor."""

    text: str


def ui_json(request: UiRequest) -> bytes:
    """Encode a request for the wire, with fields in the order of pi: type, id, method, then its own fields."""
    body = encode(request)
    id, method = encode(request.id), encode(request.__struct_config__.tag)
    fields = body[len(b'{"method":,"id":') + len(id) + len(method) :]
    return b'{"type":"extension_ui_request","id":%b,"method":%b%b' % (id, method, fields)


AnyUiRequest = Select | Confirm | Input | Editor | Notify | SetStatus | SetWidget | SetTitle | SetEditorText


class UiResponse(Record, tag_field="type", tag="extension_ui_response"):
    """Exactly one of `value`, `confirmed` and `cancelled` is set."""

    id: str
    value: str | UnsetType = UNSET
    confirmed: bool | UnsetType = UNSET
    cancelled: bool | UnsetType = UNSET
