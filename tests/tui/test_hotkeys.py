"""/hotkeys and `?` in the whole program."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.interface import Interface
from support.rpc_process import endless


@pytest.mark.parametrize(("rows", "cols"), [(24, 80), (15, 40)])
def test_hotkeys_are_searchable_also_while_an_answer_streams(rows: int, cols: int, tmp_path: Path) -> None:
    with Interface(tmp_path, script=[endless("so far ")], rows=rows, cols=cols) as tau:
        tau.start().send("go")
        tau.wait("so far")
        tau.send("/hotkeys")
        tau.wait("── Keys")
        tau.type("suspend")
        tau.wait("→ Ctrl+Z")
        tau.press("escape")
        tau.wait(lambda shown: "── Keys" not in shown and "Working" in shown)


def test_a_question_mark_in_an_empty_editor_shows_the_keys_and_the_next_character_continues(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[{"text": "It is."}]) as tau:
        tau.start()
        tau.type("?")
        tau.wait("── Keys")
        tau.type("W")
        tau.wait(lambda shown: "── Keys" not in shown)
        tau.type("hy? Is it?")
        tau.press("enter")
        tau.wait("It is.")
    assert tau.prompts() == ["?Why? Is it?"]


def test_a_question_mark_that_is_typed_fast_is_not_lost(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        tau.start()
        tau.type("?hello?")
        tau.wait("?hello?")
        assert "── Keys" not in "\n".join(tau.screen())


def test_escape_closes_the_keys_and_the_editor_is_empty(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        tau.start()
        tau.type("?")
        tau.wait("── Keys")
        tau.press("escape")
        tau.wait(lambda shown: "── Keys" not in shown)
        tau.send("next")
    assert tau.box()[1] != "?next"


def test_a_terminal_without_the_kitty_protocol_cannot_send_every_key(tmp_path: Path) -> None:
    with Interface(tmp_path, answers="silent") as tau:
        tau.start().send("/hotkeys")
        tau.wait("── Keys")
        tau.type("previous model")
        tau.wait("→ Ctrl+Shift+P")
        tau.wait("does not send")
