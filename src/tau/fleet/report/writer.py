"""Write the report: page.html filled with the results of a ledger."""

from __future__ import annotations

import base64
import hashlib
import pkgutil
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from string import Template

from tau import __version__
from tau.core.fleet.estimate import duration
from tau.fleet.display import dollars
from tau.fleet.export import replace_file
from tau.fleet.folder import FleetFolder
from tau.fleet.report import figures, rows
from tau.fleet.report.rows import text
from tau.fleet.snapshot import GOOD
from tau.records.base import convert, parse
from tau.records.fleet import Result

CHART_WIDTH, CHART_HEIGHT = 720, 120
MAX_WAITING = 200
NUMBER = ' class="number"'


def write_report(folder: FleetFolder, to: Path | None = None) -> Path:
    """Write the report, by default to report.html in the folder of the fleet. Raises UsageError."""
    with folder.view() as view:
        results: list[Result] = [convert(parse(record), Result) for record in view.results()]
        waiting = view.waiting()
    path = to or folder.path / "report.html"
    page = report_page(results, waiting, folder)

    def write(draft: Path) -> None:
        draft.write_text(page, encoding="utf-8", errors="replace")

    replace_file(path, write)
    return path


def report_page(results: Sequence[Result], waiting: Sequence[str], folder: FleetFolder) -> str:
    counts = figures.outcomes(results)
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return Template(_source("page.html")).substitute(
        policy=policy(),
        title=text(f"{folder.path.resolve().name}: {len(results):,} results"),
        style=_source("page.css"),
        script=_source("page.js"),
        name=text(folder.path.resolve().name),
        facts=_facts(results, waiting),
        bar=_bar(counts, len(waiting)),
        chart=_chart(results),
        groups=_groups(results),
        filters=_filters(counts),
        heads=_heads(),
        bodies="".join(rows.table(results, folder)),
        waiting=_waiting(waiting),
        made=f"Made by tau {__version__}, {made}.",
    )


@cache
def policy() -> str:
    """The Content-Security-Policy: our own style and script by hash, and nothing else."""
    return (
        f"default-src 'none'; style-src {_hash('page.css')}; script-src {_hash('page.js')}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(name: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(_source(name).encode()).digest()).decode() + "'"


@cache
def _source(name: str) -> str:
    data = pkgutil.get_data("tau.fleet.report", name)
    assert data is not None
    return data.decode()


def _facts(results: Sequence[Result], waiting: Sequence[str]) -> str:
    good = sum(result.outcome in GOOD for result in results)
    times = sorted(map(figures.seconds_of, results))
    unknown = any(result.cost_unknown for result in results)
    facts = [
        ("Tasks", f"{len(results) + len(waiting):,}"),
        ("Succeeded", f"{good / len(results):.0%}" if results else "\u2013"),
        ("Cost", dollars(sum(one.cost for one in results)) + (" or more" if unknown else "")),
        ("Tokens", f"{sum(map(figures.tokens_of, results)):,}"),
        ("Half within", _seconds(figures.quantile(times, 0.5))),
        ("90 % within", _seconds(figures.quantile(times, 0.9))),
    ]
    return "".join(f"<div><dt>{name}</dt><dd>{text(value)}</dd></div>" for name, value in facts)


def _bar(counts: dict[str, int], waiting: int) -> str:
    """Shares of the outcomes, as a bar and as a list that says the same."""
    parts = {**counts, **({"waiting": waiting} if waiting else {})}
    total = sum(parts.values()) or 1
    pieces, at = [], 0.0
    for name, count in parts.items():
        width = 1000 * count / total
        pieces.append(f'<rect class="{name}" x="{at:.2f}" y="0" width="{max(1.0, width - 2):.2f}" height="16"/>')
        at += width
    listed = "".join(
        f'<li><span class="key {name}" aria-hidden="true"></span><b>{count:,}</b> {name} '
        f"<small>{_share(count, total)}</small></li>"
        for name, count in parts.items()
    )
    svg = f'<svg viewBox="0 0 1000 16" preserveAspectRatio="none" aria-hidden="true">{"".join(pieces)}</svg>'
    return f'{svg}<ul class="legend" aria-label="Tasks by outcome">{listed}</ul>'


def _share(count: int, total: int) -> str:
    return f"{count / total:.0%}" if count * 200 >= total else "&lt;1%"


def _chart(results: Sequence[Result]) -> str:
    """How long tasks took."""
    bins = figures.histogram([figures.seconds_of(result) for result in results])
    if not bins:
        return ""
    highest, width = max(one.tasks for one in bins), CHART_WIDTH / len(bins)
    bars = "".join(
        f'<rect x="{at * width + 1:.1f}" y="{CHART_HEIGHT * (1 - one.tasks / highest):.1f}" width="{width - 2:.1f}" '
        f'height="{CHART_HEIGHT * one.tasks / highest:.1f}"><title>{one.tasks:,} tasks: {_seconds(one.low)} to '
        f"{_seconds(one.high)}</title></rect>"
        for at, one in enumerate(bins)
    )
    half = figures.quantile(sorted(map(figures.seconds_of, results)), 0.5)
    said = (
        f"How long {len(results):,} tasks took: {_seconds(bins[0].low)} to {_seconds(bins[-1].high)}, "
        f"half of them at most {_seconds(half)}."
    )
    axis = f"<span>{_seconds(bins[0].low)}</span><span>{_seconds(bins[-1].high)}</span>"
    return (
        f'<section aria-labelledby="times"><h2 id="times">Time of tasks</h2><figure><svg class="chart" role="img" '
        f'aria-label="{text(said)}" viewBox="0 0 {CHART_WIDTH} {CHART_HEIGHT}" preserveAspectRatio="none">{bars}</svg>'
        f'<div class="axis" aria-hidden="true">{axis}</div><figcaption>{text(said)}</figcaption></figure></section>'
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else duration(seconds)


def _groups(results: Sequence[Result]) -> str:
    parts = []
    for title, inside in figures.groups(results).items():
        lines = "".join(
            f'<tr><th scope="row">{text(one.name)}</th><td class="number">{one.tasks:,}</td>'
            f'<td class="number">{one.good / one.tasks:.0%}</td><td class="number">{dollars(one.cost)}</td>'
            f'<td class="number">{duration(one.seconds / one.tasks)}</td></tr>'
            for one in inside
        )
        heads = "".join(
            f'<th scope="col"{kind}>{name}</th>'
            for name, kind in (
                (text(title), ""),
                *((name, ' class="number"') for name in ("Tasks", "Success", "Cost", "Mean time")),
            )
        )
        caption = f"<caption>By {text(title)}</caption>"
        parts.append(f"<table class='group'>{caption}<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>")
    if not parts:
        return ""
    tables = "".join(f'<div class="scroll" tabindex="0" role="group" aria-label="Groups">{one}</div>' for one in parts)
    return f'<section aria-labelledby="groups"><h2 id="groups">Groups</h2>{tables}</section>'


def _filters(counts: dict[str, int]) -> str:
    buttons = [f'<button type="button" data-filter="" aria-pressed="true">All {sum(counts.values()):,}</button>']
    for name, count in counts.items():
        buttons.append(f'<button type="button" data-filter="{name}" aria-pressed="false">{name} {count:,}</button>')
    return "".join(buttons)


def _heads() -> str:
    return "".join(
        f'<th role="columnheader" scope="col"{NUMBER if number else ""}>'
        f'<button type="button" data-sort="{key}">{name}</button></th>'
        for key, name, number in rows.COLUMNS
    )


def _waiting(waiting: Sequence[str]) -> str:
    if not waiting:
        return ""
    items = "".join(f"<li>{text(id)}</li>" for id in waiting[:MAX_WAITING])
    more = f"<li>… and {len(waiting) - MAX_WAITING:,} more</li>" if len(waiting) > MAX_WAITING else ""
    return (
        f'<section aria-labelledby="waiting"><h2 id="waiting">Without a result: {len(waiting):,}</h2>'
        f'<ul class="ids">{items}{more}</ul></section>'
    )
