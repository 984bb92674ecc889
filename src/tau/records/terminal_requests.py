"""Requests of extensions to the terminal interface, besides those that every client gets (records/dialogs.py).

They are sent to a front end in this process only. Without a terminal interface they do nothing, as in pi.
"""

from __future__ import annotations

from typing import Any

from tau.records.base import UNSET, UnsetType
from tau.records.dialogs import UiRequest


class TerminalRequest(UiRequest):
    """Base class of the requests that need a terminal."""


class PasteToEditor(TerminalRequest, tag="pasteToEditor"):
    """Paste text into the prompt editor; a long text becomes a marker."""

    text: str


class SetWorkingMessage(TerminalRequest, tag="setWorkingMessage"):
    """Set the word of the working line. Without `message`, the default is restored."""

    message: str | UnsetType = UNSET


class SetWorkingVisible(TerminalRequest, tag="setWorkingVisible"):
    visible: bool


class SetWorkingIndicator(TerminalRequest, tag="setWorkingIndicator"):
    """Set the frames of the spinner. An empty list hides it; without `frames`, the default is restored."""

    frames: list[str] | UnsetType = UNSET
    interval_ms: int | UnsetType = UNSET


class SetHiddenThinkingLabel(TerminalRequest, tag="setHiddenThinkingLabel"):
    """Set the text that stands for hidden thinking. Without `label`, the default is restored."""

    label: str | UnsetType = UNSET


class SetFooter(TerminalRequest, tag="setFooter"):
    """Replace the footer. Without `lines`, the default is restored."""

    lines: list[str] | UnsetType = UNSET


class SetHeader(TerminalRequest, tag="setHeader"):
    """Replace the header. Without `lines`, the default is restored."""

    lines: list[str] | UnsetType = UNSET


class SetToolsExpanded(TerminalRequest, tag="setToolsExpanded"):
    expanded: bool


class SetTheme(TerminalRequest, tag="setTheme"):
    """Use a theme: the name of one that is installed, or the content of a theme file."""

    theme: str | dict[str, Any]


AnyTerminalRequest = (
    PasteToEditor
    | SetWorkingMessage
    | SetWorkingVisible
    | SetWorkingIndicator
    | SetHiddenThinkingLabel
    | SetFooter
    | SetHeader
    | SetToolsExpanded
    | SetTheme
)
