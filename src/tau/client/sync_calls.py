"""Synchronous façade of `calls.Calls`: one blocking method per command."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from tau.client.calls import Calls
from tau.client.facade import blocking

T = TypeVar("T")


class SyncCalls:
    """The commands of an agent. A command that fails raises CommandError with the agent's message."""

    _peer: Calls

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        raise NotImplementedError

    call = blocking(Calls.call)
    prompt = blocking(Calls.prompt)
    steer = blocking(Calls.steer)
    follow_up = blocking(Calls.follow_up)
    abort = blocking(Calls.abort)
    clear_queue = blocking(Calls.clear_queue)
    get_state = blocking(Calls.get_state)
    get_messages = blocking(Calls.get_messages)
    get_session_stats = blocking(Calls.get_session_stats)
    get_last_assistant_text = blocking(Calls.get_last_assistant_text)
    get_commands = blocking(Calls.get_commands)
    get_tools = blocking(Calls.get_tools)
    set_active_tools = blocking(Calls.set_active_tools)
    get_mcp_servers = blocking(Calls.get_mcp_servers)
    restart_mcp_server = blocking(Calls.restart_mcp_server)
    set_model = blocking(Calls.set_model)
    cycle_model = blocking(Calls.cycle_model)
    get_available_models = blocking(Calls.get_available_models)
    set_thinking_level = blocking(Calls.set_thinking_level)
    cycle_thinking_level = blocking(Calls.cycle_thinking_level)
    get_available_thinking_levels = blocking(Calls.get_available_thinking_levels)
    set_steering_mode = blocking(Calls.set_steering_mode)
    set_follow_up_mode = blocking(Calls.set_follow_up_mode)
    set_auto_retry = blocking(Calls.set_auto_retry)
    abort_retry = blocking(Calls.abort_retry)
    set_budget = blocking(Calls.set_budget)
    compact = blocking(Calls.compact)
    set_auto_compaction = blocking(Calls.set_auto_compaction)
    bash = blocking(Calls.bash)
    abort_bash = blocking(Calls.abort_bash)
    new_session = blocking(Calls.new_session)
    switch_session = blocking(Calls.switch_session)
    set_session_name = blocking(Calls.set_session_name)
    list_sessions = blocking(Calls.list_sessions)
    get_fork_messages = blocking(Calls.get_fork_messages)
    fork = blocking(Calls.fork)
    clone = blocking(Calls.clone)
    navigate = blocking(Calls.navigate)
    get_entries = blocking(Calls.get_entries)
    get_tree = blocking(Calls.get_tree)
    export_html = blocking(Calls.export_html)
