"""The prompt editor: text, cursor, undo, kill ring, paste and image markers, soft wrap, history."""

from __future__ import annotations

from tau.screen.editor.editor import Editor, Submission
from tau.screen.editor.markers import Image
from tau.screen.editor.view import EditorView, max_editor_rows, more_label

__all__ = ["Editor", "EditorView", "Image", "Submission", "max_editor_rows", "more_label"]
