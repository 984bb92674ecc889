"""Opens the transcript viewer: the whole branch on the alternate screen, with what a run adds meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, Protocol

from tau.errors import CommandError
from tau.screen.modals import Modal, Outcome
from tau.screen.transcript import Transcript
from tau.screen.viewer.live import LiveTail
from tau.screen.viewer.pages import Pages
from tau.screen.viewer.viewer import EDIT, Viewer
from tau.tui.surface import Surface
from tau.tui.viewer_feed import ViewerFeed


class Opener(Surface, Protocol):
    """What the viewer needs of the interface."""

    async def open(self, modal: Modal) -> Outcome: ...
    def start(self, work: Coroutine[Any, Any, None]) -> None: ...
    def changed(self) -> None: ...
    def now(self) -> float: ...


class Run(NamedTuple):
    feed: ViewerFeed
    active: bool  # an answer is made
    questions: Callable[[], int]  # that wait


async def view_transcript(
    interface: Opener, transcript: Transcript, run: Run, edit: Callable[[str], Awaitable[None]]
) -> None:
    """`edit` opens a text in the external editor."""
    live = LiveTail(lambda: interface.handle.tree, transcript.readable)
    if run.active:
        live.begin(run.feed.partial, interface.now())
    pages = Pages(lambda: interface.handle.tree, live, transcript.look)
    viewer = Viewer(
        pages,
        interface.now,
        copy=lambda text: interface.start(_copy(interface, viewer, text)),
        notice=lambda: "A question waits: q leaves the transcript" if run.questions() else "",
    )
    run.feed.listener = live.apply
    try:
        while (outcome := await interface.open(viewer)).action == EDIT:
            try:
                await edit(outcome.value)
            except CommandError as error:
                viewer.message = str(error)
    finally:
        run.feed.listener = None


async def _copy(interface: Opener, viewer: Viewer, text: str) -> None:
    try:
        viewer.message = f"Copied {len(text):,} characters {await interface.copy(text)}."
    except CommandError as error:
        viewer.message = str(error)
    interface.changed()
