"""Random cases for schedules of a host: what its clients do, when, and how the host is set up.

An operation names its client. What it is about (a session, an earlier command with a key) follows from `pick`.
"""

from __future__ import annotations

from random import Random
from typing import Any

from support.schedule_cases import Json, _answer
from support.staged_schedule import timed

EVENTS = (
    *("agent_start", "message_start", "message_update", "message_end", "tool_execution_start", "tool_execution_end"),
    *("agent_end", "agent_settled", "agent_settled", "queue_update", "extension_ui_request", "extension_ui_request"),
    *("extension_ui_resolved", "session_changed", "ask open_session", "ask attach", "ask attach", "ask close_session"),
    *("ask detach", "ask prompt", "ask restart", "ask new_session", "opened", "opened", "closing", "closing"),
    *("hello", "hello", "lost", "lost", "snapshot"),
)
OPERATIONS: dict[str, int] = {
    # The connection.
    "connect": 6,
    "bind": 5,
    "cut": 6,
    "leave": 3,  # ends its input and reads to the end
    "stall": 5,
    "resume": 3,
    "revoke": 1,
    "restart": 1,  # the host
    # The host.
    "open_session": 5,
    "reopen": 5,  # open_session with the id of a session
    "fork_session": 1,
    "repeat_open": 2,
    "attach": 9,
    "detach": 4,
    "close_session": 5,
    "list_sessions": 1,
    "who": 1,
    "ping": 2,
    "watch_sessions": 1,
    # A session.
    "prompt": 12,
    "keyed_prompt": 9,
    "repeat_prompt": 8,
    "steer": 4,
    "keyed_steer": 3,
    "follow_up": 3,
    "abort": 4,
    "clear_queue": 2,
    "bash": 3,
    "abort_bash": 1,
    "new_session": 2,
    "switch_session": 1,
    "set_session_name": 2,
    "compact": 1,
    "get_state": 1,
    "get_entries": 2,
    "question": 6,  # of the program
    "answer": 4,
}
PLAIN: dict[str, Any] = {"stall": 0.0, "idle_s": 900.0, "max_live": 1000, "answer_timeout_s": 60.0, "slow": []}


def case(seed: int) -> Json:
    random = Random(seed)
    clients = random.choice((1, 2, 2, 3))
    kinds, weights = list(OPERATIONS), list(OPERATIONS.values())
    operations: list[Json] = [{"do": "open_session", "client": 0}]
    for do in random.choices(kinds, weights, k=random.randint(3, 16)):
        operations.append({"do": do, "client": random.randrange(clients)})
    return {
        "seed": seed,
        "stall": random.choice((0.0, 0.02, 0.2)),
        "settings": random.randrange(3),
        "extensions": "none",
        "clients": clients,
        "scopes": ["admin", *(random.choice(("admin", "admin", "drive", "watch")) for _ in range(clients - 1))],
        "slow": [number for number in range(clients) if random.random() < 0.2],  # they read slowly
        "idle_s": random.choice((0.0, 0.05, 2.0, 900.0)),
        "max_live": random.choice((1, 2, 1000, 1000)),
        "answer_timeout_s": random.choice((0.0, 1.0, 60.0)),
        "ring_bytes": random.choice((2_000, 6_000, 8_000_000)),
        "lag_bytes": random.choice((1_500, 4_000_000)),
        "buffer_bytes": random.choice((600, 65_536)),
        "answers": [_answer(random, at) for at in range(random.randint(1, 4))] + [{"text": "ok"}],
        "operations": timed(random, operations, EVENTS),
    }
