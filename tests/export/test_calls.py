"""How tools are shown: code, diffs, previews."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tau.core.text.highlight import MAX_LINE_CHARACTERS, language_of_file
from tau.export.blocks import RenderContext, diff, fold_lines
from tau.export.calls import call_html, result_html
from tau.export.code import MAX_BLOCK_CHARACTERS, HtmlCode
from tau.export.markdown import render_markdown
from tau.records.messages import Text, ToolCall, ToolResult

CONTEXT = RenderContext(HtmlCode(), "/w")


def shown(name: str, **arguments: Any) -> str:
    """The head and the body of a call."""
    html = call_html(ToolCall("1", name, arguments), "c", "", CONTEXT)
    return html.removeprefix('<section class="call" id="c"><div class="head">').removesuffix(
        '<div class="slot"></div></section>'
    )


def result(name: str, text: str, details: Any = None, *, error: bool = False, **arguments: Any) -> str:
    told = ToolResult("1", name, [Text(text)], details, error)
    return result_html(told, ToolCall("1", name, arguments), CONTEXT)


def test_a_command() -> None:
    assert shown("bash", command="ls -l", timeout=5) == (
        '<b>bash</b><span class="aside">timeout 5 s</span></div><div class="command"><pre>ls -l</pre></div>'
    )


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({}, ""),
        ({"offset": 5, "limit": 3}, '<span class="aside">lines 5-7</span>'),
        ({"offset": 5}, '<span class="aside">lines 5-</span>'),
        ({"limit": 3}, '<span class="aside">lines 1-3</span>'),
        ({"offset": None, "limit": "x"}, ""),
    ],
)
def test_a_file_that_is_read(arguments: dict[str, Any], lines: str) -> None:
    assert shown("read", path="/w/a.py", **arguments) == f'<b>read</b><code title="/w/a.py">a.py</code>{lines}</div>'


def test_a_file_that_is_written() -> None:
    assert shown("write", path="a.py", content="if a:\n    b\n") == (
        '<b>write</b><code title="a.py">a.py</code><span class="aside">2 lines</span></div>'
        '<pre><span class="k">if </span>a:\n    b</pre>'
    )


def test_a_search() -> None:
    assert shown("grep", pattern="a<b", path="/w/src", glob="*.py") == (
        '<b>grep</b><code>a&lt;b</code><span class="aside">in</span><code title="/w/src">src</code>'
        '<span class="aside">glob *.py</span></div>'
    )


def test_any_other_tool() -> None:
    assert shown("weather", place="Brest") == "<b>weather</b><code>{&quot;place&quot;: &quot;Brest&quot;}</code></div>"
    assert shown("weather") == "<b>weather</b></div>"
    assert '<div class="arguments"><pre>{\n' in shown(
        "weather", places=["Brest", "Saint-Malo", "Le Havre", "Roscoff", "Paimpol"] * 2
    )


def test_a_result_is_shown_with_its_notices_apart() -> None:
    assert result("bash", "a\nb\n\n[Showing lines 1-2 of 9. Full output: /tmp/x]") == (
        '<pre>a\nb</pre><p class="note">[Showing lines 1-2 of 9. Full output: /tmp/x]</p>'
    )
    assert result("bash", "a\n\n\nCommand exited with code 3", error=True) == (
        '<pre>a</pre><p class="end">Command exited with code 3</p>'
    )
    assert result("bash", "(no output)") == '<p class="note">no output</p>'


def test_colours_of_a_terminal_are_taken_out() -> None:
    assert result("bash", "\x1b[31mred\x1b[0m") == "<pre>red</pre>"


def test_a_file_is_coloured_by_its_name() -> None:
    assert result("read", "if a:", path="x.py") == '<pre><span class="k">if </span>a:</pre>'
    assert result("read", "if a:", path="x.unknown") == "<pre>if a:</pre>"
    assert [language_of_file(name) for name in ("a.py", "b/Makefile", "Dockerfile", "c.TSX", "d", ".bashrc")] == [
        "python",
        "make",
        "docker",
        "typescript",
        "",
        "",
    ]


def test_an_edit_is_its_diff() -> None:
    html = result("edit", "Successfully replaced", {"diff": " 1 a\n-2 old word\n+2 new word\n   ..."}, path="x")
    assert html == (
        '<div class="diff"><pre><span><i>1  </i>a</span>\n<del><i>2 -</i><mark>old</mark> word</del>\n'
        "<ins><i>2 +</i><mark>new</mark> word</ins>\n<span><i>   </i>...</span></pre></div>"
    )


def test_lines_with_little_in_common_are_not_marked() -> None:
    assert "<mark>" not in diff("-1 alpha\n+1 omega")


def test_an_edit_that_failed_shows_what_was_wanted() -> None:
    html = result(
        "edit", "Could not find the exact text", error=True, path="x", edits=[{"oldText": "a", "newText": "b"}]
    )
    assert html == (
        '<div class="diff"><pre><del><i> -</i>a</del>\n<ins><i> +</i>b</ins></pre></div>'
        "<pre>Could not find the exact text</pre>"
    )


def test_a_few_lines_are_shown_and_the_rest_is_folded() -> None:
    lines = [str(n) for n in range(20)]
    assert fold_lines(lines[:13], 10) == f"<pre>{chr(10).join(lines[:13])}</pre>"
    assert fold_lines(lines, 10) == (
        f'<pre>{chr(10).join(lines[:10])}</pre><details class="more"><summary>10 more lines</summary>'
        f"<pre>{chr(10).join(lines[10:])}</pre></details>"
    )
    assert fold_lines(lines, 5, "tail") == (
        f'<details class="more"><summary>15 earlier lines</summary><pre>{chr(10).join(lines[:15])}</pre></details>'
        f"<pre>{chr(10).join(lines[15:])}</pre>"
    )


def test_an_empty_first_line_is_not_lost() -> None:
    assert fold_lines(["", "a"], 10) == "<pre>\n\na</pre>"


def test_a_line_without_end_is_cut_and_whole_in_the_fold() -> None:
    html = fold_lines(["a", '<span class="s">' + "&amp;" * 900 + "</span>"], 10)
    assert re.findall(r"<pre[^>]*>.*?</pre>", html, re.DOTALL) == [
        f'<pre class="cut">a\n{"&amp;" * 600}…</pre>',
        f'<pre>a\n<span class="s">{"&amp;" * 900}</span></pre>',
    ]


def test_a_token_of_many_lines_is_whole_in_each() -> None:
    assert HtmlCode().lines('a = """b\n\nc"""', "python") == [
        'a = <span class="s">&quot;&quot;&quot;b</span>',
        "",
        '<span class="s">c&quot;&quot;&quot;</span>',
    ]


def test_what_is_long_is_not_coloured() -> None:
    code = HtmlCode(budget=40_000)
    wide = "if " + "a" * MAX_LINE_CHARACTERS
    assert code.lines("if b:\n" + wide, "python") == ['<span class="k">if </span>b:', wide]
    assert code.lines("if b\n" * 200, "python")[0] == "if b"
    assert code.lines("if" + " \n" * (MAX_BLOCK_CHARACTERS // 2), "python")[0] == "if "
    assert code.lines("if b" + " " * 50_000, "python")[0].startswith("if b")


def test_when_the_budget_is_used_up_code_is_plain() -> None:
    code = HtmlCode(budget=6)
    assert code.lines("if a:", "python") == ['<span class="k">if </span>a:']
    assert code.lines("if b:", "python") == ["if b:"]
    assert code.lines("if a:", "python") == ['<span class="k">if </span>a:']  # known already


def test_if_files_have_more_code_than_the_budget_only_code_in_answers_is_coloured() -> None:
    code = 'if a="b"; then\n  return 1\nfi'
    write = ToolCall("1", "write", {"path": "a.sh", "content": code})
    read = ToolCall("2", "read", {"path": "a.sh"})
    other = ToolCall("3", "other", {"a": "b" * 100})
    for budget, coloured in ((500, True), (499, False)):
        context = RenderContext(HtmlCode(expected=500, budget=budget), "/w")
        calls = [ToolCall("4", "bash", {"command": code}), write, other]
        pages = [call_html(call, "c", "", context) for call in calls]
        pages.append(result_html(ToolResult("2", "read", [Text(code)]), read, context))
        assert ['<span class="s">' in html for html in pages] == [coloured] * 4
        assert '<span class="s">' in render_markdown(f"```sh\n{code}\n```", context.code)
