"""Modules that the command line defers: they are loaded at first use, and behave as if they had been imported."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest


def run(code: str) -> list[str]:
    """Run `code` in a new Python in which nothing is imported yet. Returns the words that it prints."""
    start = "from tau.cli.deferred_modules import DEFERRED, defer\nimport sys\n"
    done = subprocess.run([sys.executable, "-c", start + dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_importing_a_deferred_module_does_not_load_it() -> None:
    assert (
        run("""
        defer()
        import asyncio, logging, ssl
        print(*(name for name in ("_ssl", "ast", "tokenize") if name in sys.modules))
        """)
        == []
    )


def test_every_deferred_module_loads_at_first_use() -> None:
    assert (
        run("""
        import importlib
        new = [name for name in DEFERRED if name not in sys.modules]
        defer()
        for name in new:
            placeholder = importlib.import_module(name)
            getattr(placeholder, "__file__", None)  # some are part of the interpreter
            real = sys.modules[name]
            assert type(real) is type(sys), name
            for public in vars(real):
                assert getattr(placeholder, public) is getattr(real, public), (name, public)
        """)
        == []
    )


def test_a_module_that_is_loaded_already_stays() -> None:
    assert run("""
        import json
        defer()
        print(sys.modules["json"] is json)
        """) == ["True"]


def test_threads_that_use_a_deferred_module_at_once_all_get_the_real_one() -> None:
    assert run("""
        import threading
        defer(("inspect",))
        import inspect
        gate, found = threading.Barrier(8), []
        def use():
            gate.wait()
            found.append(inspect.cleandoc)
        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(len(found), len(set(found)), found[0] is sys.modules["inspect"].cleandoc)
        """) == ["8", "1", "True"]


def test_values_until_the_module_is_loaded_are_replaced_by_its_own() -> None:
    assert run("""
        defer()
        import platform, ssl, socket, traceback
        with socket.socket() as plain:
            print(isinstance(plain, ssl.SSLSocket), "_ssl" in sys.modules)
        before = platform.system()
        frames = traceback.extract_stack(sys._getframe())
        print(before == sys.modules["platform"].platform().partition("-")[0], frames[-1].name, ssl.SSLSocket)
        ssl.create_default_context()
        print(ssl.SSLSocket.__name__, platform.system() == before)
        """) == ["False", "False", "True", "<module>", "()", "SSLSocket", "True"]


def test_dates_need_no_second_implementation() -> None:
    assert run("""
        defer()
        import datetime
        from datetime import UTC, datetime as moment, timedelta
        before = sys.modules["datetime"]
        print(moment(2026, 1, 2, tzinfo=UTC).isoformat(), type(before).__name__)
        print(datetime.__file__.endswith("datetime.py"), sys.modules["datetime"].datetime is moment)
        print(moment.strptime("2026", "%Y").year)
        """) == ["2026-01-02T00:00:00+00:00", "DeferredModule", "True", "True", "2026"]


@pytest.mark.skipif(sys.version_info < (3, 14), reason="asyncio has no call graphs")
def test_asyncio_shows_its_call_graph_with_deferred_modules() -> None:
    assert run("""
        defer()
        import asyncio, asyncio.graph
        print("dataclasses" in sys.modules, all(hasattr(asyncio, name) for name in asyncio.__all__))
        async def main():
            before = asyncio.capture_call_graph()
            after = asyncio.graph.capture_call_graph()
            shown = asyncio.format_call_graph().startswith("* Task")
            return type(before) is type(after) is sys.modules["asyncio.graph"].FutureCallGraph, shown
        print(*asyncio.run(main()))
        """) == ["False", "True", "True", "True"]


def test_asyncio_starts_threads_and_processes_with_deferred_modules() -> None:
    assert run("""
        defer()
        import asyncio, pathlib
        print(*("concurrent.futures._base" in sys.modules, "_posixsubprocess" in sys.modules))
        async def main():
            tasks = [asyncio.create_task(asyncio.sleep(0)), asyncio.create_task(asyncio.sleep(60))]
            done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            command = (sys.executable, "-c", "print(7)")
            process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            output, _ = await process.communicate()
            return len(done), len(waiting), int(output), await asyncio.to_thread(lambda: 8)
        print(*asyncio.run(main()))
        import concurrent.futures, subprocess
        print(concurrent.futures.ALL_COMPLETED == asyncio.ALL_COMPLETED)
        print(subprocess.DEVNULL == asyncio.subprocess.DEVNULL)
        print(pathlib.PurePath("a/b.py").match("*.py"), pathlib.PureWindowsPath("C:/a").drive)
        """) == ["False", "False", "1", "1", "7", "8", "True", "True", "True", "C:"]
