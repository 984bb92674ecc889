"""R22: no request without a credential, from another site or for another host is let in, or harms who has one."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "long"))

import serve_fuzz

from gate.figure import Figure
from long import crowded_host
from serve.test_request_checks import TABLE, status
from support import nginx

MEASURED = 1.0  # below this scale it is part of the tests, on a machine with much else to do


def measure(scale: float, seed: int) -> list[Figure]:
    wrong = sum(status(head) != wanted for head, wanted in TABLE)
    fuzzed = serve_fuzz.measure(max(200, round(5_000 * scale)), seed)
    figures = [
        Figure("R22", "request heads that were answered wrongly", len(TABLE), wrong, 0),
        Figure("R22", "mutated requests and frames that were let in", fuzzed.tried, fuzzed.let_in, 0),
        Figure("R22", "mutated requests and frames with an error in the log", fuzzed.tried, fuzzed.said, 0),
    ]
    return [*figures, *_crowded()] if scale >= MEASURED else figures


def _crowded() -> list[Figure]:
    """Clients with a token beside thousands without one, at the host itself and through nginx."""
    figures = []
    for through, where in ((False, ""), (True, ", through nginx")):
        if through and nginx.program() is None:
            print("*** R22: NO NGINX HERE: clients beside a crowd were not tried through it ***", file=sys.stderr)
            return [*figures, Figure("R22", "clients through nginx: there is none here", 0, 0, 0)]
        with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder:
            found = crowded_host.measure(Path(folder).resolve(), through_nginx=through)
        figures += [
            Figure("R22", f"clients lost beside 5,000 without a token{where}", found.clients, found.lost, 0),
            Figure("R22", f"slowest answer to one of them{where}", found.answers, found.worst_s, 1, "s"),
        ]
    return figures
