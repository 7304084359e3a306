# SPDX-License-Identifier: BSD-3-Clause
"""Line charts on two logarithmic axes, written as SVG by hand, and PNG if a converter is installed."""

import math
import shutil
import subprocess
from xml.sax.saxutils import escape

KNOWN_COLOURS = {("heddle", 1): "#0b5fa5", ("heddle", 2): "#52a8e8", ("heddle", "procs"): "#7a4fbf",
                 ("openmpi", 1): "#d9730d",
                 ("mpich", 1): "#3a8f3a"}
COLOURS = ["#8a4fbf", "#b03060", "#7a6a00", "#007a7a"]  # for the others
GREY, BROWN = "#888888", "#8a6d4a"
WIDTH, HEIGHT = 560, 400
LEFT, RIGHT, TOP, BOTTOM = 72, 20, 44, 52
LEAST_WIDTH = 720  # of a picture with one panel, so that the legend and the caption have room
LEGEND_ROW, CAPTION_ROW = 22, 16


class Series:
    """A line: its label, its (x, y) points; a limit is drawn dashed."""

    def __init__(self, label, points, colour=None, is_limit=False):
        self.label = label
        self.points = [(x, y) for x, y in points if y is not None and y > 0]
        self.colour = colour or GREY
        self.is_limit = is_limit


class Panel:
    """One chart; x_name(value) writes a mark of the x axis, which lie at the powers of two or at x_marks."""

    def __init__(self, title, x_title, y_title, series, x_name=str, x_marks=None):
        self.title, self.x_title, self.y_title = title, x_title, y_title
        self.series = [one for one in series if one.points]
        self.x_name, self.x_marks = x_name, x_marks


def colour_of(kind, pes):
    """The same colour for the same MPI in every picture; None for one that has none yet."""
    return KNOWN_COLOURS.get((kind, pes))


def mark_name(value):
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def round_down(value):
    """The largest of ..., 0.1, 0.2, 0.5, 1, 2, 5, 10, ... that is not above the value."""
    decade = 10.0 ** math.floor(math.log10(value))
    return max(decade * step for step in (1, 2, 5) if decade * step <= value * 1.0001 or step == 1)


def round_up(value):
    low = round_down(value)
    return low if low >= value * 0.9999 else min(m for m in marks_between(low, low * 10) if m > low * 1.1)


def marks_between(low, high):
    """The marks of a logarithmic axis: decades, and 2 and 5 between them where there are few."""
    steps = (1, 2, 5) if high / low < 2000 else (1,)
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    marks = [step * 10.0 ** decade for decade in decades for step in steps]
    return [mark for mark in marks if low * 0.999 <= mark <= high * 1.001]


def text(x, y, words, size=12, anchor="middle", extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" {extra}>'
            f"{escape(words)}</text>")


def panel_svg(panel):
    """The chart as SVG elements within WIDTH x HEIGHT."""
    out = [text(LEFT, 20, panel.title, 15, "start", 'font-weight="bold"')]
    points = [point for series in panel.series for point in series.points]
    if not points:
        return "\n".join(out + [text(WIDTH / 2, HEIGHT / 2, "no results")])
    low_x, high_x = min(p[0] for p in points), max(p[0] for p in points)
    low_y, high_y = round_down(min(p[1] for p in points)), round_up(max(p[1] for p in points))
    high_x, high_y = max(high_x, low_x * 2), max(high_y, low_y * 10)
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x_at(x):
        return LEFT + inner_width * math.log(x / low_x) / math.log(high_x / low_x)

    def y_at(y):
        return HEIGHT - BOTTOM - inner_height * math.log(y / low_y) / math.log(high_y / low_y)

    for mark in marks_between(low_y, high_y):
        y = y_at(mark)
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#dddddd"/>')
        out.append(text(LEFT - 6, y + 4, mark_name(mark), 11, "end"))
    for mark in panel.x_marks or sorted({p[0] for p in points}):
        if low_x <= mark <= high_x:
            x = x_at(mark)
            out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" '
                       'stroke="#eeeeee"/>')
            out.append(text(x, HEIGHT - BOTTOM + 16, panel.x_name(mark), 11))
    out.append(f'<rect x="{LEFT}" y="{TOP}" width="{inner_width}" height="{inner_height}" fill="none" '
               'stroke="#555555"/>')
    out.append(text(LEFT + inner_width / 2, HEIGHT - 14, panel.x_title))
    out.append(text(0, 0, panel.y_title, 12, "middle",
                    f'transform="translate(16 {TOP + inner_height / 2:.0f}) rotate(-90)"'))
    for series in panel.series:
        path = " ".join(f"{x_at(x):.1f},{y_at(y):.1f}" for x, y in series.points)
        dash = ' stroke-dasharray="5 4"' if series.is_limit else ""
        out.append(f'<polyline points="{path}" fill="none" stroke="{series.colour}" '
                   f'stroke-width="2"{dash}/>')
        radius = 2 if series.is_limit else 2.6
        out += [f'<circle cx="{x_at(x):.1f}" cy="{y_at(y):.1f}" r="{radius}" fill="{series.colour}"/>'
                for x, y in series.points]
    return "\n".join(out)


def legend_svg(all_series, width):
    """Labels side by side, each once, in as many rows as it takes. Returns (SVG, rows)."""
    out, seen, x, row = [], set(), LEFT, 0
    for series in all_series:
        if series.label in seen:
            continue
        seen.add(series.label)
        label_width = 54 + 8 * len(series.label)
        if x > LEFT and x + label_width > width:
            x, row = LEFT, row + 1
        y = 14 + row * LEGEND_ROW
        dash = ' stroke-dasharray="5 4"' if series.is_limit else ""
        out.append(f'<line x1="{x}" y1="{y}" x2="{x + 26}" y2="{y}" stroke="{series.colour}" '
                   f'stroke-width="3"{dash}/>')
        out.append(text(x + 32, y + 4, series.label, 13, "start"))
        x += label_width
    return "\n".join(out), row + 1


def write_svg(path, panels, captions):
    """Panels two abreast, one legend above, the captions below, a line each. The ground is white, so that the
    picture can be read on a dark page, too."""
    columns = min(2, len(panels))
    rows = (len(panels) + columns - 1) // columns
    width = max(columns * WIDTH, LEAST_WIDTH)
    legend, legend_rows = legend_svg([series for panel in panels for series in panel.series], width)
    top = 6 + legend_rows * LEGEND_ROW
    height = top + rows * HEIGHT + len(captions) * CAPTION_ROW + 8
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif">',
           f'<rect width="{width}" height="{height}" fill="white"/>', legend]
    for i, panel in enumerate(panels):
        x = i % columns * WIDTH + (width - columns * WIDTH) / 2
        y = top + i // columns * HEIGHT
        out.append(f'<g transform="translate({x:.0f} {y})">\n{panel_svg(panel)}\n</g>')
    for i, caption in enumerate(captions):
        y = top + rows * HEIGHT + i * CAPTION_ROW + 8
        out.append(text(width / 2, y, caption, 11, "middle", 'fill="#555555"'))
    out.append("</svg>\n")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out))


def write_png(svg_path, png_path):
    """Returns the name of the converter that made it, or None."""
    for words in (["rsvg-convert", "--zoom", "1.5", "-o", png_path, svg_path],
                  ["inkscape", "--export-type=png", f"--export-filename={png_path}", svg_path],
                  ["magick", svg_path, png_path], ["convert", svg_path, png_path]):
        if not shutil.which(words[0]):
            continue
        try:
            done = subprocess.run(words, capture_output=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return words[0]
    return None
