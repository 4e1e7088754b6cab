"""`python -m tests.guard`: what each script costs, beside what is stored.

--record "why"   store it: in the same commit as the change that it is about
--calls SCRIPT   which functions one round of it calls, and how often
"""

from __future__ import annotations

import json

import click

from tests.guard import figures
from tests.guard.count import count
from tests.guard.script import SCRIPTS


@click.command()
@click.option("--record", "why", help="Store what is counted, for this reason.")
@click.option("--calls", type=click.Choice(list(SCRIPTS)), help="Show what this script calls.")
def main(why: str | None, calls: str | None) -> None:
    """Count what requests cost, and compare it with what is stored."""
    if calls is not None:
        for name, times in sorted(count(SCRIPTS[calls])[1].items(), key=lambda each: (-each[1], each[0])):
            click.echo(f"{times:6d}  {name}")
        return
    stored = figures.load() if figures.FILE.exists() else {}
    counted = {name: count(entry)[0] for name, entry in SCRIPTS.items()}
    for name, now in counted.items():
        click.echo(f"{name:18s} {SCRIPTS[name].what}")
        before = stored.get(name, {})
        for figure, value in now.items():
            click.echo(f"    {figure:6s} {value:10.2f}   stored {before.get(figure, '-')}")
    if why is not None:
        figures.FILE.write_text(json.dumps(figures.record(stored, counted, why), indent=2) + "\n")
        click.echo(f"stored in {figures.FILE.name}")


if __name__ == "__main__":
    main()
