"""The session on the screen: its events change the transcript, the working line, the footer and the title."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from itertools import islice

from tau.core.agent.draft import Update
from tau.records.events import (
    AgentSettled,
    CompactionEnd,
    Event,
    MessageEnd,
    QueueUpdate,
    SessionInfoChanged,
    ThinkingLevelChanged,
    ToolEnd,
)
from tau.records.messages import BashExecution
from tau.runtime.app.handle import SessionHandle
from tau.runtime.app.process import GarbageCollector
from tau.tui.display import Display
from tau.tui.notices import Notices
from tau.tui.session_facts import SessionFacts
from tau.tui.view import View
from tau.tui.viewer_feed import ViewerFeed

MESSAGES_WITHOUT_LINES = 100  # such as results, which are shown with their calls
# Events after which the footer may say something else.
FOOTER_EVENTS = (MessageEnd, ToolEnd, AgentSettled, CompactionEnd, SessionInfoChanged, ThinkingLevelChanged)


class SessionScreen:
    def __init__(
        self, handle: SessionHandle, facts: SessionFacts, view: View, display: Display, notices: Notices
    ) -> None:
        self._handle = handle
        self._facts = facts
        self._view = view
        self._display = display
        self._notices = notices
        self._collector = GarbageCollector()
        self._footer_changed = True
        display.before_frame(self._refresh_footer)
        self.feed = ViewerFeed()
        self.bash_running = 0  # shell commands of the person

    def on_event(self, event: Event | Update) -> None:
        now = asyncio.get_running_loop().time()
        self.feed.on_event(event, now)
        self._view.transcript.apply(event, now)
        if isinstance(event, Update):  # nearly all of them
            self._view.working.heard(event.delta, now)
            self._display.changed()
            return
        self._view.working.apply(event, now)
        self._notices.on_event(event)
        if isinstance(event, QueueUpdate):
            self._view.queued = event.steering, event.follow_up
        elif isinstance(event, FOOTER_EVENTS):
            self.update_footer()
            if isinstance(event, AgentSettled):
                self._collector.settled(self._handle.log.id)
        self._display.changed(at_once=isinstance(event, AgentSettled))  # a person who stopped it waits for this

    # Footer and title.

    def update_footer(self) -> None:
        """What the footer says may have changed. The next frame finds it out: in a long session that takes time."""
        self._footer_changed = True
        self._display.changed()

    def _refresh_footer(self) -> None:
        if self._footer_changed:
            self._footer_changed = False
            self._view.footer.state = self._facts.footer()
            self.update_title()

    def update_title(self) -> None:
        folder, name = os.path.basename(self._handle.cwd), self._view.footer.state.name or ""
        self._notices.show_title(folder, name, self._view.extension_ui.title)

    # Other sessions and branches.

    def show_session(self, title: str, lines: int) -> None:
        """Another session or branch is open: say which, and show its last lines."""
        self._view.transcript.add_rule(title)
        if lines:
            self.show_last_lines(lines)
        self.update_footer()
        self._display.changed(at_once=True)

    def show_messages(self, title: str, messages: Sequence[object], lines: int) -> None:
        """Show the last lines of a conversation that is not opened."""
        transcript = self._view.transcript
        transcript.add_rule(title)
        transcript.add_entries(messages, lines)
        transcript.add_rule("back in this session")
        self._display.changed(at_once=True)

    def show_last_lines(self, lines: int) -> None:
        """Show the end of the branch. Of a long one, only messages that can have these lines are read."""
        messages = self._handle.log.messages
        last = list(islice(reversed(messages), lines + MESSAGES_WITHOUT_LINES))[::-1]
        self._view.transcript.add_entries(last, lines, len(messages) - len(last))

    # Shell commands of the person.

    async def run_bash(self, command: str, *, exclude: bool) -> None:
        """Run a command and show its output. With `exclude` the model does not see it."""
        clock, transcript = asyncio.get_running_loop().time, self._view.transcript
        self.bash_running += 1
        id = object()  # several may run at once
        self._view.working.command_started(clock())
        transcript.start_bash(command, clock(), hidden=exclude, id=id)
        self._display.changed(at_once=True)
        execution = BashExecution(command, "")
        try:
            result = await self._handle.bash(command, exclude=exclude, id=id)
            path = result.full_output_path
            execution = BashExecution(
                command,
                result.output,
                result.exit_code,
                cancelled=result.cancelled,
                truncated=result.truncated,
                full_output_path=path if isinstance(path, str) else None,
            )
        finally:
            transcript.end_bash(execution, clock(), id)
            self.bash_running -= 1
            if not self.bash_running:
                self._view.working.commands_ended()
            self.update_footer()
            self._display.changed(at_once=True)
