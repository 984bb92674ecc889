"""Hostile texts in every field of the live page: what a session, its stream, its files and its clients can say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from export.infested import infested
from page.served_page import ServedPage, Tab
from support.served import Client
from tau.core.agent.draft import Draft
from tau.records import dialogs as d
from tau.records import events as e
from tau.records.base import encode, replace
from tau.records.host_events import DialogResolved, SessionOpened, SessionStatus
from tau.records.messages import Image, Text
from tau.runtime.runs.model_client import UNKNOWN_MODEL
from tau.serve.access import Access
from tau.serve.event_stream import EventStream
from tau.wire.unfinished import PartialJson

ID = "019a7c52-8d1e-7b3a-9f40-3c5e2a7d1b66"
FRAME_S = 0.04  # in which a page draws what it was told
WATCH_POLICY = """
window.violations = [];
addEventListener("securitypolicyviolation", ({violatedDirective, blockedURI}) => {
  violations.push(`${violatedDirective} ${blockedURI}`);
});
"""


def write_session(folder: Path, texts: Sequence[str]) -> None:
    """A session file with the texts everywhere, in the folder of sessions of a host."""
    export = infested(texts)
    (folder / "sessions").mkdir(parents=True, exist_ok=True)
    header = replace(
        export.header, id=ID, cwd=str(folder / "work"), parent_session="x", timestamp="2026-03-17T09:12:44Z"
    )
    lines = [encode(header), *(encode(entry) for entry in export.entries)]
    (folder / "sessions" / f"2026_{ID}.jsonl").write_bytes(b"\n".join(lines) + b"\n")


def write_files(folder: Path, texts: Sequence[str]) -> None:
    """Files of the project, and prompt templates, with the texts as names and descriptions."""
    (folder / "work").mkdir(parents=True, exist_ok=True)
    prompts = folder / "agent" / "prompts"
    prompts.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(texts):
        name = "".join(sign for sign in text if sign not in "/\0" and sign.isprintable())
        if 0 < len(name.encode("utf-8", "replace")) < 200:
            (folder / "work" / f"a{name}").write_text("")
        (prompts / f"p{number}.md").write_text(f"---\ndescription: {json.dumps(name)}\n---\n{name}")


class Infestation:
    """Publishes events with hostile texts to the stream of a session."""

    def __init__(self, host: ServedPage, session: str) -> None:
        self._host = host
        self._stream: EventStream = host.live(session).stream
        self._session = session
        self._ids = 0

    def infest(self, texts: Sequence[str], slow_texts: Sequence[str]) -> None:
        """`slow_texts` are also put where the page has to draw once for each of them."""
        self._host.call(self._infest(texts, slow_texts))

    async def _infest(self, texts: Sequence[str], slow_texts: Sequence[str]) -> None:
        await self._clients(slow_texts)
        for text in texts:
            self._shown(text)
            self._notices(text)
            self._list(text)
        await self._message(texts, "model")
        for text in slow_texts:
            await self._message([text], text)
            await self._questions(text)
        for text in texts:  # at last all of them are open
            self._ask(text)
        await asyncio.sleep(FRAME_S)

    def _publish(self, *events: Any) -> None:
        for event in events:
            self._stream.publish(event)

    def _id(self) -> str:
        self._ids += 1
        return f"infested{self._ids}"

    def _shown(self, text: str) -> None:
        self._publish(
            d.SetTitle(self._id(), text),
            d.SetStatus(self._id(), text, text),
            d.SetWidget(self._id(), text, [text, text], "belowEditor"),
            d.SetEditorText(self._id(), text),
            e.QueueUpdate([text], [text]),
            e.SessionInfoChanged(text),
        )

    def _notices(self, text: str) -> None:
        self._publish(
            d.Notify(self._id(), text, "error"),
            e.ExtensionError(text, text, text),
            e.AutoRetryStart(1, 3, 60_000, text),
            e.AutoRetryEnd(False, 3, text),
            e.CompactionStart("manual"),
            e.CompactionEnd("manual", None, False, False, text),
            e.SessionDamaged(text, [text]),
            e.SessionWriteFailed(text, text, 1),
            e.StructuredOutput(error=text),
            e.McpServerUpdate(text, "failed", error=text),
            e.BashUpdate(text, text),
        )

    def _list(self, text: str) -> None:
        opened = SessionOpened(self._id(), text, text)
        status = SessionStatus(self._id(), True, True, 2, 0.5, text)
        for event in (opened, status):
            self._host.server.host._tell_watchers(event.session, event)

    def _ask(self, text: str) -> list[str]:
        ids = [self._id() for _ in range(4)]
        self._publish(
            d.Select(ids[0], f"{text}\n{text}", [text, text], 60_000),
            d.Confirm(ids[1], text, text),
            d.Input(ids[2], text, text),
            d.Editor(ids[3], text, text),
        )
        return ids

    async def _questions(self, text: str) -> None:
        ids = self._ask(text)
        await asyncio.sleep(FRAME_S)
        self._publish(*(DialogResolved(id, "answered", text) for id in ids))

    async def _message(self, texts: Sequence[str], model: str) -> None:
        """An answer that is streamed: text, thinking, calls and their output, then its end with an error."""
        named = replace(UNKNOWN_MODEL, id=model, name=model, provider=model)
        draft = Draft(named, 1000 + self._ids, PartialJson)
        self._publish(e.AgentStart(), e.MessageStart(draft.begin().message))
        for text in texts:
            for kind in ("text", "thinking"):
                at = draft.block_count
                self._publish(draft.open(kind))  # type: ignore[arg-type]
                self._publish(draft.add(at, text), draft.close(at))
            at = draft.block_count
            call = f"{text}{self._id()}"
            self._publish(draft.open_call(call, text), draft.add(at, json.dumps({text: [text], "command": text})))
            outcome = e.Outcome([Text(text), Image(text, text)], {"diff": f"-1 {text}\n+1 {text}"})
            self._publish(e.ToolStart(call, text, {text: text}), e.ToolUpdate(call, text, {text: text}, outcome))
        await asyncio.sleep(FRAME_S)
        self._publish(e.MessageEnd(draft.message("error", model)), e.AgentEnd([]), e.AgentSettled())

    async def _clients(self, texts: Sequence[str]) -> None:
        for text in texts:
            client = Client(self._host.server.host, Access(text, "watch"))
            await client.hello(session=self._session)


STIR = """
(async () => {
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const poke = () => {
    for (const fold of document.querySelectorAll("details")) fold.open = true;
    for (const it of document.querySelectorAll("#app *, #dialog *, #toasts *"))
      for (const kind of ["mouseover", "focus", "load", "error", "toggle", "animationstart"])
        it.dispatchEvent(new Event(kind));
  };
  const press = (selector) => document.querySelector(selector)?.click();
  poke();
  press("#who button");
  const field = document.getElementById("prompt");
  for (const text of ["/p", "@a", "@<"]) {
    field.focus();
    field.value = text;
    field.setSelectionRange(text.length, text.length);
    field.dispatchEvent(new Event("input", {bubbles: true}));
    await wait(250);
    poke();
    field.value = "";
    field.dispatchEvent(new Event("input", {bubbles: true}));
  }
  document.getElementById("main").scrollTop = 0;
  await wait(100);
  poke();
  press("#branches");
  await wait(400);
  poke();
  document.getElementById("dialog").close("");
  for (const it of document.querySelectorAll("#log img, #log summary, #log button")) it.click();
  document.getElementById("zoom").close();
  await wait(100);
})()
"""


def ran(tab: Tab) -> list[str]:
    """What should not have happened: scripts that ran, dialogs, requests to elsewhere, what the policy stopped."""
    found = ["a script ran"] if tab.run("Number(top.ran ?? 0)") else []
    found += [f"the policy stopped {one}" for one in tab.run("window.violations")]
    own = tuple(tab.run("[location.origin + '/', location.origin.replace('http', 'ws') + '/']"))
    for event in tab.browser.events:
        method, params = event.get("method"), event.get("params", {})
        if method == "Page.javascriptDialogOpening":
            found.append("a dialog was opened")
        elif method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith((*own, "data:", "blob:", "about:")):
                found.append(f"a request to {url}")
        elif method == "Runtime.exceptionThrown":
            found.append(f"an exception: {json.dumps(params)[:600]}")
    return found
