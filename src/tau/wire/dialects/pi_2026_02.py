"""Dialect of February 2026: `pi -p --mode json` as a client of that time documented it. The last line is `turn_end`.

Outside of JSON mode it equals March 2026.
"""

from __future__ import annotations

from tau.records import events as e
from tau.wire.dialect import LEFT_OUT
from tau.wire.dialects.pi_2026_03 import DIALECT as PI_2026_03

AFTER_LAST_TURN = (
    e.AgentEnd,
    e.AgentSettled,
    e.CompactionStart,
    e.CompactionEnd,
    e.AutoRetryStart,
    e.AutoRetryEnd,
    e.SessionWriteFailed,
    e.SessionWriteRecovered,
)

DIALECT = PI_2026_03.but(
    name="2026-02",
    about="February 2026: JSON mode ends with `turn_end`; elsewhere March 2026",
    pi="0.51.6",
    json_events={kind: LEFT_OUT for kind in AFTER_LAST_TURN},
)
