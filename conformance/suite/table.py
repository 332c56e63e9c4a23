"""The table, for a terminal and as a page of the documentation."""

from .registry import LIBRARY_ONLY

INTRODUCTION = """# Conformance

One script per language, started as CGI, CGIplus and RTE from the same source, and what of it has been checked with the real server. `make test` runs
every cell; `conformance/run` prints the table, and `conformance/run --markdown` makes this page.

- **With the library**: the scripts `probe.*` in [conformance/scripts](../../conformance/scripts) use the functions of the library for their language:
  one loop around `accept`, which under CGI and RTE runs once.
- **Without a library**: the scripts `plain.*` are ordinary CGI scripts, as they are written for every server. Rows about
  functions of the library are in the first table only.
- **Applications**: a WSGI application, a PSGI application, and a PHP script in worker mode, in [conformance/apps](../../conformance/apps): an engine
  loads them once.
"""


KINDS = {"library": "With the library", "plain": "Without a library", "application": "Applications"}


class Table:
    """Cells by (behaviour, column): "ok", "FAIL", "–" (not run), or a reason as a footnote."""

    def __init__(self, behaviours, columns):
        self.behaviours, self.columns = behaviours, columns
        self.cells = {}
        self.notes = []

    def set(self, behaviour, column, text):
        self.cells[behaviour.title, column.name] = text

    def set_gap(self, behaviour, column, reason):
        if reason not in self.notes:
            self.notes.append(reason)
        self.set(behaviour, column, reason)

    def _text(self, behaviour, column):
        value = self.cells.get((behaviour.title, column.name), "–")
        return f"[{self.notes.index(value) + 1}]" if value in self.notes else value

    def number_notes(self):
        """Numbers the footnotes in the order of their first cells."""
        used = [self.cells.get((b.title, c.name)) for k in KINDS for b in self.behaviours for c in self.of_kind(k)]
        self.notes = [note for note in dict.fromkeys(used) if note in self.notes and note != LIBRARY_ONLY[1]]

    def rows(self, kind):
        """Behaviours with their cells. Without a library there are no rows about its functions."""
        columns = self.of_kind(kind)
        rows = [(behaviour, [self._text(behaviour, column) for column in columns]) for behaviour in self.behaviours]
        return [(behaviour, cells) for behaviour, cells in rows if cells and LIBRARY_ONLY[1] not in cells and set(cells) != {"–"}]

    def of_kind(self, kind):
        return [column for column in self.columns if column.kind == kind]

    def kinds(self):
        return [(kind, title) for kind, title in KINDS.items() if self.rows(kind)]

    def text(self):
        """For a terminal."""
        self.number_notes()
        width = max(len(behaviour.title) for behaviour in self.behaviours)
        lines = []
        for kind, title in self.kinds():
            columns = self.of_kind(kind)
            widths = [max(5, *map(len, column.title.split(" ", 1))) for column in columns]
            lines.append("")
            for part, first in ((0, title), (1, "")):
                words = [column.title.split(" ", 1)[part] for column in columns]
                lines.append(first.ljust(width) + "  " + "  ".join(word.ljust(size) for word, size in zip(words, widths)))
            for behaviour, cells in self.rows(kind):
                lines.append(behaviour.title.ljust(width) + "  " + "  ".join(cell.ljust(size) for cell, size in zip(cells, widths)))
        lines += ["", *(f"[{number}] {note}" for number, note in enumerate(self.notes, 1))]
        return "\n".join(line.rstrip() for line in lines) + "\n"

    def markdown(self):
        """The page of the documentation."""
        self.number_notes()
        lines = [INTRODUCTION]
        for kind, title in self.kinds():
            columns = self.of_kind(kind)
            lines += [f"## {title}", "", "| | " + " | ".join(column.title for column in columns) + " |"]
            lines.append("|---" * (len(columns) + 1) + "|")
            lines += [f"| {behaviour.title} | " + " | ".join(cells) + " |" for behaviour, cells in self.rows(kind)]
            lines.append("")
        if self.notes:
            lines += ["Cells that cannot exist:", "", *(f"- [{number}] {note}" for number, note in enumerate(self.notes, 1)), ""]
        lines += ["## What each row checks", "", "| row | checked |", "|---|---|"]
        lines += [f"| {behaviour.title} | {behaviour.description} |" for behaviour in self.behaviours]
        return "\n".join(lines) + "\n"
