"""Continue from another entry of the session, in this session or in a new one."""

from __future__ import annotations

import asyncio
from datetime import datetime

from tau.core.conversation.tree import Tree
from tau.core.conversation.tree_outline import LabelOf, TreeOutline, outline
from tau.core.text.terminal_text import escape_for_display
from tau.errors import CommandError
from tau.records.replies import Navigated
from tau.runtime.app.handle import SessionHandle
from tau.runtime.clock import iso
from tau.runtime.extensions.hooks import Destination
from tau.screen.modals.message import MessageModal
from tau.screen.modals.text_field import TextField
from tau.screen.modals.tree import COPY, EDIT_LABEL, TreeModal
from tau.screen.modals.tree_filter import shown_entries
from tau.screen.viewer.entry_text import entry_text
from tau.tui.surface import Surface

SHOWN_LINES = 20  # of the other branch
MAX_TITLE = 40  # characters of a text in a rule
SUMMARY_QUESTION = "Summarise the branch that you leave?"
NO_SUMMARY, SUMMARY, OWN_SUMMARY = SUMMARY_OPTIONS = ("No summary", "Summarise", "Summarise with instructions")
ABORT_INTERVAL_S = 0.1


def shown_title(handle: SessionHandle, what: str) -> str:
    """What the rule between two sessions or branches says: what it is now, and how many messages it has."""
    count = handle.log.message_count
    return f"{what} · {count:,} {'message' if count == 1 else 'messages'}"


def session_title(handle: SessionHandle) -> str:
    """The session in quotation marks: its name, or its id."""
    state = handle.state.current()
    return _quoted(state.session_name if isinstance(state.session_name, str) else state.session_id)


def _quoted(text: str) -> str:
    text = " ".join(text.split())
    return escape_for_display(f'"{text if len(text) <= MAX_TITLE else text[: MAX_TITLE - 1] + "…"}"')


# /tree


async def open_tree(surface: Surface) -> None:
    handle = surface.handle
    made = outline(handle.tree)
    if made.active < 0:
        surface.say("The session is empty.")
    elif surface.has_screen:
        await _browse(surface, made)
    else:
        await _choose_from_lines(surface, made)


async def _browse(surface: Surface, made: TreeOutline) -> None:
    handle, tree = surface.handle, surface.handle.tree
    modal = TreeModal(made, filter_name=handle.settings.tree_filter_mode, time_label=_local_time)
    while True:
        outcome = await surface.open(modal)
        if outcome.action == EDIT_LABEL:
            await _edit_label(surface, modal, outcome.value, tree.id(outcome.value))
        elif outcome.action == COPY:
            await _copy(surface, modal, entry_text(tree.entry(outcome.value), {}))
        elif outcome.action != "confirm" or await _continue_at(surface, made, outcome.value, tree.id(outcome.value)):
            return


async def _choose_from_lines(surface: Surface, made: TreeOutline) -> None:
    """Plain mode: a numbered list of what the filter shows."""
    settings = surface.handle.settings
    shown = [at for at, keep in enumerate(shown_entries(made, settings.tree_filter_mode)) if keep]
    nodes = [made.nodes[at] for at in shown]
    lines = [escape_for_display(f"{node.title or node.kind}: {node.text}") for node in nodes]
    chosen = await surface.choose("Continue after", lines, shown.index(made.active) if made.active in shown else 0)
    if chosen is not None:
        await _continue_at(surface, made, shown[chosen], surface.handle.tree.id(shown[chosen]))


async def _edit_label(surface: Surface, modal: TreeModal, at: int, entry_id: str) -> None:
    before = modal.label(at)
    outcome = await surface.open(TextField("Label", text=before, placeholder="empty removes the label"))
    if outcome.action != "confirm" or (label := " ".join(outcome.value.split())) == before:
        return
    await surface.handle.set_label(entry_id, label or None)
    modal.set_label(at, LabelOf(label, iso()) if label else None)


async def _copy(surface: Surface, modal: TreeModal, text: str) -> None:
    try:
        how = f"Copied {len(text):,} characters {await surface.copy(text)}." if text else "There is no text to copy."
    except CommandError as error:
        how = str(error)
    modal.message = how


async def _continue_at(surface: Surface, made: TreeOutline, at: int, entry_id: str) -> bool:
    """Returns False if the person changed their mind: the tree is shown again."""
    handle = surface.handle
    if at == made.active and not _went_on(handle.tree, len(made.nodes)):
        surface.say("The conversation is already there.")
        return True
    destination = await _with_summary(surface, entry_id)
    if destination is None:
        return False
    moved = await _navigate(surface, destination)
    if moved.cancelled:
        surface.say("Cancelled: the conversation is where it was.")
        return not destination.summarize
    node = made.nodes[at]
    surface.show_session(shown_title(handle, f"branch at {_quoted(node.text or node.title)}"), SHOWN_LINES)
    if isinstance(moved.editor_text, str):
        surface.set_editor_text(moved.editor_text, replace=False)
    return True


def _went_on(tree: Tree, count: int) -> bool:
    """True if the conversation has got entries besides labels since it had `count` of them."""
    return any(tree.kind(at) != "label" for at in range(count, len(tree)))


async def _with_summary(surface: Surface, entry_id: str) -> Destination | None:
    """Ask whether the branch that is left is summarised. None: the person changed their mind."""
    if surface.handle.settings.branch_summary.skip_prompt:
        return Destination(entry_id)
    while True:
        chosen = await surface.choose(SUMMARY_QUESTION, SUMMARY_OPTIONS)
        if chosen is None:
            return None
        if SUMMARY_OPTIONS[chosen] != OWN_SUMMARY or not surface.has_screen:
            return Destination(entry_id, summarize=SUMMARY_OPTIONS[chosen] != NO_SUMMARY)
        outcome = await surface.open(TextField("Instructions for the summary", multiline=True))
        if outcome.action == "confirm":
            return Destination(entry_id, summarize=True, instructions=outcome.value.strip() or None)


async def _navigate(surface: Surface, destination: Destination) -> Navigated:
    """Navigate; while the summary is made, Escape cancels it."""
    handle = surface.handle
    if not destination.summarize or not surface.has_screen:
        return await handle.navigate(destination)
    work = asyncio.ensure_future(handle.navigate(destination))
    message = MessageModal("Summary", "Summarising the branch that you leave…", hint_of_escape="Esc cancels")
    waiting = asyncio.ensure_future(surface.open(message))
    try:
        await asyncio.wait({work, waiting}, return_when=asyncio.FIRST_COMPLETED)
        while not work.done():  # Escape may have come before the summary began
            await handle.abort_compaction()
            await asyncio.wait({work}, timeout=ABORT_INTERVAL_S)
        return await work
    finally:
        waiting.cancel()


def _local_time(timestamp: str) -> str:
    try:
        return datetime.fromisoformat(timestamp).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return ""


# /fork


async def fork(surface: Surface) -> None:
    handle = surface.handle
    points = handle.tree.fork_points()
    if not points:
        surface.say("There is no message to fork from.")
        return
    names = [escape_for_display(" ".join(point.text.split())) for point in points]
    chosen = await surface.choose("Fork before", names, len(names) - 1)
    if chosen is None:
        return
    title = session_title(handle)
    text, done = await handle.fork(points[chosen].entry_id)
    if done:
        surface.show_session(shown_title(handle, f"fork of {title}"), SHOWN_LINES)
        surface.set_editor_text(text)
