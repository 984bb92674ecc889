from __future__ import annotations

import asyncio
import contextvars
import errno
import threading

import pytest

from tau.concurrency.threads import NoThread, run_in_thread

NUMBER = contextvars.ContextVar("NUMBER", default=0)


def test_the_work_is_done_in_a_daemon_thread_with_the_context_of_the_caller() -> None:
    async def main() -> tuple[str, bool, int]:
        NUMBER.set(7)
        return await run_in_thread(
            lambda: (threading.current_thread().name, threading.current_thread().daemon, NUMBER.get()), "a name"
        )

    assert asyncio.run(main()) == ("a name", True, 7)


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (ValueError("wrong"), ValueError("wrong")),
        (StopIteration(), RuntimeError("StopIteration")),
        (StopIteration("done"), RuntimeError("StopIteration: done")),
        (SystemExit(3), RuntimeError("SystemExit: 3")),
        (asyncio.CancelledError(), RuntimeError("CancelledError")),
    ],
)
def test_what_the_work_raises_is_an_exception_of_the_future(raised: BaseException, error: Exception) -> None:
    def work() -> None:
        raise raised

    async def main() -> BaseException | None:
        done = run_in_thread(work, "work")
        await asyncio.wait([done])
        return done.exception()

    found = asyncio.run(main())
    assert (type(found), str(found)) == (type(error), str(error))


def test_work_that_may_exit_ends_the_event_loop() -> None:
    def work() -> None:
        raise SystemExit(3)

    async def main() -> None:
        await run_in_thread(work, "work", may_exit=True)

    with pytest.raises(SystemExit) as ended:
        asyncio.run(main())
    assert ended.value.code == 3


@pytest.mark.parametrize("fails", [False, True])
def test_the_result_for_a_caller_that_has_given_up_is_discarded(fails: bool) -> None:
    go_on = threading.Event()
    troubles: list[object] = []

    def work() -> None:
        go_on.wait(20)
        if fails:
            raise ValueError("nobody reads this")

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, what: troubles.append(what))
        done = run_in_thread(work, "abandoned work")
        done.cancel()
        go_on.set()
        for thread in threading.enumerate():
            if thread.name == "abandoned work":
                await asyncio.to_thread(thread.join, 20)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert troubles == []


def test_work_that_ends_after_the_event_loop_is_closed_is_discarded(capfd: pytest.CaptureFixture[str]) -> None:
    go_on = threading.Event()

    async def main() -> None:
        run_in_thread(lambda: go_on.wait(20), "late work")

    asyncio.run(main())
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "late work"]
    go_on.set()
    thread.join(20)
    assert capfd.readouterr().err == ""


def test_a_thread_that_cannot_start_is_an_error_of_the_system() -> None:
    size = threading.stack_size(1 << 47)  # more than there are addresses
    try:
        with pytest.raises(NoThread) as error:
            asyncio.run(_none())
    finally:
        threading.stack_size(size)
    assert error.value.errno == errno.EAGAIN


async def _none() -> None:
    await run_in_thread(lambda: None, "none")
