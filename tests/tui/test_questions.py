"""Questions of a real session, answered with the keys of a terminal. The clock of the keys is the test's own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.in_process_session import play
from support.rpc_process import Json
from support.terminal_session import BINDINGS, TerminalSession, call
from support.virtual_clock import Clock, played
from tau.records.base import parse
from tau.records.dialogs import Input, Select, ui_json
from tau.records.permissions import PermissionDetails
from tau.runtime.extensions.dialogs import Dialogs
from tau.runtime.session.extension_actions import act
from tau.screen.input_events import Key
from tau.tui.questions import Questions


def test_a_permission_question_shows_the_change_before_it_is_made(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "work").mkdir()
        file = tmp_path / "work" / "a.txt"
        file.write_text("one\ntwo\nthree\n")
        terminal = TerminalSession(tmp_path, {"blocks": [call("edit", path="a.txt", oldText="two", newText="zwei")]})
        running = await terminal.run()
        await terminal.until(lambda: len(terminal.questions))
        shown = terminal.screen()
        assert f"{file}in{tmp_path / 'work'}" in "".join("".join(shown).split())  # long paths wrap
        assert "  sandbox: off" in shown
        assert "  asked by --permissions ask" in shown
        assert [row for row in shown if row[2:3] in ("+", "-")] == ["  -2 two", "  +2 zwei"]
        assert file.read_text() == "one\ntwo\nthree\n"
        terminal.press("1")
        await running
        assert file.read_text() == "one\nzwei\nthree\n"
        await terminal.handle.close()

    play(story())


def test_a_permission_question_waits_for_the_person_as_long_as_it_takes(tmp_path: Path) -> None:
    async def story(clock: Clock) -> None:
        terminal = TerminalSession(tmp_path, {"blocks": [call("bash", command="true")]})
        running = await terminal.run()
        await terminal.until(lambda: len(terminal.questions))
        assert "clock" not in "\n".join(terminal.screen())
        assert terminal.handle.dialogs.deadline(terminal.sent[0].id) is None
        clock.let_pass(24 * 3600)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(terminal.questions) == 1
        terminal.press("1")
        await running
        assert terminal.result()[0] is False
        await terminal.handle.close()

    played(story)


def test_the_wire_does_not_change_by_the_details(tmp_path: Path) -> None:
    async def story() -> None:
        terminal = TerminalSession(tmp_path, {"blocks": [call("bash", command="true")]})
        running = await terminal.run()
        await terminal.until(lambda: len(terminal.questions))
        request = terminal.sent[0]
        assert parse(ui_json(request)) == {
            "type": "extension_ui_request",
            "id": request.id,
            "method": "select",
            "title": "Allow bash?\n\ntrue",
            "options": ["Allow once", "Allow for this session: bash with exactly this command", "Deny"],
        }
        terminal.press("enter")
        await running
        assert terminal.result()[0]
        await terminal.handle.close()

    play(story())


def test_deny_and_say_why_gives_the_reason_to_the_model(tmp_path: Path) -> None:
    async def story() -> None:
        terminal = TerminalSession(tmp_path, {"blocks": [call("bash", command="make deploy")]})
        running = await terminal.run()
        await terminal.until(lambda: len(terminal.questions))
        terminal.press("4", *"use make", "enter")
        await running
        failed, text, details = terminal.result()
        assert failed
        assert text == "The call of bash was denied: the user does not allow it and says: use make"
        assert details["denied"]["by"] == "user"
        await terminal.handle.close()

    play(story())


def test_questions_of_several_calls_come_one_after_the_other_in_the_order_of_the_calls(tmp_path: Path) -> None:
    async def story() -> None:
        calls = [call("bash", f"c{number}", command=f"echo {number} >> out") for number in (1, 2, 3)]
        terminal = TerminalSession(tmp_path, {"blocks": calls})
        running = await terminal.run()
        await terminal.until(lambda: len(terminal.questions) == 3)
        seen = []
        for left in (3, 2, 1):
            await terminal.until(lambda left=left: len(terminal.questions) == left)
            shown = terminal.screen()
            assert (f"1 of {left}" in shown[0]) is (left > 1)
            seen.append(shown[1].strip())
            terminal.press("1" if left != 2 else "3")
        await running
        assert seen == ["echo 1 >> out", "echo 2 >> out", "echo 3 >> out"]
        assert sorted((tmp_path / "work" / "out").read_text().split()) == ["1", "3"]
        await terminal.handle.close()

    play(story())


def test_escape_denies_this_call_and_a_second_one_is_left_to_the_application(tmp_path: Path) -> None:
    async def story() -> None:
        calls = [call("bash", f"c{number}", command=f"true {number}") for number in (1, 2)]
        terminal = TerminalSession(tmp_path, {"blocks": calls})
        running = await terminal.run()
        await terminal.until(lambda: len(terminal.questions) == 2)
        terminal.press("escape")
        assert len(terminal.questions) == 1
        terminal.now += 0.2
        assert terminal.questions.key(Key("escape")) is False
        assert terminal.questions.escape() is False
        assert len(terminal.questions) == 1
        await terminal.handle.abort()
        await running
        assert len(terminal.questions) == 0
        await terminal.handle.close()

    play(story())


def test_the_deadline_counts_down_and_space_stops_it(tmp_path: Path) -> None:
    async def story() -> None:
        rules = {"otherwise": "ask", "deadline": 0.2}
        terminal = TerminalSession(tmp_path, {"blocks": [call("bash", command="true")]}, permissions=rules)
        loop = asyncio.get_running_loop()
        running = await terminal.run()
        await terminal.until(lambda: len(terminal.questions))
        id = terminal.sent[0].id
        deadline = terminal.handle.dialogs.deadline(id)
        assert deadline is not None
        assert deadline > loop.time() - 0.2
        terminal.press("space")
        assert terminal.handle.dialogs.deadline(id) is None
        assert "clock stopped" in terminal.screen()[0]
        await asyncio.wait([running], timeout=0.4)
        assert not running.done()
        terminal.press("1")
        await running
        assert terminal.result()[0] is False
        await terminal.handle.close()

    play(story())


def test_the_deadline_stops_while_a_reason_is_written(tmp_path: Path) -> None:
    async def story() -> None:
        rules = {"otherwise": "ask", "deadline": 30}
        terminal = TerminalSession(tmp_path, {"blocks": [call("bash", command="true")]}, permissions=rules)
        running = await terminal.run()
        await terminal.until(lambda: len(terminal.questions))
        terminal.press("4")
        assert terminal.handle.dialogs.deadline(terminal.sent[0].id) is None
        terminal.press(*"no", "enter")
        await running
        assert terminal.result()[1].endswith("says: no")
        await terminal.handle.close()

    play(story())


def test_the_rules_can_forbid_to_stop_the_clock(tmp_path: Path) -> None:
    async def story() -> None:
        rules = {"otherwise": "ask", "deadline": 0.3, "fixedDeadline": True}
        terminal = TerminalSession(tmp_path, {"blocks": [call("bash", command="true")]}, permissions=rules)
        running = await terminal.run()
        await terminal.until(lambda: len(terminal.questions))
        terminal.now += 2
        terminal.questions.key(Key("space", " "))
        assert terminal.handle.dialogs.stop_clock(terminal.sent[0].id) is False
        await running
        assert terminal.result()[2]["denied"]["by"] == "deadline"
        assert len(terminal.questions) == 0
        await terminal.handle.close()

    play(story())


@pytest.mark.parametrize(
    ("method", "params", "keys", "value"),
    [
        ("select", {"title": "Which?", "options": ["a", "b"]}, ["2"], "b"),
        ("select", {"title": "Which?", "options": ["a", "b"]}, ["escape"], None),
        ("confirm", {"title": "Sure?", "message": "Really?"}, ["1"], True),
        ("confirm", {"title": "Sure?", "message": "Really?"}, ["enter"], False),
        ("input", {"title": "Name?"}, ["A", "n", "n", "enter"], "Ann"),
        ("editor", {"title": "Text", "prefill": "x"}, ["y", "enter"], "xy"),
    ],
)
def test_dialogs_of_extensions_are_answered_at_the_terminal(
    tmp_path: Path, method: str, params: Json, keys: list[str], value: Any
) -> None:
    async def story() -> None:
        terminal = TerminalSession(tmp_path)
        asking = asyncio.create_task(act(terminal.handle._session, method, params))
        await terminal.until(lambda: len(terminal.questions))
        terminal.press(*keys)
        assert await asking == value
        assert terminal.screen() == []
        await terminal.handle.close()

    play(story())


def test_a_question_while_text_is_typed_is_shown_and_the_editor_keeps_the_keys(tmp_path: Path) -> None:
    async def story() -> None:
        terminal = TerminalSession(tmp_path, {"blocks": [call("bash", command="true")]})
        running = await terminal.run()
        terminal.editor = "fix the"
        await terminal.until(lambda: len(terminal.questions))
        assert terminal.screen()[-1] == "  Tab answers"
        for name in (" ", "1", "y", "enter"):
            terminal.now += 0.03
            assert terminal.questions.key(Key(name, name)) is False
        assert terminal.questions.paste("1\n") is False
        assert len(terminal.questions) == 1
        terminal.press("tab", "1")
        await running
        assert terminal.result()[0] is False
        await terminal.handle.close()

    play(story())


def test_a_dialog_that_its_run_withdraws_disappears(tmp_path: Path) -> None:
    async def story() -> None:
        terminal = TerminalSession(tmp_path, {"blocks": [call("bash", command="true")]})
        running = await terminal.run()
        await terminal.until(lambda: len(terminal.questions))
        await terminal.handle.abort()
        await running
        assert terminal.screen() == []
        assert not terminal.questions.focused
        await terminal.handle.close()

    play(story())


def test_extensions_see_the_mode_and_a_user_interface(tmp_path: Path) -> None:
    async def story() -> None:
        terminal = TerminalSession(tmp_path)
        facts = terminal.handle.actions().facts()
        assert (facts["mode"], facts["hasUI"]) == ("tui", True)
        await terminal.handle.close()

    play(story())


def test_a_row_can_be_chosen_before_a_dialog_is_shown(tmp_path: Path) -> None:
    async def story() -> None:
        terminal = TerminalSession(tmp_path)
        dialogs = terminal.handle.dialogs
        terminal.questions.preselect("mine", 2)
        asking = asyncio.create_task(dialogs.ask(Select("mine", "Which?", ["a", "b", "c"])))
        await terminal.until(lambda: len(terminal.questions))
        terminal.press("enter")
        assert await asking == "c"
        await terminal.handle.close()

    play(story())


@pytest.mark.promise("T04")
def test_a_question_that_is_not_drawn_gets_no_keys(tmp_path: Path) -> None:
    async def story() -> None:
        terminal = TerminalSession(tmp_path)
        asking = asyncio.create_task(terminal.handle.dialogs.ask(Select("mine", "Which?", ["a", "b", "c"])))
        await terminal.until(lambda: len(terminal.questions))
        for _ in range(2):
            terminal.now += 1
            terminal.screen()
        assert terminal.questions.focused
        terminal.questions.not_drawn()
        assert not terminal.questions.key(Key("1", "1"))
        terminal.press("1")
        assert await asking == "a"
        await terminal.handle.close()

    play(story())


class Stub:
    """The dialogs of a session, as far as Questions knows them."""

    def __init__(self) -> None:
        self.over: Any = None
        self.answers: list[Any] = []

    def details(self, id: str) -> PermissionDetails | None:
        if not id.startswith("p"):
            return None
        return PermissionDetails(id, "bash", {}, (id,), (), "/", None, "ask", order=int(id[1:]))

    def deadline(self, id: str) -> None:
        return None

    def stop_clock(self, id: str) -> bool:
        return True

    def answer(self, response: Json) -> None:
        self.answers.append(response)

    def deny(self, id: str, reason: str) -> None:
        self.answers.append({"id": id, "reason": reason})


KEYS = [*"ab 123", "enter", "up", "down", "left", "backspace"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("key"), st.sampled_from(KEYS)),
        st.tuples(st.just("paste"), st.sampled_from(["1", "1\n", "y\n\n", "text"])),
        st.tuples(st.just("ask"), st.sampled_from(["permission", "select", "input"])),
        st.tuples(st.just("withdraw"), st.just("")),
        st.tuples(st.just("busy"), st.just("")),
    ),
    max_size=60,
)


@pytest.mark.promise("T04")
@settings(max_examples=500)
@given(STEPS, st.floats(0.01, 0.45))
def test_no_sequence_of_hurried_keys_pastes_and_questions_is_an_answer(steps: Any, gap: float) -> None:
    """Keys that follow each other in less than half a second answer nothing, unless Tab was pressed before."""
    dialogs, now, editor, open_ids = Stub(), 0.0, "", list[str]()
    questions = Questions(cast(Dialogs, dialogs), lambda: now, lambda: not editor)
    questions.key(Key("a", "a"))
    for number, (step, what) in enumerate(steps):
        now += gap
        if step != "busy":
            questions.view(80, 24)
        if step == "ask":
            id = f"{what[0]}{number}"
            open_ids.append(id)
            questions.add(Input(id, "t") if what == "input" else Select(id, "t", ["Allow once", "Allow all", "Deny"]))
            questions.key(Key("left"), BINDINGS.actions(Key("left")))
        elif step == "withdraw" and open_ids:
            dialogs.over(open_ids.pop(0))
        elif step == "paste" and not questions.paste(what):
            editor += what
        elif step == "key":
            key = Key("space" if what == " " else what, what if len(what) == 1 else "")
            if not questions.key(key, BINDINGS.actions(key)) and key.id == "enter":
                editor = ""
                questions.submitted()
            elif len(what) == 1:
                editor += what
    assert dialogs.answers == []
