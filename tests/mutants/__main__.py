"""The command: see the package."""

from __future__ import annotations

import sys

import click

from tests.mutants.lists import LISTS, MUTANTS
from tests.mutants.tool import noticed_by, play


@click.command()
@click.argument("name", nargs=-1)
@click.option("--play", "command", hidden=True, help="Run this command in this process.")
@click.option("--mutant", hidden=True, help="The mutant to run it with.")
def main(name: tuple[str, ...], command: str | None, mutant: str | None) -> None:
    """What notices which mistake? NAME is a list's or a mutant's; without one, all of them are played."""
    if command is not None:
        sys.exit(play(MUTANTS[mutant] if mutant else None, command))
    unknown = [each for each in name if each not in LISTS and each not in MUTANTS]
    if unknown:
        raise click.UsageError(f"there is no mutant {unknown[0]!r}; the lists are {', '.join(LISTS)}")
    survived = 0
    for each in [mutant for one in name or LISTS for mutant in LISTS.get(one, (one,))]:
        found = noticed_by(MUTANTS[each], MUTANTS[each].command, each)
        click.echo(f"{each}: {found or 'NOT NOTICED'}")
        survived += not found
    sys.exit(1 if survived else 0)


if __name__ == "__main__":
    main()
