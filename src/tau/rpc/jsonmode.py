"""JSON mode: the session's header, then every event, one line each; then the end.

Nobody is listened to: the prompts are known from the start. A reader that is slow
gets updates that were merged, as in RPC mode; one that is gone ends the run, and
the exit code then says that the answer was not delivered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from tau.core.exits import FAILED
from tau.host.life import FAREWELL, STDOUT_CLOSED, Stop, claim, stdout_is_closed, to_the_end, within
from tau.host.questions import Open, Prompt, Tally, ask_all, tell_failures
from tau.host.terminal import complain
from tau.records.base import encode, wire
from tau.rpc.outbox import Outbox
from tau.wire.dialect import Dialect
from tau.wire.dialects import DEFAULT


def serve(open_session: Open, prompts: Sequence[Prompt], dialect: Dialect = DEFAULT, *, result: bool) -> NoReturn:
    """Run JSON mode to its end; with `result`, its last line sums everything up."""
    lost = stdout_is_closed()
    _, stdout = claim()
    to_the_end(lambda: _serve(open_session, prompts, dialect, stdout, result, lost))


async def _serve(
    open_session: Open, prompts: Sequence[Prompt], dialect: Dialect, stdout: int, result: bool, lost: bool
) -> int:
    stop = Stop()
    outbox = Outbox(stdout, lambda: stop.ask(FAILED), dialect.for_json())
    tally = Tally(outbox.send)
    session, machine, _ = open_session(tally.pass_on)
    if dialect.session_line:
        outbox.put(wire(session.log.header))
    code = await ask_all(stop, session, machine, tally, prompts)
    if result:
        outbox.put(encode(tally.result(session, code)))
    if not stop.asked:  # else everybody knows why it ended
        tell_failures(tally)
    if await stop.unless(outbox.drained()):
        if lost:
            complain(STDOUT_CLOSED)
        return FAILED if lost else code
    await within(FAREWELL / 2, outbox.drained())
    return stop.code
