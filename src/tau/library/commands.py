"""What can be asked of an agent besides prompting it: every command of the protocol, in Python's words."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tau.core.images import accepted
from tau.core.matching import scope
from tau.errors import CommandError
from tau.host import actions, asking, choices
from tau.host.hooking import Destination, custom
from tau.host.log import now
from tau.host.session import Session
from tau.records.base import UNSET
from tau.records.commands import ImageGiven, QueueMode
from tau.records.entries import AnyEntry, Label
from tau.records.events import CompactionResult
from tau.records.lines import OtherEntry
from tau.records.messages import Assistant, Image, Stored, Text
from tau.records.models import Model, ThinkingLevel
from tau.records.replies import (
    BashResult,
    ContextUsage,
    Forked,
    ForkPoint,
    Navigated,
    Queues,
    SessionRow,
    SessionState,
    SessionStats,
    SlashCommand,
)

Entry = AnyEntry | OtherEntry
Deliver = Literal["steer", "follow_up"]
DELIVER: dict[str | None, Literal["steer", "followUp"] | None] = {None: None, "steer": "steer", "follow_up": "followUp"}


@dataclass
class Node:
    """An entry of a session and what followed it: more than one child is where it branches."""

    entry: Entry
    children: list[Node] = field(default_factory=list)
    label: str | None = None


class Commands:
    """A command that cannot be carried out raises CommandError, in a sentence that says why."""

    def _live(self) -> Session:
        """The session, if this agent can be asked now and here. Raises CommandError."""
        raise NotImplementedError

    # State.

    @property
    def state(self) -> SessionState:
        return asking.state(self._live())

    @property
    def model(self) -> Model | None:
        return self._live().models.current

    @property
    def thinking(self) -> ThinkingLevel:
        return self._live().models.level

    @property
    def cwd(self) -> str:
        return self._live().around.cwd

    @property
    def session_id(self) -> str:
        return self._live().log.id

    @property
    def session_file(self) -> Path | None:
        """None if the session is only in memory. The file is there from the first prompt on."""
        return self._live().log.path

    @property
    def name(self) -> str | None:
        return self._live().log.tree.name

    @property
    def is_streaming(self) -> bool:
        """Between a prompt and its AgentEnd."""
        return self._live().runs.streaming

    @property
    def is_busy(self) -> bool:
        """The same, and waiting for another try, and whatever else comes before AgentSettled."""
        return self._live().runs.busy

    @property
    def is_compacting(self) -> bool:
        return self._live().compactor.busy

    @property
    def retry_attempt(self) -> int:
        """The number of the try that is waited for; 0 if none is."""
        return self._live().runs.waiting

    def messages(self) -> list[Stored]:
        """The conversation as the model sees it. A message of a role that tau does not know is an `Other`."""
        return list(self._live().log.messages)

    def stats(self) -> SessionStats:
        """Messages, tokens and cost of the session."""
        return asking.session_stats(self._live())

    def context_usage(self) -> ContextUsage | None:
        """How full the model's window is; None without a model."""
        return asking.usage_of_window(self._live())

    def last_text(self) -> str | None:
        """The text of the last answer."""
        return asking.last_text(self._live())

    async def system_prompt(self) -> str:
        return await self._live().caller.system_prompt()

    async def commands(self) -> list[SlashCommand]:
        """What a prompt can begin with: commands of extensions, templates, skills."""
        session = self._live()
        return [*session.guests.commands(), *await session.resources.commands()]

    # Saying.

    async def steer(self, text: str, images: Sequence[Image] = ()) -> None:
        """Interrupt: delivered after the tool that runs now."""
        await asking.say(self._live(), text, checked(images), "steer", queue=True)

    async def follow_up(self, text: str, images: Sequence[Image] = ()) -> None:
        """Delivered when the agent would otherwise stop."""
        await asking.say(self._live(), text, checked(images), "follow_up", queue=True)

    async def clear_queue(self) -> Queues:
        """Empty both queues and return what was in them."""
        session = self._live()
        await session.moves.over()
        return await asking.clear_queues(session)

    async def send_user_message(
        self, content: str | Sequence[Text | Image], *, deliver_as: Deliver | None = None
    ) -> None:
        """As it stands: it is no command, no template and no skill. Returns when it is accepted."""
        said = content if isinstance(content, str) else list(content)
        await actions.send_user_message(self._live(), actions.SendUserMessage(said, DELIVER[deliver_as]))

    async def send_message(
        self,
        custom_type: str,
        content: str | Sequence[Text | Image],
        *,
        display: bool = True,
        details: object = UNSET,
        trigger_turn: bool = False,
        deliver_as: Deliver | Literal["next_turn"] | None = None,
    ) -> None:
        """Put a message of the program's own into the conversation: now, or as `deliver_as` says."""
        said = {"customType": custom_type, "content": content if isinstance(content, str) else list(content)}
        message = custom({**said, "display": display} | ({} if details is UNSET else {"details": details}), now())
        when = "nextTurn" if deliver_as == "next_turn" else DELIVER[deliver_as]
        await self._live().hearing.send(message, when, trigger=trigger_turn)

    # What runs.

    async def abort(self) -> None:
        """Stop the run, or whatever else is under way; returns when it has stopped."""
        await self._live().abort()

    async def wait_idle(self) -> None:
        """Until nothing that was prompted is left to do."""
        await self._live().runs.idle()

    async def abort_retry(self) -> None:
        """Do not wait for the next try."""
        await self._live().runs.abort_retry()

    async def compact(self, instructions: str | None = None) -> CompactionResult:
        """Replace the older part of the conversation by a summary."""
        session = self._live()
        await session.moves.over()
        result = await session.compactor.compact(instructions)
        session.kept_soon()
        return result

    async def abort_compaction(self) -> None:
        await self._live().compactor.abort()

    async def bash(self, command: str, *, exclude_from_context: bool = False) -> BashResult:
        """Run a shell command as the user; its output goes to the model with the next prompt."""
        session = self._live()
        await session.moves.over()
        return await session.shell.run(command, exclude=exclude_from_context)

    def abort_bash(self) -> None:
        self._live().shell.abort()

    # Model and thinking.

    def models(self) -> list[Model]:
        """Those that could be used now: there is a key, or none is needed."""
        return self._live().models.available

    async def set_model(self, model: Model | str) -> Model:
        """A model, or "provider/id"."""
        provider, id = (model.provider, model.id) if isinstance(model, Model) else model.split("/", 1)
        return await choices.set_model(self._live(), provider, id)

    async def cycle_model(self) -> Model | None:
        """The next one; None if there is only one."""
        chosen = await choices.cycle_model(self._live())
        return None if chosen is None else chosen[0]

    def set_scoped_models(self, patterns: Sequence[str]) -> list[Model]:
        """What `cycle_model` goes through: names or patterns, as --models has them. Returns the models."""
        models = self._live().models
        models.scoped, warnings = scope(patterns, models.available)
        if warnings and not models.scoped:
            raise CommandError(" ".join(warnings))
        return [match.model for match in models.scoped]

    def thinking_levels(self) -> list[ThinkingLevel]:
        """What the model has; one that it does not have is clamped."""
        return self._live().models.levels

    async def set_thinking(self, level: ThinkingLevel) -> ThinkingLevel:
        """Returns what came of it."""
        await choices.set_level(self._live(), level)
        return self.thinking

    async def cycle_thinking(self) -> ThinkingLevel | None:
        """The next level; None if the model does not think."""
        return await choices.cycle_level(self._live())

    # Settings of this agent. They are not saved.

    async def set_steering_mode(self, mode: QueueMode) -> None:
        await asking.set_mode(self._live(), "steer", mode)

    async def set_follow_up_mode(self, mode: QueueMode) -> None:
        await asking.set_mode(self._live(), "follow_up", mode)

    async def set_auto_compaction(self, enabled: bool) -> None:
        await asking.set_auto_compaction(self._live(), enabled)

    async def set_auto_retry(self, enabled: bool) -> None:
        await asking.set_auto_retry(self._live(), enabled)

    # Tools.

    @property
    def tools(self) -> list[str]:
        """Those the model has now."""
        return list(self._live().toolbox.tools)

    def all_tools(self) -> list[str]:
        """Those it could be given."""
        return list(self._live().toolbox.known)

    def set_tools(self, names: Sequence[str]) -> None:
        """Give the model these and no others, from its next turn on."""
        if unknown := set(names) - set(self.all_tools()):
            raise CommandError(f"There is no tool {', '.join(sorted(unknown))}.")
        self._live().toolbox.choose(names)

    # Sessions.

    async def new_session(self, parent: str | None = None) -> bool:
        """Begin another session. False if an extension called it off, here as below."""
        return await self._live().moves.to_new(parent)

    async def switch_session(self, path: str | os.PathLike[str]) -> bool:
        """Go on with the session in a file, or begin one there."""
        return await asking.switch_session(self._live(), os.fspath(path))

    async def fork(self, entry_id: str) -> Forked:
        """Go on in a new session from before an earlier user message; the result has its text."""
        text, went = await self._live().moves.to_fork(entry_id)
        return Forked(text, not went)

    async def clone(self) -> bool:
        """Copy the current branch into a new session and go on there."""
        return await self._live().moves.to_clone()

    async def navigate(
        self,
        entry_id: str,
        *,
        summarize: bool = False,
        instructions: str | None = None,
        replace_instructions: bool = False,
        label: str | None = None,
    ) -> Navigated:
        """Go on from another entry of this session."""
        wanted = Destination(entry_id, label, summarize, instructions, replace_instructions)
        return await self._live().moves.to_entry(wanted)

    async def set_name(self, name: str) -> None:
        await choices.set_name(self._live(), name)

    async def sessions(self, *, everywhere: bool = False) -> list[SessionRow]:
        """Those of this project, or of all; the newest first."""
        return await self._live().moves.sessions(everywhere)

    def fork_points(self) -> list[ForkPoint]:
        """User messages that can be forked from."""
        return self._live().log.tree.fork_points()

    def entries(self, since: str | None = None) -> list[Entry]:
        """Entries of the session in the order they were added, all or those after `since`."""
        tree = self._live().log.tree
        first = 0 if since is None else tree.find(since)
        if first is None:
            raise CommandError(f"Entry not found: {since}")
        return [tree.entry(at) for at in range(first + (since is not None), len(tree))]

    @property
    def leaf_id(self) -> str | None:
        """The entry that the next one will follow."""
        return self._live().log.tree.leaf_id

    def tree(self) -> list[Node]:
        """The same as a tree: its roots."""
        roots: list[Node] = []
        nodes: dict[str, Node] = {}
        for entry in self.entries():
            node = Node(entry)
            if isinstance(entry, Label) and entry.target_id in nodes:
                nodes[entry.target_id].label = entry.label
            parent = nodes.get(entry.parent_id or "")
            (roots if parent is None else parent.children).append(node)
            nodes[entry.id] = node
        return roots

    async def export_html(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Write the session as an HTML page."""
        session = self._live()
        told = await asking.export_html(session, None if path is None else os.fspath(path))
        return Path(session.around.cwd, told)

    async def reload(self) -> None:
        """Look anew for context files, skills and templates, and load extensions from files again."""
        session = self._live()
        await session.resources.reload()
        session.guests.reload_soon()

    @property
    def partial(self) -> Assistant | None:
        """The answer that is being written, as far as it has come."""
        raise NotImplementedError


def checked(images: Sequence[Image]) -> list[Image]:
    """Raises CommandError for what is no image, in the words for any client."""
    return accepted([ImageGiven("image", image.data, image.mime_type) for image in images])
