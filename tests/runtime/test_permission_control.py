"""The permissions of a running session: grants are listed and taken back, and rules only become stricter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.in_process_session import play
from support.terminal_session import TerminalSession, call
from tau.errors import CommandError, UsageError


def bash(*commands: str) -> list[dict[str, object]]:
    return [{"blocks": [call("bash", command=command)]} for command in commands]


def test_what_was_allowed_for_this_session_is_listed_and_can_be_taken_back(tmp_path: Path) -> None:
    async def story() -> None:
        terminal = TerminalSession(tmp_path, *bash("true", "true", "true"))
        control = terminal.handle.permissions
        assert control.state().grants == []
        running = await terminal.run()
        await terminal.until(lambda: len(terminal.questions))
        terminal.press("2")
        await running  # the second and third call need no confirmation
        assert [failed for failed, _, _ in map(terminal.result, range(3))] == [False] * 3
        (grant,) = control.state().grants
        assert grant.text == "bash: true"
        control.revoke(grant.id)
        assert control.state().grants == []
        with pytest.raises(CommandError, match="There is no permission 1 of this session"):
            control.revoke(grant.id)
        await terminal.handle.close()

    play(story())


def test_a_call_is_asked_about_again_after_its_grant_was_taken_back(tmp_path: Path) -> None:
    async def story() -> None:
        terminal = TerminalSession(tmp_path, *bash("true"), {"text": "ok"}, *bash("true"))
        running = await terminal.run()
        await terminal.until(lambda: len(terminal.questions))
        terminal.press("2")
        await running
        control = terminal.handle.permissions
        control.revoke(control.state().grants[0].id)
        running = await terminal.run("again")
        await terminal.until(lambda: len(terminal.questions))
        terminal.press("3")
        await running
        assert terminal.result()[0] is True
        await terminal.handle.close()

    play(story())


def test_rules_can_be_added_and_the_strictest_decides(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "more.json").write_text(json.dumps({"deny": [{"command": "touch"}], "otherwise": "allow"}))
        allow_all = {"otherwise": "allow"}
        terminal = TerminalSession(tmp_path, *bash("touch a", "true"), permissions=allow_all)
        control = terminal.handle.permissions
        assert control.state().mode == "rules"
        control.add(f"rules {tmp_path / 'more.json'}")
        control.add("ask")
        control.add("ask")
        assert [rules.source for rules in control.state().rules] == [
            "permissions",
            str(tmp_path / "more.json"),
            "--permissions ask",
        ]
        running = await terminal.run()
        await terminal.until(lambda: len(terminal.questions))
        assert terminal.screen()[1] == "  true"
        terminal.press("1")
        await running
        assert terminal.result(0)[2]["denied"]["by"] == "rule"
        assert terminal.result(1)[0] is False
        with pytest.raises(CommandError, match="can only be made stricter"):
            control.turn_off()
        with pytest.raises(UsageError, match="neither ask nor rules"):
            control.add("nothing")
        await terminal.handle.close()

    play(story())


def test_a_session_without_rules_can_get_them_and_lose_them_again(tmp_path: Path) -> None:
    async def story() -> None:
        terminal = TerminalSession(tmp_path, *bash("true"), {"text": "ok"}, *bash("true"), permissions=None)
        control = terminal.handle.permissions
        assert control.state() == ("off", (), (), False)
        control.add("ask")
        assert (control.state().mode, control.state().can_turn_off) == ("ask", True)
        running = await terminal.run()
        await terminal.until(lambda: len(terminal.questions))
        terminal.press("3")
        await running
        assert terminal.result()[0] is True
        control.turn_off()
        await (await terminal.run("again"))
        assert terminal.result()[0] is False
        await terminal.handle.close()

    play(story())
