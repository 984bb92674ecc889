"""The page of `tau serve` in Chromium: its size, the first screen of a long session, and streaming.

    python -m benchmarks.web_page [--entries 5000] [--pieces 5000] [--rate 200] [--json FILE]

Measured are: what is transferred until the page can be used, in bytes and requests; the time until then, on loopback
with a CPU that is four times slower; the time to the first screen of a session, its longest task and the heap after
scrolling through it; tasks and frames while an answer streams; and the time until a page that comes back from sleep
shows the right transcript. Tasks are measured in CPU time of the main thread. Exit code 1 if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from export.chromium import Browser, chromium
from export.sample import long_session
from page.served_page import ServedPage, Tab
from tau.core.agent.draft import Draft
from tau.records.base import encode, replace
from tau.records.events import AgentEnd, AgentSettled, AgentStart, MessageEnd, MessageStart
from tau.runtime.runs.model_client import UNKNOWN_MODEL
from tau.wire.unfinished import PartialJson

ID = "019a7c52-8d1e-7b3a-9f40-3c5e2a7d1b66"
SLOWDOWN = 4
SETTLED_S = 1.0  # until a new window is idle
ONLINE = "document.documentElement.dataset.connection === 'online'"
USABLE = f"{ONLINE} && document.getElementById('sessions')?.childElementCount > 0"
WATCH = f"""new MutationObserver((changes, observer) => {{
  if ({USABLE}) {{
    observer.disconnect();
    window.readyAt = performance.now();
    const drawn = new MessageChannel(); // a message that is sent before a frame is drawn arrives after it
    drawn.port1.onmessage = () => {{ window.usableAt = performance.now(); }};
    requestAnimationFrame(() => drawn.port2.postMessage(null));
  }}
}}).observe(document, {{childList: true, subtree: true, attributes: true, attributeFilter: ["data-connection"]}});"""
FIRST_SCREEN = f"document.documentElement.dataset.session === '{ID}' && document.querySelector('#log article')"
DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
PAUSE = "new Promise((done) => setTimeout(done, 300))"
SCROLL = """new Promise((done) => {
  const main = document.getElementById("main");
  let still = 0;
  const step = () => {
    const before = main.scrollTop;
    main.scrollTop -= 4000;
    still = before === main.scrollTop ? still + 1 : 0;
    still > 60 ? done(document.querySelectorAll("#log article").length) : requestAnimationFrame(step);
  };
  step();
})"""
# Counts the frames in which something was written below #live, and the writes.
COUNT_WRITES = """
window.writes = {frames: 0, most: 0};
(() => {
  let inFrame = 0;
  const observer = new MutationObserver(() => { inFrame += 1; });
  observer.observe(document.getElementById("live"), {childList: true, characterData: true, subtree: true});
  const frame = () => {
    if (inFrame) { writes.frames += 1; writes.most = Math.max(writes.most, inFrame); }
    inFrame = 0;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
})()
"""


class Figure(NamedTuple):
    name: str
    value: float
    limit: float
    unit: str

    @property
    def holds(self) -> bool:
        return self.value <= self.limit


def write_session(folder: Path, entries: int) -> None:
    export = long_session(entries)
    (folder / "sessions").mkdir(parents=True)
    (folder / "work").mkdir()
    header = replace(export.header, id=ID, cwd=str(folder / "work"))
    lines = [encode(header), *(encode(entry) for entry in export.entries)]
    (folder / "sessions" / f"2026_{ID}.jsonl").write_bytes(b"\n".join(lines) + b"\n")


def loading(browser: Browser, host: ServedPage) -> list[Figure]:
    """Size and requests, and the time until the page can be used with a slow CPU."""
    tab = Tab(browser, own_storage=True)
    browser.events.clear()
    tab.visit(host.login_url())
    tab.until(ONLINE)
    finished = [event["params"] for event in browser.events if event.get("method") == "Network.loadingFinished"]
    sent = {
        event["params"]["requestId"]: event["params"]["request"]["url"]
        for event in browser.events
        if event.get("method") == "Network.requestWillBeSent"
    }
    page = {id: url for id, url in sent.items() if url.startswith(host.url) and "/v1/" not in url}
    size = sum(one["encodedDataLength"] for one in finished if one["requestId"] in page)
    tab.close()
    return [
        Figure("transferred", size / 1000, 120, "kB"),
        Figure("requests of the page", len(page), 8, ""),
        Figure("usable, CPU four times slower", median(3, lambda: usable(browser, host)), 0.5, "s"),
        Figure("CPU of the main thread until then, times four", median(3, lambda: busy(browser, host)), 0.5, "s"),
    ]


def usable(browser: Browser, host: ServedPage) -> float:
    """Seconds from the start of the navigation, on the clock of the page, so that the start of a tab does not count.

    The page notes the moment itself. Asking it again and again would slow it down, four times as much as it seems.
    """
    tab = Tab(browser, own_storage=True)
    tab.ask("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    tab.ask("Network.disable")  # its messages come from the thread that is slowed down
    tab.ask("Emulation.setCPUThrottlingRate", rate=SLOWDOWN)
    url = host.login_url()
    time.sleep(SETTLED_S)  # the browser draws its own controls in a process that would compete with the page
    tab.ask("Page.navigate", url=url)
    time.sleep(1)
    seconds = float(tab.until("window.usableAt")) / 1000
    tab.close()
    return seconds


def busy(browser: Browser, host: ServedPage) -> float:
    """CPU seconds: unlike the clock, they do not depend on what else the machine does."""
    tab = Tab(browser, own_storage=True)
    tab.ask("Performance.enable", timeDomain="threadTicks")
    tab.visit(host.login_url())
    tab.until(USABLE)
    metrics = {one["name"]: one["value"] for one in tab.ask("Performance.getMetrics")["metrics"]}
    tab.close()
    return float(metrics["TaskDuration"]) * SLOWDOWN


def long_transcript(browser: Browser, host: ServedPage) -> list[Figure]:
    tab = Tab(browser, own_storage=True)
    tab.visit(host.login_url())
    tab.until(ONLINE)
    host.open(session=ID)
    times = []
    for _ in range(3):
        started = time.perf_counter()
        tab.run(f"location.hash = '#s={ID}'")
        tab.until(FIRST_SCREEN)
        tab.run(DRAWN)
        times.append(time.perf_counter() - started)
        tab.run("location.hash = ''")
        tab.reload()
        tab.until(ONLINE)
    show = (
        f"(async () => {{ location.hash = '#s={ID}'; await {waiting(FIRST_SCREEN)}; await {DRAWN}; await {PAUSE}; }})()"
    )
    opening = max(traced(tab, show))
    scrolling = traced(tab, SCROLL)
    shown = int(tab.run("document.querySelectorAll('#log article').length"))
    tab.ask("HeapProfiler.collectGarbage")
    tab.ask("Performance.enable")
    metrics = {one["name"]: one["value"] for one in tab.ask("Performance.getMetrics")["metrics"]}
    heap = metrics["JSHeapTotalSize"] / 1e6
    memory = renderer_memory(tab)
    tab.close()
    print(f"  ({shown} cards and {metrics['Nodes']:.0f} nodes after scrolling to the top, {memory:.0f} MB in all)")
    return [
        Figure("first screen of a long session", sorted(times)[1], 1.0, "s"),
        Figure("longest task, opening it", opening, 200, "ms"),
        Figure("longest task, scrolling to its top", max(scrolling), 200, "ms"),
        Figure("heap after that", heap, 100, "MB"),
    ]


def renderer_memory(tab: Tab) -> float:
    """The private memory of the largest renderer, in MB: with the document, which the heap does not contain."""
    with tab._in(None):
        processes = tab.browser.ask("SystemInfo.getProcessInfo")["processInfo"]
    largest = 0.0
    for process in processes:
        rollup = Path(f"/proc/{process['id']}/smaps_rollup")
        if process["type"] == "renderer" and rollup.exists():
            rows = dict(line.split(":") for line in rollup.read_text().splitlines()[1:])
            largest = max(largest, int(rows["Private_Dirty"].split()[0]) / 1000)
    return largest


def waiting(condition: str) -> str:
    return f"new Promise((done) => {{ const ask = () => ({condition}) ? done() : setTimeout(ask, 5); ask(); }})"


def traced(tab: Tab, script: str) -> list[float]:
    with tab._in(tab._session):
        return tab.browser.traced(script)


def streaming(browser: Browser, host: ServedPage, pieces: int, rate: int) -> list[Figure]:
    """An answer of many pieces, published at a rate, while tasks and writes of the page are counted."""
    session = host.open()
    tab = Tab(browser, own_storage=True)
    tab.visit(host.login_url())
    tab.until(ONLINE)
    tab.run(f"location.hash = '#s={session}'")
    tab.until(f"document.documentElement.dataset.session === '{session}'")
    tab.run(COUNT_WRITES)
    stream = host.live(session).stream
    draft = Draft(UNKNOWN_MODEL, 1, PartialJson)

    async def publish() -> None:
        stream.publish(AgentStart())
        stream.publish(MessageStart(draft.begin().message))
        stream.publish(draft.open("text"))
        begun = time.perf_counter()
        for at in range(pieces):
            stream.publish(draft.add(0, f"piece {at} of a text that goes on\n" if at % 7 == 6 else f"piece {at} "))
            if (ahead := begun + at / rate - time.perf_counter()) > 0:
                await asyncio.sleep(ahead)
        stream.publish(draft.close(0))

    publishing = asyncio.run_coroutine_threadsafe(publish(), host._loop)
    last = f"(document.querySelector('#live .text')?.textContent ?? '').includes('piece {pieces - 1} ')"
    tasks = traced(tab, waiting(last))
    publishing.result(60)
    writes = tab.run("writes")
    expected = "".join(block.text for block in draft.message("stop").content if hasattr(block, "text"))
    drawn = tab.run("document.querySelector('#live .text').textContent")
    complete = "".join(drawn.split()) == "".join(expected.split())  # lines are elements
    stream_end = [MessageEnd(draft.message("stop")), AgentEnd([]), AgentSettled()]

    async def end() -> None:
        for event in stream_end:
            stream.publish(event)

    host.call(end())
    tab.close()
    print(f"  ({pieces} pieces at {rate}/s, drawn in {writes['frames']} frames, text complete: {complete})")
    return [
        Figure("longest task while an answer streams", max(tasks), 50, "ms"),
        Figure("DOM writes in one frame", writes["most"], 1, ""),
        Figure("text is complete", 0 if complete else 1, 0, ""),
    ]


def waking(browser: Browser, host: ServedPage) -> list[Figure]:
    """A page that was frozen, as on a phone, while an answer was given."""
    session = host.open()
    tab = Tab(browser, own_storage=True)
    tab.visit(host.login_url())
    tab.until(ONLINE)
    tab.run(f"location.hash = '#s={session}'")
    tab.until(f"document.documentElement.dataset.session === '{session}'")
    tab.ask("Page.setWebLifecycleState", state="frozen")
    host.cut()
    host.run(session, "while it sleeps")
    tab.ask("Page.setWebLifecycleState", state="active")
    started = time.perf_counter()
    tab.run("document.dispatchEvent(new Event('visibilitychange'))")
    tab.until("document.getElementById('log').textContent.includes('good morning')")
    seconds = time.perf_counter() - started
    tab.close()
    return [Figure("right after sleep", seconds, 1.0, "s")]


def median(rounds: int, measure: Callable[[], float]) -> float:
    return sorted(measure() for _ in range(rounds))[rounds // 2]


def measure(entries: int, pieces: int, rate: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_session(folder / "host", entries)
        browser = Browser(folder)
        try:
            with ServedPage(folder / "host", {"text": "good morning"}) as host:
                host.open(name="first")
                return [
                    *loading(browser, host),
                    *long_transcript(browser, host),
                    *streaming(browser, host, pieces, rate),
                    *waking(browser, host),
                ]
        finally:
            browser.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=5000)
    parser.add_argument("--pieces", type=int, default=5000)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if chromium() is None:
        print("skipped: there is no Chromium here")
        return 0
    figures = measure(given.entries, given.pieces, given.rate)
    for one in figures:
        print(f"{'ok  ' if one.holds else 'FAIL'} {one.name}: {one.value:.4g} {one.unit} (limit {one.limit:g})")
    if given.json:
        rows: list[dict[str, Any]] = [one._asdict() for one in figures]
        given.json.write_text(json.dumps(rows, indent=1))
    return 0 if all(one.holds for one in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
