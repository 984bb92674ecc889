"""Pictures: ratios as rows of dots, and cost against work as curves. Logarithmic scales, SVG by hand.

They are looked at on white and on dark pages, so they bring both kinds of colours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

WORDS, WIDTH, HEIGHT = 330, 400, 22  # of the text, the scale, a row
HEAD, EDGE = 64, 24
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.small { font-size: 11px; fill: #57606a }
.line { stroke: #d0d7de } .tau { stroke: #1a7f37; stroke-width: 2 }
.s0 { stroke: #0969da } .s1 { stroke: #bf8700 } .s2 { stroke: #8250df } .curve { fill: none; stroke-width: 2 }
.d0 { fill: #0969da } .d1 { fill: #bf8700 } .d2 { fill: #8250df } .slope { stroke-dasharray: 3 5; stroke: #8c959f }
.c0 { fill: #bf8700 } .c1 { fill: #0969da } .c2 { fill: #8250df } .c3 { fill: #cf222e }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9198a1 } .line { stroke: #3d444d } .tau { stroke: #3fb950 }
  .c0 { fill: #d29922 } .c1 { fill: #4493f8 } .c2 { fill: #ab7df8 } .c3 { fill: #f85149 }
}"""


class Row(NamedTuple):
    words: str
    ratios: Mapping[str, float]  # by who has them


def dots(title: str, rows: Sequence[Row], names: Sequence[str]) -> str:
    found = [ratio for row in rows for ratio in row.ratios.values()] or [1.0]
    low, high = min(0, math.floor(math.log2(min(found)))), max(1, math.ceil(math.log2(max(found))))
    height, width = HEAD + HEIGHT * len(rows) + EDGE, WORDS + WIDTH + 2 * EDGE

    def across(ratio: float) -> float:
        return round(WORDS + EDGE + WIDTH * (math.log2(ratio) - low) / (high - low), 1)

    bottom = height - EDGE
    parts = [f'<text x="{EDGE}" y="20">{escape(title)}</text>']
    for at, name in enumerate(names):
        left = EDGE + 90 * at
        parts.append(f'<circle class="c{at % 4}" cx="{left + 5}" cy="38" r="5"/>')
        parts.append(f'<text x="{left + 15}" y="42">pi {escape(name)}</text>')
    step = max(1, (high - low) // 8)
    for power in range(low, high + 1, step):
        x = across(2.0**power)
        label = f"{2**power}\N{MULTIPLICATION SIGN}" if power >= 0 else f"1/{2**-power}"
        parts.append(f'<line class="line" x1="{x}" y1="{HEAD - 8}" x2="{x}" y2="{bottom}"/>')
        parts.append(f'<text class="small" x="{x}" y="{height - 8}" text-anchor="middle">{label}</text>')
    parts.append(f'<line class="tau" x1="{across(1)}" y1="{HEAD - 8}" x2="{across(1)}" y2="{bottom}"/>')
    parts.append(f'<text class="small" x="{across(1)}" y="{HEAD - 12}" text-anchor="middle">tau</text>')
    for at, row in enumerate(rows):
        y = HEAD + HEIGHT * at + HEIGHT // 2
        parts.append(f'<text x="{WORDS + EDGE - 12}" y="{y + 4}" text-anchor="end">{escape(row.words)}</text>')
        for name, ratio in row.ratios.items():
            said = escape(f"{row.words}: pi {name} needs {ratio:.2g} times as much")
            colour = names.index(name) % 4
            parts.append(
                f'<circle class="c{colour}" cx="{across(ratio)}" cy="{y}" r="5"><title>{said}</title></circle>'
            )
    return _svg(title, width, height, parts)


class Series(NamedTuple):
    words: str
    points: Sequence[tuple[float, float]]  # work and cost


CURVES_WIDTH, CURVES_HEIGHT, LEFT = 560, 300, 70


def curves(title: str, across: str, up: str, series: Sequence[Series]) -> str:
    """Cost against work. A dotted line through the last point of the first series has the exponent 1."""
    points = [point for one in series for point in one.points]
    x, y = (
        _Axis([n for n, _ in points], LEFT, CURVES_WIDTH),
        _Axis([c for _, c in points], CURVES_HEIGHT, -CURVES_HEIGHT),
    )
    top = HEAD + 18 * len(series) - 18
    parts = [f'<text x="{EDGE}" y="20">{escape(title)}</text>']
    parts += [
        f'<circle class="d{at % 3}" cx="{EDGE + 5}" cy="{38 + 18 * at}" r="5"/>'
        f'<text x="{EDGE + 15}" y="{42 + 18 * at}">{escape(one.words)}</text>'
        for at, one in enumerate(series)
    ]
    parts.append(f'<g transform="translate(0 {top})">')
    for power in x.powers:
        at = x.place(10.0**power)
        parts.append(f'<line class="line" x1="{at}" y1="0" x2="{at}" y2="{CURVES_HEIGHT}"/>')
        label = f"{10**power:,}" if power >= 0 else f"{10.0**power:g}"
        parts.append(f'<text class="small" x="{at}" y="{CURVES_HEIGHT + 16}" text-anchor="middle">{label}</text>')
    for power in y.powers:
        at = y.place(10.0**power)
        parts.append(f'<line class="line" x1="{LEFT}" y1="{at}" x2="{LEFT + CURVES_WIDTH}" y2="{at}"/>')
        parts.append(f'<text class="small" x="{LEFT - 6}" y="{at + 4}" text-anchor="end">{10.0**power:g} s</text>')
    right, below = LEFT + CURVES_WIDTH, CURVES_HEIGHT + 32
    parts.append(f'<text class="small" x="{right}" y="{below}" text-anchor="end">{escape(across)}</text>')
    parts.append(f'<text class="small" x="{EDGE}" y="-8">{escape(up)}</text>')
    for at, one in enumerate(series):
        line = " ".join(f"{x.place(n)},{y.place(c)}" for n, c in one.points)
        parts.append(f'<polyline class="curve s{at % 3}" points="{line}"/>')
        for n, c in one.points:
            said = escape(f"{n:,} {across}: {c:.3g} s")
            parts.append(
                f'<circle class="d{at % 3}" cx="{x.place(n)}" cy="{y.place(c)}" r="4"><title>{said}</title></circle>'
            )
    if series and series[0].points:
        (n, c), last = series[0].points[-1], series[0].points[0][0]
        first = max(c * last / n, 10.0 ** y.powers[0])
        start = f'x1="{x.place(first * n / c)}" y1="{y.place(first)}"'
        parts.append(f'<line class="slope" {start} x2="{x.place(n)}" y2="{y.place(c)}"/>')
    return _svg(title, LEFT + CURVES_WIDTH + EDGE, top + CURVES_HEIGHT + 44, [*parts, "</g>"])


class _Axis:
    """A logarithmic axis over whole decades."""

    def __init__(self, values: Sequence[float], start: float, length: float) -> None:
        logs = [math.log10(value) for value in values if value > 0] or [0.0]
        low = math.floor(min(logs))
        self.powers = range(low, max(low + 1, math.ceil(max(logs))) + 1)
        self._start, self._length = start, length

    def place(self, value: float) -> float:
        low, high = self.powers[0], self.powers[-1]
        return round(self._start + self._length * (math.log10(max(value, 10.0**low)) - low) / (high - low), 1)


def _svg(title: str, width: int, height: int, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}\n</style>\n{body}\n</svg>\n"
    )
