"""R22: no request without a credential, from another site or for another host is let in."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "long"))

import serve_fuzz

from gate.figure import Figure
from serve.test_request_checks import TABLE, status


def measure(scale: float, seed: int) -> list[Figure]:
    wrong = sum(status(head) != wanted for head, wanted in TABLE)
    fuzzed = serve_fuzz.measure(max(200, round(5_000 * scale)), seed)
    return [
        Figure("R22", "request heads that were answered wrongly", len(TABLE), wrong, 0),
        Figure("R22", "mutated requests and frames that were let in", fuzzed.tried, fuzzed.let_in, 0),
        Figure("R22", "mutated requests and frames with an error in the log", fuzzed.tried, fuzzed.said, 0),
    ]
