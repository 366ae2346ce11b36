"""The ratios as one picture: a column for each size, a row for each operator, forward and backward together."""

import math
from html import escape
from pathlib import Path

from report import PEERS, Results

NAMES, WIDTH, ROW, TOP, GAP = 220, 300, 20, 70, 20
COLOURS = {"eager": "#1f6fb4", "compile": "#d9661f"}
FONT = 'font-family="sans-serif" font-size="12"'


def ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10... between the two; powers of ten alone, where they lie far apart."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high / low < 300 else (1,)
    return [m * 10.0**d for d in decades for m in steps if low <= m * 10.0**d <= high]


def text(x: float, y: float, words: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {FONT}>{escape(words)}</text>'


def dot(x: float, y: float, peer: str, filled: bool) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" stroke="{COLOURS[peer]}" fill="{COLOURS[peer] if filled else "none"}"/>'


def write_svg(results: Results, path: Path) -> None:
    """f32 is filled, other types are rings; the allocator is PyTorch's best, where that was measured."""
    allocator = results.present(4)[0]
    shown = [r for r in results.of_peers(allocator) if r["mode"] == "full"]
    names = [n for n in results.present(0) if any(r["operator"] == n for r in shown)]
    sizes = [s for s in results.present(1) if any(r["size"] == s for r in shown)]
    low = min([0.9, *(r["ratio"] for r in shown)]) / 1.1
    high = max([2, *(r["ratio"] for r in shown)]) * 1.1
    height = TOP + ROW * len(names) + 30

    def at(column: int, value: float) -> float:
        return NAMES + column * (WIDTH + GAP) + WIDTH * math.log(value / low) / math.log(high / low)

    out = [text(10, 20, "PyTorch's time over Tigon's, forward and backward (logarithmic); right of 1 Tigon is faster", "start")]
    x = 10
    for peer in PEERS:
        for dtype in results.present(2):
            out += [dot(x + 5, 37, peer, dtype == "f32"), text(x + 15, 41, f"{peer} {dtype}", "start")]
            x += 120
    for column, size in enumerate(sizes):
        out.append(text(at(column, math.sqrt(low * high)), 62, size))
        for tick in ticks(low, high):
            x = at(column, tick)
            colour = "#000" if tick == 1 else "#ddd"
            out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{height - 25}" stroke="{colour}"/>')
            out.append(text(x, height - 8, f"{tick:g}"))
    for row, name in enumerate(names):
        y = TOP + ROW * (row + 0.5)
        out.append(text(NAMES - 8, y + 4, name, "end"))
        out += [dot(at(sizes.index(r["size"]), r["ratio"]), y, r["provider"], r["dtype"] == "f32")
                for r in shown if r["operator"] == name]
    width = max(NAMES + len(sizes) * (WIDTH + GAP), 640)  # the title needs that much
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
                    f'<rect width="{width}" height="{height}" fill="#fff"/>\n' + "\n".join(out) + "\n</svg>\n")
