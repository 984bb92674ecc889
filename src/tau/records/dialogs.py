"""Questions of extensions to the user, and the user's answers."""

from __future__ import annotations

from typing import Literal

from tau.records.base import UNSET, Record, UnsetType


class UiRequest(Record, tag_field="method"):
    """Base of what an extension shows or asks. `id` pairs a dialog with its answer."""


class Select(UiRequest, tag="select"):
    id: str
    title: str
    options: list[str]
    timeout: int | UnsetType = UNSET


class Confirm(UiRequest, tag="confirm"):
    id: str
    title: str
    message: str
    timeout: int | UnsetType = UNSET


class Input(UiRequest, tag="input"):
    id: str
    title: str
    placeholder: str | UnsetType = UNSET
    timeout: int | UnsetType = UNSET


class Editor(UiRequest, tag="editor"):
    id: str
    title: str
    prefill: str | UnsetType = UNSET


class Notify(UiRequest, tag="notify"):
    id: str
    message: str
    notify_type: Literal["info", "warning", "error"] | UnsetType = UNSET


class SetStatus(UiRequest, tag="setStatus"):
    """Without `statusText` the entry is cleared."""

    id: str
    status_key: str
    status_text: str | UnsetType = UNSET


class SetWidget(UiRequest, tag="setWidget"):
    """Without `widgetLines` the widget is cleared."""

    id: str
    widget_key: str
    widget_lines: list[str] | UnsetType = UNSET
    widget_placement: Literal["aboveEditor", "belowEditor"] | UnsetType = UNSET


class SetTitle(UiRequest, tag="setTitle"):
    id: str
    title: str


class SetEditorText(UiRequest, tag="set_editor_text"):
    id: str
    text: str


AnyUiRequest = Select | Confirm | Input | Editor | Notify | SetStatus | SetWidget | SetTitle | SetEditorText


class UiResponse(Record, tag_field="type", tag="extension_ui_response"):
    """One of `value`, `confirmed` and `cancelled`."""

    id: str
    value: str | UnsetType = UNSET
    confirmed: bool | UnsetType = UNSET
    cancelled: bool | UnsetType = UNSET
