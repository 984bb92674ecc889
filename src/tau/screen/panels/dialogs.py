"""Panels for the dialogs of extensions, and for permission questions."""

from __future__ import annotations

from tau.records.dialogs import Confirm, Editor, Input, Select
from tau.records.permissions import PermissionDetails
from tau.screen.panels import Answer, Panel
from tau.screen.panels.choices import ChoicePanel, Question, Row, text_body
from tau.screen.panels.field import FieldPanel
from tau.screen.panels.permission import permission_panel

Dialog = Select | Confirm | Input | Editor


def panel_for(dialog: Dialog, details: PermissionDetails | None = None) -> Panel:
    """`details`: what a permission question is about."""
    match dialog:
        case Select() if details is not None and len(dialog.options) > 1:
            return permission_panel(dialog, details)
        case Select(title=title, options=options):
            first, _, rest = title.partition("\n")
            return ChoicePanel(Question(first, text_body(rest), [Row(option, Answer(option)) for option in options]))
        case Confirm(title=title, message=message):
            rows = [Row("Yes", Answer(True)), Row("No", Answer(False))]
            return ChoicePanel(Question(title, text_body(message), rows, start=1, cancels="Esc means no"))
        case Input(title=title, placeholder=placeholder):
            return FieldPanel(title, placeholder=placeholder if isinstance(placeholder, str) else "")
        case Editor(title=title, prefill=prefill):
            return FieldPanel(title, text=prefill if isinstance(prefill, str) else "", multiline=True)
