"""A browser for the tests of the page. Without Chromium they are skipped, and that is said aloud."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from export.chromium import Browser, Trap, chromium
from page.served_page import Tab


@pytest.fixture(scope="session")
def trap() -> Iterator[Trap]:
    trap = Trap()
    yield trap
    trap.close()


@pytest.fixture(scope="session")
def browser(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, trap: Trap) -> Iterator[Browser]:
    if chromium() is None:
        reason = (
            "NO CHROMIUM HERE: the page of tau serve was not checked in a browser (Debian: apt-get install chromium)"
        )
        capture = request.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            print(f"\n*** {reason} ***", file=sys.stderr)
        pytest.skip(reason)
    rules = f"MAP *.example 127.0.0.1:{trap.port}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
    folder: Path = tmp_path_factory.mktemp("chromium")
    browser = Browser(folder, hosts=rules)
    yield browser
    browser.close()


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    tab = Tab(browser, own_storage=True)
    yield tab
    tab.close()
