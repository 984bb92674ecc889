"""The session tree: rows, filters, folding, search and labels."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tau.core.conversation.tree import Tree
from tau.core.conversation.tree_outline import LabelOf, TreeOutline, outline
from tau.records.base import encode
from tau.screen.bindings import Bindings
from tau.screen.cells import line_width
from tau.screen.input_events import Key
from tau.screen.lines import plain_text
from tau.screen.modals import CANCELLED, Outcome
from tau.screen.modals.tree import COPY, EDIT_LABEL, TreeModal

pytestmark = pytest.mark.unit
BINDINGS = Bindings()


def entry(id: str, type: str = "message", **fields: object) -> tuple[bytes, str, str]:
    return encode({"type": type, "id": id, "parentId": None, "timestamp": "2026-01-02T03:04:05Z", **fields}), id, type


def said(id: str, role: str, text: str) -> tuple[bytes, str, str]:
    return entry(id, message={"role": role, "content": [{"type": "text", "text": text}]})


def branched() -> Tree:
    """hi - (call - result) - Hello - two branches: "left" with an answer and a label, "right", which is active."""
    tree = Tree()
    call = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls -la"}}
    tree.add(*entry("m", "model_change", provider="p", modelId="x"))
    tree.add(*said("a", "user", "hi"))
    tree.add(*entry("b", message={"role": "assistant", "content": [call]}))
    tree.add(*entry("c", message={"role": "toolResult", "toolCallId": "c1", "content": []}))
    hello = tree.add(*said("d", "assistant", "Hello"))
    left = tree.add(*said("e", "user", "left"))
    tree.add(*said("f", "assistant", "went left"))
    tree.leaf = hello
    tree.add(*said("g", "user", "right"))
    tree.add(*said("h", "assistant", "went right"))
    tree.add(*entry("l", "label", targetId="e", label="todo"))
    assert tree.id(left) == "e"
    return tree


def made(tree: Tree | None = None, **how: str) -> TreeModal:
    return TreeModal(outline(branched() if tree is None else tree), **how)  # type: ignore[arg-type]


def shown(modal: TreeModal, width: int = 80, rows: int = 20) -> list[str]:
    return [plain_text(line).rstrip() for line in modal.rows(width, rows).lines][2:-1]


def press(modal: TreeModal, *keys: str) -> Outcome | None:
    outcome = None
    for name in keys:
        key = Key(name, name if len(name) == 1 else "")
        outcome = modal.key(key, BINDINGS.actions(key))
    return outcome


def unmarked(rows: Sequence[str]) -> list[str]:
    """The rows without the arrow before the chosen one."""
    return [row[1:] for row in rows]


DEFAULT = [
    "  • user: hi",
    "  • [bash: ls -la]",
    "  • assistant: Hello",
    "  ├⊟ • user: right",
    "→ │  • assistant: went right ← active",
    "  └⊟ [todo] user: left",
    "     assistant: went left",
]


def test_the_active_branch_comes_first_and_its_last_entry_is_chosen() -> None:
    assert shown(made()) == DEFAULT


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("ctrl+t", ["user: hi", "assistant: Hello", "user: right", "assistant: went right", "user: left", "went left"]),
        ("ctrl+u", ["user: hi", "user: right", "user: left"]),
        ("ctrl+l", ["[todo] user: left"]),
        (
            "ctrl+a",
            [
                "[model: p/x]",
                "user: hi",
                "[no text]",
                "[bash",
                "Hello",
                "right",
                "went",
                "[label: todo]",
                "left",
                "went",
            ],
        ),
    ],
)
def test_a_filter_shows_its_entries_and_the_same_key_goes_back(key: str, expected: Sequence[str]) -> None:
    modal = made()
    press(modal, key)
    rows = shown(modal)
    assert len(rows) == len(expected)
    assert all(part in row for part, row in zip(expected, rows, strict=True))
    press(modal, key)
    assert unmarked(shown(modal)) == unmarked(DEFAULT)


def test_filters_are_cycled_in_both_directions() -> None:
    modal = made()
    titles = []
    for key in ["ctrl+o"] * 5 + ["ctrl+shift+o"]:
        press(modal, key)
        titles.append(plain_text(modal.rows(80, 20).lines[0]).split()[2])
    assert titles == ["no-tools", "user-only", "labeled-only", "all", "default", "all"]


def test_the_filter_of_the_settings_is_the_first() -> None:
    assert len(shown(made(filter_name="user-only"))) == 3


def test_a_segment_is_folded_and_unfolded() -> None:
    modal = made()
    press(modal, "ctrl+left")  # to the beginning of the segment
    assert shown(modal)[3].startswith("→ ├⊟")
    press(modal, "ctrl+left")  # folds it
    assert shown(modal)[3:] == ["→ ├⊞ • user: right", "  └⊟ [todo] user: left", "     assistant: went left"]
    press(modal, "ctrl+right")
    assert len(shown(modal)) == 7
    press(modal, "ctrl+right")  # the end of the branch
    assert shown(modal)[4].startswith("→")
    press(modal, "ctrl+right")  # the next segment
    assert shown(modal)[5].startswith("→")
    press(modal, "ctrl+left", "ctrl+left")  # folds it, then goes to the segment above
    assert shown(modal)[0] == "→ • user: hi"
    press(modal, "ctrl+left")
    assert shown(modal) == ["→ ⊞ • user: hi"]


def test_typing_searches_texts_labels_and_kinds() -> None:
    modal = made()
    press(modal, "l", "e", "f", "t")
    assert [row.lstrip("→ ⊟•") for row in shown(modal)] == ["[todo] user: left", "assistant: went left"]
    assert press(modal, "escape") is None  # clears the search
    assert unmarked(shown(modal)) == unmarked(DEFAULT)
    press(modal, *"todo")
    assert [row.lstrip("→ ⊟•") for row in shown(modal)] == ["[todo] user: left"]
    press(modal, *["backspace"] * 4)
    modal.paste("user hi")
    assert [row.lstrip("→ ⊟•") for row in shown(modal)] == ["user: hi"]
    modal.paste(" nowhere")
    assert shown(modal) == ["  Nothing found"]
    assert press(modal, "enter") is None
    press(modal, "escape")
    assert press(modal, "escape") == CANCELLED


def test_enter_chooses_an_entry_and_shift_l_its_label() -> None:
    modal = made()
    assert press(modal, "down", "enter") == Outcome("confirm", 5)
    assert press(modal, "L") == Outcome(EDIT_LABEL, 5)
    assert press(modal, "ctrl+x") == Outcome(COPY, 5)
    assert modal.label(5) == "todo"
    modal.set_label(5, LabelOf("done", "2026-01-02T03:04:05Z"))
    assert "[done] user: left" in shown(modal)[5]
    press(modal, "T")
    assert "[done] 2026-01-02T03:04:05Z user: left" in shown(modal)[5]
    modal.set_label(5, None)
    assert shown(modal)[5] == "→ └⊟ user: left"


def test_rows_fit_into_any_width_and_height() -> None:
    modal = made()
    for width in (1, 2, 10, 39, 200):
        for rows in range(1, 9):
            view = modal.rows(width, rows)
            assert len(view.lines) <= rows
            assert all(line_width(line) <= width for line in view.lines)


def test_a_tree_that_branches_at_every_entry_keeps_room_for_its_texts() -> None:
    tree = Tree()
    for number in range(200):
        at = tree.add(*said(f"a{number}", "user", f"prompt {number}"))
        tree.add(*said(f"b{number}", "user", f"other {number}"))
        tree.leaf = at
    rows = shown(made(tree))
    assert any("prompt 199" in row for row in rows) and all("…" in row for row in rows[:5])


def test_an_unreadable_entry_has_a_row_of_its_own_in_the_list_of_all() -> None:
    tree = branched()
    tree.add(b'{"type":"message","id":"z","parentId":null,"message":{"role":7}}', "z", "message")
    modal = made(tree)
    press(modal, "ctrl+a")
    assert any("[unreadable]" in row for row in shown(modal))


def test_an_entry_of_a_hostile_session_has_no_controls() -> None:
    tree = Tree()
    tree.add(*said("a", "user", "one\x1b]0;title\x07\n\x9b2Jtwo\u202e"))
    (row,) = shown(made(tree))
    assert not any(ord(character) < 32 or character in "\x9b\u202e" for character in row)


def test_the_outline_of_an_empty_session_is_empty() -> None:
    assert outline(Tree()) == TreeOutline([], [], -1, {})
