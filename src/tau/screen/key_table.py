"""Every action that a key can be bound to: its id in keybindings.json, its default keys and where it applies.

Ids and default keys are those of pi 0.87.1; `own` actions exist only in tau.
"""

from __future__ import annotations

from typing import Literal

from tau.records.base import Value

Platform = Literal["linux", "darwin", "windows", "wsl"]

# Where an action applies. The same key in two contexts is not a clash.
Context = Literal["editor", "empty", "question", "list", "sessions", "models", "thinking", "tree", "viewer", "search"]

# A context in which the actions of other contexts apply too.
INHERITED: dict[Context, tuple[Context, ...]] = {
    "sessions": ("list",),
    "models": ("list",),
    "thinking": ("list",),
    "tree": ("list",),
}


class Action(Value):
    id: str
    keys: tuple[str, ...]
    context: Context
    description: str
    own: bool
    other_platforms: dict[Platform, tuple[str, ...]]

    def default_keys(self, platform: Platform) -> tuple[str, ...]:
        return self.other_platforms.get(platform, self.keys)


def _action(
    action: str,
    keys: str,
    context: Context,
    description: str,
    *,
    own: bool = False,
    windows: str | None = None,
    wsl: str | None = None,
) -> Action:
    others: dict[Platform, tuple[str, ...]] = {}
    if windows is not None:
        others["windows"] = tuple(windows.split())
    if wsl is not None:
        others["wsl"] = tuple(wsl.split())
    return Action(action, tuple(keys.split()), context, description, own, others)


KEYS: tuple[Action, ...] = (
    _action("tui.editor.cursorUp", "up", "editor", "Move up; at the top, to older prompts"),
    _action("tui.editor.cursorDown", "down", "editor", "Move down; at the bottom, to newer prompts"),
    _action("tui.editor.cursorLeft", "left ctrl+b", "editor", "Move left"),
    _action("tui.editor.cursorRight", "right ctrl+f", "editor", "Move right"),
    _action("tui.editor.cursorWordLeft", "alt+left ctrl+left alt+b", "editor", "Move left by a word"),
    _action("tui.editor.cursorWordRight", "alt+right ctrl+right alt+f", "editor", "Move right by a word"),
    _action("tui.editor.cursorLineStart", "home ctrl+home ctrl+a", "editor", "Move to the beginning of the line"),
    _action("tui.editor.cursorLineEnd", "end ctrl+end ctrl+e", "editor", "Move to the end of the line"),
    _action("tui.editor.jumpForward", "ctrl+]", "editor", "Jump forward to a character"),
    _action("tui.editor.jumpBackward", "ctrl+alt+]", "editor", "Jump backward to a character"),
    _action("tui.editor.pageUp", "pageUp ctrl+pageUp", "editor", "Move up by a page"),
    _action("tui.editor.pageDown", "pageDown ctrl+pageDown", "editor", "Move down by a page"),
    _action("tui.editor.historyPrevious", "", "editor", "Show the previous prompt"),
    _action("tui.editor.historyNext", "", "editor", "Show the next prompt"),
    _action("tui.editor.historySearch", "ctrl+r", "editor", "Search the prompts that were sent", own=True),
    _action("tui.editor.deleteCharBackward", "backspace", "editor", "Delete the character before the cursor"),
    _action("tui.editor.deleteCharForward", "delete ctrl+d", "editor", "Delete the character at the cursor"),
    _action("tui.editor.deleteWordBackward", "ctrl+w alt+backspace", "editor", "Delete the word before the cursor"),
    _action("tui.editor.deleteWordForward", "alt+d alt+delete", "editor", "Delete the word after the cursor"),
    _action("tui.editor.deleteToLineStart", "ctrl+u", "editor", "Delete to the beginning of the line"),
    _action("tui.editor.deleteToLineEnd", "ctrl+k", "editor", "Delete to the end of the line"),
    _action("tui.editor.yank", "ctrl+y", "editor", "Insert what was deleted last"),
    _action("tui.editor.yankPop", "alt+y", "editor", "After that: insert what was deleted before it"),
    _action("tui.editor.undo", "ctrl+-", "editor", "Undo", windows="ctrl+z", wsl="alt+z"),
    _action("tui.editor.redo", "alt+-", "editor", "Redo", own=True),
    _action("tui.input.newLine", "shift+enter ctrl+j", "editor", "Insert a line break"),
    _action("tui.input.submit", "enter", "editor", "Send"),
    _action("tui.input.tab", "tab", "editor", "Complete"),
    _action("tui.input.copy", "ctrl+c", "editor", "Copy the selection"),
    _action("tui.select.up", "up", "list", "Move up"),
    _action("tui.select.down", "down", "list", "Move down"),
    _action("tui.select.pageUp", "pageUp", "list", "Move up by a page"),
    _action("tui.select.pageDown", "pageDown", "list", "Move down by a page"),
    _action("tui.select.confirm", "enter", "list", "Confirm"),
    _action("tui.select.cancel", "escape ctrl+c", "list", "Cancel"),
    _action("tui.altScreen.pageUp", "pageUp", "viewer", "Scroll up by a page"),
    _action("tui.altScreen.pageDown", "pageDown", "viewer", "Scroll down by a page"),
    _action("tui.altScreen.top", "home", "viewer", "Scroll to the beginning"),
    _action("tui.altScreen.bottom", "end", "viewer", "Scroll to the end and follow new output"),
    _action("tui.altScreen.halfPageUp", "", "viewer", "Scroll up by half a page"),
    _action("tui.altScreen.halfPageDown", "", "viewer", "Scroll down by half a page"),
    _action("tui.altScreen.lineUp", "", "viewer", "Scroll up by a line"),
    _action("tui.altScreen.lineDown", "", "viewer", "Scroll down by a line"),
    _action(
        "tui.altScreen.previousPrompt",
        "ctrl+shift+up ctrl+up",
        "viewer",
        "Go to the previous prompt",
        windows="ctrl+up",
        wsl="ctrl+up",
    ),
    _action(
        "tui.altScreen.nextPrompt",
        "ctrl+shift+down ctrl+down",
        "viewer",
        "Go to the next prompt",
        windows="ctrl+down",
        wsl="ctrl+down",
    ),
    _action("tui.altScreen.search", "ctrl+shift+f", "viewer", "Search", windows="ctrl+f", wsl="ctrl+f"),
    _action("tui.altScreen.searchNext", "enter ctrl+g", "search", "Go to the next match"),
    _action("tui.altScreen.searchPrevious", "shift+enter ctrl+shift+g", "search", "Go to the previous match"),
    _action("tui.altScreen.searchClose", "escape", "search", "Close the search"),
    _action("app.interrupt", "escape", "editor", "Cancel or stop"),
    _action("app.clear", "ctrl+c", "editor", "Clear the editor; twice: exit"),
    _action("app.exit", "ctrl+d", "editor", "Exit, if the editor is empty"),
    _action("app.suspend", "ctrl+z", "editor", "Suspend to the shell", windows=""),
    _action("app.editor.external", "ctrl+g", "editor", "Edit in an external editor"),
    _action(
        "app.clipboard.pasteImage",
        "ctrl+v",
        "editor",
        "Paste an image or text from the clipboard",
        windows="alt+v",
        wsl="alt+v",
    ),
    _action("app.session.new", "", "editor", "Start a new session"),
    _action("app.session.tree", "", "editor", "Open the session tree"),
    _action("app.session.fork", "", "editor", "Fork the session"),
    _action("app.session.resume", "", "editor", "Resume a session"),
    _action("app.session.togglePath", "ctrl+p", "sessions", "Show or hide paths"),
    _action("app.session.toggleSort", "ctrl+s", "sessions", "Change the order"),
    _action("app.session.toggleNamedFilter", "ctrl+n", "sessions", "Only sessions with a name"),
    _action("app.session.rename", "ctrl+r", "sessions", "Rename the session"),
    _action("app.session.delete", "ctrl+d", "sessions", "Delete the session"),
    _action("app.session.deleteNoninvasive", "ctrl+backspace", "sessions", "Delete the session, if the query is empty"),
    _action("app.model.select", "ctrl+l", "editor", "Choose a model"),
    _action("app.model.cycleForward", "ctrl+p", "editor", "Next model"),
    _action("app.model.cycleBackward", "ctrl+shift+p", "editor", "Previous model", windows="alt+p", wsl="alt+p"),
    _action("app.models.save", "ctrl+s", "models", "Save the model as the default"),
    _action("app.thinking.cycle", "shift+tab", "editor", "Next thinking level"),
    _action("app.thinking.save", "ctrl+s", "thinking", "Save the thinking level as the default"),
    _action("app.thinking.toggle", "ctrl+t", "editor", "Collapse or expand thinking"),
    _action("app.tools.expand", "ctrl+o", "editor", "Collapse or expand tool output"),
    _action("app.message.copy", "ctrl+x", "editor", "Copy the last answer"),
    _action("app.message.followUp", "alt+enter", "editor", "Queue a follow-up message", windows="ctrl+q", wsl="ctrl+q"),
    _action(
        "app.message.dequeue",
        "alt+up",
        "editor",
        "Take queued messages back into the editor",
        windows="alt+q",
        wsl="alt+q",
    ),
    _action("app.tree.foldOrUp", "ctrl+left alt+left", "tree", "Fold the branch, or go to the previous one"),
    _action("app.tree.unfoldOrDown", "ctrl+right alt+right", "tree", "Unfold the branch, or go to the next one"),
    _action("app.tree.editLabel", "shift+l", "tree", "Edit the label"),
    _action("app.tree.toggleLabelTimestamp", "shift+t", "tree", "Show or hide the times of labels"),
    _action("app.tree.filter.default", "ctrl+d", "tree", "Default filter"),
    _action("app.tree.filter.noTools", "ctrl+t", "tree", "Hide tool results"),
    _action("app.tree.filter.userOnly", "ctrl+u", "tree", "Only prompts"),
    _action("app.tree.filter.labeledOnly", "ctrl+l", "tree", "Only labelled entries"),
    _action("app.tree.filter.all", "ctrl+a", "tree", "All entries"),
    _action("app.tree.filter.cycleForward", "ctrl+o", "tree", "Next filter"),
    _action("app.tree.filter.cycleBackward", "ctrl+shift+o", "tree", "Previous filter"),
    _action("app.models.enableAll", "ctrl+a", "models", "Enable all models"),
    _action("app.models.clearAll", "ctrl+x", "models", "Disable all models"),
    _action("app.models.toggleProvider", "ctrl+p", "models", "All models of the provider"),
    _action("app.models.reorderUp", "alt+up", "models", "Move the model up"),
    _action("app.models.reorderDown", "alt+down", "models", "Move the model down"),
    _action("app.transcript.open", "alt+o", "editor", "Open the transcript", own=True),
    _action("app.redraw", "", "editor", "Draw the screen again", own=True),
    _action("app.help", "?", "empty", "Show the keys, in an empty editor", own=True),
    _action("app.permission.focus", "tab", "question", "Answer the question", own=True),
)

# Ids before pi 0.60.
OLD_IDS = {
    **{
        name: f"tui.editor.{name}"
        for name in (
            *("cursorUp", "cursorDown", "cursorLeft", "cursorRight", "cursorWordLeft", "cursorWordRight"),
            *("cursorLineStart", "cursorLineEnd", "jumpForward", "jumpBackward", "pageUp", "pageDown"),
            *("deleteCharBackward", "deleteCharForward", "deleteWordBackward", "deleteWordForward"),
            *("deleteToLineStart", "deleteToLineEnd", "yank", "yankPop", "undo"),
        )
    },
    **{name: f"tui.input.{name}" for name in ("newLine", "submit", "tab", "copy")},
    **{name: f"app.{name}" for name in ("interrupt", "clear", "exit", "suspend")},
    **{name: f"app.session.{name}" for name in ("tree", "fork", "resume")},
    **{name: f"app.message.{name}" for name in ("followUp", "dequeue")},
    "selectUp": "tui.select.up",
    "selectDown": "tui.select.down",
    "selectPageUp": "tui.select.pageUp",
    "selectPageDown": "tui.select.pageDown",
    "selectConfirm": "tui.select.confirm",
    "selectCancel": "tui.select.cancel",
    "cycleThinkingLevel": "app.thinking.cycle",
    "toggleThinking": "app.thinking.toggle",
    "cycleModelForward": "app.model.cycleForward",
    "cycleModelBackward": "app.model.cycleBackward",
    "selectModel": "app.model.select",
    "expandTools": "app.tools.expand",
    "externalEditor": "app.editor.external",
    "pasteImage": "app.clipboard.pasteImage",
    "newSession": "app.session.new",
    "toggleSessionNamedFilter": "app.session.toggleNamedFilter",
    "toggleSessionPath": "app.session.togglePath",
    "toggleSessionSort": "app.session.toggleSort",
    "renameSession": "app.session.rename",
    "deleteSession": "app.session.delete",
    "deleteSessionNoninvasive": "app.session.deleteNoninvasive",
    "treeFoldOrUp": "app.tree.foldOrUp",
    "treeUnfoldOrDown": "app.tree.unfoldOrDown",
    "treeEditLabel": "app.tree.editLabel",
    "treeToggleLabelTimestamp": "app.tree.toggleLabelTimestamp",
}
