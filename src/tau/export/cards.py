"""Cards: the HTML of one entry in the conversation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import quote

from tau.core.text.terminal_text import Cleaner
from tau.export import Entry
from tau.export.blocks import RenderContext, images, output
from tau.export.calls import call_html, result_html
from tau.export.markdown import render_markdown
from tau.export.text import clock, count, dollars, esc, format_time, pretty, single_line, tokens, valid_text
from tau.export.titles import text_of, unknown_name
from tau.records import entries as e
from tau.records import messages as m
from tau.records.base import UNSET, Value

TERMINAL_LINES = 20
MAX_PROSE_CHARACTERS = 8_000  # a longer prompt is probably a pasted file

_SKILL = re.compile(r'<skill name="([^"\n]{1,200})"[^>\n]{0,1000}>\n(.*?)\n</skill>(?:\n\n)?', re.DOTALL)
_FILE = re.compile(r'<file name="([^"\n]{1,4096})">\n?(.*?)\n?</file>\n?', re.DOTALL)


class Card(Value):
    """A `quiet` card is shown only when all entries are shown."""

    classes: str
    who: str
    html: str
    aside: str = ""
    quiet: bool = False


def card(entry: Entry, slots: str, results: Mapping[int, str], context: RenderContext) -> Card:
    """Return the card of an entry.

    `slots` is the id prefix of its slots for tool results; `results` are the results that are in them from the start.
    """
    match entry:
        case e.MessageEntry(message=message):
            return _message(message, slots, results, context)
        case e.CustomMessageEntry():
            return _custom(entry.custom_type, entry.content, entry.display, context)
        case e.CompactionEntry():
            return _compaction(entry.tokens_before, entry.summary, context)
        case e.BranchSummaryEntry():
            return _branch(entry.summary, context)
        case e.ModelChange():
            return Card("line", "", f"<p>Model <b>{esc(entry.provider)}/{esc(entry.model_id)}</b></p>")
        case e.ThinkingLevelChange():
            return _quiet("Thinking", entry.thinking_level)
        case e.SessionInfo():
            return _quiet("Name", entry.name)
        case e.Label():
            return _quiet("Label", entry.label or "removed")
        case e.ContextEdit():
            return _quiet("Context", _edited(entry))
        case e.CustomEntry():
            return _data(entry.custom_type, entry.data, context)
    return _data(unknown_name(entry), entry, context)


def _message(message: Any, slots: str, results: Mapping[int, str], context: RenderContext) -> Card:
    match message:
        case m.User():
            return Card("user", "You", _prompt(message.content, context))
        case m.Assistant():
            return _answer(message, slots, results, context)
        case m.ToolResult():
            status = " error" if message.is_error else ""
            body = f'<div class="result{status}">{result_html(message, None, context)}</div>'
            head = f'<div class="head"><b>{esc(message.tool_name)}</b></div>'
            return Card("orphan", "Tool result", f'<section class="call">{head}{body}</section>')
        case m.BashExecution():
            return Card("bash", "You ran", _terminal(message, context))
        case m.Custom():
            return _custom(message.custom_type, message.content, message.display, context)
        case m.BranchSummary():
            return _branch(message.summary, context)
        case m.CompactionSummary():
            return _compaction(message.tokens_before, message.summary, context)
    return _data(f"{message.role} message", message, context)


def _edited(edit: e.ContextEdit) -> str:
    return f"{edit.target_id} left out" if edit.replacement is None else f"{edit.target_id} changed"


# Messages of the user


def _prompt(content: str | list[m.Text | m.Image], context: RenderContext) -> str:
    text = text_of(content)
    folds = ""
    while wrapper := _SKILL.match(text) or _FILE.match(text):
        kind = "skill" if wrapper.re is _SKILL else "file"
        inside = render_markdown(wrapper[2], context.code) if kind == "skill" else output(wrapper[2], TERMINAL_LINES)
        folds += f'<details class="wrapped"><summary>{kind} <b>{esc(wrapper[1])}</b></summary>{inside}</details>'
        text = text[wrapper.end() :]
    return folds + _typed(text, context) + images(content)


def _typed(text: str, context: RenderContext) -> str:
    if len(text) <= MAX_PROSE_CHARACTERS:
        return f'<div class="prose">{render_markdown(text, context.code, breaks=True)}</div>' if text.strip() else ""
    return output(text, TERMINAL_LINES)


def _terminal(run: m.BashExecution, context: RenderContext) -> str:
    notes = []
    if run.cancelled:
        notes.append("cancelled")
    elif isinstance(run.exit_code, int) and run.exit_code != 0:
        notes.append(f"exit {run.exit_code}")
    if run.exclude_from_context is True:
        notes.append("not shown to the model")
    if run.truncated:
        notes.append(f"truncated; full output in {run.full_output_path}" if run.full_output_path else "truncated")
    command = "\n".join(context.code.of_tool(run.command, "bash"))
    shown = output(Cleaner().feed(run.output), TERMINAL_LINES, "tail") or '<p class="note">no output</p>'
    end = f'<p class="end">{esc(" · ".join(notes))}</p>' if notes else ""
    result = f'<div class="result">{shown}{end}</div>'
    return f'<section class="call"><div class="command"><pre>{command}</pre></div>{result}</section>'


# Messages of models


def _answer(answer: m.Assistant, slots: str, results: Mapping[int, str], context: RenderContext) -> Card:
    parts, number = [], 0
    for block in answer.content:
        match block:
            case m.Text(text=text) if text.strip():
                parts.append(f'<div class="prose">{render_markdown(text, context.code)}</div>')
            case m.Thinking():
                parts.append(_thinking(block, context))
            case m.ToolCall():
                parts.append(call_html(block, f"{slots}{number}", results.get(number, ""), context))
                number += 1
    parts.append(_ending(answer))
    return Card("assistant", answer.model, "".join(parts), _usage(answer.usage))


def _thinking(block: m.Thinking, context: RenderContext) -> str:
    if block.redacted is True or not block.thinking.strip():
        return '<p class="note">Thinking hidden by the provider</p>' if block.redacted is True else ""
    first = single_line(block.thinking.replace("*", ""), 90)
    return (
        f'<details class="thinking"><summary>Thinking <q>{esc(first)}</q></summary>'
        f'<div class="prose">{render_markdown(block.thinking, context.code)}</div></details>'
    )


def _ending(answer: m.Assistant) -> str:
    if answer.stop_reason == "error":
        error = answer.error_message if isinstance(answer.error_message, str) else "the model call failed"
        return f'<p class="failure"><b>Error</b> {esc(error)}</p>'
    if answer.stop_reason == "aborted":
        return '<p class="failure"><b>Aborted</b></p>'
    if answer.stop_reason == "length":
        return '<p class="failure"><b>Truncated</b> The answer reached the maximum length of the model.</p>'
    return ""


def _usage(usage: m.Usage) -> str:
    total = usage.input + usage.output + usage.cache_read + usage.cache_write
    if not total:
        return ""
    parts = {
        "input": usage.input,
        "output": usage.output,
        "read from cache": usage.cache_read,
        "written to cache": usage.cache_write,
    }
    breakdown = " · ".join(f"{number:,} {name}" for name, number in parts.items() if number)
    cost = f" · {dollars(usage.cost.total)}" if usage.cost.total else ""
    return f'<span class="use" title="{breakdown} tokens">{tokens(total)} tok{cost}</span>'


# Other entries


def _custom(kind: str, content: str | list[m.Text | m.Image], display: bool, context: RenderContext) -> Card:
    body = render_markdown(text_of(content), context.code, breaks=True)
    html = f'<p class="kind">{esc(kind)}</p><div class="prose">{body}</div>'
    return Card("custom", "Extension", html + images(content), quiet=not display)


def _compaction(before: int, summary: str, context: RenderContext) -> Card:
    title = f"Compacted: {count(before, 'token')} replaced by this summary"
    return Card("summary", "", _summary(title, summary, context))


def _branch(summary: str, context: RenderContext) -> Card:
    return Card("summary", "", _summary("Summary of the abandoned branch", summary, context))


def _summary(title: str, summary: str, context: RenderContext) -> str:
    prose = render_markdown(summary, context.code)
    return f'<details><summary>{title}</summary><div class="prose">{prose}</div></details>'


def _quiet(what: str, value: str) -> Card:
    return Card("line", "", f"<p>{what} <b>{esc(value)}</b></p>", quiet=True)


def _data(kind: str, data: Any, context: RenderContext) -> Card:
    text = pretty(data) if data is not UNSET else ""
    return Card("data", "", f'<p class="kind">{esc(kind)}</p>{output(text, TERMINAL_LINES)}', quiet=True)


def article(id: str, at: str, content: Card, day: str, follows: bool) -> str:
    """Return the HTML of a card with its header.

    `day` is shown above the first card of a day. A card that `follows` one of the same model does not repeat the
    name.
    """
    classes = content.classes + (" quiet" if content.quiet else "") + (" follows" if follows else "")
    name = anchor(id)
    when = f'<a class="when" href="#{_fragment(name)}" title="{esc(format_time(at))}">{clock(at)}</a>'
    dated = f'<p class="day">{esc(day)}</p>' if day else ""
    header = f'<header><span class="who">{esc(content.who)}</span>{when}{content.aside}</header>'
    body = f'<div class="body">{content.html}</div>'
    return f'<article class="{classes}" id="{escape(name)}">{dated}{header}{body}</article>\n'


def anchor(id: str) -> str:
    """Return the element id of an entry. With the hyphen it cannot shadow a global of the script."""
    return "e-" + (id if id.isalnum() else valid_text(id))


def _fragment(name: str) -> str:
    return name if name.isascii() and name[2:].isalnum() else quote(name)
