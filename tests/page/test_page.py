"""The page of `tau serve` in a real browser, against a real server: what people do with it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from export.chromium import Browser
from page.served_page import ServedPage, Tab
from serve.serve_process import ServeProcess
from support.rpc_process import calls, endless
from support.served import Json

pytestmark = [pytest.mark.xdist_group("chromium"), pytest.mark.timeout(400)]

WORDS = [f"w{at} " for at in range(40)]
TEXT = "".join(WORDS).strip()
LONG_LINE = "x" * 400
Hosts = Callable[..., ServedPage]


@pytest.fixture
def serve(tmp_path: Path, browser: Browser) -> Iterator[Hosts]:
    hosts: list[ServedPage] = []

    def start(*answers: Json, **changes: Any) -> ServedPage:
        hosts.append(ServedPage(tmp_path / f"{len(hosts)}", *answers, **changes))
        return hosts[-1]

    yield start
    for host in hosts:
        host.close()


def shown(tab: Tab, host: ServedPage, session: str, scope: Any = "admin") -> None:
    """Log in, and show a session."""
    tab.visit(host.login_url(scope))
    tab.until("document.documentElement.dataset.connection === 'online'")
    show(tab, session)


def show(tab: Tab, session: str) -> None:
    tab.run(f"location.hash = '#s={session}'")
    tab.until(f"document.documentElement.dataset.session === {json.dumps(session)}")
    tab.until("document.querySelector('#log').getAttribute('aria-busy') === null")


def write(tab: Tab, text: str, key: str = "Enter") -> None:
    """Type a message and send it, by keyboard."""
    tab.run("document.getElementById('prompt').focus()")
    tab.type(text)
    tab.key(key)


def settled(tab: Tab, last: str = "") -> None:
    """Wait until nothing runs and the card with the last text is there."""
    tab.until("document.documentElement.dataset.busy === 'false' && !document.querySelector('#live article')")
    tab.until(f"document.getElementById('log').textContent.includes({json.dumps(last)})")


def times(tab: Tab, text: str) -> int:
    """How often a text is on the page."""
    return int(tab.run(f"document.getElementById('main').innerText.split({json.dumps(text)}).length - 1"))


def test_an_answer_is_streamed_as_text_and_becomes_a_card_when_it_is_stopped(tab: Tab, serve: Hosts) -> None:
    blocks = [{"thinking": "I think."}, {"text": [*WORDS, "**bold**"]}]
    host = serve({"blocks": blocks, "hangAfter": len(WORDS) + 2})
    session = host.open()
    shown(tab, host, session)
    write(tab, "say words")
    tab.until("document.querySelector('#live .text')?.textContent.includes('**bold**')")
    assert tab.run("document.documentElement.dataset.busy") == "true"
    assert "I think." in tab.text("#live .thinking")
    tab.click("#abort")
    settled(tab, "bold")
    assert tab.run("document.querySelector('#log strong').textContent") == "bold"
    assert (times(tab, TEXT), times(tab, "say words")) == (1, 1)
    assert host.messages(session) == ["say words"]
    assert not host.live(session).streaming


def test_a_message_during_a_run_steers_it_and_another_is_queued(tab: Tab, serve: Hosts, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    host = serve(calls(f"cat {pipe}"), {"text": "after the step"}, {"text": "the end"})
    session = host.open()
    shown(tab, host, session)
    write(tab, "go")
    tab.until("document.querySelector('.call .running')")
    write(tab, "turn left")
    tab.until("document.querySelector('#queue').textContent.includes('turn left')")
    tab.run("document.getElementById('prompt').focus()")
    tab.type("and then")
    tab.key("Enter", modifiers=1)  # Alt
    tab.until("document.querySelector('#queue').textContent.includes('and then')")
    assert tab.run("document.getElementById('queue').checkVisibility()")
    pipe.write_text("let go")
    settled(tab, "the end")
    assert host.messages(session) == ["go", "turn left", "and then"]
    assert tab.run("document.querySelector('#queue').hidden")
    assert (times(tab, "after the step"), times(tab, "the end")) == (1, 1)


@pytest.mark.promise("N08")
def test_a_permission_question_is_on_two_pages_and_the_first_answer_ends_it(
    tab: Tab, browser: Browser, serve: Hosts
) -> None:
    host = serve(calls("echo secret-output"), {"text": "ran it"}, permissions="ask", answer_timeout_s=30.0)
    session = host.open()
    other = Tab(browser, own_storage=True)
    shown(tab, host, session)
    shown(other, host, session)
    write(tab, "go")
    for page in (tab, other):
        page.until("document.querySelector('.ask .option')")
        assert "echo secret-output" in page.text(".ask")
    allow = "[...document.querySelectorAll('.ask .option')].find((one) => one.textContent.startsWith('Allow'))"
    other.run(f"{allow}.click()")
    for page in (tab, other):
        page.until("!document.querySelector('.ask')")
        settled(page, "ran it")
        assert times(page, "ran it") == 1
        page.until("document.getElementById('log').textContent.includes('secret-output')")
    other.close()


@pytest.mark.promise("N10")
def test_a_page_that_is_reloaded_in_the_middle_of_a_run_loses_and_doubles_nothing(
    tab: Tab, serve: Hosts, tmp_path: Path
) -> None:
    """While a tool runs, and while an answer streams: each holds until the test lets it go on."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    waits: Json = {"blocks": [{"text": WORDS}, {"tool": "bash", "arguments": {"command": f"cat {pipe}"}}]}
    host = serve(waits, endless(*WORDS, "and more"))
    session = host.open()
    shown(tab, host, session)
    write(tab, "go")
    tab.until("document.querySelector('.call .running')")
    reload(tab)
    tab.until("document.querySelector('#log .call .running, #live .call .running')")
    assert (times(tab, TEXT), tab.run("document.querySelectorAll('#log article.user').length")) == (1, 1)
    pipe.write_text("let go")
    streamed = "document.querySelector('#live .text')?.textContent"
    tab.until(f"{streamed}?.includes('and more')")
    reload(tab)
    tab.until(f"{streamed} === {json.dumps(''.join(WORDS) + 'and more')}")
    assert (times(tab, "let go"), times(tab, TEXT)) == (1, 2)
    tab.click("#abort")
    settled(tab, "and more")
    assert (times(tab, TEXT), times(tab, "and more"), times(tab, "let go")) == (2, 1, 1)
    assert tab.run("document.querySelectorAll('#log article.user').length") == 1


def reload(tab: Tab) -> None:
    tab.reload()
    tab.until("document.documentElement.dataset.connection === 'online' && document.querySelector('#log article')")


def test_a_page_without_a_network_comes_back_to_the_right_transcript(tab: Tab, serve: Hosts) -> None:
    host = serve(endless(*WORDS), {"text": "while you were away"})
    session = host.open()
    shown(tab, host, session)
    write(tab, "go")
    tab.until("document.querySelector('#live .text')?.textContent.includes('w39')")
    tab.offline(True)
    host.cut()
    tab.until("document.documentElement.dataset.connection === 'offline'")
    tab.until("document.querySelector('#banner').textContent.includes('offline')")
    host.command(session, "abort")
    host.call(host.live(session).handle.runs.idle())
    host.run(session, "more")
    tab.offline(False)
    tab.until("document.documentElement.dataset.connection === 'online'")
    settled(tab, "while you were away")
    assert (times(tab, TEXT), times(tab, "while you were away")) == (1, 1)
    assert tab.text("#banner") == ""


WIDE: Json = {
    "blocks": [
        {"thinking": LONG_LINE},
        {"text": f"{LONG_LINE}\n\n```python\n{LONG_LINE}\n```\n\n| a | b |\n|---|---|\n| {LONG_LINE} | {LONG_LINE} |"},
        {"tool": "bash", "arguments": {"command": f"echo {LONG_LINE}"}, "id": "call_a"},
        {"tool": "write", "arguments": {"path": f"{'d' * 100}/{'f' * 100}", "content": LONG_LINE}, "id": "call_b"},
    ]
}


def too_wide(tab: Tab) -> list[str]:
    """Elements that make the page scroll to the side."""
    return list(
        tab.run("""(() => {
          const width = document.documentElement.clientWidth;
          const found = [];
          for (const scroller of [document.documentElement, document.body, document.getElementById("main")])
            if (scroller.scrollWidth > scroller.clientWidth) found.push(`${scroller.tagName} ${scroller.scrollWidth}`);
          for (const one of document.querySelectorAll("#app button, #app textarea, #app select, #app .ask")) {
            const box = one.getBoundingClientRect();
            if (one.checkVisibility() && !one.closest("#side") && box.width && (box.right > width + 1 || box.left < -1))
              found.push(`${one.tagName}#${one.id} ${box.left}-${box.right}`);
          }
          return found;
        })()""")
    )


def test_nothing_scrolls_to_the_side_at_320_pixels(tab: Tab, serve: Hosts) -> None:
    host = serve(WIDE, endless(LONG_LINE), permissions=None)
    session = stopped_in_its_second_answer(host)
    tab.look(320, 640)
    shown(tab, host, session)
    write(tab, LONG_LINE)
    tab.until("document.querySelector('#live .text')?.textContent.includes('xxx')")
    assert too_wide(tab) == []
    tab.run("for (const one of document.querySelectorAll('details')) one.open = true")
    assert too_wide(tab) == []
    tab.click("#menu-button")
    assert too_wide(tab) == []
    tab.key("Escape")
    tab.click("#new-session")
    tab.until("document.querySelector('#dialog').open")
    assert too_wide(tab) == []
    assert tab.run("document.querySelector('#dialog').getBoundingClientRect().width <= 320")


def stopped_in_its_second_answer(host: ServedPage) -> str:
    """A session whose second prompt will not end."""
    session = host.open(name=f"A name that is long {LONG_LINE[:60]}")
    host.command(session, "set_session_name", name=f"A name that is long {LONG_LINE}")
    host.command(session, "prompt", message=f"{LONG_LINE} [link](https://example.com/{LONG_LINE})")
    live = host.live(session)

    async def second_answer() -> None:
        async with asyncio.timeout(20):
            while not live.stream.view.partial or len(live.handle.tree) < 6:
                await asyncio.sleep(0.01)

    host.call(second_answer())
    host.command(session, "abort")
    host.call(live.handle.runs.idle())
    return session


def test_everything_can_be_done_with_the_keyboard(tab: Tab, serve: Hosts) -> None:
    host = serve(calls("echo by-keyboard"), endless("on and on "), permissions="ask", answer_timeout_s=30.0)
    tab.visit(host.login_url())
    tab.until("document.documentElement.dataset.connection === 'online'")
    reach(tab, "document.activeElement.id === 'new-session'")
    tab.key("Enter")
    tab.until("document.querySelector('#dialog').open && document.activeElement.closest('#dialog')")
    tab.key("Enter")
    tab.until("document.documentElement.dataset.session")
    tab.until("!document.querySelector('#dialog').open")
    reach(tab, "document.activeElement.id === 'prompt'")
    tab.type("go")
    tab.key("Enter")
    tab.until("document.querySelector('.ask .option')")
    assert tab.run("document.activeElement.id") == "prompt"  # a key that was meant for the field does not answer
    reach(
        tab, "document.activeElement.matches('.ask .option') && document.activeElement.textContent === 'Allow once'", -1
    )
    tab.key("Enter")
    tab.until("document.querySelector('#live .text')?.textContent.includes('on and on')")
    tab.until("document.activeElement.id === 'prompt'")  # and gives it back
    tab.key("Escape")
    settled(tab, "on and on")
    assert times(tab, "by-keyboard") >= 1
    tab.key("k", modifiers=2)  # Ctrl
    tab.until("document.activeElement.id === 'filter'")


def reach(tab: Tab, condition: str, direction: int = 1) -> None:
    """Press Tab, or Shift and Tab, until the focus is on an element."""
    for _ in range(40):
        if tab.run(condition):
            return
        tab.key("Tab", **({} if direction > 0 else {"modifiers": 8}))
    raise AssertionError(f"this cannot be reached with the keyboard: {condition}")


@pytest.mark.promise("N12")
def test_a_page_that_may_only_watch_shows_no_controls(tab: Tab, serve: Hosts) -> None:
    host = serve(calls("echo x"), permissions="ask", answer_timeout_s=30.0)
    session = host.open()
    shown(tab, host, session, "watch")
    host.command(session, "prompt", message="go")
    tab.until("document.querySelector('.ask')")
    controls = tab.run("""[...document.querySelectorAll("button, textarea, select, input, [contenteditable]")]
        .filter((one) => one.checkVisibility({checkVisibilityCSS: true})).map((one) => one.id || one.className)""")
    allowed = {"filter", "theme", "logout", "menu-button", "branches", "more", "chip", "latest"}
    assert set(controls) <= allowed
    assert host.messages(session) == ["go"]


@pytest.mark.promise("N14", "N15")
def test_the_address_of_a_host_logs_in_and_a_revoked_login_ends_the_page_with_a_sentence(
    tab: Tab, tmp_path: Path
) -> None:
    """With `tau serve` as people start it."""
    with ServeProcess(tmp_path, answers=({"text": "hello from a process"},)) as host:
        session = host.ask("POST", "/v1/sessions", {}).json["session"]
        tab.visit(host.command("serve", "url").stdout.strip())
        tab.until("document.documentElement.dataset.connection === 'online'")
        assert "#k=" not in tab.run("location.href")
        show(tab, session)
        write(tab, "hello")
        settled(tab, "hello from a process")
        assert host.command("serve", "token", "revoke", "Chrome on Linux").returncode == 0
        tab.until("!document.querySelector('#login').hidden")
        assert "revoked" in tab.text("#login-error") and "tau serve url" in tab.text("#login-error")
        assert tab.run("document.querySelector('#app').hidden")
        assert tab.run("document.getElementById('log').childElementCount") == 0
        assert host.errors == ""
