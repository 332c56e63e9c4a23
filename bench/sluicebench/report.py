"""summary.md: the results for a reader.

Here: Markdown that is readable as text and as a page. Not here: the figures (figures.py, aims.py, scale.py), charts
(charts.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Callable, Optional

from . import aims
from .engines import COSTS
from .engines import GROUP as ENGINES
from .figures import Spread, detail, ratio, spread_of
from .plan import TABLES
from .results import Results, failure_of
from .scale import fairness
from .tables import Column, Row, Table

NOTHING = "–"
FAILED = "failed"

HOW_TO_READ = """\
The load tool and the servers share one machine and its loopback interface, so compare ratios, not absolute figures. A
round measures all columns of a row one after the other, in a shuffled order; **ratios are computed within a
round**. Tables show the median over the rounds, with the smallest and the largest in brackets. Larger is better, except in
the tables of processor time and of costs. "/ nginx" is Sluice's figure divided by nginx's. A cell with any failed request shows
*failed* instead of a number. All servers write access logs."""

SHARES = "Shares of the connections: standard deviation over mean (0: all equal); smallest over largest (1: all equal)."


def write(results: Results, directory: Path) -> Path:
    path = directory / "summary.md"
    path.write_text(summary(results, {picture.stem for picture in directory.glob("*.svg")}), encoding="utf-8")
    return path


def summary(results: Results, pictures: set[str]) -> str:
    title = "# Sluice beside its peers" + (", the quick run" if results.quick else "")
    alone = {"measured": results}
    parts = [title, markdown(["machine and run", ""], intro_rows(results)), HOW_TO_READ]
    parts += ["## Targets", *targets(alone), picture("aims", "targets", pictures)]
    parts += ["## Other targets", *other_targets(alone), picture("aims-other", "other targets", pictures)]
    for table in TABLES:
        if results.has_table(table.key):
            parts += table_part(table, results, pictures)
    parts += notes(results)
    return "\n\n".join(part for part in parts if part) + "\n"


# ---- the machine ----


def intro_rows(results: Results) -> list[list[str]]:
    machine = results.machine
    rows = [
        ("date", machine.get("date", "")),
        ("Sluice", machine.get("commit", "")),
        ("processor", f"{machine.get('processor', '')}{', virtual' if machine.get('virtual') else ''}"),
        ("cores", f"{machine.get('cores', '')}{machine.get('confined', '')}"),
        ("memory", machine.get("memory", "")),
        ("system", f"{machine.get('system', '')}, {machine.get('kernel', '')}"),
        ("load average at the start", f"{machine.get('load', 0):.2f}"),
        *((f"processor rating, {when}", rating_text(machine.get(f"rating {when}"))) for when in ("before", "after")),
        ("servers", ", ".join(dict.fromkeys(machine.get("servers", {}).values()))),
        ("tools", ", ".join(f"{name} {version}" for name, version in machine.get("tools", {}).items())),
        ("rounds", rounds_text(results)),
        ("took", f"{machine.get('minutes', 0):.1f} minutes"),
    ]
    return [[name, text] for name, text in rows if text]


def rating_text(rating: Optional[dict[str, float]]) -> str:
    """Formats the processor rating: SHA-256 of 64 KiB, repeated on one core."""
    if not rating:
        return ""
    average, least, most = (f"{rating[name]:,.0f}" for name in ("average", "least", "most"))
    return f"{average} MB/s on average, {least} to {most} MB/s (SHA-256, one core)"


def rounds_text(results: Results) -> str:
    seen: dict[str, int] = {}
    for key, cell in results.cells.items():
        table = key.split("/", maxsplit=1)[0]
        seen[table] = max(seen.get(table, 0), len(cell))
    return ", ".join(f"{table} {count}" for table, count in seen.items())


# ---- the aims ----


def targets(passes: dict[str, Results]) -> list[str]:
    """A line for each row of each target. `passes`: heading → results, one for each number of processors."""
    judged = [aims.judge(results, aims.SPEED_AIMS) for results in passes.values()]
    lines, met, measured, absent = [], [0] * len(judged), [0] * len(judged), 0
    for aim in aims.SPEED_AIMS:
        found = [next((verdict for verdict in verdicts if verdict.aim is aim), None) for verdicts in judged]
        for row in aim.rows:
            if not any(verdict and (row in verdict.ratios or verdict.without[row]) for verdict in found):
                absent += 1
                continue
            line = [aim.text, row_label(aim.table, row), aim.wanted]
            for at, verdict in enumerate(found):
                word = verdict.word_of(row) if verdict else aims.NOT_MEASURED
                met[at] += word == aims.MET
                measured[at] += word in (aims.MET, aims.MISSED)
                line += [figure_of(verdict, row), bold_if_missed(word)]
            lines.append(line)
    if not lines:
        return ["No table with these targets was part of this run."]
    head = ["Sluice / peer", "row", "target", *(text for name in passes for text in (name, ""))]
    text = counted(passes, met, measured, "rows of the targets")
    return [text + (f" {absent} were not part of this run." if absent else ""), markdown(head, lines)]


def counted(passes: dict[str, Results], met: list[int], measured: list[int], what: str) -> str:
    """How many are met, in each pass."""
    several = len(passes) > 1
    each = (f"{f'{name}: ' if several else ''}{met[at]} of the {measured[at]} measured {what} are met." for at, name in enumerate(passes))
    return " ".join(each)


def figure_of(verdict: Optional[aims.Verdict], row: str) -> str:
    """The figure of a row, with the peer if it is the best of several."""
    if not verdict or row not in verdict.ratios:
        return NOTHING
    text = spread_text(verdict.ratios[row], ratio_text)
    best = verdict.best.get(row)
    return f"{text} / {column_label(verdict.aim.table, best)}" if best else text


def bold_if_missed(word: str) -> str:
    return f"**{word}**" if word == aims.MISSED else word


def other_targets(passes: dict[str, Results]) -> list[str]:
    """A line for each target, with its worst row."""
    judged = [aims.judge(results) for results in passes.values()]
    aims_seen = [aim for aim in aims.AIMS if any(verdict.aim is aim for verdicts in judged for verdict in verdicts)]
    if not aims_seen:
        return ["No table with targets was part of this run."]
    lines = []
    for aim in aims_seen:
        line = [aim.text, aim.wanted]
        for verdicts in judged:
            line += worst_texts(next((verdict for verdict in verdicts if verdict.aim is aim), None))
        lines.append(line)
    head = ["Sluice / peer", "target"]
    for name in passes:
        head += ["ratio of the worst row" if len(passes) == 1 else name, "worst row", "rows that meet it", ""]
    met = [sum(verdict.word == aims.MET for verdict in verdicts) for verdicts in judged]
    measured = [sum(bool(verdict.ratios) for verdict in verdicts) for verdicts in judged]
    return [counted(passes, met, measured, "other targets"), markdown(head, lines)]


def worst_texts(verdict: Optional[aims.Verdict]) -> list[str]:
    if not verdict:
        return [NOTHING, "", "", aims.NOT_MEASURED]
    worst = verdict.worst
    unmeasured = sum(not reason for reason in verdict.without.values())
    count = f"{len(verdict.met)} of {len(verdict.aim.rows)}" + (f", {unmeasured} not measured" if unmeasured else "")
    figure = spread_text(verdict.ratios[worst], ratio_text) if worst else NOTHING
    return [figure, worst_row(verdict), count, bold_if_missed(verdict.word)]


def worst_row(verdict: aims.Verdict) -> str:
    """The worst row, if there are several, and its best peer."""
    worst = verdict.worst
    if not worst:
        return ""
    row = row_label(verdict.aim.table, worst) if len(verdict.aim.rows) > 1 else ""
    best = verdict.best.get(worst)
    if best:
        label = column_label(verdict.aim.table, best)
        row = f"{row} / {label}" if row else f"/ {label}"
    return row


def column_label(table_key: str, column_key: str) -> str:
    return next(table for table in TABLES if table.key == table_key).column(column_key).label


def row_label(table_key: str, row_key: str) -> str:
    table = next(table for table in TABLES if table.key == table_key)
    return next(row.label for row in table.rows if row.key == row_key)


# ---- the tables ----


def table_part(table: Table, results: Results, pictures: set[str]) -> list[str]:
    rows = [row for row in table.rows if any(results.cell(table.key, row.key, c.key) for c in table.columns)]
    names = [stem for stem in sorted(pictures) if table_of(stem) == table.key]
    parts = [f"## {table.title}", table.what, *(picture(stem, table.title, pictures) for stem in names)]
    for ours in table.sluice_columns():
        parts.append(ratio_table(table, ours, rows, results))
    if table.key == "scale":
        parts += [SHARES, fairness_table(table, rows, results)]
    if table.group == ENGINES:
        parts += [COSTS, cpu_table(table, rows, results)]
    if table.key == "cost":
        parts += calls_part(results)
    parts.append("<details><summary>All figures</summary>\n\n" + value_table(table, rows, results) + "\n\n</details>")
    return parts


def table_of(stem: str) -> str:
    """The key of the table that a chart shows: the longest key that is a prefix of its name."""
    keys = [table.key for table in TABLES if stem == table.key or stem.startswith(f"{table.key}-")]
    return max(keys, key=len, default="")


def ratio_table(table: Table, ours: Column, rows: Sequence[Row], results: Results) -> str:
    """A table of Sluice's figures and their ratios to each peer."""
    rivals = [c for c in table.compared(ours.key) if any(results.cell(table.key, row.key, c.key) for row in rows)]
    head = ["", f"{ours.label}{', ' + table.unit if table.unit else ''}", *(f"/ {rival.label}" for rival in rivals)]
    lines = []
    for row in rows:
        if not results.cell(table.key, row.key, ours.key):
            continue
        unit = f" {row.unit}" if row.unit else ""
        line = [row.label, cell_text(table, row, ours, results, unit)]
        lines.append([*line, *(ratio_cell(table, row, ours, rival, results) for rival in rivals)])
    return markdown(head, lines) if lines else ""


def ratio_cell(table: Table, row: Row, ours: Column, rival: Column, results: Results) -> str:
    mine, theirs = results.cell(table.key, row.key, ours.key), results.cell(table.key, row.key, rival.key)
    if failure_of(mine) or failure_of(theirs):
        return FAILED
    found = ratio(mine, theirs)
    return spread_text(found, ratio_text) if found else NOTHING


def value_table(table: Table, rows: Sequence[Row], results: Results) -> str:
    columns = [c for c in table.columns if any(results.cell(table.key, row.key, c.key) for row in rows)]
    lines = []
    for row in rows:
        label = f"{row.label}, {row.unit}" if row.unit else row.label
        lines.append([label, *(cell_text(table, row, column, results) for column in columns)])
    return markdown([table.unit, *(column.label for column in columns)], lines)


def cell_text(table: Table, row: Row, column: Column, results: Results, unit: str = "") -> str:
    cell = results.cell(table.key, row.key, column.key)
    if failure_of(cell):
        return FAILED
    found = spread_of(cell)
    return spread_text(found, number_text) + unit if found else NOTHING


def fairness_table(table: Table, rows: Sequence[Row], results: Results) -> str:
    head = [""]
    for column in table.columns:
        head += [f"{column.label}: deviation", f"{column.label}: smallest / largest"]
    lines = []
    for row in rows:
        line = [row.label]
        for column in table.columns:
            found = fairness(results.cell(table.key, row.key, column.key))
            line += (
                [spread_text(found.deviation, ratio_text), spread_text(found.least_to_most, ratio_text)]
                if found
                else [NOTHING, NOTHING]
            )
        lines.append(line)
    return markdown(head, lines)


def cpu_table(table: Table, rows: Sequence[Row], results: Results) -> str:
    """The processor time of a request, or of a megabyte, in each column."""
    columns = [c for c in table.columns if any(results.cell(table.key, row.key, c.key) for row in rows)]
    lines = []
    for row in rows:
        figures = [detail(results.cell(table.key, row.key, column.key), "cpu") for column in columns]
        lines.append([row.label, *(number_text(figure.median) if figure else NOTHING for figure in figures)])
    per = "MiB" if table.measure == "bulk" else "request"
    return markdown([f"µs per {per}", *(column.label for column in columns)], lines)


def calls_part(results: Results) -> list[str]:
    """The system calls of Sluice, by name."""
    lines = []
    kinds = (("file", "A file of 16k"), ("large", "A file of 64k"), ("cgi", "CGI"), ("kept", "CGIplus"))
    for kind, what in kinds:
        cell = results.cell("cost", f"calls-{kind}", "sluice")
        if cell and not failure_of(cell):
            calls = sorted(cell[max(cell)].details.items(), key=lambda item: -item[1])
            lines.append(f"- {what}: " + ", ".join(f"{name} {count:.3g}" for name, count in calls))
    if not lines:
        return []
    return [
        "System calls of Sluice and its scripts per request (at least one in ten requests):",
        "\n".join(lines),
    ]


# ---- notes ----


def notes(results: Results) -> list[str]:
    parts = []
    if results.remarks:
        parts += ["## Remarks", "\n".join(f"- {remark}" for remark in results.remarks)]
    if results.skipped:
        lines = (f"- {name}: {first_line(reason)}" for name, reason in results.skipped.items())
        parts += ["## Omitted", "\n".join(lines)]
    failures = list(results.failures())
    if failures:
        parts += ["## Failed", "\n".join(f"- {cell}: {first_line(reason)}" for cell, reason in failures)]
    version = results.machine.get("version")
    # Runs of before the archive have none.
    raw = f"is in `raw-{version}.tar.xz`" if version else "(`raw/`) is not committed"
    return [
        *parts,
        f"All samples are in `results.json`; the output of the tools {raw}. `bench/README.md` describes the method.",
    ]


# ---- small things ----


def picture(stem: str, text: str, pictures: set[str]) -> str:
    return f"![{text}]({stem}.svg)" if stem in pictures else ""


def first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else ""


def number_text(value: float) -> str:
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def ratio_text(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def spread_text(found: Spread, text: Callable[[float], str]) -> str:
    if found.count == 1:
        return text(found.median)
    return f"{text(found.median)} ({text(found.least)}–{text(found.most)})"


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Formats a table with aligned columns; the first to the left, figures to the right."""
    widths = [max(3, *(len(line[at]) for line in [head, *lines])) for at in range(len(head))]
    text_only = len(head) == 2 and not head[1]

    def side(at: int) -> str:
        return "<" if at == 0 or text_only else ">"

    def row(cells: Sequence[str]) -> str:
        return "| " + " | ".join(f"{cell:{side(at)}{widths[at]}}" for at, cell in enumerate(cells)) + " |"

    rule = (
        "|" + "|".join("-" * (width + 1) + (":" if side(at) == ">" else "-") for at, width in enumerate(widths)) + "|"
    )
    return "\n".join([row(head), rule, *(row(line) for line in lines)])
