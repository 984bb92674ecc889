"""Signals of a process that a shell has started in the background."""

from __future__ import annotations

import signal


def restore_signals() -> None:
    """A shell starts background jobs with SIGINT and SIGQUIT ignored, nohup with SIGHUP, and children inherit that."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGQUIT: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    for number, handler in usual.items():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)
