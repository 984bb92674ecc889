"""The frame of the page: page.html with policy, session facts, style and script."""

from __future__ import annotations

import binascii
import pkgutil
from collections.abc import Sequence
from functools import cache
from string import Template

from tau.core.checks.sha256 import sha256_hex
from tau.export import Export, OfferedTool
from tau.export.outline import Outline, time_of
from tau.export.text import count, dollars, esc, format_period, pretty, single_line, tokens
from tau.export.totals import Totals

BRANCH_GAP = "<!-- the branch that is shown -->\n"
OTHERS_GAP = "<!-- the other entries -->\n"
LIST_GAP = "<!-- the list -->"


def frame(export: Export, outline: Outline, sums: Totals, name: str) -> tuple[str, str, str, str]:
    """Return the parts of the page around the branch, the other entries and the list."""
    # The gaps are located before anything is filled in, so that no text of the session is mistaken for one.
    start, rest = _source("page.html").split(BRANCH_GAP)
    middle, rest = rest.split(OTHERS_GAP)
    before_list, end = rest.split(LIST_GAP)
    filled = Template(start).substitute(
        policy=policy(),
        title=esc(name),
        style=_style(),
        script=_source("page.js"),
        top=_top(export, outline, sums, name),
    )
    return filled, Template(middle).substitute(version=esc(export.version)), before_list, end


@cache
def policy() -> str:
    """The Content-Security-Policy: our own style and script by hash, embedded images, and nothing else."""
    return (
        f"default-src 'none'; style-src {_hash(_style())}; script-src {_hash(_source('page.js'))}; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _hash(content: str) -> str:
    digest = binascii.b2a_base64(bytes.fromhex(sha256_hex(content.encode())), newline=False)
    return f"'sha256-{digest.decode()}'"


def _style() -> str:
    """The style of the cards, which the page of `tau serve` has too, and that of the frame."""
    return _source("cards.css") + _source("page.css")


@cache
def _source(name: str) -> str:
    data = pkgutil.get_data("tau.export", name)  # importlib.resources would take several times as long to load
    assert data is not None
    return data.decode()


def _top(export: Export, outline: Outline, sums: Totals, name: str) -> str:
    facts = "".join(
        f"<div><dt>{term}</dt><dd>{html}</dd></div>" for term, html in _facts(export, outline, sums) if html
    )
    return (
        f'<header id="top"><p class="brand"><b>τ</b> session</p><h1>{esc(single_line(name, 160))}</h1><dl>{facts}</dl>'
        f"{_system_prompt(export)}{_tools(export.tools)}</header>"
    )


def _facts(export: Export, outline: Outline, sums: Totals) -> list[tuple[str, str]]:
    header = export.header
    last = time_of(outline.entries[-1]) if outline.entries else ""
    return [
        ("Session", f"<code>{esc(header.id)}</code>"),
        ("Date", esc(format_period(header.timestamp, last))),
        ("Folder", f"<code>{esc(header.cwd)}</code>"),
        ("Continues", f"<code>{esc(header.parent_session)}</code>" if isinstance(header.parent_session, str) else ""),
        ("Models", ", ".join(f"<code>{esc(model)}</code>" for model in sums.models)),
        ("Messages", _counts(sums)),
        ("Tokens", _tokens(sums)),
        ("Cost", dollars(sums.cost) if sums.cost else ""),
    ]


def _counts(sums: Totals) -> str:
    counted = [
        (sums.user, "from you", "from you"),
        (sums.assistant, "answer", "answers"),
        (sums.calls, "tool call", "tool calls"),
        (sums.results, "tool result", "tool results"),
        (sums.commands, "command", "commands"),
        (sums.custom, "from extensions", "from extensions"),
        (sums.compactions, "compaction", "compactions"),
        (sums.branch_summaries, "branch summary", "branch summaries"),
    ]
    return " · ".join(
        f"<span>{count(number, singular, plural)}</span>" for number, singular, plural in counted if number
    )


def _tokens(sums: Totals) -> str:
    counted = {"in": sums.input, "out": sums.output, "cache read": sums.cache_read, "cache write": sums.cache_write}
    return " · ".join(
        f'<span title="{number:,}">{tokens(number)} {name}</span>' for name, number in counted.items() if number
    )


def _system_prompt(export: Export) -> str:
    if not export.system_prompt:
        return ""
    size = count(export.system_prompt.count("\n") + 1, "line")
    return _box("System prompt", size, f"<pre>{esc(export.system_prompt)}</pre>")


def _tools(tools: Sequence[OfferedTool]) -> str:
    items = [f"<details><summary>{_offer(tool)}</summary>{_parameters(tool)}</details>" for tool in tools]
    return _box("Tools", str(len(tools)), f'<div class="tools">{"".join(items)}</div>') if items else ""


def _box(title: str, size: str, html: str) -> str:
    return f'<details class="wrapped"><summary>{title} <span class="aside">{size}</span></summary>{html}</details>'


def _offer(tool: OfferedTool) -> str:
    return f"<b>{esc(tool.name)}</b> {esc(single_line(tool.description, 300))}"


def _parameters(tool: OfferedTool) -> str:
    properties, required = tool.parameters.get("properties"), tool.parameters.get("required")
    if not isinstance(properties, dict):
        return f"<pre>{esc(pretty(tool.parameters))}</pre>"
    required_names = required if isinstance(required, list) else []
    rows = []
    for name, schema in properties.items():
        described = schema if isinstance(schema, dict) else {}
        kind = esc(str(described.get("type", "any")))
        presence = "required" if name in required_names else "optional"
        description = esc(str(described.get("description", "")))
        rows.append(
            f'<dt><code>{esc(name)}</code> <span class="aside">{kind}, {presence}</span></dt><dd>{description}</dd>'
        )
    return f"<dl>{''.join(rows)}</dl>"
