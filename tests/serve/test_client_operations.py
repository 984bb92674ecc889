"""The operations that a client of a host has: a new one is closed to it until somebody has looked at it."""

from __future__ import annotations

import asyncio

import pytest

from support.members import members, use
from tau import CommandError
from tau.runtime.session.operations import Operations
from tau.serve.client_operations import UNCHANGED, ClientOperations

NARROWED = set("answer_dialog bash dialect export_html sessions set_budget set_tools submit switch_session".split())
CLOSED = set(
    """
    abort_compaction abort_run active_tools all_tools append_entry append_message budget call_tool choose_model
    effective_system_prompt export_jsonl fork_at host_tools index_entries mcp_tool queues reload request_exit
    request_reload retry_attempt retry_now send_custom send_user_message set_label set_scoped_models settings spent
    system_prompt wait_idle write_bug_report
    """.split()
)


def test_every_operation_is_open_to_clients_narrowed_or_closed() -> None:
    groups = [set(UNCHANGED), NARROWED, CLOSED]
    assert sorted(name for group in groups for name in group) == sorted(members(Operations))


def test_what_is_closed_to_clients_refuses() -> None:
    class Offered(ClientOperations):
        def __init__(self) -> None:
            pass

    async def main() -> None:
        for name in sorted(CLOSED):
            with pytest.raises(CommandError, match="a client of a host cannot use this operation"):
                await use(Offered(), name)

    asyncio.run(main())
