"""Synchronous façade of `calls.Calls`: one blocking method per command."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from tau.client.calls import Calls
from tau.client.facade import waits

T = TypeVar("T")


class WaitingCalls:
    """The commands of an agent. A command that fails raises CommandError with the agent's message."""

    _peer: Calls

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        raise NotImplementedError

    call = waits(Calls.call)
    prompt = waits(Calls.prompt)
    steer = waits(Calls.steer)
    follow_up = waits(Calls.follow_up)
    abort = waits(Calls.abort)
    clear_queue = waits(Calls.clear_queue)
    get_state = waits(Calls.get_state)
    get_messages = waits(Calls.get_messages)
    get_session_stats = waits(Calls.get_session_stats)
    get_last_assistant_text = waits(Calls.get_last_assistant_text)
    get_commands = waits(Calls.get_commands)
    set_model = waits(Calls.set_model)
    cycle_model = waits(Calls.cycle_model)
    get_available_models = waits(Calls.get_available_models)
    set_thinking_level = waits(Calls.set_thinking_level)
    cycle_thinking_level = waits(Calls.cycle_thinking_level)
    get_available_thinking_levels = waits(Calls.get_available_thinking_levels)
    set_steering_mode = waits(Calls.set_steering_mode)
    set_follow_up_mode = waits(Calls.set_follow_up_mode)
    set_auto_retry = waits(Calls.set_auto_retry)
    abort_retry = waits(Calls.abort_retry)
    set_budget = waits(Calls.set_budget)
    compact = waits(Calls.compact)
    set_auto_compaction = waits(Calls.set_auto_compaction)
    bash = waits(Calls.bash)
    abort_bash = waits(Calls.abort_bash)
    new_session = waits(Calls.new_session)
    switch_session = waits(Calls.switch_session)
    set_session_name = waits(Calls.set_session_name)
    list_sessions = waits(Calls.list_sessions)
    get_fork_messages = waits(Calls.get_fork_messages)
    fork = waits(Calls.fork)
    clone = waits(Calls.clone)
    navigate = waits(Calls.navigate)
    get_entries = waits(Calls.get_entries)
    get_tree = waits(Calls.get_tree)
    export_html = waits(Calls.export_html)
