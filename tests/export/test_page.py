"""The page as text: what is in it, and above all what is not. test_browser.py looks at it with a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from html.parser import HTMLParser
from typing import Any

import pytest

from export.infested import infested
from export.payloads import PAYLOADS
from export.sample import Telling, call, long_session, sample
from support.rpc_process import quick
from tau.export import Export
from tau.export.page import page
from tau.records import entries as e
from tau.records import messages as m

# All that our pages are made of. An attribute that is not here has no business there.
ATTRIBUTES = {
    "*": {"id", "class", "title", "hidden"},
    "html": {"lang"},
    "meta": {"charset", "name", "content", "http-equiv"},
    "link": {"rel", "href"},
    "script": {"type"},
    "nav": {"aria-label"},
    "input": {"type", "placeholder", "autocomplete", "spellcheck", "aria-label"},
    "div": {"role", "aria-label", "tabindex", "data-in"},
    "button": {"data-filter", "aria-pressed", "aria-label", "aria-expanded"},
    "p": {"role"},
    "a": {"href", "rel", "target"},
    "ol": {"start"},
    "img": {"src", "alt", "loading", "decoding"},
}
TAGS = {
    *(
        "html",
        "head",
        "meta",
        "link",
        "title",
        "style",
        "script",
        "body",
        "template",
        "nav",
        "main",
        "header",
        "footer",
    ),
    *(
        "section",
        "article",
        "div",
        "span",
        "p",
        "b",
        "i",
        "q",
        "dl",
        "dt",
        "dd",
        "details",
        "summary",
        "input",
        "button",
    ),
    *(
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "pre",
        "code",
        "kbd",
        "a",
        "ul",
        "ol",
        "li",
        "blockquote",
        "em",
        "strong",
        "s",
    ),
    *("table", "thead", "tbody", "tr", "th", "td", "br", "hr", "img", "mark", "ins", "del"),
}
ADDRESS = re.compile(r"#e-[\w%.~/-]*|(?:https?:(?!\s*javascript)|mailto:)[!-~]+|data:image/svg\+xml,%3Csvg[^\"<>]*")
PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")


class Reading(HTMLParser):
    """A page taken apart."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.scripts: list[tuple[str | None, str]] = []
        self.styles: list[str] = []
        self.comments: list[str] = []
        self._inside = ""
        self.feed(data.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        self._inside = tag
        if tag == "script":
            self.scripts.append((given.get("type"), ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            kind, text = self.scripts.pop()
            self.scripts.append((kind, text + data))
        elif self._inside == "style":
            self.styles.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_decl(self, decl: str) -> None:
        if decl != "doctype html":
            self.comments.append(decl)

    unknown_decl = handle_comment
    handle_pi = handle_comment


def written(export: Export) -> str:
    return b"".join(page(export)).decode()


def rows(html: str) -> list[list[Any]]:
    found = re.search(r'id="rows">(.*?)</script>', html, re.DOTALL)
    assert found
    return list(json.loads(found[1]))


def session(*entries: Any, leaf: str | None = None) -> Export:
    header = e.Header(id="s", timestamp="2026-01-01T00:00:00.000Z", cwd="/w")
    return Export(header, entries, leaf or (entries[-1].id if entries else None), "1")


def one(message: Any) -> str:
    """The page of a session with one message."""
    return written(session(e.MessageEntry("a", None, "2026-01-01T00:00:00.000Z", message)))


def body(html: str) -> str:
    found = re.search(r'<div class="body">(.*?)</div></article>', html, re.DOTALL)
    assert found
    return found[1]


def answer(*blocks: Any, **given: Any) -> m.Assistant:
    return m.Assistant(list(blocks), "api", "acme", "model", m.Usage(), given.pop("stop_reason", "stop"), 0, **given)


# Nothing of the conversation can act


OURS = Reading(b"".join(page(session())))


def faults(data: bytes) -> list[str]:
    read = Reading(data)
    found = [f"comment {text!r}" for text in read.comments if text not in OURS.comments]
    if [kind for kind, _ in read.scripts] != [None, "application/json"] or read.scripts[0] != OURS.scripts[0]:
        found.append(f"scripts {[kind for kind, _ in read.scripts]}")
    if read.styles != OURS.styles:
        found.append("style")
    for tag, attributes in read.tags:
        if tag not in TAGS:
            found.append(f"<{tag}>")
        for name, value in attributes.items():
            if name not in ATTRIBUTES["*"] | ATTRIBUTES.get(tag, set()):
                found.append(f"<{tag} {name}={value}>")
        if "href" in attributes and not ADDRESS.fullmatch(attributes["href"]):
            found.append(f"href {attributes['href']}")
        if "src" in attributes and not PICTURE.fullmatch(attributes["src"]):
            found.append(f"src {attributes['src']}")
        if tag == "a" and attributes.get("href", "#")[:1] != "#" and attributes.get("rel") != "noopener noreferrer":
            found.append(f"rel of {attributes['href']}")
    if [given for tag, given in read.tags if tag == "meta"] != [given for tag, given in OURS.tags if tag == "meta"]:
        found.append("meta")
    json.loads(read.scripts[1][1])
    return found


def test_there_are_200_payloads() -> None:
    assert len(set(PAYLOADS)) >= 200


@pytest.mark.promise("G10")
@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_a_payload_is_inert_wherever_it_stands(payload: str) -> None:
    assert faults(b"".join(page(infested([payload])))) == []


def test_all_payloads_together_are_inert_on_all_branches() -> None:
    data = b"".join(page(infested(PAYLOADS)))
    assert faults(data) == []
    assert data.count(b"<template>") > 1000


def test_the_check_itself_finds_faults() -> None:
    bad = b"<img src=x onerror=alert(1)><a href='javascript:x'>x</a><script>x</script><iframe><!--[if]-->"
    assert len(faults(b"".join(page(session())) + bad)) >= 6


@pytest.mark.promise("G10")
def test_the_policy_allows_our_style_and_script_and_nothing_else() -> None:
    policy = next(given["content"] for tag, given in OURS.tags if given.get("http-equiv") == "Content-Security-Policy")

    def hashed(text: str) -> str:
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    assert dict(part.strip().split(" ", 1) for part in policy.split(";")) == {
        "default-src": "'none'",
        "style-src": hashed("".join(OURS.styles)),
        "script-src": hashed(OURS.scripts[0][1]),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


def test_our_script_makes_no_html_out_of_text() -> None:
    script = OURS.scripts[0][1]
    ways = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "setHTML", "fetch("]
    assert [way for way in ways if way in script] == []


def test_data_of_the_list_survives_its_escapes() -> None:
    text = "</script><!-- & \u2028 \u2029 'quoted' \"twice\""
    html = written(session(e.SessionInfo("a", None, "", text)))
    assert rows(html)[1][5] == "Name: </script><!-- & 'quoted' \"twice\""
    assert html.count("</script>") == 2


@pytest.mark.parametrize(
    ("mime_type", "data"),
    [
        ("image/svg+xml", "PHN2Zz4="),
        ("text/html", "iVBORw0KGgo="),
        ("image/png", "PHNjcmlwdD4="),
        ("image/png", 'iVBORw0KGg"onload="x'),
        ("image/png", ""),
        ("IMAGE/PNG", "iVBORw0KGgo="),
    ],
)
def test_an_image_of_another_kind_is_named_but_not_shown(mime_type: str, data: str) -> None:
    html = one(m.User([m.Image(data, mime_type)], 0))
    assert "<img" not in html
    assert f"[image that cannot be shown: {mime_type}]" in html


@pytest.mark.parametrize(
    ("mime_type", "begins"), [("png", "iVBORw0KGgo="), ("jpeg", "/9j/"), ("gif", "R0lGODlh"), ("webp", "UklGRg==")]
)
def test_the_four_kinds_of_images_are_shown(mime_type: str, begins: str) -> None:
    assert f'src="data:image/{mime_type};base64,{begins}">' in one(m.User([m.Image(begins, f"image/{mime_type}")], 0))


def test_half_a_surrogate_pair_does_not_stop_an_export() -> None:
    assert "a\N{REPLACEMENT CHARACTER}b" in one(m.User("a\ud83db", 0))


# What can be read


def test_the_branch_is_in_the_page_and_the_rest_waits() -> None:
    t = Telling()
    start = t.user("start")
    t.user("left aside")
    t.leaf = start
    t.user("went on")
    html = written(session(*t.entries, leaf=t.leaf))
    talk = html[html.index('<div id="talk">') : html.index("</main>")]
    assert re.findall(r"<p>(.*?)</p></div></div></article>", talk) == ["start", "went on"]
    assert re.findall(r"<template>.*?<p>(.*?)</p></div></div></article>\n</template>", html) == ["left aside"]


def test_a_result_stands_with_its_call_on_its_own_branch_only() -> None:
    t = Telling()
    asked = call("1", "bash", command="ls")
    here = t.answer(asked)
    t.result(asked, "first try")
    t.leaf = here
    t.result(asked, "second try")
    html = written(session(*t.entries, leaf=t.leaf))
    assert re.findall(r'<div class="slot">(.*?)</div></section>', html) == [
        f'<div class="result" id="e-{t.leaf}" data-in="c0-0"><pre>second try</pre></div>'
    ]
    assert '<template><div class="result" id="e-3c6ef362" data-in="c0-0"><pre>first try</pre></div></template>' in html


def test_a_result_without_its_call_is_shown_by_itself() -> None:
    assert '<b>grep</b></div><div class="result"><pre>found</pre></div>' in one(
        m.ToolResult("nowhere", "grep", [m.Text("found")])
    )


def test_the_rows_are_the_tree() -> None:
    t = Telling()
    start = t.user("start")
    t.user("left aside")
    t.leaf = start
    t.answer("went on")
    t.add(e.Label, start, "begin")
    ids = [entry.id for entry in t.entries]  # type: ignore[union-attr]
    assert rows(written(session(*t.entries, leaf=t.leaf))) == [
        3,
        [ids[0], -1, "user", 0, 3, "start", "begin", 0],
        [ids[1], 0, "user", 1, 1, "left aside", "", 1],
        [ids[2], 0, "assistant", 0, 3, "went on", "", 2],
        [ids[3], 2, "setting", 0, 3, "Label: begin", "", 3],
    ]


def test_what_is_said_above_the_conversation() -> None:
    html = written(sample())
    facts = dict(re.findall(r"<div><dt>(\w+)</dt><dd>(.*?)</dd></div>", html))
    assert {term: re.sub(r"<[^>]*>", "", fact) for term, fact in facts.items()} == {
        "Session": "019a7c52-8d1e-7b3a-9f40-3c5e2a7d1b66",
        "Date": "2026-03-17 09:12 to 2026-03-18 11:47 UTC",
        "Folder": "/home/ana/tides",
        "Models": "anthropic/claude-sonnet-4-5, anthropic/claude-opus-4-5",
        "Messages": "5 from you · 12 answers · 9 tool calls · 9 tool results · 1 command · 1 from extensions · "
        "1 compaction · 1 branch summary",
        "Tokens": "400 in · 1.0k out · 239k cache read · 1.3k cache write",
        "Cost": "$0.096",
    }
    assert "<summary>System prompt" in html
    assert "<summary><b>bash</b> Run a command in a shell.</summary>" in html


def test_a_session_without_a_name_is_called_by_its_first_words() -> None:
    assert "<title>Fix the build</title>" in one(m.User("Fix the\n`build`", 0))
    assert "<title>Session</title>" in written(session())


def test_thinking_is_folded() -> None:
    html = body(one(answer(m.Thinking("First this.\n\nThen that."))))
    assert html == (
        '<details class="thinking"><summary>Thinking <q>First this. Then that.</q></summary>'
        '<div class="prose"><p>First this.</p>\n<p>Then that.</p></div></details>'
    )


@pytest.mark.parametrize(
    ("message", "note"),
    [
        (answer(stop_reason="error", error_message="529 <overloaded>"), "<b>Error</b> 529 &lt;overloaded&gt;"),
        (answer(stop_reason="aborted"), "<b>Aborted</b>"),
        (answer(stop_reason="length"), "<b>Truncated</b> The answer reached the maximum length of the model."),
    ],
)
def test_an_answer_that_did_not_end_well_says_so(message: m.Assistant, note: str) -> None:
    assert body(one(message)) == f'<p class="failure">{note}</p>'


def test_a_command_of_the_user_shows_how_it_ended() -> None:
    html = body(one(m.BashExecution("make", "one\ntwo", 2, exclude_from_context=True)))
    assert '<div class="result"><pre>one\ntwo</pre><p class="end">exit 2 · not shown to the model</p></div>' in html
    assert '<p class="end">cancelled</p>' in one(m.BashExecution("make", "", cancelled=True))


def test_usage_and_cost_stand_beside_an_answer() -> None:
    usage = m.Usage(1200, 30, 5000, 0, 6230, m.UsageCost(total=0.0123))
    html = one(m.Assistant([m.Text("x")], "api", "acme", "m1", usage, "stop", 0))
    assert (
        '<span class="use" title="1,200 input · 30 output · 5,000 read from cache tokens">6.2k tok · $0.012</span>'
        in html
    )


def test_a_skill_and_files_are_folded_away_from_what_was_typed() -> None:
    html = body(
        one(
            m.User('<skill name="pdf" location="/s">\nHow.\n</skill>\n\n<file name="a.txt">\nlines\n</file>\nDo it.', 0)
        )
    )
    assert re.findall(r"<summary>(\w+ <b>.*?</b>)</summary>", html) == ["skill <b>pdf</b>", "file <b>a.txt</b>"]
    assert html.endswith('<div class="prose"><p>Do it.</p></div>')


def test_what_no_reader_asked_for_is_there_but_quiet() -> None:
    t = Telling()
    t.add(e.ThinkingLevelChange, "high")
    t.add(e.CustomEntry, "state", {"a": 1})
    t.add(e.CustomMessageEntry, "note", "hidden", False)
    t.entries.append({"type": "context_edit", "id": "x", "parentId": t.leaf, "targetId": "y"})
    html = written(session(*t.entries, leaf="x"))
    assert re.findall(r'<article class="([\w ]+)"', html) == ["line quiet", "data quiet", "custom quiet", "data quiet"]
    assert "&quot;targetId&quot;: &quot;y&quot;" in html


def test_a_speaker_is_named_once_and_a_day_dated_once() -> None:
    t = Telling()
    t.answer("one")
    t.answer("two")
    t.minutes += 24 * 60
    t.answer("three", model="other")
    html = written(session(*t.entries))
    assert re.findall(r'<article class="([\w ]+)"', html) == ["assistant", "assistant follows", "assistant"]
    assert re.findall(r'<p class="day">(.*?)</p>', html) == ["2026-03-17", "2026-03-18"]


# Size


def test_five_thousand_entries_take_less_than_three_seconds() -> None:
    export = long_session(5000)

    def measure() -> float:
        start = time.process_time()
        assert sum(map(len, page(export))) > 5_000_000
        return time.process_time() - start

    quick(measure, 3)


def test_a_long_chain_of_anything_is_walked_once() -> None:
    t = Telling()
    for _ in range(20_000):
        t.add(e.CustomEntry, "state")
    for _ in range(20_000):
        t.user("x")

    def measure() -> float:
        start = time.process_time()
        html = written(session(*t.entries))
        taken = time.process_time() - start
        assert len(rows(html)) == 40_001
        return taken

    quick(measure, 6)


def test_arguments_nested_a_thousand_deep_do_not_stop_an_export() -> None:
    deep: Any = "x"
    for _ in range(3000):
        deep = [deep]
    assert "nested too deeply" in one(answer(m.ToolCall("1", "odd", {"a": deep})))
