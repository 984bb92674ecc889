from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.in_process_session import House, play
from support.rpc_process import Json, of
from tau.errors import CommandError
from tau.runtime.extensions.hooks import Destination
from tau.runtime.session import choices

SMALL_KEEP = {"compaction": {"keepRecentTokens": 1, "reserveTokens": 16384}}
LONG = "so many words " * 200


def user_entries(house: House) -> list[str]:
    return [point.entry_id for point in house.session.log.tree.fork_points()]


# From one session to another.


def test_an_extension_calls_off_a_new_session_and_everything_stays(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        seen = house.notes("session_before_switch")
        house.on("session_before_switch", {"cancel": True})
        never = house.notes("session_shutdown", "session_start", "session_switch")
        before = house.session.log.id
        assert await house.act("new_session") == {"cancelled": True}
        assert seen == [{"type": "session_before_switch", "reason": "new"}]
        assert (house.session.log.id, never) == (before, [])

    play(story())


def test_extensions_are_told_which_session_is_left_and_which_begins(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        await house.prompt("first")
        left = str(house.session.log.path)
        told = house.notes("session_before_switch", "session_shutdown", "session_switch", "session_start")
        assert await house.act("new_session") == {"cancelled": False}
        assert await house.act("switch_session", sessionPath=left) == {"cancelled": False}
        middle = told[2].get("previousSessionFile")
        assert told == [
            {"type": "session_before_switch", "reason": "new"},
            {"type": "session_shutdown", "reason": "new"},
            {"type": "session_switch", "reason": "new", "previousSessionFile": left},
            {"type": "session_start", "reason": "new", "previousSessionFile": left},
            {"type": "session_before_switch", "reason": "resume", "targetSessionFile": left},
            {"type": "session_shutdown", "reason": "resume"},
            {"type": "session_switch", "reason": "resume", "previousSessionFile": told[6]["previousSessionFile"]},
            {"type": "session_start", "reason": "resume", "previousSessionFile": told[6]["previousSessionFile"]},
        ]
        assert middle == left != told[6]["previousSessionFile"]

    play(story())


def test_a_fork_that_is_called_off_still_tells_the_text(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        await house.prompt("go on")
        seen = house.notes("session_before_fork")
        house.on("session_before_fork", {"cancel": True})
        (entry,) = user_entries(house)
        assert await house.act("fork", entryId=entry) == {"text": "go on", "cancelled": True}
        assert seen == [{"type": "session_before_fork", "entryId": entry, "position": "before"}]

    play(story())


def test_an_abort_calls_a_move_off_that_waits_for_an_extension(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        begun = asyncio.Event()

        async def never(event: Json) -> None:
            begun.set()
            await asyncio.Event().wait()

        house.on("session_before_switch", never)
        move = asyncio.create_task(house.session.navigator.new_session(None))
        await begun.wait()
        await house.session.abort()
        assert await move is False

    play(story())


# Compaction.


def full(tmp_path: Path, **settings: Any) -> House:
    return House(tmp_path, {"text": LONG}, settings={**SMALL_KEEP, **settings})


def test_compaction_called_off_by_an_extension_is_an_error_of_the_command(tmp_path: Path) -> None:
    async def story() -> None:
        house = full(tmp_path)
        await house.prompt(LONG)
        await house.prompt(LONG)
        failed = house.notes("session_compact_failed")
        house.on("session_before_compact", {"cancel": True})
        with pytest.raises(CommandError, match=r"^Compaction cancelled$"):
            await house.session.compactor.compact()
        assert failed == [
            {
                "type": "session_compact_failed",
                "reason": "manual",
                "willRetry": False,
                "aborted": True,
                "fromExtension": False,
            }
        ]

    play(story())


def test_automatic_compaction_called_off_is_reported_as_aborted_without_a_result(tmp_path: Path) -> None:
    async def story() -> None:
        usage = {"input": 199_000, "output": 10}
        house = House(tmp_path, {"text": LONG, "usage": usage}, settings=SMALL_KEEP)
        house.on("session_before_compact", {"cancel": True})
        await house.prompt(LONG)
        assert of("compaction_end", house.heard) == [
            {"type": "compaction_end", "reason": "threshold", "result": None, "aborted": True, "willRetry": False}
        ]

    play(story())


def test_an_extension_compacts_in_its_own_way(tmp_path: Path) -> None:
    async def story() -> None:
        house = full(tmp_path)
        await house.prompt(LONG)
        await house.prompt(LONG)
        told = house.notes("session_compact")

        def mine(event: Json) -> Json:
            first = event["preparation"]["firstKeptEntryId"]
            assert event["customInstructions"] == "short"
            assert event["preparation"]["messagesToSummarize"] and event["branchEntries"]
            return {"compaction": {"summary": "In short.", "firstKeptEntryId": first, "details": {"by": "me"}}}

        house.on("session_before_compact", mine)
        result = await house.session.compactor.compact("short")
        assert (result.summary, result.details) == ("In short.", {"by": "me"})
        entry = told[0]["compactionEntry"]
        assert (entry["summary"], entry["fromHook"], told[0]["fromExtension"]) == ("In short.", True, True)

    play(story())


def test_a_compaction_that_keeps_what_is_not_there_is_an_error_of_the_extension(tmp_path: Path) -> None:
    async def story() -> None:
        house = full(tmp_path)
        await house.prompt(LONG)
        await house.prompt(LONG)
        compaction = {"summary": "In short.", "firstKeptEntryId": "nowhere"}
        house.on("session_before_compact", {"compaction": compaction}, "mine.py")
        result = await house.session.compactor.compact()
        assert result.summary != "In short."
        assert house.errors == [
            ("mine.py", "session_before_compact", "compaction.firstKeptEntryId: there is no such entry")
        ]

    play(story())


# From one place to another.


def test_an_extension_gives_the_summary_of_the_branch_that_is_left(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        await house.prompt("first")
        await house.prompt("second")
        told = house.notes("session_tree")
        house.on("session_before_tree", {"summary": {"summary": "We talked."}, "label": "then"})
        first = user_entries(house)[0]
        leaf = house.session.log.tree.leaf_id
        went = await house.session.navigator.navigate(Destination(first, summarize=True))
        assert (went.cancelled, went.editor_text) == (False, "first")
        assert (told[0]["oldLeafId"], told[0]["fromExtension"]) == (leaf, True)
        assert (told[0]["summaryEntry"]["summary"], told[0]["summaryEntry"]["fromHook"]) == ("We talked.", True)
        assert await house.act("get_label", id=told[0]["newLeafId"]) == "then"

    play(story())


def test_an_extension_calls_off_the_way_to_another_entry(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        await house.prompt("first")
        leaf = house.session.log.tree.leaf_id
        house.on("session_before_tree", {"cancel": True})
        went = await house.session.navigator.navigate(Destination(user_entries(house)[0]))
        assert (went.cancelled, house.session.log.tree.leaf_id) == (True, leaf)

    play(story())


# What is chosen, and what the client runs.


def test_extensions_hear_what_was_chosen_and_only_if_it_is_something_else(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        told = house.notes("model_select", "thinking_level_select", "session_info_changed")
        await choices.set_level(house.session, "high")
        await choices.set_level(house.session, "high")
        await choices.set_name(house.session, " my work ")
        await choices.set_model(house.session, "tau", "demo")
        await choices.set_model(house.session, "tau", "demo")
        kinds = [(one["type"], one.get("level"), one.get("name"), one.get("source")) for one in told]
        assert kinds == [
            ("thinking_level_select", "high", None, None),
            ("session_info_changed", None, "my work", None),
            ("model_select", None, None, "set"),
            ("thinking_level_select", "off", None, None),
        ]
        assert (told[2]["model"]["id"], told[2]["previousModel"]["id"]) == ("demo", "scripted")

    play(story())


def test_an_extension_answers_for_a_command_of_the_client(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        seen = house.notes("user_bash")
        handler = house.on("user_bash", {"result": {"output": "from afar", "exitCode": 3}})
        given = await house.session.user_bash.run("make")
        assert (given.output, given.exit_code, given.cancelled) == ("from afar", 3, False)
        cwd = str(tmp_path / "work")
        assert seen == [{"type": "user_bash", "command": "make", "excludeFromContext": False, "cwd": cwd}]
        house.session.extensions.off("user_bash", handler)
        assert (await house.session.user_bash.run("echo near")).output.strip() == "near"

    play(story())


def test_a_command_does_not_run_when_an_extension_answers_with_something_else(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        house.on("user_bash", {"block": True})
        with pytest.raises(CommandError, match="blocked: user_bash: expected None"):
            await house.session.user_bash.run("touch made")
        assert not (tmp_path / "work" / "made").exists()

    play(story())


def test_a_command_that_an_extension_thinks_about_for_ever_can_be_aborted(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        begun = asyncio.Event()

        async def never(event: Json) -> None:
            begun.set()
            await asyncio.Event().wait()

        house.on("user_bash", never)
        running = asyncio.create_task(house.session.user_bash.run("make"))
        await begun.wait()
        house.session.user_bash.abort()
        assert (await running).cancelled

    play(story())


def test_the_end_waits_for_an_extension_but_not_for_ever(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        told = house.notes("session_shutdown")
        house.on("session_shutdown", lambda event: asyncio.Event().wait())
        await house.session.close()
        assert told == [{"type": "session_shutdown", "reason": "quit"}]

    play(story())


def test_paths_of_an_extension_are_skills_and_templates_from_then_on(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        (tmp_path / "work" / "mine").mkdir()
        (tmp_path / "work" / "mine" / "hello.md").write_text("Say hello to $1.")
        seen = house.notes("resources_discover")
        house.on("resources_discover", {"promptPaths": ["mine/hello.md"]})
        await house.session.extension_lifecycle.start()
        assert seen == [{"type": "resources_discover", "cwd": str(tmp_path / "work"), "reason": "startup"}]
        (user,) = [
            one for one in of("message_end", await house.prompt("/hello Ann")) if one["message"]["role"] == "user"
        ]
        assert user["message"]["content"][0]["text"].strip() == "Say hello to Ann."

    play(story())
