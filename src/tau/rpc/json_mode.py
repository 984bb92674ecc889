"""JSON mode: the session header, then one line per event, then the process exits.

There is no input: the prompts are known from the start. A slow reader receives coalesced updates, as in RPC mode. If
the reader is gone, the run is aborted and the exit code says that the answer was not delivered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from tau.core.checks.exit_codes import FAILED
from tau.records.base import encode, wire_json
from tau.runtime.app.batch import Open, Prompt, RunSummary, run_prompts, tell_failures
from tau.runtime.app.process import (
    SHUTDOWN_TIMEOUT_S,
    STDOUT_CLOSED,
    StopSignal,
    claim_stdio,
    run_and_exit,
    stdout_is_closed,
    within,
)
from tau.runtime.protocol.outbox import Outbox
from tau.runtime.protocol.pipes import PipeWriter
from tau.runtime.terminal import complain
from tau.wire.dialect import Dialect
from tau.wire.dialects import DEFAULT


def serve(
    open_session: Open, prompts: Sequence[Prompt], dialect: Dialect = DEFAULT, *, result: bool, tells_outcome: bool
) -> NoReturn:
    """Run JSON mode and exit. With `result`, the last line is a summary of all prompts.

    With `tells_outcome` the exit code says how they ended, as in print mode; without it, that they were answered.
    """
    lost = stdout_is_closed()
    _, stdout = claim_stdio()
    run_and_exit(lambda: _serve(open_session, prompts, dialect, stdout, result, tells_outcome, lost))


async def _serve(
    open_session: Open,
    prompts: Sequence[Prompt],
    dialect: Dialect,
    stdout: int,
    result: bool,
    tells_outcome: bool,
    lost: bool,
) -> int:
    stop = StopSignal()
    outbox = Outbox(PipeWriter(stdout), lambda: stop.ask(FAILED), dialect.for_json())
    summary = RunSummary(outbox.send, tells_outcome=tells_outcome)
    handle = open_session(summary.pass_on)
    if dialect.session_line:
        outbox.send_line(wire_json(handle.log.header))
    code = await run_prompts(stop, handle, summary, prompts)
    if result:
        outbox.send_line(encode(summary.result(handle, code)))
    if not stop.asked:  # a signal or a lost reader explains itself
        tell_failures(summary)
    if await stop.unless(outbox.drain()):
        if lost:
            complain(STDOUT_CLOSED)
        return FAILED if lost else code
    await within(SHUTDOWN_TIMEOUT_S / 2, outbox.drain())
    return stop.code
