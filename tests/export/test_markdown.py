from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tau.core.text.markup import MAX_CHARACTERS, MAX_NESTING, _parser, _Reader
from tau.export.code import HtmlCode
from tau.export.markdown import PIECE_CHARACTERS, _Writer, render_markdown
from tau.export.safe import _cleaner, sanitize

LINK = 'target="_blank" rel="noopener noreferrer"'


def html(text: str, *, breaks: bool = False) -> str:
    return render_markdown(text, HtmlCode(), breaks=breaks).strip()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("plain & simple", "<p>plain &amp; simple</p>"),
        ("*a* **b** ~~c~~ `d`", "<p><em>a</em> <strong>b</strong> <s>c</s> <code>d</code></p>"),
        ("[a](https://b.example/?c&d)", f'<p><a href="https://b.example/?c&amp;d" {LINK}>a</a></p>'),
        ("<mailto:a@b.example>", f'<p><a href="mailto:a@b.example" {LINK}>mailto:a@b.example</a></p>'),
        ("[a](src/b.py)", f"<p><a {LINK}>a</a></p>"),
        ("[a](#b)", f"<p><a {LINK}>a</a></p>"),
        ("[a](javascript:b)", "<p>[a](javascript:b)</p>"),
        ("![a](https://b.example/c.png)", f'<p><a href="https://b.example/c.png" {LINK}>a</a></p>'),
        ("![a](data:image/png;base64,x)", f"<p><a {LINK}>a</a></p>"),
        ("a <b>c</b>", "<p>a &lt;b&gt;c&lt;/b&gt;</p>"),
        ("<div>\na\n</div>", "<p>&lt;div&gt;\na\n&lt;/div&gt;</p>"),
        ("7. a\n8. b", '<ol start="7">\n<li>a</li>\n<li>b</li>\n</ol>'),
        ("- [ ] a\n- [x] b", '<ul>\n<li class="task">☐ a</li>\n<li class="task">☑ b</li>\n</ul>'),
        ("```\na < b\n```", "<pre><code>a &lt; b</code></pre>"),
        ("```py\nif a:\n```", '<pre><code><span class="k">if </span>a:</code></pre>'),
        ("```no-such-language\na\n```", "<pre><code>a</code></pre>"),
        ("a\x00b\r\nc", "<p>a\N{REPLACEMENT CHARACTER}b\nc</p>"),
    ],
)
def test_markdown(text: str, expected: str) -> None:
    assert html(text) == expected


def test_a_column_keeps_its_side() -> None:
    assert '<th class="right">b</th>' in html("| a | b |\n|---|--:|\n| 1 | 2 |")


def test_the_lines_of_a_person_stay_lines() -> None:
    assert html("a\nb\n\nc", breaks=True) == "<p>a<br>\nb</p>\n<p>c</p>"
    assert html("*a*\nb", breaks=True) == "<p><em>a</em><br>\nb</p>"


@given(st.text(alphabet="ab .,:;!?()'\"\n-1#=+é/@", max_size=60))
@example("a - b")
@example("1986\\. A year")
@example("a\n=")
def test_the_short_way_for_plain_text_leads_to_the_same_place(text: str) -> None:
    parsed = _Writer(HtmlCode(), False).blocks(_Reader().read(_parser().events(text.strip("\n"))))
    assert html(text) == parsed.strip()


@given(st.text(alphabet="*_`[]()<>!&\\|~#->+=:\n ab1\x00\ud800", max_size=80))
def test_any_text_can_be_shown(text: str) -> None:
    assert "<script" not in html(text)


def test_a_long_text_is_read_in_pieces_that_do_not_cut_code() -> None:
    block = "```\n" + "code\n\n" * 3000 + "```"
    text = "\n\n".join(["word " * 200] * 20 + [block] + ["*end*"])
    pieces = html(text)
    assert len(text) > MAX_CHARACTERS > PIECE_CHARACTERS
    assert pieces.endswith("<p><em>end</em></p>")
    assert pieces.count("<pre") == 1


def test_a_text_without_end_is_shown_plainly() -> None:
    assert html("*a* " * MAX_CHARACTERS).startswith("<pre><code>*a* *a*")


def test_text_that_is_nested_too_deeply_is_shown_plainly() -> None:
    assert html("> " * (MAX_NESTING - 1) + "a").count("<blockquote>") == MAX_NESTING - 1
    assert html("> " * 5000 + "*a*").startswith("<pre><code>&gt; &gt; ")


def test_a_block_of_html_is_shown_as_text_and_ends_at_a_blank_line() -> None:
    shown = html("<details>\n<summary>*a*</summary>\n\n*b*\n</details>")
    assert (
        shown
        == "<p>&lt;details&gt;\n&lt;summary&gt;*a*&lt;/summary&gt;</p>\n<p><em>b</em></p>\n<p>&lt;/details&gt;</p>"
    )


@pytest.mark.parametrize(
    "url", ["java&Tab;script:b", "<java\tscript:b>", "\x01javascript:b", "vbscript:b", "data:text/html,b"]
)
def test_a_target_that_is_not_allowed_is_no_link(url: str) -> None:
    assert "href" not in html(f"[a]({url})") + html(f"![a]({url})")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* a\n  * b\n* c", "<ul>\n<li>a\n<ul>\n<li>b</li>\n</ul>\n</li>\n<li>c</li>\n</ul>"),
        ("- a\n\n  b", "<ul>\n<li>a\n<p>b</p>\n</li>\n</ul>"),
        ("- [x] a\n\n- b", '<ul>\n<li class="task">☑ a</li>\n<li>b</li>\n</ul>'),
        ("> a\n> > b", "<blockquote>\n<p>a</p>\n<blockquote>\n<p>b</p>\n</blockquote>\n</blockquote>"),
        ("# a `b`\n\nc\n===", "<h1>a <code>b</code></h1>\n<h1>c</h1>"),
        ("a\n\n---\n\n    code", "<p>a</p>\n<hr>\n<pre><code>code</code></pre>"),
        ("a  \nb\\\nc", "<p>a<br>\nb<br>\nc</p>"),
        ("&copy; &#0; &#1; \\*a\\*", "<p>© \N{REPLACEMENT CHARACTER} \N{REPLACEMENT CHARACTER} *a*</p>"),
        ("[a][b]\n\n[b]: https://c.example 'd'", f'<p><a href="https://c.example" {LINK}>a</a></p>'),
        ("<a@b.example>", f'<p><a href="mailto:a@b.example" {LINK}>a@b.example</a></p>'),
        ("![a *b*](https://c.example)", f'<p><a href="https://c.example" {LINK}>a <em>b</em></a></p>'),
        (
            "| a | b |\n|:-:|---|\n| `|` | c |",
            '<table>\n<thead>\n<tr><th class="center">a</th><th>b</th></tr>\n</thead>\n<tbody>\n'
            '<tr><td class="center">`</td><td>`</td></tr>\n</tbody>\n</table>',
        ),
    ],
)
def test_examples_of_commonmark_and_its_tables(text: str, expected: str) -> None:
    assert html(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("<p onclick=a>", "<script>", "<P>", "<p/a>", "<!-- a -->", "<svg>", "< p>", "<p", "<pre\n>", "</ p>", "<a>"),
        *('<span class="k x">', '<span class="x">', '<span class="k" id=a>', '<a href="javascript:a">', "<base>"),
        *('<ol start="1" onclick=a>', '<ol start="a">', '<ol start="-1">', "<ol start=1>", '<ol start="1"/onclick=a>'),
    ],
)
def test_only_tags_without_attributes_or_with_harmless_ones_skip_the_sanitizer(text: str) -> None:
    allowed = '<p>a &lt; <em>b</em><br><span class="k">if</span></p><ol start="7"><li>c</li></ol>'
    assert sanitize(allowed) == allowed
    assert sanitize(allowed + text) == _cleaner().clean(allowed + text)
