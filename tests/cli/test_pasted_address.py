"""The address where a browser on another machine ends is read from any kind of stdin."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = (
    "import asyncio\n"
    "from tau.cli.browser_login import pasted_address\n"
    "print('got', asyncio.run(pasted_address('address?')), flush=True)"
)


@pytest.mark.parametrize("kind", ["pipe", "terminal of another session"])
def test_a_pasted_address_is_read(kind: str) -> None:
    ours, theirs = os.openpty() if kind != "pipe" else os.pipe()[::-1]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=theirs, stdout=subprocess.PIPE, start_new_session=True, text=True
    ) as process:
        os.write(ours, b"http://127.0.0.1/callback?code=x\n")
        printed, _ = process.communicate(timeout=60)
        assert printed.splitlines()[-1] == "got http://127.0.0.1/callback?code=x" and process.returncode == 0
    os.close(ours)
    os.close(theirs)
