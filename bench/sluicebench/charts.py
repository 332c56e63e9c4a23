"""Charts as SVG, one or two for each table: `python -m sluicebench.charts DIRECTORY`, in a Python that has matplotlib.

Here: the chart of a table. Not here: the figures (figures.py, aims.py, scale.py). Axes begin at zero; a whisker spans
the smallest and the largest round; a server has the same colour everywhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Callable, Optional

from . import aims, passes, results
from .figures import Spread, ratio, spread_of
from .plan import TABLES
from .report import number_text, ratio_text
from .results import Cell, Results, failure_of
from .scale import fairness
from .servers.protocols import H2_CLEAR, H2_TLS
from .tables import Column, Row, Table

try:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, NullLocator
except ImportError:
    plt = None

INK, SOFT, GRID, PAPER = "#1f2933", "#66727f", "#e6eaee", "#ffffff"
COLOURS = {
    "sluice": "#0b7a75", "sluice-uncached": "#8cc5c1", "apache": "#c8553d", "nginx": "#6a994e", "lighttpd": "#5b7db1", "h2o": "#b08ea2", "caddy": "#c2a14d",
    "limit": "#b8c0c8", "hyper": "#b8c0c8",
    "gunicorn": "#6a994e", "gunicorn-nginx": "#6a994e", "uwsgi": "#c8553d", "uwsgi-nginx": "#c8553d", "granian": "#5b7db1",
    "granian-nginx": "#5b7db1", "waitress": "#b08ea2", "waitress-nginx": "#b08ea2", "starman": "#5b7db1", "starman-nginx": "#5b7db1",
    "mod_perl": "#c8553d", "mod_php": "#c8553d", "php-fpm-nginx": "#6a994e",
}  # fmt: skip
MET, MISSED = COLOURS["sluice"], COLOURS["apache"]
STYLE = {
    "font.family": "sans-serif", "font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "sluice",
    "figure.facecolor": PAPER, "axes.facecolor": PAPER, "axes.edgecolor": GRID, "axes.labelcolor": SOFT,
    "axes.titlecolor": INK, "text.color": INK, "xtick.color": SOFT, "ytick.color": INK, "axes.grid": True,
    "grid.color": GRID, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
    "axes.spines.left": False, "xtick.major.size": 0, "ytick.major.size": 0,
}  # fmt: skip

#: The limits of the axis in the chart of the targets.
REACH_LEAST, REACH_MOST = 0.25, 4.0

#: Column of Sluice, end of the file name, title.
SCRIPT_PICTURES = (
    ("sluice-cgi", "cgi", "CGI: a process for each request"),
    ("sluice-cgiplus", "kept", "Persistent programs"),
)
#: End of the row keys and of the file name, title.
FILE_PICTURES = (("kept", "Files, keep-alive"), ("close", "Files, a connection for each request"))

#: Protocol, file name, title.
H2_PICTURES = (
    (H2_TLS, "files-h2", "Files over HTTP/2 and TLS"),
    (H2_CLEAR, "files-h2-clear", "Files over HTTP/2, cleartext"),
)

#: A panel of bars: its title and its row.
Panel = tuple[str, Row]


def main() -> int:
    if plt is None:
        print("bench: no charts: matplotlib is not installed (bench/setup creates bench/.venv)", file=sys.stderr)
        return 0
    directory = Path(sys.argv[1])
    plt.rcParams.update(STYLE)
    several = passes.load(directory)
    drawn = pictures_of_passes(several) if several else pictures(results.load(directory / "results.json"))
    for stem, figure in drawn:
        figure.savefig(directory / f"{stem}.svg", metadata={"Date": None})
        plt.close(figure)
    return 0


def pictures(found: Results) -> Iterator[tuple[str, plt.Figure]]:
    """Yields file name and chart for the measured tables, lazily."""
    for stem, wanted in (("aims", aims.SPEED_AIMS), ("aims-other", aims.AIMS)):
        verdicts = [verdict for verdict in aims.judge(found, wanted) if verdict.ratios]
        if verdicts:
            yield stem, aims_picture({"": verdicts})
    for table in TABLES:
        if found.has_table(table.key):
            yield from pictures_of(found, table)


def pictures_of_passes(several: dict[int, Results]) -> Iterator[tuple[str, plt.Figure]]:
    """The targets alone: the tables are in the directory of each pass."""
    judged = {passes.name_of(count): aims.judge(found, aims.SPEED_AIMS) for count, found in several.items()}
    verdicts = {name: [verdict for verdict in found if verdict.ratios] for name, found in judged.items()}
    if any(verdicts.values()):
        yield "aims", aims_picture(verdicts)


def pictures_of(found: Results, table: Table) -> Iterator[tuple[str, plt.Figure]]:
    if table.key in ("bandwidth", "bandwidth-tls"):
        title = f"One transfer of generated data{' over TLS' if table.key.endswith('tls') else ''}"
        yield table.key, bars(found, table, [[("", table.rows[0])]], table.columns, title)
    elif table.key in ("records", "rings"):
        yield table.key, sweep(found, table)
    elif table.key == "scripts":
        for ours, stem, title in SCRIPT_PICTURES:
            columns = (table.column(ours), *table.rivals(ours))
            yield f"scripts-{stem}", bars(found, table, grid(table, found, 3), columns, title)
    elif table.key == "files":
        for stem, title in FILE_PICTURES:
            panels = grid(table, found, 3, [row for row in table.rows if row.key.endswith(stem)])
            if panels:
                yield f"files-{stem}", bars(found, table, panels, table.columns, title)
    elif table.key == "files-tls":
        yield table.key, bars(found, table, grid(table, found, 3), table.columns, "Files over TLS, HTTP/1.1")
    elif table.key == "files-h2":
        for protocol, stem, title in H2_PICTURES:
            panels = grid_of_sizes(table, found, [row for row in table.rows if row.protocol == protocol])
            if panels:
                yield stem, bars(found, table, panels, [c for c in table.columns if c.key != "hyper"], title)
    elif table.key == "transfer":
        yield table.key, bars(found, table, grid(table, found, 2), table.columns, "Large files")
    elif table.key == "transfer-tls":
        yield table.key, bars(found, table, grid_of_sizes(table, found, table.rows), table.columns, "Large files over TLS")
    elif table.key == "formats":
        yield table.key, bars(found, table, grid(table, found, 2), table.columns, "A text file, by its format")
    elif table.key == "processor":
        panels = grid(table, found, 3, table.measured_rows())
        yield table.key, bars(found, table, panels, table.columns, "Processor time (less is better)", has_parts=True)
    elif table.key == "cost":
        yield table.key, bars(found, table, grid(table, found, 3), table.columns, "Cost (less is better)")
    elif table.group:
        yield table.key, bars(found, table, grid(table, found, 3), table.columns, table.title)
    elif table.key == "scale":
        yield table.key, scale_picture(found, table)


def grid(table: Table, found: Results, width: int, rows: Optional[Sequence[Row]] = None) -> list[list[Panel]]:
    """The measured rows, `width` per line."""
    seen = [row for row in rows or table.rows if any(found.cell(table.key, row.key, c.key) for c in table.columns)]
    panels = [(f"{row.label}{', ' + row.unit if row.unit else ''}", row) for row in seen]
    return [panels[at : at + width] for at in range(0, len(panels), width)]


def grid_of_sizes(table: Table, found: Results, rows: Sequence[Row]) -> list[list[Panel]]:
    """The sizes side by side, other differences one below the other."""
    lines = sorted(rows, key=lambda row: (row.protocol.key, row.streams, row.concurrency))
    return grid(table, found, len({row.file for row in rows}), lines)


# ---- bars ----


def bars(found: Results, table: Table, panels: list[list[Panel]], columns: Sequence[Column], title: str, has_parts: bool = False) -> plt.Figure:
    columns = [c for c in columns if any(found.cell(table.key, row.key, c.key) for line in panels for _, row in line)]
    height, width = len(panels), max(map(len, panels), default=1)
    figure, axes = plt.subplots(
        height, width, squeeze=False, sharey=True, layout="constrained",
        figsize=(max(8.6, 3.9 * width + 1.2), height * (0.34 * len(columns) + 0.75) + 0.9),
    )  # fmt: skip
    for y, line in enumerate(axes):
        for x, axis in enumerate(line):
            if y < height and x < len(panels[y]):
                one_panel(axis, found, table, panels[y][x], columns)
                if has_parts:
                    mark_parts(axis, found, table, panels[y][x][1], columns)
            else:
                axis.set_visible(False)
    unit = f", {table.unit}" if table.unit else ""
    below = "number: the median; Sluice ×: its figure over this one; whisker: smallest and largest round"
    heading(figure, f"{title}{unit}", below + ("; dark: the server itself, without scripts" if has_parts else ""))
    return figure


def heading(figure: plt.Figure, title: str, below: str) -> None:
    figure.get_layout_engine().set(w_pad=0.14, h_pad=0.1)
    figure.suptitle(title, x=0.012, ha="left", fontsize=14, fontweight="bold", color=INK)
    figure.supxlabel(below, x=0.012, ha="left", fontsize=8.5, color=SOFT)


def one_panel(axis: plt.Axes, found: Results, table: Table, panel: Panel, columns: Sequence[Column]) -> None:
    title, row = panel
    axis.set_title(title, loc="left", fontsize=10.5)
    figures = [spread_of(found.cell(table.key, row.key, column.key)) for column in columns]
    largest = max((figure.most for figure in figures if figure), default=1.0) or 1.0
    for at, (column, figure) in enumerate(zip(columns, figures)):
        if figure:
            one_bar(axis, at, column, figure)
            label, colour = number_text(figure.median) + ratio_label(found, table, row, column), INK
        else:
            failed = failure_of(found.cell(table.key, row.key, column.key))
            label, colour = ("failed", MISSED) if failed else ("–", SOFT)
        place = (figure.most if figure else 0) + largest * 0.02
        axis.text(place, at, label, va="center", fontsize=8.5, color=colour, fontweight=weight(column))
    axis.set_xlim(0, largest * 1.6)
    axis.set_xticks([])
    axis.grid(False)
    axis.set_yticks(range(len(columns)), [column.label for column in columns])
    axis.set_ylim(len(columns) - 0.4, -0.6)
    axis.spines["bottom"].set_visible(False)
    axis.spines["left"].set_visible(True)
    axis.spines["left"].set_color(SOFT)


def one_bar(axis: plt.Axes, at: int, column: Column, figure: Spread) -> None:
    ours, hatch = column.server == "sluice", "///" if column.is_limit else None
    style = {"alpha": 1.0 if ours else 0.62, "hatch": hatch, "edgecolor": PAPER, "linewidth": 0}
    axis.barh(at, figure.median, height=0.72, color=COLOURS[column.server], **style)
    axis.plot([figure.least, figure.most], [at, at], color=INK, linewidth=1, alpha=0.55)


def mark_parts(axis: plt.Axes, found: Results, table: Table, row: Row, columns: Sequence[Column]) -> None:
    """Draws the part of the server itself over the bar, where the rest is the scripts'."""
    for at, column in enumerate(columns):
        part, rest = (spread_of(found.cell(table.key, f"{row.key}-{name}", column.key)) for name in ("server", "scripts"))
        if part and rest:
            axis.barh(at, part.median, height=0.72, color=INK, alpha=0.35, linewidth=0)


def ratio_label(found: Results, table: Table, row: Row, column: Column) -> str:
    if not column.against:
        return ""
    figure = ratio(found.cell(table.key, row.key, column.against), found.cell(table.key, row.key, column.key))
    return f"   Sluice ×{ratio_text(figure.median)}" if figure else ""


# ---- lines ----


def sweep(found: Results, table: Table) -> plt.Figure:
    figure, axis = plt.subplots(figsize=(8.6, 4.6), layout="constrained")
    ends = []
    for column in table.columns:
        points = [(at, spread_of(found.cell(table.key, row.key, column.key))) for at, row in enumerate(table.rows)]
        seen = [(at, spread) for at, spread in points if spread]
        if not seen:
            continue
        ours = column.server == "sluice"
        style = "-" if column.channel == "b" else "--"  # in blocks of its own choice, or record by record
        places, medians = [at for at, _ in seen], [spread.median for _, spread in seen]
        axis.fill_between(
            places,
            [s.least for _, s in seen],
            [s.most for _, s in seen],
            color=COLOURS[column.server],
            alpha=0.12,
            linewidth=0,
        )
        axis.plot(
            places,
            medians,
            style,
            color=COLOURS[column.server],
            linewidth=2.6 if ours else 1.6,
            marker="o",
            markersize=4,
        )
        ends.append((places[-1], medians[-1], column))
    label_ends(axis, ends)
    axis.set_xticks(range(len(table.rows)), [row.ring + " MiB" if row.ring else row.record for row in table.rows])
    axis.set_xlim(-0.15, len(table.rows) - 1 + 1.35)
    axis.set_ylim(bottom=0)
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.set_xlabel("size of the memory buffer" if table.key == "rings" else "size of a record, that is, of one write")
    heading(figure, f"{table.title}, {table.unit}", "line: the median; band: smallest and largest round")
    return figure


def weight(column: Column) -> str:
    return "bold" if column.server == "sluice" else "normal"


def label_ends(axis: plt.Axes, ends: list[tuple[int, float, Column]]) -> None:
    """Labels each line at its end, and moves overlapping labels apart."""
    gap, before = max((value for _, value, _ in ends), default=1.0) * 0.055, float("-inf")
    for place, value, column in sorted(ends, key=lambda end: end[1]):
        height = max(value, before + gap)
        before = height
        axis.annotate(
            column.label, (place, value), xytext=(place + 0.12, height), va="center", fontsize=9,
            color=COLOURS[column.server] if not column.is_limit else SOFT, fontweight=weight(column),
        )  # fmt: skip


def scale_picture(found: Results, table: Table) -> plt.Figure:
    files = list(dict.fromkeys(row.file for row in table.rows))
    size = (4.9 * len(files), 7.2)
    figure, axes = plt.subplots(2, len(files), figsize=size, squeeze=False, layout="constrained", sharex=True)
    for x, name in enumerate(files):
        rows = [row for row in table.rows if row.file == name]
        scale_lines(axes[0][x], found, table, rows, median_of)
        axes[0][x].set_title(f"a file of {name.split('.', maxsplit=1)[0]}: requests/s", loc="left", fontsize=10.5)
        axes[0][x].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        scale_lines(axes[1][x], found, table, rows, deviation_of)
        axes[1][x].set_title("spread of the connections' shares (0: all alike)", loc="left", fontsize=10.5)
        axes[1][x].set_xlabel("connections")
    axes[0][0].legend(frameon=False, fontsize=8.5, ncols=2)
    heading(figure, "Scale", "medians; shares: standard deviation over mean of the connections")
    return figure


def median_of(cell: Cell) -> Optional[float]:
    found = spread_of(cell)
    return found.median if found else None


def deviation_of(cell: Cell) -> Optional[float]:
    found = fairness(cell)
    return found.deviation.median if found else None


def scale_lines(
    axis: plt.Axes, found: Results, table: Table, rows: Sequence[Row], figure_of: Callable[[Cell], Optional[float]]
) -> None:
    """A line for each server and number of workers; more workers have a more solid line."""
    for column in table.columns:
        for workers, style in ((1, ":"), (2, "--"), (4, "-")):
            cells = [(r.concurrency, found.cell(table.key, r.key, column.key)) for r in rows if r.workers == workers]
            points = [(place, figure_of(cell)) for place, cell in cells]
            seen = [(place, value) for place, value in points if value is not None]
            if seen:
                axis.plot(
                    *zip(*seen), style, color=COLOURS[column.server], marker="o", markersize=4,
                    linewidth=2.2 if column.server == "sluice" else 1.6,
                    label=f"{column.label}, {workers} worker{'s' if workers > 1 else ''}",
                )  # fmt: skip
    axis.set_xscale("log")
    axis.set_xticks([10, 100, 1000], ["10", "100", "1,000"])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_ylim(bottom=0)


# ---- the aims ----


#: The marker of each pass.
MARKERS = "osD^"


def aims_picture(passes_judged: dict[str, list[aims.Verdict]]) -> plt.Figure:
    """Each row of each target as a point: its ratio over the target, so that the target is met from 1 on. One list of verdicts for each
    pass, with its name; a single pass has none."""
    seen = list({id(verdict.aim): verdict.aim for found in passes_judged.values() for verdict in found}.values())
    figure, axis = plt.subplots(figsize=(8.6, 0.31 * len(seen) + 1.7), layout="constrained")
    shift = 0.3 / len(passes_judged)
    for number, (name, verdicts) in enumerate(passes_judged.items()):
        marker = MARKERS[number % len(MARKERS)]
        for verdict in verdicts:
            place = seen.index(verdict.aim) + (number - (len(passes_judged) - 1) / 2) * shift
            aim_points(axis, place, verdict, marker, is_first=number == 0)
        if name:
            axis.plot([], [], marker, color=SOFT, markersize=6, label=name)
    axis.axvline(1, color=INK, linewidth=1, zorder=2)
    axis.set_yticks(range(len(seen)), [f"{aim.text}   {aim.wanted}" for aim in seen], fontsize=9)
    axis.set_ylim(len(seen) - 0.4, -0.6)
    axis.set_xscale("log", base=2)
    axis.set_xlim(REACH_LEAST / 1.15, REACH_MOST * 1.15)
    axis.set_xticks([0.25, 0.5, 1, 2, 4], ["×¼", "×½", "×1", "×2", "×4"])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.grid(axis="y", visible=False)
    if any(passes_judged):
        figure.legend(loc="upper right", frameon=False, fontsize=8.5, ncols=len(passes_judged))
    below = "a point for each row of the tables; right of the line: met; an arrow: beyond the edge"
    heading(figure, "Targets: measured ratio over target ratio", below)
    return figure


def aim_points(axis: plt.Axes, at: float, verdict: aims.Verdict, marker: str, is_first: bool) -> None:
    reach = [verdict.aim.reach(figure.median) for figure in verdict.ratios.values()]
    axis.plot([within(min(reach)), within(max(reach))], [at, at], color=GRID, linewidth=5, zorder=1)
    for value in reach:
        place = within(value)
        shape = marker if place == value else "<" if value < place else ">"
        axis.plot(place, at, shape, markersize=6, color=MET if value >= 1 else MISSED, alpha=0.85, markeredgewidth=0)
    for place in (REACH_LEAST, REACH_MOST) if is_first else ():
        beyond = sorted(value for value in reach if value != within(value) == place)
        text = ", ".join(f"×{value:.2g}" for value in beyond)
        axis.annotate(text, (place, at), xytext=(8, 0), textcoords="offset points", va="center", fontsize=8)


def within(value: float) -> float:
    return min(max(value, REACH_LEAST), REACH_MOST)


if __name__ == "__main__":
    raise SystemExit(main())
