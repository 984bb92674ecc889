"""Requests of extensions to the user interface, by the names of the extension protocol."""

from __future__ import annotations

from typing import Any

from tau.records import dialogs, terminal_requests
from tau.records.base import decode, encode
from tau.runtime.extensions.dialogs import dialog_id
from tau.runtime.extensions.registry import TerminalFunctions

# Dialogs: QUESTIONS wait for the person at the client to answer, SHOWN are only displayed.
QUESTIONS: dict[str, type[dialogs.Select | dialogs.Confirm | dialogs.Input | dialogs.Editor]] = {
    "select": dialogs.Select,
    "confirm": dialogs.Confirm,
    "input": dialogs.Input,
    "editor": dialogs.Editor,
}
SHOWN: dict[str, type[dialogs.UiRequest]] = {
    "notify": dialogs.Notify,
    "set_status": dialogs.SetStatus,
    "set_widget": dialogs.SetWidget,
    "set_title": dialogs.SetTitle,
    "set_editor_text": dialogs.SetEditorText,
}

# Shown by the terminal interface only.
TERMINAL: dict[str, type[terminal_requests.TerminalRequest]] = {
    "paste_to_editor": terminal_requests.PasteToEditor,
    "set_working_message": terminal_requests.SetWorkingMessage,
    "set_working_visible": terminal_requests.SetWorkingVisible,
    "set_working_indicator": terminal_requests.SetWorkingIndicator,
    "set_hidden_thinking_label": terminal_requests.SetHiddenThinkingLabel,
    "set_footer": terminal_requests.SetFooter,
    "set_header": terminal_requests.SetHeader,
    "set_tools_expanded": terminal_requests.SetToolsExpanded,
    "set_theme": terminal_requests.SetTheme,
}
# What restores the state before a request, for an extension that has ended: the field that names the part, if there
# are several, and the other parameters.
RESTORED: dict[str, tuple[str | None, dict[str, Any]]] = {
    "set_status": ("statusKey", {}),
    "set_widget": ("widgetKey", {}),
    "set_title": (None, {"title": ""}),
    "set_working_message": (None, {}),
    "set_working_visible": (None, {"visible": True}),
    "set_working_indicator": (None, {}),
    "set_hidden_thinking_label": (None, {}),
    "set_footer": (None, {}),
    "set_header": (None, {}),
}


def ui_request(kind: type[Any], params: dict[str, Any]) -> Any:
    """Build a request with a new id. Raises BadRecord."""
    tag = kind.__struct_config__.tag
    return decode(kind, encode({**params, "method": tag, "id": dialog_id()}))


def remember_shown(terminal: TerminalFunctions, path: str, name: str, params: dict[str, Any]) -> None:
    """Remember how to remove what an extension shows in the terminal when the extension ends."""
    if name not in RESTORED:
        return
    field, undo = RESTORED[name]
    part = "" if field is None else str(params.get(field))
    terminal.shown.setdefault(path, {})[name, part] = undo if field is None else {**undo, field: part}
