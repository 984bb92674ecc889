"""Compaction: when it is due, what is summarised and what is kept.

Entries from the cut on are kept verbatim; everything before it becomes a summary. The cut never separates a tool call
from its result: models reject one without the other. A cut inside a turn splits the turn, and its first part gets a
summary of its own.

Entries that an earlier compaction kept are considered again, together with its summary: nothing leaves the
conversation unsummarised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from tau.core.conversation.entry_messages import message_of
from tau.core.conversation.summaries import (
    HISTORY_PROMPT,
    NO_HISTORY,
    SPLIT_TURN_HEADING,
    TURN_PREFIX_PROMPT,
    UPDATE_PROMPT,
    SummaryRequest,
    TouchedFiles,
    files_in_details,
    files_in_messages,
    output_limit,
    strip_file_lists,
    summary_input,
    summary_request,
)
from tau.core.conversation.tokens import (
    TreeEntry,
    context_tokens,
    entry_tokens,
    hidden_from_model,
    last_counted,
    since_compaction,
)
from tau.core.models.failures import is_overflow
from tau.records.base import Value, replace
from tau.records.entries import BranchSummaryEntry, CompactionEntry, CustomMessageEntry, MessageEntry
from tau.records.messages import AnyMessage, Assistant, ToolResult, User
from tau.records.models import Model, ThinkingLevel
from tau.records.settings import CompactionSettings

CompactionReason = Literal["threshold", "overflow"]
ALREADY_COMPACTED = "Already compacted"
NOTHING_TO_COMPACT = "Nothing to compact (session too small)"


def settings_for_window(settings: CompactionSettings, context_window: int) -> CompactionSettings:
    """Settings adapted to a model: with a small window it would otherwise be compacted after every answer."""
    if context_window <= 0:
        return settings
    reserve, keep = max(0, settings.reserve_tokens), max(0, settings.keep_recent_tokens)
    if reserve >= context_window:
        reserve = context_window // 2
    if keep >= context_window - reserve:
        keep = (context_window - reserve) // 2
    return replace(settings, reserve_tokens=reserve, keep_recent_tokens=keep)


class CompactionDue(Value):
    """A compaction is due, as `answer` showed. `tried`: the answer follows a compaction directly, so another will not
    help.
    """

    reason: CompactionReason
    answer: Assistant
    tried: bool = False

    @property
    def repeats_prompt(self) -> bool:
        """True if the prompt is to be repeated. A prompt that was answered is not, however full the window was."""
        return self.reason == "overflow" and self.answer.stop_reason != "stop"


def should_compact(tokens: int, context_window: int, settings: CompactionSettings) -> bool:
    return settings.enabled and tokens > context_window - settings.reserve_tokens and context_window > 0


def compaction_due(
    branch: Sequence[TreeEntry], model: Model, settings: CompactionSettings, *, before_prompt: bool
) -> CompactionDue | None:
    """Decide whether to compact automatically. After an aborted run the user decides what happens next."""
    if not settings.enabled or (at := _last_answer(branch)) is None:
        return None
    answer, window = _answer(branch[at]), model.context_window
    assert answer is not None
    if answer.stop_reason == "aborted" and not before_prompt:
        return None
    if (answer.provider, answer.model) == (model.provider, model.id) and is_overflow(answer, window):
        return CompactionDue("overflow", answer, tried=_tried(branch, at, window))
    tokens = last_counted(reversed(branch))
    if tokens is None:
        if answer.failed:  # only estimates, and an error that may have any cause
            return None
        tokens = context_tokens(branch)
    return CompactionDue("threshold", answer) if should_compact(tokens, window, settings) else None


def _last_answer(branch: Sequence[TreeEntry]) -> int | None:
    """Index of the last answer; None if a compaction came after it, because its token counts are then stale."""
    for at in reversed(range(len(branch))):
        if isinstance(branch[at], CompactionEntry):
            return None
        if _answer(branch[at]) is not None:
            return at
    return None


def _tried(branch: Sequence[TreeEntry], at: int, context_window: int) -> bool:
    """True if nothing was asked or answered between the last compaction and the answer at `at`."""
    for entry in (branch[i] for i in reversed(range(at))):
        if isinstance(entry, CompactionEntry):
            return True
        if isinstance(entry, MessageEntry) and isinstance(entry.message, User):
            return False
        if (answer := _answer(entry)) is not None and not answer.failed and not is_overflow(answer, context_window):
            return False
    return False


def _answer(entry: TreeEntry) -> Assistant | None:
    return entry.message if isinstance(entry, MessageEntry) and isinstance(entry.message, Assistant) else None


class CompactionPlan(Value):
    """Messages to summarise. `prefix` is the first part of a split turn; `previous` the earlier summary."""

    history: list[AnyMessage]
    prefix: list[AnyMessage]
    first_kept_entry_id: str
    tokens_before: int
    previous: str | None
    files: TouchedFiles

    @property
    def asks_about_history(self) -> bool:
        """True if a summary of the history is requested; without a split turn also of an empty one."""
        return bool(self.history) or not self.prefix

    def requests(
        self, settings: CompactionSettings, model: Model, level: ThinkingLevel, focus: str | None = None
    ) -> list[SummaryRequest]:
        """Summary requests, to be sent one after the other: some servers handle only one request at a time."""
        requests = []
        if self.asks_about_history:
            requests.append(
                summary_request(
                    HISTORY_PROMPT if self.previous is None else UPDATE_PROMPT,
                    self.history,
                    title="Summarization",
                    max_tokens=output_limit(model, settings.reserve_tokens, 80),
                    thinking=level,
                    previous=self.previous,
                    focus=focus,
                )
            )
        if self.prefix:
            requests.append(
                summary_request(
                    TURN_PREFIX_PROMPT,
                    self.prefix,
                    title="Turn prefix summarization",
                    max_tokens=output_limit(model, settings.reserve_tokens, 50),
                    thinking="off",
                    focus=focus,
                )
            )
        return requests

    def summary(self, answers: Sequence[str]) -> str:
        """The complete summary, from the answers to the requests."""
        history = answers[0] if self.asks_about_history else self.previous or NO_HISTORY
        prefix = f"{SPLIT_TURN_HEADING}{answers[-1]}" if self.prefix else ""
        return f"{history}{prefix}{self.files.list_text}"

    @property
    def details(self) -> dict[str, Any]:
        return self.files.details


def plan_compaction(
    branch: Sequence[TreeEntry], settings: CompactionSettings, *, short: bool = False
) -> CompactionPlan | str:
    """Plan the compaction of a branch, or say why there is nothing to compact.

    With `short`, one that is too short to leave anything out gets a summary, too, as in pi up to 0.80.
    """
    if branch and isinstance(branch[-1], CompactionEntry):
        return ALREADY_COMPACTED
    compaction, window = since_compaction(branch)
    cut = _cut(window, settings.keep_recent_tokens)
    if cut is None and short and window:
        cut = 0
    if cut is None:
        return NOTHING_TO_COMPACT
    turn = _turn_start(window, cut)
    history, prefix = _messages(window[:turn]), _messages(window[turn:cut])
    if not history and not prefix and not short:
        return NOTHING_TO_COMPACT
    previous, files = _previous_summary(compaction)
    files |= files_in_messages([*history, *prefix])
    first = window[_include_settings(window, cut)]
    return CompactionPlan(history, prefix, first.id, context_tokens(branch), previous, files)


def _previous_summary(compaction: CompactionEntry | None) -> tuple[str | None, TouchedFiles]:
    """The summary so far and its files. Details that an extension stored with its compaction are not interpreted."""
    if compaction is None:
        return None, TouchedFiles()
    if compaction.from_hook is True:
        return compaction.summary or None, TouchedFiles()
    return strip_file_lists(compaction.summary) or None, files_in_details(compaction.details)


def _messages(entries: Sequence[TreeEntry]) -> list[AnyMessage]:
    return [message for entry in entries if (message := message_of(entry)) is not None and summary_input(message)]


def _cut(window: Sequence[TreeEntry], keep_recent_tokens: int) -> int | None:
    """Index where the kept part begins: as late as possible with about `keep_recent_tokens` from there on."""
    cuts = _allowed_cuts(window)
    if not cuts:
        return None
    tokens = 0
    for at in reversed(range(len(window))):
        tokens += entry_tokens(window[at])
        if tokens >= keep_recent_tokens:
            # After the last allowed cut there is only a large tool result: it stays with the answer that called it.
            return next((cut for cut in cuts if cut >= at), cuts[-1])
    return cuts[0]


def _allowed_cuts(window: Sequence[TreeEntry]) -> list[int]:
    """Indexes where a cut is allowed: at messages for the model, except between a tool call and its result."""
    cuts: list[int] = []
    caller, calls = -1, set[str]()  # the last answer and its call ids; results of earlier answers are complete
    for at, entry in enumerate(window):
        message = message_of(entry)
        match message:
            case None:
                continue
            case ToolResult():
                if message.tool_call_id in calls:
                    while cuts and cuts[-1] > caller:
                        cuts.pop()
                continue
            case Assistant() if not message.failed:
                caller, calls = at, {call.id for call in message.tool_calls}
        # A message that the model never sees cannot start the kept part: nothing of it would be kept.
        if not hidden_from_model(message):
            cuts.append(at)
    return cuts


def _turn_start(window: Sequence[TreeEntry], cut: int) -> int:
    """Index where the turn of the cut begins: the cut itself if it lies between turns."""
    return next((at for at in range(cut, -1, -1) if _begins_turn(window[at])), cut)


def _begins_turn(entry: TreeEntry) -> bool:
    if isinstance(entry, MessageEntry):
        return not isinstance(entry.message, Assistant | ToolResult)
    return isinstance(entry, BranchSummaryEntry | CustomMessageEntry)


def _include_settings(window: Sequence[TreeEntry], cut: int) -> int:
    """Move the cut back over settings, labels and similar entries directly before it."""
    while cut and message_of(window[cut - 1]) is None and not isinstance(window[cut - 1], CompactionEntry):
        cut -= 1
    return cut
