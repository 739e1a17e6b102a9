#!/usr/bin/env python3
"""Turns a captured terminal screen into an SVG picture, for the README.

    tmux new-session -d -s demo -x 80 -y 24 'build/deliverd demo'
    tmux capture-pane -e -p -t demo | tools/ansi_to_svg.py > docs/demo.svg
"""
import re
import sys
from html import escape

COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "36": "#79c0ff"}
CHAR_WIDTH, LINE_HEIGHT, MARGIN = 8.4, 19, 16


def spans(line, style):
    """(text, style) runs of one line; `style` carries over to the next line."""
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if not part.startswith("\x1b["):
            if part:
                yield part, dict(style)
            continue
        for code in part[2:-1].split(";"):
            if code in ("", "0"):
                style.clear()
            elif code == "1":
                style["font-weight"] = "bold"
            elif code == "2":
                style["fill"] = "#8b949e"
            elif code == "39":
                style.pop("fill", None)
            elif code in COLOURS:
                style["fill"] = COLOURS[code]


def main():
    lines = sys.stdin.read().rstrip().split("\n")
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    width = max(len(line) for line in plain) * CHAR_WIDTH + 2 * MARGIN
    height = len(lines) * LINE_HEIGHT + 2 * MARGIN
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
          f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14">')
    print(f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#0d1117"/>')
    style = {}
    for row, line in enumerate(lines):
        y, column = MARGIN + (row + 0.8) * LINE_HEIGHT, 0
        for text, look in spans(line, style):
            attributes = "".join(f' {name}="{value}"' for name, value in {"fill": "#e6edf3", **look}.items())
            x = MARGIN + column * CHAR_WIDTH
            print(f'<text x="{x:.1f}" y="{y:.1f}" textLength="{len(text) * CHAR_WIDTH:.1f}" xml:space="preserve"'
                  f'{attributes}>{escape(text)}</text>')
            column += len(text)
    print("</svg>")


if __name__ == "__main__":
    main()
