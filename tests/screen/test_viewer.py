"""The transcript viewer: scrolling, search, prompts, copying, following."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tau.core.conversation.tree import Tree
from tau.records import events as ev
from tau.records import messages as m
from tau.records.base import decode, encode
from tau.records.deltas import TextDelta
from tau.screen.bindings import Bindings
from tau.screen.cells import line_width
from tau.screen.input_events import Key
from tau.screen.lines import plain_text
from tau.screen.look import Look
from tau.screen.modals import CANCELLED, Outcome
from tau.screen.viewer.live import LiveTail
from tau.screen.viewer.pages import Pages
from tau.screen.viewer.viewer import EDIT, Viewer

pytestmark = pytest.mark.unit
BINDINGS = Bindings()
USAGE = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}
USAGE["cost"] = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}  # type: ignore[assignment]
ANSWER = {"role": "assistant", "api": "a", "provider": "p", "model": "m", "usage": USAGE, "timestamp": 1}


def add(tree: Tree, **message: object) -> None:
    id = f"e{len(tree)}"
    entry = {"type": "message", "id": id, "parentId": None, "timestamp": "2026-01-02T03:04:05Z", "message": message}
    tree.add(encode(entry), id, "message")


def answer(*content: object, stop: str = "stop") -> dict[str, object]:
    return {**ANSWER, "content": list(content), "stopReason": stop}


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def conversation(turns: int = 30) -> Tree:
    """Prompts, a tool call with a result of 30 lines, and an answer, `turns` times."""
    tree = Tree()
    for turn in range(turns):
        call = {"type": "toolCall", "id": f"c{turn}", "name": "bash", "arguments": {"command": f"count {turn}"}}
        output = "\n".join(f"line {number} of {turn}" for number in range(30))
        add(tree, role="user", content=[text(f"prompt {turn}")], timestamp=1)
        add(tree, **answer(call, stop="toolUse"))
        result = {"toolCallId": f"c{turn}", "toolName": "bash", "content": [text(output)], "isError": False}
        add(tree, role="toolResult", **result, timestamp=1)
        add(tree, **answer(text(f"answer **number** {turn}")))
    return tree


def made(tree: Tree, copied: list[str] | None = None) -> tuple[Viewer, LiveTail]:
    live = LiveTail(lambda: tree)
    target = [] if copied is None else copied
    return Viewer(Pages(lambda: tree, live, Look(80)), lambda: 0.0, target.append), live


def shown(viewer: Viewer, width: int = 60, rows: int = 12) -> list[str]:
    return [plain_text(line).rstrip() for line in viewer.rows(width, rows).lines]


def press(viewer: Viewer, *keys: str) -> Outcome | None:
    outcome = None
    for name in keys:
        key = Key(name, name if len(name) == 1 else "")
        outcome = viewer.key(key, BINDINGS.actions(key))
    return outcome


def search(viewer: Viewer, query: str) -> None:
    press(viewer, "/", *query, "enter")


def test_it_opens_at_the_end_and_shows_results_whole() -> None:
    viewer, _ = made(conversation())
    rows = shown(viewer)
    assert len(rows) == 12 and rows[-1].startswith("Transcript · end")
    assert "answer number 29" in rows[-2]
    assert any("line 29 of 29" in row for row in rows)
    assert not any("earlier" in row for row in rows)


def test_every_row_is_seen_once_when_scrolling_page_by_page() -> None:
    viewer, _ = made(conversation(8))
    shown(viewer)
    press(viewer, "home")
    seen: list[str] = []
    for _ in range(100):
        rows = shown(viewer)[:-1]
        new = rows if not seen else rows[1:]  # a page keeps one row
        seen += new
        if "end" in shown(viewer)[-1]:
            break
        press(viewer, "pageDown")
    for turn in range(8):
        assert sum(f"prompt {turn}" in row for row in seen) >= 1
    words = [row for row in seen if "line 7 of " in row]
    assert len(set(words)) == 8


def test_arrows_move_by_a_line_and_home_and_end_to_the_ends() -> None:
    viewer, _ = made(conversation())
    last = shown(viewer)
    press(viewer, "up")
    assert shown(viewer)[1:-1] == last[:-2]
    press(viewer, "down")
    assert shown(viewer) == last
    press(viewer, "home")
    assert "prompt 0" in "\n".join(shown(viewer))
    press(viewer, "end")
    assert shown(viewer) == last


def test_search_goes_to_the_next_and_the_previous_match() -> None:
    viewer, _ = made(conversation())
    shown(viewer)
    press(viewer, "home")
    search(viewer, "LINE 3 of 7")
    assert any("line 3 of 7" in row for row in shown(viewer))
    press(viewer, "n")
    assert shown(viewer)[-1].startswith("Not found below")
    search(viewer, "answer number")
    first = shown(viewer)
    press(viewer, "n")
    second = shown(viewer)
    assert first != second
    press(viewer, "N")
    assert shown(viewer) == first
    lines = viewer.rows(60, 12).lines[:-1]
    assert "answer number" in "".join(span.text for line in lines for span in line if "inverse" in span.style)


def test_a_result_is_found_backward_and_a_phrase_over_two_rows() -> None:
    viewer, _ = made(conversation())
    shown(viewer)
    search(viewer, "line 3 of 7")
    press(viewer, "N")
    assert any("line 3 of 7" in row for row in shown(viewer))
    tree = Tree()
    add(tree, role="user", content=[text("word " * 10 + "the needle")], timestamp=1)
    viewer, _ = made(tree)
    shown(viewer, width=56)
    press(viewer, "home")
    search(viewer, "the needle")
    assert "Not found" not in shown(viewer, width=56)[-1]


def test_a_long_search_stops_and_goes_on_with_the_next_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tau.screen.viewer.search.MAX_ENTRIES", 5)
    viewer, _ = made(conversation())
    shown(viewer)
    press(viewer, "home")
    search(viewer, "prompt 7 ")
    search(viewer, "number answer")
    assert "n goes on" in shown(viewer)[-1]
    for _ in range(10):
        press(viewer, "n")
    assert shown(viewer)[-1].startswith("Not found below")


def test_a_search_that_is_typed_is_edited_and_closed() -> None:
    viewer, _ = made(conversation(2))
    shown(viewer)
    press(viewer, "/", "a", "b", "backspace")
    view = viewer.rows(60, 12)
    assert plain_text(view.lines[-1]) == "/a" and view.cursor == (11, 2)
    assert press(viewer, "escape") is None
    assert press(viewer, "escape") == CANCELLED


def test_brackets_go_to_the_previous_and_next_prompt() -> None:
    viewer, _ = made(conversation())
    shown(viewer)
    press(viewer, "[", "[")
    assert "prompt 28" in "\n".join(shown(viewer)[:3])
    press(viewer, "]")
    assert "prompt 29" in "\n".join(shown(viewer)[:3])


def test_c_copies_the_entry_and_e_opens_it() -> None:
    copied: list[str] = []
    viewer, _ = made(conversation(), copied)
    shown(viewer)
    press(viewer, "home", "c")
    assert copied == ["prompt 0"]
    search(viewer, "answer number 5")
    shown(viewer)
    assert press(viewer, "e") == Outcome(EDIT, "answer **number** 5")


def test_q_leaves() -> None:
    viewer, _ = made(conversation(1))
    assert press(viewer, "q") == CANCELLED


def streamed(viewer: Viewer, live: LiveTail, words: Sequence[str]) -> None:
    for word in words:
        live.apply(ev.MessageUpdate(TextDelta(0, word)), 0)


def test_it_follows_what_is_streamed_if_it_is_at_the_end() -> None:
    tree = conversation(3)
    viewer, live = made(tree)
    shown(viewer)
    live.apply(ev.MessageStart(decode(m.Assistant, encode(answer()))), 0)
    streamed(viewer, live, ["so ", "far\n\n"])
    assert "so far" in "\n".join(shown(viewer))
    press(viewer, "pageUp")
    before = shown(viewer)
    streamed(viewer, live, [f"more {number}\n\n" for number in range(40)])
    assert shown(viewer)[:-1] == before[:-1]
    press(viewer, "end")
    assert "more 39" in shown(viewer)[-2]
    done = answer(text("so far\n\n" + "\n\n".join(f"more {number}" for number in range(40))))
    at_end = shown(viewer)
    add(tree, **done)
    live.apply(ev.MessageEnd(decode(m.Assistant, encode(done))), 0)
    live.apply(ev.AgentSettled(), 0)
    assert shown(viewer) == at_end


def test_a_tool_that_runs_when_it_opens_is_shown_with_its_output() -> None:
    tree = conversation(1)
    call = {"type": "toolCall", "id": "x", "name": "bash", "arguments": {"command": "slow"}}
    add(tree, role="user", content=[text("again")], timestamp=1)
    add(tree, **answer(text("I run it."), call, stop="toolUse"))
    viewer, live = made(tree)
    live.begin(None, 0)
    live.apply(ev.ToolUpdate("x", "bash", {}, ev.Outcome([m.Text("output so far")])), 0)
    rows = "\n".join(shown(viewer))
    assert "I run it." in rows and "$ slow" in rows and "output so far" in rows and "abort" not in rows


def test_an_answer_that_is_streamed_when_it_opens_is_shown_from_its_beginning() -> None:
    tree = conversation(1)
    viewer, live = made(tree)
    live.begin(decode(m.Assistant, encode(answer(text("The beginning")))), 0)
    streamed(viewer, live, [" and the end"])
    assert "The beginning and the end" in "\n".join(shown(viewer))


def test_rows_fit_into_any_size_and_an_empty_session_is_no_error() -> None:
    for tree in (Tree(), conversation(2)):
        viewer, _ = made(tree)
        for width in (1, 5, 39, 200):
            for rows in (1, 2, 5, 50):
                view = viewer.rows(width, rows)
                assert len(view.lines) == rows
                assert all(line_width(line) <= width for line in view.lines)
        press(viewer, "up", "pageDown", "[", "]", "c", "e", "n")


def test_another_branch_is_shown_when_the_leaf_moves() -> None:
    tree = conversation(3)
    viewer, _ = made(tree)
    shown(viewer)
    tree.leaf = 3
    add(tree, role="user", content=[text("other way")], timestamp=1)
    rows = "\n".join(shown(viewer))
    assert "other way" in rows and "answer number 0" in rows and "answer number 2" not in rows


def test_the_last_row_says_that_a_question_waits() -> None:
    tree = conversation(1)
    viewer = Viewer(
        Pages(lambda: tree, LiveTail(lambda: tree), Look(80)), lambda: 0.0, print, lambda: "A question waits"
    )
    assert shown(viewer)[-1] == "A question waits"
