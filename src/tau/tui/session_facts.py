"""What the footer says of the session: folder, branch, tokens, cost, context, model."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from tau.runtime.app.factory import SessionFactory
from tau.runtime.app.handle import SessionHandle
from tau.screen.footer import FooterState, Totals, short_folder
from tau.store.trust import names_needing_trust
from tau.tui.branch import GitBranch

READING_TOOLS = frozenset({"read", "grep", "find", "ls"})


class SessionFacts:
    """Reads the facts of a session for the footer, when they may have changed."""

    def __init__(self, handle: SessionHandle, factory: SessionFactory) -> None:
        self._handle = handle
        self._factory = factory
        self._use_folder()

    def _use_folder(self) -> None:
        self._cwd = self._handle.session_folder
        self._branch = GitBranch(self._cwd)
        self._flags = _flags(self._factory)
        self._folder = short_folder(self._cwd, os.path.expanduser("~"))

    def footer(self) -> FooterState:
        handle = self._handle
        if handle.session_folder != self._cwd:
            self._use_folder()
        self._branch.update()
        model, stats, usage = handle.models.current, handle.stats(), handle.context_usage()
        state = handle.state.current()
        name = state.session_name
        tokens = stats.tokens
        several = len({model.provider for model in handle.models.available}) > 1
        return FooterState(
            cwd=self._folder,
            branch=self._branch.name or "",
            name=name if isinstance(name, str) else "",
            totals=Totals(tokens.input, tokens.output, tokens.cache_read, tokens.cache_write, stats.cost),
            context_percent=usage.percent if usage is not None else None,
            context_window=usage.context_window if usage is not None else 0,
            auto_compact=state.auto_compaction_enabled,
            provider=model.provider if model is not None and several else "",
            model=model.id if model is not None else "",
            level=handle.models.level if model is not None and model.reasoning else "",
            flags=(*self._flags, "read-only") if _only_reads(handle.active_tools()) else self._flags,
        )


def _only_reads(tools: Collection[str]) -> bool:
    return bool(tools) and READING_TOOLS.issuperset(tools)


def _flags(factory: SessionFactory) -> tuple[str, ...]:
    """What limits the agent, at the right of the footer's first line."""
    given = factory.options.permissions
    rules = "" if factory.permissions is None else "ask" if given == "ask" else "rules"
    sandbox = factory.processes.sandbox if factory.processes is not None else None
    return tuple(
        flag
        for flag in (
            rules,
            f"sandbox: {sandbox.level}" if sandbox is not None else "",
            "offline" if factory.options.offline else "",
            "untrusted" if not factory.trusted and names_needing_trust(Path(factory.cwd)) else "",
        )
        if flag
    )
