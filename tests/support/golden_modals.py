"""Scenes of lists, forms and the viewer, for the golden screens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tau.core.conversation.tree import Tree
from tau.core.conversation.tree_outline import outline
from tau.records.base import UNSET, encode
from tau.records.replies import SessionRow
from tau.screen.bindings import Bindings
from tau.screen.hotkeys import hotkeys
from tau.screen.look import Look
from tau.screen.modals import Modal
from tau.screen.modals.hotkey_list import HotkeyList
from tau.screen.modals.message import MessageModal
from tau.screen.modals.search_list import ListRow, SearchList
from tau.screen.modals.session_picker import PickerCalls, PickerFacts, SessionPicker
from tau.screen.modals.session_search import SessionItem
from tau.screen.modals.settings_list import SettingsList
from tau.screen.modals.text_field import TextField
from tau.screen.modals.tree import TreeModal
from tau.screen.viewer.live import LiveTail
from tau.screen.viewer.pages import Pages
from tau.screen.viewer.viewer import Viewer

DAY = 86_400_000
USAGE = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}
COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
ANSWER = {"api": "a", "provider": "p", "model": "m", "usage": {**USAGE, "cost": COST}, "stopReason": "stop"}


class Shown(Protocol):
    def open(self, modal: Modal) -> None: ...

    def open_full(self, modal: Modal) -> None: ...


def models(stage: Shown) -> None:
    rows = [
        ListRow("opus-large", "anthropic · $5 in, $25 out · 200k · scope", mark="✓"),
        ListRow("haiku-small", "anthropic · $1 in, $5 out · 200k · scope"),
        ListRow("qwen-local", "ollama · free · 32k"),
    ]
    stage.open(SearchList("Model", rows, hints=["Ctrl+S makes it the default"]))


def sessions(stage: Shown) -> None:
    def item(id: str, name: str, first: str, age: int, parent: str = "") -> SessionItem:
        row = SessionRow(f"/s/{id}", id, "/home/ann/project", name or UNSET, parent or UNSET, 0, -age, 12, first)
        return SessionItem(row, complete=True)

    items = [
        item("a", "parser", "Fix the parser", DAY // 24),
        item("b", "", "Write the manual, with examples for every command", 3 * DAY, "/s/a"),
        item("c", "", "漢字 in file names", 40 * DAY),
    ]
    calls = PickerCalls(lambda: None, lambda row, name: None, lambda row: None)
    hints = ["Tab all/this folder", "Ctrl+R renames", "Ctrl+D deletes", "Ctrl+S sorts"]
    stage.open(SessionPicker(items, PickerFacts("/home/ann/project", "/home/ann", "/s/a", 0), calls, hints))


def _entry(tree: Tree, id: str, type: str = "message", **fields: Any) -> int:
    content = {"type": type, "id": id, "parentId": None, "timestamp": "2026-01-02T03:04:05Z", **fields}
    return tree.add(encode(content), id, type)


def _said(tree: Tree, id: str, role: str, text: str) -> int:
    more = ANSWER if role == "assistant" else {}
    message = {"role": role, "content": [{"type": "text", "text": text}], "timestamp": 1, **more}
    return _entry(tree, id, message=message)


def _conversation() -> Tree:
    tree = Tree()
    _said(tree, "a", "user", "How does the parser work?")
    answer = _said(tree, "b", "assistant", "It reads **one token** at a time.")
    _said(tree, "c", "user", "Make it faster")
    _said(tree, "d", "assistant", "Done: it is *twice* as fast.")
    tree.leaf = answer
    _said(tree, "e", "user", "Write tests for it")
    _said(tree, "f", "assistant", "There are ten tests now.")
    _entry(tree, "l", "label", targetId="c", label="speed")
    return tree


def tree(stage: Shown) -> None:
    stage.open(TreeModal(outline(_conversation())))


def viewer(stage: Shown) -> None:
    conversation = _conversation()
    pages = Pages(lambda: conversation, LiveTail(lambda: conversation), Look(80))
    stage.open_full(Viewer(pages, lambda: 0.0, lambda text: None))


def settings(stage: Shown) -> None:
    rows = [ListRow("theme", "dark"), ListRow("hideThinkingBlock", "on · yours"), ListRow("retry.maxRetries", "3")]
    about = ["Theme of the terminal interface.", "Show a line instead of the thinking.", "How often to try again."]
    stage.open(SettingsList("Settings · yours", rows, about, lambda at: None, lambda: "Settings · yours"))


def keys(stage: Shown) -> None:
    stage.open(HotkeyList(hotkeys(Bindings(), extended=True)))


def field(stage: Shown) -> None:
    key = TextField("API key for Anthropic", "It is stored in auth.json, readable only by you.", hidden=True)
    key.paste("sk-12345678")
    stage.open(key)


def waiting(stage: Shown) -> None:
    stage.open(MessageModal("Waiting for the session", "parser opens as soon as process 4711 (tau) has closed it."))


MODALS: dict[str, Callable[[Shown], None]] = {
    f"list-{scene.__name__}": scene for scene in (models, sessions, tree, viewer, settings, keys, field, waiting)
}
