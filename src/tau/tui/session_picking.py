"""Lets the person choose another session, and opens it; one that another process has can be looked at or copied."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path

from tau.core.text.terminal_text import escape_for_display
from tau.errors import CommandError, SessionFolderGone
from tau.records.replies import SessionRow
from tau.runtime.app.handle import SessionHandle
from tau.screen.modals.message import MessageModal
from tau.screen.modals.search_list import ListRow, SearchList
from tau.screen.modals.session_order import age_text
from tau.screen.modals.session_picker import (
    DELETE,
    RENAME,
    TOGGLE_FOLDER,
    TOGGLE_NAMED,
    TOGGLE_PATH,
    TOGGLE_SORT,
    PickerCalls,
    PickerFacts,
    SessionPicker,
)
from tau.screen.modals.session_search import SessionItem
from tau.tui.argument_value import ArgumentValue
from tau.tui.session_loading import MAX_TEXT, SessionLoader
from tau.tui.surface import Surface

FIRST_ROWS = 50  # sessions that are read before the picker opens
POLL_S = 0.5  # between two looks at a lock
HINTS = (
    (TOGGLE_FOLDER, "all/this folder"),
    (RENAME, "renames"),
    (DELETE, "deletes"),
    (TOGGLE_SORT, "sorts"),
    (TOGGLE_NAMED, "named only"),
    (TOGGLE_PATH, "paths"),
)


async def pick_session(surface: Surface, query: str) -> bool:
    """Let the person choose a session, and open it. `query` is the id of one, or what is searched for at first.

    False: none was chosen.
    """
    files = surface.handle.session_files
    paths = await files.paths(everywhere=False)
    rows = await files.heads(paths[:FIRST_ROWS])
    for row in rows:
        if row.id == query:
            return await _open(surface, row)
    if not surface.has_screen:
        return await _choose_from_lines(surface)
    first = [SessionItem(row) for row in rows]
    current = surface.handle.log.path
    facts = PickerFacts(
        surface.handle.cwd, os.path.expanduser("~"), None if current is None else str(current), time.time() * 1000
    )
    hints = [f"{key} {about}" for action, about in HINTS if (key := surface.key_label(action))]
    calls = PickerCalls(
        lambda: loader.start_everywhere(),
        lambda row, name: surface.start(_rename(surface, picker, row, name)),
        lambda row: surface.start(_delete(surface, picker, row)),
    )
    picker = SessionPicker(first, facts, calls, hints, query)
    loader = SessionLoader(files, picker, surface.changed)
    loader.start(paths)
    try:
        outcome = await surface.open(picker)
    finally:
        loader.stop()
    return outcome.action == "confirm" and await _open(surface, outcome.value)


async def session_values(handle: SessionHandle) -> list[ArgumentValue]:
    """The latest sessions of this folder but the current one, as completions of /resume."""
    files = handle.session_files
    try:
        rows = await files.heads((await files.paths(everywhere=False))[:FIRST_ROWS])
    except CommandError:  # /resume itself says why
        return []
    current = handle.state.current().session_id
    now = time.time() * 1000
    return [ArgumentValue(row.id, age_text(now - row.modified), title(row)) for row in rows if row.id != current]


async def _rename(surface: Surface, picker: SessionPicker, row: SessionRow, name: str) -> None:
    files = surface.handle.session_files
    await files.rename(row.path, name)
    found = await files.contents([Path(row.path)], MAX_TEXT)
    picker.add(SessionItem(renamed, text.lower(), complete=True) for renamed, text in found)
    picker.refresh()
    surface.changed()


async def _delete(surface: Surface, picker: SessionPicker, row: SessionRow) -> None:
    await surface.handle.session_files.delete(row.path)
    picker.remove(row.path)
    surface.changed()


def title(row: SessionRow) -> str:
    name = row.name if isinstance(row.name, str) and row.name else row.first_message or row.id
    return escape_for_display(" ".join(name[:200].split()))


async def _open(surface: Surface, row: SessionRow) -> bool:
    """False: the person did not want it after all."""
    handle = surface.handle
    if handle.log.path is not None and os.path.realpath(handle.log.path) == os.path.realpath(row.path):
        return True
    owner = await handle.session_files.owner(row.path)
    if owner is not None:
        return await _offer(surface, row, owner)
    return await open_session(surface, handle.switch_session(row.path), title(row))


async def open_session(surface: Surface, opening: Awaitable[bool], name: str) -> bool:
    """Open a session and show it. If its folder is gone, the person decides; False: not to open it."""
    files, lines = surface.handle.session_files, surface.handle.settings.resume_lines
    try:
        opened = await opening
    except SessionFolderGone as error:
        rows = [
            ListRow("Continue here", "runs it in this folder, this time"),
            ListRow("Fork", "continues in a copy, as with --fork"),
        ]
        outcome = await surface.open(SearchList(escape_for_display(str(error).partition("\n")[0]), rows))
        if outcome.action != "confirm":
            return False
        opened = await (files.open_copy(error.file) if outcome.value else files.open_here(error.file))
    if opened:
        surface.show_session(name, lines)
    return True


# A session that another process has open.

LOOK, COPY, WAIT = range(3)


async def _offer(surface: Surface, row: SessionRow, owner: str) -> bool:
    rows = [
        ListRow("Look only", "shows its last lines; nothing is opened"),
        ListRow("Fork", "continues in a copy"),
        *([ListRow("Wait", "opens it when it is free")] if surface.has_screen else []),
    ]
    outcome = await surface.open(SearchList(f"{owner[:1].upper()}{owner[1:]} has this session open", rows))
    if outcome.action != "confirm":
        return False
    handle = surface.handle
    if outcome.value == LOOK:
        messages = await handle.session_files.messages(row.path)
        surface.show_messages(f"{title(row)}, look only", messages, handle.settings.resume_lines)
    elif outcome.value == COPY:
        if await handle.session_files.open_copy(row.path):
            surface.show_session(f"copy of {title(row)}", handle.settings.resume_lines)
    elif await _freed(surface, row, owner):
        return await _open(surface, row)
    else:
        return False
    return True


async def _freed(surface: Surface, row: SessionRow, owner: str) -> bool:
    """Wait until no process has the session open. False: the person does not want to wait any more."""

    async def poll() -> None:
        while await surface.handle.session_files.owner(row.path) is not None:
            await asyncio.sleep(POLL_S)

    text = f"{title(row)} opens as soon as {owner} has closed it."
    polling = asyncio.ensure_future(poll())
    shown = asyncio.ensure_future(surface.open(MessageModal("Waiting for the session", text)))
    try:
        await asyncio.wait({polling, shown}, return_when=asyncio.FIRST_COMPLETED)
        return polling.done() and not polling.cancelled()
    finally:
        for task in (polling, shown):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _choose_from_lines(surface: Surface) -> bool:
    """The list of plain mode."""
    current = surface.handle.state.current().session_id
    rows = [row for row in await surface.handle.sessions(everywhere=False) if row.id != current]
    if not rows:
        surface.say("There is no other session of this project.")
        return False
    chosen = await surface.choose("Resume", [title(row) for row in rows])
    return chosen is not None and await _open(surface, rows[chosen])
