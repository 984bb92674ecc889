"""Settings of a running session are read with their origin, and changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tau.errors import CommandError
from tau.runtime.app.factory import load
from tau.runtime.app.handle import SessionHandle
from tau.runtime.app.options import SessionOptions, SessionTarget
from tau.runtime.app.settings_control import SettingsControl
from tau.store.trust import TrustFile, decide, fingerprint

Work = Callable[[SessionHandle], Awaitable[None]]


def in_session(folder: Path, work: Work, *, approve: bool | None = None, project: str = "") -> None:
    """Run `work` with a session in a project that has these settings."""
    cwd, agent_dir = folder / "work", folder / "agent"
    (cwd / ".pi").mkdir(parents=True)
    agent_dir.mkdir()
    if project:
        (cwd / ".pi" / "settings.json").write_text(project)
    if approve is None and project:
        TrustFile(agent_dir / "trust.json").trust(cwd, fingerprint(cwd).digest)
    options = SessionOptions(session=SessionTarget(kept=False), approve=approve, settings={"quietStartup": True})

    async def run() -> None:
        handle = load(agent_dir, options, {"PATH": "/usr/bin:/bin"}, str(cwd)).open(lambda event: None)
        try:
            await work(handle)
        finally:
            await handle.close(5)

    asyncio.run(run())


def origin_of(control: SettingsControl, place: str) -> str:
    return next(state.origin for state in control.states() if state.declaration.place == place)


def test_a_change_of_the_users_settings_takes_effect_and_names_its_origin(tmp_path: Path) -> None:
    async def work(handle: SessionHandle) -> None:
        control = handle.settings_control
        assert origin_of(control, "retry.maxRetries") == "default"
        assert await control.change("retry.maxRetries", 9) == ""
        assert handle.settings.retry.max_retries == 9
        assert origin_of(control, "retry.maxRetries") == "user"
        assert origin_of(control, "quietStartup") == "flag"
        assert "command line" in await control.change("quietStartup", False)

    in_session(tmp_path, work)
    assert json.loads((tmp_path / "agent" / "settings.json").read_text())["retry"] == {"maxRetries": 9}


def test_entries_that_are_left_out_of_an_object_stay_in_the_file_and_this_is_said(tmp_path: Path) -> None:
    async def work(handle: SessionHandle) -> None:
        control = handle.settings_control
        assert await control.change("thinkingBudgets", {"low": 1000, "high": 9000}) == ""
        assert handle.settings.thinking_budgets == {"low": 1000, "high": 9000}
        assert "stay in the file" in await control.change("thinkingBudgets", {"low": 2000})

    in_session(tmp_path, work)


def test_a_project_that_is_trusted_by_content_stays_trusted_after_a_change_by_the_user(tmp_path: Path) -> None:
    async def work(handle: SessionHandle) -> None:
        control = handle.settings_control
        assert control.project_trusted and origin_of(control, "quietExit") == "project"
        await control.change("quietExit", False, "project")
        assert control.project_trusted and handle.settings.quiet_exit is False

    in_session(tmp_path, work, project='{"quietExit": true}')
    assert decide(tmp_path / "work", tmp_path / "agent", approve=None).trusted


def test_a_project_that_changed_since_it_was_trusted_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "work" / ".pi" / "settings.json"

    async def work(handle: SessionHandle) -> None:
        file.write_text('{"shellPath": "./evil"}')
        with pytest.raises(CommandError, match="has changed since it was trusted"):
            await handle.settings_control.change("quietExit", False, "project")

    in_session(tmp_path, work, project='{"quietExit": true}')
    assert file.read_text() == '{"shellPath": "./evil"}'
    assert not decide(tmp_path / "work", tmp_path / "agent", approve=None).trusted


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        ("sandbox.level", "strict", "only be set in your own"),
        ("childEnvironment.filterSecrets", False, "on, but not off"),
        ("retry.maxRetries", -1, "retry.maxRetries"),
    ],
)
def test_a_project_cannot_set_what_concerns_the_user(place: str, value: object, reason: str, tmp_path: Path) -> None:
    async def work(handle: SessionHandle) -> None:
        with pytest.raises(CommandError, match=reason):
            await handle.settings_control.change(place, value, "project")

    in_session(tmp_path, work, approve=True)


def test_a_settings_file_with_mistakes_is_not_written(tmp_path: Path) -> None:
    async def work(handle: SessionHandle) -> None:
        (tmp_path / "agent" / "settings.json").write_text("{")
        with pytest.raises(CommandError, match="not valid JSON"):
            await handle.settings_control.change("quietExit", True)

    in_session(tmp_path, work)
    assert (tmp_path / "agent" / "settings.json").read_text() == "{"
