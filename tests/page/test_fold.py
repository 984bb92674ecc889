"""The fold of records in the page (state.js) agrees with the one of the host."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from export.chromium import Browser
from support.page_runs import record_run
from support.page_script import disagreements, module_url
from support.page_streams import Generator, Recording

pytestmark = [pytest.mark.xdist_group("chromium"), pytest.mark.timeout(400)]

GENERATED = 20  # tests/long/page_fold.py has more
RUNS = 8


async def recordings(folder: Path) -> list[Recording]:
    generated = [Generator(seed).recording(60) for seed in range(GENERATED)]
    return [*generated, *[await record_run(folder / f"{seed}", seed) for seed in range(RUNS)]]


def test_the_fold_of_the_page_is_what_snapshots_of_the_host_say(browser: Browser, tmp_path: Path) -> None:
    streams = asyncio.run(recordings(tmp_path))
    assert sum(len(one.checks) for one in streams) > 150
    assert disagreements(browser, streams) == []


LIST = """
async (url) => {
  const {emptyList, withRows, foldList} = await import(url);
  const row = {id: "a", cwd: "/w", name: "one", live: false, streaming: false, attention: false, clients: 0};
  let list = withRows(emptyList(), {sessions: [row], cursor: "c"});
  const status = {type: "session_status", session: "a", streaming: true, attention: true, clients: 2, cost: 1.5};
  list = foldList(list, status);
  list = foldList(list, {type: "session_opened", session: "b", cwd: "/v", name: "two", receivedAt: 5});
  list = withRows(list, {sessions: [{...row, id: "z"}]}, true);
  const same = foldList(list, {type: "agent_start"}) === list;
  list = foldList(list, {type: "session_closed", session: "a"});
  return {rows: list.sessions, cursor: list.cursor, same};
}
"""


def test_the_list_follows_the_sessions_of_the_host(browser: Browser) -> None:
    made = browser.run(f"({LIST})({json.dumps(module_url('state.js'))})")
    assert [row["id"] for row in made["rows"]] == ["b", "a", "z"]
    opened, closed, _ = made["rows"]
    assert (opened["cwd"], opened["name"], opened["live"]) == ("/v", "two", True)
    assert (closed["live"], closed["streaming"], closed["attention"], closed["cost"]) == (False, False, False, 1.5)
    assert made["cursor"] is None and made["same"]


LIMITS = """
async (url) => {
  const {emptySession, fold} = await import(url);
  const record = {type: "budget_exceeded", seq: 1, used: 8, allowed: 8};
  return ["stuck", "turns"].map((limit) => fold(emptySession("a"), {...record, limit}).notices[0].text);
}
"""


def test_the_page_says_which_limit_has_ended_the_work(browser: Browser) -> None:
    assert browser.run(f"({LIMITS})({json.dumps(module_url('state.js'))})") == [
        "Stopped: the tool calls of 8 answers in a row all failed in the same way.",
        "The turns budget has ended the work: 8 of 8.",
    ]
