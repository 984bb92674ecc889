"""A picture of ratios: a row for each, a dot for everyone, on a logarithmic scale. SVG, by hand.

It is looked at on white and on dark pages, so it brings both kinds of colours.
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
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}\n</style>\n{body}\n</svg>\n"
    )
