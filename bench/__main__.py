"""`python -m bench`: see README.md beside this file."""

from __future__ import annotations

import json
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from bench import report, rows, runner
from bench.registry import ROWS, Arena
from bench.servers import KINDS, cores, pin, preferred

FILES = 15_000
README = Path(__file__).with_name("README.md")
END = "<!-- end of run -->"
OURS_ALONE = ("ours", "limit")


def more_files() -> None:
    """Ten thousand connections are ten thousand files, here and in the servers, which inherit this."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < FILES:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (FILES if hard == resource.RLIM_INFINITY else min(FILES, hard), hard)
        )


def merged(before: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    """The rows of an earlier run, with those of this one in their places."""
    kept = {row["name"]: row for row in before["rows"]}
    kept |= {row["name"]: row for row in run["rows"]}
    return {
        **run,
        "rows": [kept[name] for name in ROWS if name in kept],
        "absent": sorted({*before["absent"], *run["absent"]}),
        "took_s": round(before["took_s"] + run["took_s"], 1),
    }


def begin(run: dict[str, Any]) -> str:
    """The mark before the table of a run of this build."""
    return f"<!-- {run['machine'].get('build', 'interpreted')} run -->"


def put_into_readme(run: dict[str, Any], readme: Path = README) -> None:
    """Replace what is between the marks of its build."""
    before, mark, rest = readme.read_text().partition(begin(run))
    if not mark:
        raise click.ClickException(f"{readme} has no place for this run: {begin(run)}")
    _, _, after = rest.partition(END)
    readme.write_text(f"{before}{mark}\n{report.markdown(run)}{END}{after}")


@click.command()
@click.option(
    "--only", "names", multiple=True, type=click.Choice(list(ROWS)), metavar="ROW", help="This row; repeat it."
)
@click.option("--quick", is_flag=True, help="Our side and the bare limit alone, in about a minute.")
@click.option("--servers", "kinds", multiple=True, type=click.Choice(list(KINDS)), help="This server.")
@click.option("--rounds", default=None, type=click.IntRange(1, 99), help="Of each row: 3, or 2.")
@click.option(
    "--seconds", default=None, type=click.FloatRange(0.05, 60), help="Of each round: 1.5, or 0.5 with --quick."
)
@click.option("--out", default="build/bench", help="Where OUT.json goes.", show_default=True)
@click.option("--merge", is_flag=True, help="Keep the other rows that OUT.json has.")
@click.option(
    "--record", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Put a run into README.md."
)
@click.option("--list", "listing", is_flag=True, help="Name the rows.")
def main(
    names: tuple[str, ...],
    quick: bool,
    kinds: tuple[str, ...],
    rounds: int | None,
    seconds: float | None,
    out: str,
    merge: bool,
    record: Path | None,
    listing: bool,
) -> None:
    """Measure coordinatord beside Kafka, kfake and the bare limit."""
    if listing:
        for row in ROWS.values():
            print(f"{row.name:24} {row.title} ({row.unit})")
        return
    if record is not None:
        put_into_readme(json.loads(record.read_text()))
        return
    more_files()
    # A daemon that is installed has its bytecode; the first start here makes it.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    pin(os.getpid(), cores()[0])
    wanted = [ROWS[name] for name in names] or [row for row in ROWS.values() if row.quick or not quick]
    chosen = kinds or (OURS_ALONE if quick else tuple(KINDS))
    rounds, seconds = rounds or (2 if quick else 3), seconds or (0.5 if quick else 1.5)
    console, began_s = Console(stderr=True), time.monotonic()

    def say(text: str) -> None:
        if console.is_terminal:
            status.update(text)
        else:
            console.print(f"{time.monotonic() - began_s:6.1f} s  {text}", highlight=False, soft_wrap=True)

    path = Path(f"{out}.json")
    before = json.loads(path.read_text()) if merge and path.exists() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    heading = runner.heading(rounds, seconds)
    measured: list[runner.Json] = []
    with preferred(), tempfile.TemporaryDirectory(prefix="coordinatord-bench-") as place, console.status("") as status:
        arena = Arena(Path(place))
        try:
            for row in wanted:
                columns = [column for column in row.columns if column.kind in chosen]
                measured.append(runner.run_row(arena, row, columns, rounds, seconds, say))
                run = {
                    **heading,
                    "rows": measured,
                    "absent": list(arena.absent.values()),
                    "took_s": round(time.monotonic() - began_s, 1),
                }
                if before is not None:
                    run = merged(before, run)
                # After each row: all of them take an hour, and a run that is ended early keeps what it has.
                path.write_text(json.dumps(run, indent=1) + "\n")
        finally:
            arena.close()
    report.print_table(run)
    print(f"took {run['took_s']} s; written to {path}")
    if any(row["wrong"] for row in run["rows"]):
        raise SystemExit(1)


assert rows.__all__  # imported for what it adds to ROWS

if __name__ == "__main__":
    main()
