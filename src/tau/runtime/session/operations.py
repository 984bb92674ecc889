"""Session operations shared by all front ends that involve more than one part of the session.

All other operations are called on the parts themselves (`session.navigator`, `session.models`, `choices`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from tau.core.agent.queues import QueueName
from tau.core.agent.structured_output import OutputSchema
from tau.core.conversation.branches import Branch
from tau.core.conversation.tokens import context_usage
from tau.core.conversation.tree import Tree
from tau.errors import CommandError
from tau.records.base import UNSET, UnsetType, replace
from tau.records.commands import QueueMode
from tau.records.messages import Assistant, Attachment, Image, Text
from tau.records.replies import ContextUsage, Disposition, Queues, SessionState, SessionStats
from tau.runtime.history.html_export import export_session
from tau.runtime.session.session import Session

if TYPE_CHECKING:
    from tau.core.conversation.stats import SessionCounts

# A session may be long: the first statistics read its whole file, later ones only what was added since.
COUNTED: WeakKeyDictionary[Tree, SessionCounts] = WeakKeyDictionary()
MODES: dict[QueueName, str] = {"steer": "steeringMode", "follow_up": "followUpMode"}


# Input.


async def submit(
    session: Session,
    text: str,
    blocks: Sequence[Text | Image],
    behavior: QueueName | None,
    *,
    queue: bool = False,
    attachments: Sequence[Attachment] = (),
    aim: OutputSchema | None = None,
) -> Disposition:
    """Submit input, and publish a queue update if the queues changed. With `queue` the input is only queued."""
    done = await session.input.submit(text, blocks, behavior, queue=queue, attachments=attachments, aim=aim)
    if done == "queued":
        await session.emit_queue_update()
    return done


async def clear_queues(session: Session) -> Queues:
    before = len(session.queues)
    was = Queues(*session.clear_queues())
    if before:
        await session.emit_queue_update()
    return was


# Reading the session.


def get_state(session: Session) -> SessionState:
    return SessionState(
        model=session.models.current,
        thinking_level=session.models.level,
        is_streaming=session.runs.streaming,
        is_compacting=session.compactor.busy,
        steering_mode=session.queues.modes["steer"],
        follow_up_mode=session.queues.modes["follow_up"],
        session_file=session_file(session),
        session_id=session.log.id,
        session_name=session.log.tree.name or UNSET,
        auto_compaction_enabled=session.settings.compaction.enabled,
        message_count=session.log.message_count,
        pending_message_count=len(session.queues),
        sandbox=session.services.sandbox or UNSET,
    )


def session_file(session: Session) -> str | UnsetType:
    return str(session.log.path) if session.log.path is not None else UNSET


def session_stats(session: Session) -> SessionStats:
    from tau.core.conversation.stats import Counts, SessionCounts, conversation_counts

    log = session.log
    counts: Counts
    if session.settings.compat.stats_of == "conversation":
        counts = conversation_counts(log.messages)
    else:
        counts = COUNTED.setdefault(log.tree, SessionCounts()).update(log.tree)
    usage = context_usage_of(session) or UNSET
    return counts.stats(log.id, session_file(session), usage, session.models.price_unknown)


def context_usage_of(session: Session) -> ContextUsage | None:
    """Returns None without a model."""
    model = session.models.current
    if model is None:
        return None
    tokens, percent = context_usage(Branch(session.log.tree), model.context_window)
    return ContextUsage(tokens, model.context_window, percent)


def last_assistant_text(session: Session) -> str | None:
    """Text of the last answer that has content or was not aborted."""
    for message in reversed(session.log.messages):
        if isinstance(message, Assistant) and (message.content or message.stop_reason != "aborted"):
            return message.text.strip() or None
    return None


# Settings.


async def set_mode(session: Session, queue: QueueName, mode: QueueMode) -> None:
    session.queues.modes[queue] = mode
    await session.save_settings({MODES[queue]: mode})


async def set_auto_compaction(session: Session, enabled: bool) -> None:
    settings = session.settings
    session.settings = replace(settings, compaction=replace(settings.compaction, enabled=enabled))
    await session.save_settings({"compaction": {"enabled": enabled}})


async def set_auto_retry(session: Session, enabled: bool) -> None:
    settings = session.settings
    session.settings = replace(settings, retry=replace(settings.retry, enabled=enabled))
    await session.save_settings({"retry": {"enabled": enabled}})


# Files.


async def export_html(session: Session, path: str | None) -> str:
    """Returns the path as given, or a generated one."""
    log, around = session.log, session.services
    if path is not None:
        as_path("outputPath", path)
    told = await session.model_client.system_prompt()
    return await around.machine.in_thread(lambda: export_session(log, around, told, path))


async def switch_session(session: Session, path: str) -> bool:
    """Returns False if an extension cancelled it."""
    return await session.navigator.open_file(Path(session.services.cwd, as_path("sessionPath", path)))


def as_path(field: str, text: str) -> Path:
    """Convert text to a path. Raises CommandError for text that cannot be a path on this system."""
    try:
        if "\0" in text or not text:
            raise ValueError
        os.fsencode(text)
        return Path(text).expanduser()
    except (ValueError, RuntimeError):
        raise CommandError(f"{field}: not a path: {text!r}") from None
