"""The command: `python3 bench [--quick] …`, or `make bench`.

Here: arguments, the directory for the results; writing the results and stopping everything, even after a failure.
Not here: the run (run.py)."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from . import beside, machine, passes, plan, report, results
from .progress import clock_time
from .run import Run
from .servers import ALL_SERVERS
from .stage import Stage, make_site

REPOSITORY = Path(__file__).resolve().parents[2]
VENV_PYTHON = REPOSITORY / "bench" / ".venv" / "bin" / "python"
NEEDED_TOOLS = ("h2load", "curl")
CHARTS_SECONDS = 120.0


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = parse(arguments)
    if options.report:
        if not holds_a_run(options.report):
            return complain(f"{options.report} has no results of a run (results.json)")
        return report_again(options.report)
    tables = plan.choose(options.tables, options.quick, options.rounds, options.servers)
    missing = [tool for tool in NEEDED_TOOLS if not shutil.which(tool)]
    if missing:
        return complain(f"{' and '.join(missing)}: not installed; bench/setup installs it")
    if not options.sluice.is_file():
        return complain(f"{options.sluice} does not exist: `make build sdk` builds it")
    there = len(os.sched_getaffinity(0))
    choice = passes.choose(options.processors or [there], there)
    if not choice.counts:
        return complain("; ".join(f"{name}: {reason}" for name, reason in choice.omitted.items()))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C
    directory = options.output or new_directory(machine.version(options.sluice.resolve()))
    directory.mkdir(parents=True, exist_ok=True)
    seconds = plan.estimate_seconds(tables) * len(choice.counts)
    print(f"about {clock_time(seconds)} minutes, {directory}", file=sys.stderr)
    for name, reason in choice.omitted.items():
        print(f"omitted: {name}: {reason}", file=sys.stderr)
    return measure_all(tables, options, directory, choice)


def measure_all(tables: list[plan.Table], options: argparse.Namespace, directory: Path, choice: passes.Choice) -> int:
    """A single pass goes into the directory itself; of several, each into one of its own, and their summary beside them."""
    if len(choice.counts) == 1:
        return measure(tables, options, directory, choice.counts[0], choice.omitted)
    status = 0
    for count in choice.counts:
        print(f"with {passes.name_of(count)}:", file=sys.stderr)
        status = measure(tables, options, passes.directory_of(directory, count), count, choice.omitted)
        if status:
            break
    return publish_all(directory) or status


def holds_a_run(directory: Path) -> bool:
    return (directory / "results.json").is_file() or bool(passes.load(directory))


def report_again(directory: Path) -> int:
    """Summary and charts of an earlier run."""
    found = passes.load(directory)
    for count, done in found.items():
        publish(done, passes.directory_of(directory, count))
    return publish_all(directory) if found else publish(results.load(directory / "results.json"), directory)


def publish_all(directory: Path) -> int:
    draw(directory)
    print(beside.write(passes.load(directory), directory))
    return 0


def parse(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 bench", description="Sluice and its peers, side by side in one run.")
    parser.add_argument("--quick", action="store_true", help="bandwidth, scripts, files (clear, TLS, HTTP/2), at one setting each")
    parser.add_argument(
        "--tables", type=names(plan.TABLE_KEYS), default=[], metavar="A,B", help=f"of {', '.join(plan.TABLE_KEYS)}"
    )
    parser.add_argument(
        "--servers",
        type=names(tuple(ALL_SERVERS)),
        default=[],
        metavar="A,B",
        help=f"of {', '.join(ALL_SERVERS)}; Sluice always",
    )
    parser.add_argument("--rounds", type=at_least_one, help="rounds of each table, instead of its default")
    parser.add_argument(
        "--processors", type=passes.counts, default=[], metavar="A,B",
        help="a complete run for each number of processors, side by side in the summary (default: one with all of them)",
    )  # fmt: skip
    parser.add_argument("--output", type=Path, help="directory for the results (default: bench/results/<version>-<date>-<host>)")
    parser.add_argument(
        "--sluice", type=Path, default=REPOSITORY / "target" / "release" / "sluice", help="the server's binary"
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the temporary directory: configurations and logs of the servers"
    )
    parser.add_argument(
        "--report", type=Path, metavar="DIR", help="only regenerate summary and charts of an earlier run"
    )
    return parser.parse_args(arguments)


def names(known: Sequence[str]):
    def read(text: str) -> list[str]:
        chosen = [name for name in text.split(",") if name]
        unknown = [name for name in chosen if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not one of {', '.join(known)}")
        return chosen

    return read


def at_least_one(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: not a number of rounds")
    return int(text)


def complain(text: str) -> int:
    print(f"bench: {text}", file=sys.stderr)
    return 1


def new_directory(version: str) -> Path:
    """Returns bench/results/<version>-<date>-<host>; a second run of the day gets a number."""
    stem = f"{version}-{time.strftime('%Y-%m-%d')}-{os.uname().nodename.split('.')[0]}"
    parent = REPOSITORY / "bench" / "results"
    return next(
        path for path in (parent / f"{stem}{'' if n == 1 else f'-{n}'}" for n in range(1, 1000)) if not path.exists()
    )


def measure(
    tables: list[plan.Table], options: argparse.Namespace, directory: Path, processors: int, omitted: dict[str, str]
) -> int:
    """One run, on that many processors."""
    directory.mkdir(parents=True, exist_ok=True)
    there = len(os.sched_getaffinity(0))
    with passes.confined(processors) as chosen:
        description = machine.describe(REPOSITORY, options.sluice.resolve())
        found = results.Results(machine=description, skipped=dict(omitted), quick=options.quick)
        if processors < there:
            found.machine["confined"] = f" of {there}: numbers {', '.join(map(str, chosen))}"
        status = measure_into(found, tables, options, directory)
    found.save(directory / "results.json")
    keep_raw(directory, found.machine["version"])
    return publish(found, directory) or status


def keep_raw(directory: Path, version: str) -> None:
    """Packs the output of the tools under the version's name, because it is large, and alike from round to round."""
    raw = directory / "raw"
    if raw.is_dir():
        with tarfile.open(directory / f"raw-{version}.tar.xz", "w:xz") as archive:
            archive.add(raw, f"raw-{version}")


def measure_into(
    found: results.Results, tables: list[plan.Table], options: argparse.Namespace, directory: Path
) -> int:
    begin, status = time.monotonic(), 0
    if found.machine["load"] > found.machine["cores"] / 2:
        found.remarks.append(
            f"The machine was not idle: its load average at the start was {found.machine['load']:.2f}."
        )
    try:
        found.machine["rating before"] = machine.rating()
        with Stage(make_site(REPOSITORY, options.sluice.resolve()), found.machine["cores"], options.keep) as stage:
            found.machine["servers"] = stage.versions
            Run(tables, stage, found, directory).run()
        found.machine["rating after"] = machine.rating()
    except KeyboardInterrupt:
        found.remarks.append("The run was interrupted: not every cell has all its rounds.")
        status = 130
    except Exception as error:
        found.remarks.append(f"The run ended early: {error.__class__.__name__}: {error}")
        status = complain(f"{error.__class__.__name__}: {error}")
    found.machine["minutes"] = (time.monotonic() - begin) / 60
    return status


def publish(found: results.Results, directory: Path) -> int:
    """Draws the charts, then writes the summary, which includes the charts that exist."""
    draw(directory)
    print(report.write(found, directory))
    return 0


def draw(directory: Path) -> None:
    """Draws the charts with a Python that has matplotlib: bench/.venv, or this one."""
    python = VENV_PYTHON if os.access(VENV_PYTHON, os.X_OK) else Path(sys.executable)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "bench")}
    command = [str(python), "-m", "sluicebench.charts", str(directory)]
    try:
        subprocess.run(command, env=environment, timeout=CHARTS_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"bench: no charts: {error}", file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main())
