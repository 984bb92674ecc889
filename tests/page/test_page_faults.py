"""The page when something is blocked, lost or very long: no WebSocket, a lost answer, far cards, a second code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from export.chromium import Browser
from page.served_page import ServedPage, Tab
from page.test_page import settled, show, shown, write
from support.fleets import wait_for
from support.page_script import module_url
from support.rpc_process import calls
from support.served import Json
from tau.records.messages import User

pytestmark = [pytest.mark.xdist_group("chromium"), pytest.mark.timeout(400)]

Hosts = Callable[..., ServedPage]
NO_WEBSOCKET = """
window.WebSocket = class {
  constructor() { setTimeout(() => this.onclose?.({code: 1006, reason: ""}), 0); }
  close() {}
};
"""
# The first answer with cards never ends, as Chromium does with one that is cut off while a page is frozen.
ENDLESS_CARDS = """
const real = window.fetch;
let endless = 1;
window.fetch = (url, options) => {
  if (!String(url).includes("/cards?") || !endless--) return real(url, options);
  const body = new ReadableStream({start(controller) {
    options.signal?.addEventListener("abort", () => controller.error(options.signal.reason));
  }});
  return Promise.resolve(new Response(body));
};
"""
SLOW_LIST = """
const fast = window.fetch;
window.fetch = async (url, options) => {
  if (String(url).includes("/v1/sessions?all=")) await new Promise((done) => setTimeout(done, 2000));
  return fast(url, options);
};
"""
# A level is readable as a whole beside the mark of the picker.
PICKER_HAS_ROOM = """(() => {
  const select = document.getElementById("thinking");
  select.parentElement.hidden = false;
  const style = getComputedStyle(select);
  const text = Object.assign(document.createElement("canvas").getContext("2d"), {font: style.font});
  const room = select.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  const level = select.options[select.selectedIndex].textContent;
  const mark = parseFloat(style.backgroundSize) + 8;
  const fits = text.measureText(level).width <= room + 1 && parseFloat(style.paddingRight) > mark;
  return fits && !level.includes("thinking");
})()"""


@pytest.fixture
def serve(tmp_path: Path, browser: Browser) -> Iterator[Hosts]:
    hosts: list[ServedPage] = []

    def start(*answers: Json, **changes: Any) -> ServedPage:
        hosts.append(ServedPage(tmp_path / f"{len(hosts)}", *answers, **changes))
        return hosts[-1]

    yield start
    for host in hosts:
        host.close()


def test_the_page_works_without_websockets(tab: Tab, serve: Hosts) -> None:
    answers = {"text": "first answer"}, calls("echo asked"), {"text": "second answer"}
    host = serve(*answers, permissions="ask", answer_timeout_s=60.0)
    session = host.open()
    tab.ask("Page.addScriptToEvaluateOnNewDocument", source=NO_WEBSOCKET)
    shown(tab, host, session)

    def kinds() -> set[str]:
        return {channel.kind for channel in tuple(host.server.host.channels)}

    wait_for(lambda: "sse" in kinds(), "the page does not use SSE")
    assert "websocket" not in kinds()
    write(tab, "one")
    settled(tab, "first answer")
    host.cut()
    write(tab, "two")
    tab.click("#asks .option")
    settled(tab, "second answer")
    assert host.messages(session) == ["one", "two"]
    other = host.open(name="another")
    tab.until("document.getElementById('sessions').textContent.includes('another')")
    show(tab, other)
    tab.run("document.getElementById('close').click()")
    tab.until("document.documentElement.dataset.session === ''")
    assert host.server.host.live(other) is None


def test_a_session_can_be_used_before_the_list_is_there(tab: Tab, serve: Hosts) -> None:
    host = serve({"text": "good morning"})
    session = host.open()
    tab.ask("Page.addScriptToEvaluateOnNewDocument", source=NO_WEBSOCKET + SLOW_LIST)
    shown(tab, host, session)
    write(tab, "one")
    settled(tab, "good morning")


def test_a_transcript_that_was_cut_off_is_read_again_with_the_next_connection(tab: Tab, serve: Hosts) -> None:
    host = serve({"text": "good morning"})
    session = host.open()
    tab.ask("Page.addScriptToEvaluateOnNewDocument", source=ENDLESS_CARDS)
    tab.visit(host.login_url())
    tab.until("document.documentElement.dataset.connection === 'online'")
    tab.run(f"location.hash = '#s={session}'")
    tab.until(f"document.documentElement.dataset.session === '{session}'")
    host.cut()
    host.run(session, "while it sleeps")
    tab.until("document.getElementById('log').textContent.includes('good morning')")


def test_cards_that_are_far_from_the_reader_are_dropped_and_come_back(tab: Tab, serve: Hosts) -> None:
    host = serve()
    session = host.open()
    count = 320

    async def fill() -> None:
        for at in range(count):
            await host.live(session).handle.append_message(User(f"message {at} " + "word " * 60, timestamp=at))

    host.call(fill())
    tab.look(600, 300)
    shown(tab, host, session)
    tab.run("""(async () => {
      const main = document.getElementById("main");
      for (let at = 0; at < 1000 && !document.getElementById("earlier").hidden; at++) {
        main.scrollTop = 0;
        await new Promise((done) => setTimeout(done, 10));
      }
      main.scrollTop = 0;
    })()""")
    tab.until("document.querySelectorAll('#log > section[data-dropped]').length > 4")
    sections = tab.run("document.querySelectorAll('#log > section').length")
    assert sections >= count // 16 and tab.run("document.querySelectorAll('#log article').length") < count - 64
    tab.run("document.getElementById('main').scrollTop = 1e9")
    tab.until("document.querySelectorAll('#log > section[data-dropped]').length > 4")
    tab.until("document.querySelector('#log > section:nth-last-child(2)').childElementCount === 16")
    texts = tab.run("[...document.querySelectorAll('#log article .body')].map((one) => one.textContent)")
    numbers = [int(text.split()[1]) for text in texts if text.strip().startswith("message")]
    assert numbers == sorted(set(numbers)) and numbers[-1] == count - 1
    first = host.live(session).handle.tree.id(0)
    tab.click("#branches")
    tab.click("#dialog .branches li .go")
    tab.until(f"document.getElementById('e-{first}')?.getBoundingClientRect().top < 300")


def test_a_message_that_was_not_sent_stays_with_its_session(tab: Tab, serve: Hosts) -> None:
    host = serve()
    one, two = host.open(), host.open()
    tab.look(390, 800)
    shown(tab, host, one)
    tab.until("document.querySelector('#thinking option')")
    assert tab.run(PICKER_HAS_ROOM)
    tab.offline(True)
    host.cut()
    tab.until("document.documentElement.dataset.connection === 'offline'")
    write(tab, "for the first")
    tab.run(f"location.hash = '#s={two}'")
    tab.until("document.getElementById('toasts').textContent.includes('Another session was chosen.')")
    assert tab.run("document.getElementById('prompt').value") == ""
    tab.offline(False)
    tab.until("document.documentElement.dataset.connection === 'online'")
    show(tab, one)
    assert tab.run("document.getElementById('prompt').value") == "for the first"
    assert host.messages(one) == host.messages(two) == []


def test_an_answer_that_was_lost_with_the_connection_can_be_given_again(tab: Tab, serve: Hosts) -> None:
    host = serve(calls("echo asked"), {"text": "ran it"}, permissions="ask", answer_timeout_s=60.0)
    session = host.open()
    shown(tab, host, session)
    write(tab, "go")
    tab.until("document.querySelector('#asks .option')")
    tab.run("""(() => {
      const send = WebSocket.prototype.send;
      WebSocket.prototype.send = function (text) {
        if (!text.includes("extension_ui_response")) return send.call(this, text);
        WebSocket.prototype.send = send;
      };
    })()""")
    tab.click("#asks .option")
    assert tab.run("document.querySelector('#asks .option').disabled")
    host.cut()
    tab.until("document.querySelector('#asks .option:not(:disabled)')")
    tab.click("#asks .option")
    settled(tab, "ran it")


def test_an_address_with_a_code_logs_in_also_in_a_tab_that_shows_the_page(tab: Tab, serve: Hosts) -> None:
    host = serve()
    session = host.open()
    shown(tab, host, session, "watch")
    tab.run(f"location.hash = '#k={host.server.credentials.new_code('admin')}'")
    tab.until("document.documentElement.dataset.scope === 'admin'")
    assert "#k=" not in tab.run("location.href")
    tab.until(f"document.documentElement.dataset.session === {json.dumps(session)}")
    write(tab, "hello")
    settled(tab, "ok")
    assert host.messages(session) == ["hello"]


ARGUMENTS = [
    ('{"command": "ls -l\\n pwd"}', "bash", "ls -l\n pwd"),
    ('{"path": "a.py", "offset": 5, "text": "say \\"x\\"', "read", 'path: a.py\noffset: 5\ntext: say "x"'),
    ('{"edits": [{"oldText": "a\\nb", "newText": "c"}], "all": true}', "edit", "oldText:\na\nb\nnewText: c\nall: true"),
    ('{"names": ["a", "b"], "n": nul', "x", "n: nul"),
    ('{"a": "', "x", "a: "),
    ("", "x", ""),
]


def test_arguments_are_readable_while_they_come_and_a_hostile_text_takes_no_time(browser: Browser) -> None:
    script = """async (url, cases) => {
      const {readableArguments} = await import(url);
      const start = performance.now();
      for (let at = 0; at < 20; at++) readableArguments('{"items": ["' + '\\\\"'.repeat(24_000), "x");
      return [cases.map(([json, name]) => readableArguments(json, name)), performance.now() - start];
    }"""
    given = json.dumps([[text, name] for text, name, _ in ARGUMENTS])
    texts, took_ms = browser.run(f"({script})({json.dumps(module_url('transcript.js'))}, {given})")
    assert texts == [expected for *_, expected in ARGUMENTS]
    assert took_ms < 5000  # 5 ms; it was 17 s
