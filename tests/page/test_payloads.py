"""Nothing of a conversation runs in the page, and the page calls no one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from export.chromium import Browser, Trap
from export.payloads import PAYLOADS
from page.infested_page import ID, STIR, WATCH_POLICY, Infestation, ran, write_files, write_session
from page.served_page import ServedPage, Tab

pytestmark = [pytest.mark.xdist_group("chromium"), pytest.mark.timeout(400)]

# tests/long/page_payloads.py has all of them everywhere.
TEXTS = PAYLOADS[::6]
SLOW_TEXTS = PAYLOADS[::48]  # in fields that the page draws once for each text


@pytest.fixture
def host(tmp_path: Path, browser: Browser) -> Iterator[ServedPage]:
    write_session(tmp_path, TEXTS)
    write_files(tmp_path, TEXTS)
    with ServedPage(tmp_path, {"text": "ok"}) as host:
        yield host


@pytest.mark.promise("N16")
def test_no_payload_runs_in_any_field_of_the_page(tab: Tab, host: ServedPage, trap: Trap) -> None:
    before = trap.visits
    tab.ask("Page.addScriptToEvaluateOnNewDocument", source=WATCH_POLICY)
    host.open(session=ID)
    tab.visit(host.login_url())
    tab.until("document.documentElement.dataset.connection === 'online'")
    tab.run(f"location.hash = '#s={ID}'")
    tab.until("document.querySelector('#log article')")
    Infestation(host, ID).infest(TEXTS, SLOW_TEXTS)
    tab.until(f"document.querySelectorAll('.ask').length >= {4 * len(TEXTS)}")
    tab.run(STIR)
    assert ran(tab) == []
    assert trap.visits == before
    assert "<script>top.ran=1</script>" in tab.text("#asks")  # shown, as text
