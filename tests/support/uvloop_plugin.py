"""A plugin for pytest: every event loop of the tests is one of uvloop (`pip install uvloop`).

PYTHONPATH=tests python -m pytest -p support.uvloop_plugin tests/library tests/llm tests/rpc_client
"""

from __future__ import annotations

import asyncio
import warnings

import uvloop  # type: ignore[import-not-found]

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of policies, in newer versions of Python
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
