"""Tests of this folder may be coroutine functions. The hosts that they make are closed afterwards."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from support import served


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    names = inspect.signature(test).parameters
    asyncio.run(_run(test, {name: pyfuncitem.funcargs[name] for name in names}))
    return True


async def _run(test: Any, arguments: dict[str, Any]) -> None:
    try:
        await test(**arguments)
    finally:
        await served.close_hosts()
