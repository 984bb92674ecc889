from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from support.in_process_session import House, play
from support.rpc_process import Json, kinds
from support.virtual_clock import Clock, played
from tau.errors import ExtensionFailure
from tau.records.dialogs import Confirm, Select
from tau.runtime.extensions.dialogs import Dialogs

ASKED: list[tuple[str, Json, Json, Any]] = [
    ("select", {"title": "Which?", "options": ["a", "b"]}, {"value": "b"}, "b"),
    ("select", {"title": "Which?", "options": ["a", "b"]}, {"value": "c"}, "c"),
    ("select", {"title": "Which?", "options": []}, {"cancelled": True}, None),
    ("select", {"title": "Which?", "options": []}, {"value": 7}, None),
    ("confirm", {"title": "Sure?", "message": "Really?"}, {"confirmed": True}, True),
    ("confirm", {"title": "Sure?", "message": "Really?"}, {"confirmed": False}, False),
    ("confirm", {"title": "Sure?", "message": "Really?"}, {"cancelled": True}, False),
    ("confirm", {"title": "Sure?", "message": "Really?"}, {}, False),
    ("input", {"title": "Name?", "placeholder": "Ann"}, {"value": ""}, ""),
    ("input", {"title": "Name?"}, {"cancelled": True}, None),
    ("editor", {"title": "Text", "prefill": "a\nb"}, {"value": "c\nd"}, "c\nd"),
    ("editor", {"title": "Text"}, {"cancelled": True}, None),
]


@pytest.mark.parametrize(("method", "about", "answer", "value"), ASKED)
def test_a_dialog_comes_to_what_was_answered(
    tmp_path: Path, method: str, about: Json, answer: Json, value: Any
) -> None:
    async def story() -> None:
        house = House(tmp_path)
        asking = asyncio.create_task(house.act(method, **about))
        request = await house.until(lambda event: event["type"] == "extension_ui_request")
        id = request["id"]
        assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", id)
        assert request == {"type": "extension_ui_request", "id": id, "method": method, **about}
        house.session.dialogs.answer({"type": "extension_ui_response", "id": "another", "value": "x"})
        house.session.dialogs.answer({"type": "extension_ui_response", "id": id, **answer})
        house.session.dialogs.answer({"type": "extension_ui_response", "id": id, "value": "late", "confirmed": True})
        assert await asking == value

    play(story())


@pytest.mark.parametrize(("method", "value"), [("select", None), ("confirm", False), ("input", None)])
def test_the_time_of_a_dialog_is_kept_here(tmp_path: Path, method: str, value: Any) -> None:
    async def story() -> None:
        house = House(tmp_path)
        about = {"select": {"options": ["a"]}, "confirm": {"message": "m"}, "input": {}}[method]
        assert await house.act(method, title="t", timeout=20, **about) == value
        (request,) = house.heard
        assert request["timeout"] == 20
        house.session.dialogs.answer({"id": request["id"], "value": "late", "confirmed": True})

    play(story())


@pytest.mark.parametrize("how", ["abort", "new session", "end"])
def test_open_dialogs_are_cancelled(tmp_path: Path, how: str) -> None:
    async def story() -> None:
        house = House(tmp_path)
        asking = asyncio.create_task(house.act("select", title="t", options=["a"]))
        await house.until(lambda event: event["type"] == "extension_ui_request")
        match how:
            case "abort":
                await house.session.abort()
            case "new session":
                await house.session.navigator.new_session(None)
            case "end":
                await house.session.close()
        assert await asking is None

    play(story())


def test_time_in_a_dialog_is_not_the_extensions(tmp_path: Path) -> None:
    async def story(clock: Clock) -> None:
        house = House(tmp_path, settings={"extensionHost": {"handlerTimeoutMs": 1000}})

        async def gate(event: Json) -> Any:
            return {"action": "handled"} if await house.act("confirm", title="t", message="m", timeout=5000) else None

        house.on("input", gate)
        prompted = asyncio.create_task(house.prompt("go"))
        await house.until(lambda event: event["type"] == "extension_ui_request")
        clock.let_pass(5)
        await prompted
        assert house.errors == []

    played(story)


def test_extensions_are_notified_of_a_dialog(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        told, over = house.notes("ui_prompt_start", "ui_prompt_end"), asyncio.Event()
        house.on("ui_prompt_end", lambda event: over.set())
        await house.act("confirm", title="Sure?", message="m", timeout=5)
        await over.wait()
        assert kinds(told) == ["ui_prompt_start", "ui_prompt_end"]
        assert [(one["kind"], one["title"]) for one in told] == [("confirm", "Sure?")] * 2

    play(story())


def test_without_a_user_dialogs_return_their_defaults_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        dialogs = Dialogs(house.session.emit_nowait, house.session.extensions, has_ui=False)
        assert await dialogs.ask(Select("1", "t", ["a"])) is None
        assert await dialogs.ask(Confirm("2", "t", "m")) is False
        assert house.heard == []

    play(story())


def test_parameters_that_do_not_fit_are_named(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        with pytest.raises(ExtensionFailure, match="options: missing"):
            await house.act("select", title="t")
        with pytest.raises(ExtensionFailure, match="notifyType"):
            await house.act("notify", message="m", notifyType="loud")
        assert house.heard == []

    play(story())


def test_what_is_shown(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        await house.act("notify", message="m")
        await house.act("notify", message="m", notifyType="warning")
        await house.act("set_status", statusKey="k", statusText="busy")
        await house.act("set_status", statusKey="k", statusText=None)
        await house.act("set_widget", widgetKey="w", widgetLines=["a"], widgetPlacement="belowEditor")
        await house.act("set_widget", widgetKey="w")
        await house.act("set_title", title="t")
        await house.act("set_editor_text", text="x")
        assert [{key: one[key] for key in one if key not in ("type", "id")} for one in house.heard] == [
            {"method": "notify", "message": "m"},
            {"method": "notify", "message": "m", "notifyType": "warning"},
            {"method": "setStatus", "statusKey": "k", "statusText": "busy"},
            {"method": "setStatus", "statusKey": "k"},
            {"method": "setWidget", "widgetKey": "w", "widgetLines": ["a"], "widgetPlacement": "belowEditor"},
            {"method": "setWidget", "widgetKey": "w"},
            {"method": "setTitle", "title": "t"},
            {"method": "set_editor_text", "text": "x"},
        ]

    play(story())
