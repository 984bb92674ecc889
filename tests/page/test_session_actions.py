"""The page of `tau serve`: what is done with a session besides talking. One browser tab goes through all of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from export.chromium import Browser
from page.served_page import ServedPage, Tab
from page.test_page import settled, show, shown, write
from support.rpc_process import calls, endless
from support.served import Json
from tau.records.budgets import Budget
from tau.records.dialogs import Confirm, Editor, Input, Select

pytestmark = [pytest.mark.xdist_group("chromium"), pytest.mark.timeout(400)]

Hosts = Callable[..., ServedPage]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
GIVE_IMAGE = f"""(() => {{
  const data = new DataTransfer();
  const bytes = Uint8Array.from(atob("{PIXEL}"), (sign) => sign.charCodeAt(0));
  data.items.add(new File([bytes], "dot.png", {{type: "image/png"}}));
  const event = new ClipboardEvent("paste", {{clipboardData: data, bubbles: true, cancelable: true}});
  document.getElementById("prompt").dispatchEvent(event);
}})()"""


@pytest.fixture
def serve(tmp_path: Path, browser: Browser) -> Iterator[Hosts]:
    hosts: list[ServedPage] = []

    def start(*answers: Json, **changes: Any) -> ServedPage:
        hosts.append(ServedPage(tmp_path / f"{len(hosts)}", *answers, **changes))
        return hosts[-1]

    yield start
    for host in hosts:
        host.close()


def typed(tab: Tab, text: str) -> None:
    tab.run("document.getElementById('prompt').focus()")
    tab.type(text)


def has(tab: Tab, selector: str, text: str) -> None:
    tab.until(f"document.querySelector({json.dumps(selector)})?.textContent.includes({json.dumps(text)})")


def test_a_session_is_renamed_forked_exported_and_closed(tab: Tab, serve: Hosts) -> None:
    host = serve({"text": "the answer"})
    session = host.open()
    host.run(session, "first prompt")
    shown(tab, host, session)
    has(tab, "#title", "first prompt")
    typed(tab, "/name A better name")
    tab.key("Enter")
    has(tab, "#title", "A better name")
    has(tab, "a.session[aria-current]", "A better name")
    tab.click("#fork")
    tab.until(f"!['', {json.dumps(session)}].includes(document.documentElement.dataset.session)")
    fork = tab.run("document.documentElement.dataset.session")
    has(tab, "#log", "the answer")
    assert host.messages(fork) == ["first prompt"]
    tab.until(
        "document.documentElement.dataset.connection === 'online' && Boolean(document.querySelector('#model').value)"
    )
    tab.click("#close")
    tab.until("document.documentElement.dataset.session === ''")
    assert host.server.host.live(fork) is None
    show(tab, session)
    has(tab, "#title", "A better name")


def test_a_prompt_of_another_branch_is_continued_or_forked(tab: Tab, serve: Hosts) -> None:
    host = serve({"text": "one"}, {"text": "two"}, {"text": "three"})
    session = host.open()
    host.run(session, "first prompt")
    host.run(session, "second prompt")
    first = host.command(session, "get_fork_messages")["messages"][1]["entryId"]
    host.command(session, "navigate", entryId=first)
    host.run(session, "another way")
    shown(tab, host, session)
    has(tab, "#log", "three")
    assert "second prompt" not in tab.text("#log")
    tab.click("#branches")
    has(tab, ".branches", "second prompt")
    row = "[...document.querySelectorAll('.branches li')].find((one) => one.textContent.includes('two'))"
    tab.run(f"{row}.querySelector('.go').click()")
    has(tab, "#log", "second prompt")
    tab.until("!document.getElementById('log').textContent.includes('another way')")
    assert host.messages(session) == ["first prompt", "second prompt"]


def test_commands_and_files_are_completed(tab: Tab, serve: Hosts) -> None:
    host = serve()
    session = host.open()
    (Path(host.live(session).cwd) / "notes of today.md").write_text("x")
    (Path(host.live(session).cwd) / "readme.txt").write_text("x")
    shown(tab, host, session)
    typed(tab, "/br")
    has(tab, "#menu [aria-selected=true]", "/branches")
    assert tab.run("document.getElementById('prompt').getAttribute('aria-activedescendant')") == "option-0"
    tab.key("Tab")
    assert tab.run("document.getElementById('prompt').value") == "/branches "
    tab.run("document.getElementById('prompt').value = ''")
    typed(tab, "look at @today")
    has(tab, "#menu", "notes of today.md")
    tab.key("Enter")
    assert tab.run("document.getElementById('prompt').value") == 'look at @"notes of today.md" '
    assert tab.run("document.getElementById('menu').hidden")


def test_images_that_are_too_large_together_are_refused(tab: Tab, serve: Hosts) -> None:
    host = serve({"text": "ok"})
    shown(tab, host, host.open())
    tab.run("""(() => {
      const data = new DataTransfer();
      for (const name of ["a", "b", "c"]) {
        data.items.add(new File([new Uint8Array(8 << 20)], name, {type: "image/png"}));
      }
      const event = new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true});
      document.getElementById("prompt").dispatchEvent(event);
    })()""")
    has(tab, "#toasts", "the images of a message may have 23 MB together.")
    assert tab.run("document.querySelectorAll('#images .thumb').length") == 2


def test_images_are_sent_and_queued_messages_taken_back(tab: Tab, serve: Hosts) -> None:
    host = serve({"text": "nice"}, endless("working "))
    session = host.open()
    shown(tab, host, session)
    tab.run(GIVE_IMAGE)
    tab.until("document.querySelectorAll('#images img').length === 1")
    write(tab, "look")
    tab.until("document.querySelectorAll('#log article.user .pictures img').length === 1")
    settled(tab)
    write(tab, "go on")
    has(tab, "#live .text", "working")
    write(tab, "not this")
    has(tab, "#queue", "not this")
    tab.click("#queue button")
    tab.until("document.getElementById('prompt').value === 'not this'")
    assert tab.run("document.getElementById('queue').hidden")
    tab.click("#abort")
    settled(tab)
    assert host.messages(session) == ["look", "go on"]


def test_budget_context_cost_and_others_are_shown(tab: Tab, browser: Browser, serve: Hosts) -> None:
    host = serve({"text": "done", "usage": {"input": 4000, "output": 50}}, budget=Budget(max_turns=5))
    session = host.open()
    shown(tab, host, session)
    write(tab, "go")
    settled(tab)
    has(tab, "#budget", "1/5 turns")
    has(tab, "#context", "Context")
    has(tab, "#cost", "$")
    other = Tab(browser, own_storage=True)
    shown(other, host, session)
    has(tab, "#who", "1 other")
    other.close()
    tab.until("document.getElementById('who').textContent === ''")


def test_an_interrupted_run_is_continued_by_hand(tab: Tab, serve: Hosts) -> None:
    host = serve(calls("echo once"), {"text": "finished"})
    session = host.open()
    host.run(session, "go")
    path = host.live(session).handle.log.path
    assert path is not None
    entries = path.read_text().splitlines()
    host.ask("DELETE", f"/v1/sessions/{session}")
    last = max(at for at, line in enumerate(entries) if '"toolResult"' in line)
    path.write_text("\n".join(entries[:last]) + "\n")  # as if the host had died while the tool ran
    shown(tab, host, session)
    has(tab, "#banner", "interrupted")
    tab.click("#banner button")
    tab.until("document.getElementById('prompt').value.includes('interrupted')")
    assert host.messages(session) == ["go"]
    tab.key("Enter")
    settled(tab)
    tab.until("document.getElementById('banner').textContent === ''")


def test_every_kind_of_question_is_answered(tab: Tab, serve: Hosts) -> None:
    host = serve(answer_timeout_s=30.0)
    session = host.open()
    shown(tab, host, session)
    dialogs = host.live(session).handle.dialogs

    def asked(question: Any, act: str) -> Any:
        answer = asyncio.run_coroutine_threadsafe(dialogs.ask(question), host._loop)
        tab.until(f"Boolean(document.querySelector('.ask[data-id={question.id}]'))")
        tab.run(f"(() => {{ const ask = document.querySelector('.ask'); {act} }})()")
        found = answer.result(20)
        tab.until("!document.querySelector('.ask')")
        return found

    yes = "ask.querySelector('.option').click()"
    assert asked(Confirm("q1", "Sure?", "It takes a while."), yes) is True
    assert (
        asked(Select("q2", "Which?", ["red", "blue"], 60_000), "ask.querySelectorAll('.option')[1].click()") == "blue"
    )
    assert asked(Input("q3", "Name?", "a name"), f"ask.querySelector('input').value = 'Ann'; {yes}") == "Ann"
    assert asked(Editor("q4", "Text?", "a\nb"), f"ask.querySelector('textarea').value += '\\nc'; {yes}") == "a\nb\nc"
    assert asked(Input("q5", "Again?"), "ask.querySelectorAll('.option')[1].click()") is None


def test_the_thinking_level_is_chosen(tab: Tab, serve: Hosts) -> None:
    host = serve()
    session = host.open()
    shown(tab, host, session)
    tab.until(
        "document.querySelectorAll('#thinking option').length > 1 && Boolean(document.querySelector('#model').value)"
    )
    tab.run("(() => { thinking.value = 'high'; thinking.dispatchEvent(new Event('change')); })()")
    deadline = time.monotonic() + 20
    while host.command(session, "get_state")["thinkingLevel"] != "high":  # the command is on its way
        assert time.monotonic() < deadline
    assert tab.run("document.querySelector('#thinking').value") == "high"


def test_a_command_of_the_reader_is_run(tab: Tab, serve: Hosts) -> None:
    host = serve()
    session = host.open()
    shown(tab, host, session)
    write(tab, "!echo from-the-page")
    has(tab, "#log article.bash", "from-the-page")
    tab.until("!document.querySelector('#live [data-bash]')")
