"""The run: warm-up, then rounds in which every row is measured once on every server, then the costs of each server.

Here: the order, single measurements, and their failures. Not here: the tables (plan.py), the tools (load.py),
starting and stopping the servers (stage.py).

A round goes through all rows of all tables. Within a row the columns are measured directly after each other, because
the ratios are computed between them, in an order that is shuffled for each round."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Optional

from . import cost, load, processor
from .plan import sample_seconds, warm_up_cost, window
from .progress import Progress
from .results import NotMeasured, Results, Sample, failed
from .servers import Server, ServerFailed, applications
from .stage import Stage
from .tables import MIB, Column, Row, Table

#: The order of the columns is random, but the same in every run.
SEED = 20020819
#: Longest time of one invocation in addition to its window, seconds.
EXTRA_SECONDS = 30.0
#: A route's warm-up: enough to start its processes and load its files into memory.
WARM_UP = Row("warm-up", "", concurrency=10)
WARM_UP_WINDOW = 0.1
#: Requests of the first measurement of an application, at least; one for each client.
FIRST_REQUESTS = 20
#: A server is idle if it used less than this share of a processor between two looks; the longest wait, seconds.
IDLE_SHARE, IDLE_LOOK_SECONDS, IDLE_SECONDS_MOST = 0.1, 0.02, 5.0


def order(tables: list[Table]) -> Iterator[tuple[int, Table, Row, list[Column]]]:
    """Yields table, row and columns of each round, in the order of measurement."""
    for number in range(1, max((table.rounds for table in tables), default=0) + 1):
        for table in tables:
            if number <= table.rounds:
                for row in table.measured_rows():
                    columns = table.columns_of(row)
                    random.Random(f"{SEED}/{table.key}/{row.key}/{number}").shuffle(columns)
                    yield number, table, row, columns


class Run:
    def __init__(self, tables: list[Table], stage: Stage, results: Results, directory: Path) -> None:
        self.loaded = [table for table in tables if table.measure != "cost"]
        self.costed = [table for table in tables if table.measure == "cost"]
        self.stage = stage
        self.results = results
        self.directory = directory
        #: Output of the tools: useful on this machine only, so .gitignore names it.
        self.raw = directory / "raw"
        self.raw.mkdir(parents=True, exist_ok=True)
        #: For a row without keep-alive: requests per second of the previous run.
        self.rates: dict[tuple[str, str, str], Optional[float]] = {}
        #: For a bulk transfer: MiB, from its first run.
        self.megabytes: dict[tuple[str, str, str], int] = {}
        self.progress = Progress(0.0)

    def run(self) -> None:
        self.progress = Progress(self.planned_seconds())
        self.progress.say("starting the servers")
        self.stage.set_up(self.loaded)
        self.progress = Progress(self.planned_seconds())
        for name, reason in self.stage.skipped.items():
            self.progress.say(f"omitted: {name}: {reason.splitlines()[0]}")
        self.results.skipped.update(self.stage.skipped)
        if self.stage.no_meter:
            self.results.skipped["control groups"] = f"{self.stage.no_meter}; the processor time of CGI under Apache and nginx is not measured"
        self.warm_up()
        self.rounds()
        try:
            self.stage.stop_servers()  # before the costs: a second server of a program shares its memory
        except ServerFailed as complaint:
            self.results.remarks.append(str(complaint))
        self.costs()
        self.results.skipped.update(self.stage.skipped)
        self.progress.end()

    # ---- the plan, without what cannot run ----

    def columns(self, row: Row, columns: list[Column]) -> list[Column]:
        return [column for column in columns if not self.stage.lacks(column, row)]

    def planned_seconds(self) -> float:
        total = 0.0
        for table in self.loaded:
            for row in table.rows:
                for column in self.columns(row, table.columns_of(row)):
                    total += warm_up_cost(table, row, column) + table.rounds * sample_seconds(table, row, column)
        return total + sum(
            table.rounds * sample_seconds(table, row) * len(table.columns)
            for table in self.costed
            for row in table.rows
        )

    # ---- load ----

    def warm_up(self) -> None:
        """Warms up each route; the result determines the length of the first measurement."""
        for table in self.loaded:
            for row in table.measured_rows():
                for column in self.columns(row, table.columns_of(row)):
                    self.progress.step(
                        f"warm-up: {table.title}: {row.label}: {column.label}", warm_up_cost(table, row, column)
                    )
                    key = (table.key, row.key, column.key)
                    if table.measure == "bulk":
                        sample = self.attempt(table, row, column, 0)
                        self.megabytes[key] = load.next_megabytes(table.megabytes, sample, table.seconds)
                    elif table.measure == "applications":
                        self.rates[key] = self.attempt(table, row, column, 0).value
                    elif table.measure == "processor":
                        self.attempt(table, row, column, 0)  # keeps its rate
                    elif not row.keep_alive:
                        self.rates[key] = self.attempt(table, row, column, 0).value
                    elif not column.is_limit:
                        url = self.stage.address(column, path_of(column, row, 0), row)
                        warm_up = replace(WARM_UP, protocol=row.protocol)
                        load.invoke(load.h2load_command(url, warm_up, WARM_UP_WINDOW), EXTRA_SECONDS)
        self.stage.shorten_logs()

    def rounds(self) -> None:
        number_before = 1
        for number, table, row, columns in order(self.loaded):
            if number != number_before:
                self.save()
                number_before = number
            for column in self.columns(row, columns):
                what = f"round {number} of {table.rounds}: {table.title}: {row.label}: {column.label}"
                self.progress.step(what, sample_seconds(table, row, column))
                sample = self.attempt(table, row, column, number)
                self.results.add(table.key, row.key, column.key, number, sample)
                for key, part in processor.parts_of(table, row, sample):
                    self.results.add(table.key, key, column.key, number, part)
            self.stage.shorten_logs()
        self.save()

    def save(self) -> None:
        """Saves the results so far, so that a later failure does not lose them."""
        self.results.save(self.directory / "results.json")

    def attempt(self, table: Table, row: Row, column: Column, number: int) -> Sample:
        """Records the failure of a measurement as its result; the run continues."""
        try:
            return self.measure(table, row, column, number)
        except Exception as error:  # noqa: BLE001
            return failed(f"{error.__class__.__name__}: {error}")

    def measure(self, table: Table, row: Row, column: Column, number: int) -> Sample:
        key = (table.key, row.key, column.key)
        seconds = table.seconds_of(row)
        timeout = seconds + EXTRA_SECONDS
        if column.way == "spawn":
            program = self.stage.site.programs / "cgiplustest"
            limit = self.stage.site.build / "spawn_limit"
            command = [str(limit), str(program), str(row.concurrency), str(seconds)]
            return load.spawn_sample(self.invoke(key, number, command, timeout))
        if table.measure == "bulk":
            megabytes = self.megabytes.get(key, table.megabytes)
            url = self.stage.address(column, path_of(column, row, megabytes), row)
            command = load.curl_command(url, row.protocol, self.stage.site.certificate)
            server = self.stage.server(column.server, row.workers) if table.group else None
            before = server.processor_seconds() if server else 0.0
            sample = load.curl_sample(self.invoke(key, number, command, timeout), megabytes * MIB, row.protocol)
            if server and sample.value is not None:
                sample.details["cpu"] = (idle_again(server) - before) * 1e6 / megabytes
            return sample
        if table.measure == "applications":
            return self.application(table, row, column, number)
        if table.measure == "processor":
            return self.processor_time(table, row, column, number)
        url = self.stage.address(column, path_of(column, row, 0), row)
        count = 0 if row.keep_alive else load.next_count(self.rates.get(key), row, seconds)
        run = self.invoke(key, number, load.h2load_command(url, row, seconds, count), timeout)
        sample = load.h2load_sample(run, row, seconds, in_bytes=table.measure == "bytes")
        if not row.keep_alive and sample.value is not None:
            self.rates[key] = sample.value
        return sample

    def application(self, table: Table, row: Row, column: Column, number: int) -> Sample:
        """Requests per second, and in the details the processor time of a request. The first time a few requests, which start the
        processes and show the rate."""
        key = (table.key, row.key, column.key)
        rate = self.rates.get(key)
        seconds, warm_up = window(table, row, rate)
        row = replace(row, keep_alive=row.keep_alive and column.keep_alive, warm_up=warm_up)
        count = 0 if number and row.keep_alive else load.next_count(rate, row, seconds)
        if not number:
            count = max(row.concurrency, FIRST_REQUESTS)
            row = replace(row, keep_alive=False) if not column.keep_alive else row
        url = self.stage.address(column, path_of(column, row, 0), row)
        server = self.stage.server(column.server, row.workers)
        if number and not column.rate:
            # A request for each client, to the end: the run before has left clients in the middle of their requests, and a process
            # that was replaced for that has to load its application again.
            load.invoke(self.h2load(url, row, seconds, row.concurrency), EXTRA_SECONDS)
        before = server.processor_seconds()
        run = self.invoke(key, number, self.h2load(url, row, seconds, count), seconds + warm_up + EXTRA_SECONDS)
        spent = idle_again(server) - before
        # A fixed number of requests has no warm-up, and its time is the one that the tool needed.
        sample = load.h2load_sample(run, replace(row, keep_alive=False) if count else row, seconds)
        if sample.value is None:
            return sample
        self.rates[key] = sample.value
        answered = count or sample.value * (seconds + warm_up)
        cpu = {"cpu": spent * 1e6 / answered} if spent > 0 else {}
        return Sample(sample.value, details={**sample.details, **cpu})

    def processor_time(self, table: Table, row: Row, column: Column, number: int) -> Sample:
        """Microseconds of processor time per request, or per MiB. Of a fixed number, so that all of them are within the two readings; the
        first run is a short one, which shows the rate."""
        key = (table.key, row.key, column.key)
        way, server = self.stage.way(column, row), self.stage.server(column.server, row.workers)
        rate = self.rates.get(key)
        if row.record:
            units = load.next_megabytes(table.megabytes, Sample(rate), table.seconds)
            url = self.stage.address(column, path_of(column, row, units), row)
            command = load.curl_command(url, row.protocol, self.stage.site.certificate)
        else:
            units = load.next_count(rate, row, table.seconds)
            command = self.h2load(self.stage.address(column, path_of(column, row, 0), row), row, table.seconds, units)
        with_own = any(part.of == row.key for part in table.rows)
        before = processor.read(server, way, with_own)
        run = self.invoke(key, number, command, table.seconds + EXTRA_SECONDS)
        idle_again(server)
        after = processor.read(server, way, with_own)
        # A fixed number of requests has no warm-up, as without keep-alive.
        seen = (
            load.curl_sample(run, units * MIB, row.protocol)
            if row.record
            else load.h2load_sample(run, replace(row, keep_alive=False), table.seconds)
        )
        if seen.value is None:
            return seen
        self.rates[key] = seen.value
        return processor.difference(before, after, units, way, seen.value)

    def h2load(self, url: str, row: Row, seconds: float, count: int) -> list[str]:
        body = (self.stage.site.bodies / row.body.file, row.body.content_type) if row.body else None
        return load.h2load_command(url, row, seconds, count, body)

    def invoke(self, key: tuple[str, str, str], number: int, command: list[str], timeout: float) -> load.Invocation:
        run = load.invoke(command, timeout)
        self.keep("-".join(key), number, run)
        return run

    def keep(self, name: str, number: int, run: load.Invocation) -> None:
        """Saves the tool's output, all rounds of a cell in one file, with paths relative to the checkout."""
        text = str(run).replace(f"{self.stage.site.build.parents[1]}/", "").replace(f"{self.stage.site.scratch}/", "")
        with open(self.raw / f"{name}.txt", "a", encoding="utf-8") as file:
            file.write(f"== {'warm-up' if number == 0 else f'round {number}'}\n{text}\n")

    # ---- cost ----

    def costs(self) -> None:
        for table in self.costed:
            rows = {row.key: row for row in table.rows}
            for number in range(1, table.rounds + 1):
                columns = list(table.columns)
                random.Random(f"{SEED}/{table.key}/{number}").shuffle(columns)
                for column in columns:
                    if not self.stage.skipped.get(column.server):
                        try:
                            self.cost_of(table, rows, column, number)
                        except Exception as error:  # noqa: BLE001
                            self.results.remarks.append(f"Cost of {column.label}: {error.__class__.__name__}: {error}")
            self.save()

    def cost_of(self, table: Table, rows: dict[str, Row], column: Column, number: int) -> None:
        """Measures all rows of one freshly started server."""
        seconds = sum(sample_seconds(table, row) for row in rows.values())
        self.progress.step(f"round {number} of {table.rounds}: {table.title}: {column.label}", seconds)
        try:
            server = self.stage.fresh(column.server)
        except (NotMeasured, ServerFailed, OSError) as reason:
            self.stage.skipped[column.server] = str(reason)
            return

        def keep(row: str, run: load.Invocation) -> None:
            self.keep(f"{table.key}-{row}-{column.key}", number, run)

        try:
            for key, sample in cost.measure(server, self.stage.ways(server), keep):
                self.results.add(table.key, key, column.key, number, sample)
        finally:
            server.stop()


def idle_again(server: Server) -> float:
    """Waits until the processes of the server are idle, so that the rest of the work (for clients that have left) does not disturb
    the next measurement. Returns their processor time."""
    deadline = time.monotonic() + IDLE_SECONDS_MOST
    spent = server.processor_seconds()
    while time.monotonic() < deadline:
        time.sleep(IDLE_LOOK_SECONDS)
        before, spent = spent, server.processor_seconds()
        if spent - before < IDLE_SHARE * IDLE_LOOK_SECONDS:
            break
    return spent


def path_of(column: Column, row: Row, megabytes: int) -> str:
    """The path after the route's prefix."""
    if row.kind == "bulk":
        return f"{applications.path_of(column.way, row.kind)}?{megabytes}+{column.channel}"
    if row.kind:
        return applications.path_of(column.way, row.kind, row.bytes)
    if row.file:
        return row.file
    if row.record:
        ring = f"+{row.ring}" if row.ring else ""
        return f"membufdemo?{megabytes}+{row.channel or column.channel}+{row.record}{ring}"
    return f"cgiplustest?{row.bytes}"
