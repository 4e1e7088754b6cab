"""`python -m tests.kafka_suites`: see the package's docstring."""

from __future__ import annotations

import sys

from tests.kafka_suites import stored, table
from tests.kafka_suites.play import SIDES, play
from tests.kafka_suites.suites import SUITES, classes


def run(side: str, names: list[str], *, deadlines: bool) -> int:
    """Play classes, and keep what each has found as soon as it has ended; return 1 if one has no report, else 0."""
    status = 0
    for name in names:
        try:
            played = play(side, name, deadlines=deadlines)
        except RuntimeError as error:
            print(error)
            status = 1
            continue
        stored.keep(side, name, played)
        print(f"{name}: {len(played.passed)} passed, {len(played.failed)} failed, {len(played.aborted)} aborted")
        for test, message in played.failed.items():
            print(f"    {test}: {message}", flush=True)
    return status


def main(arguments: list[str]) -> int:
    deadlines = "--no-deadlines" not in arguments
    match [argument for argument in arguments if argument != "--no-deadlines"]:
        case ["run", side, *names] if side in SIDES and set(names) <= {*classes(), *SUITES}:
            chosen = [each for name in names for each in SUITES.get(name, [name])]
            return run(side, chosen or list(classes()), deadlines=deadlines)
        case ["table"]:
            table.write()
        case _:
            sys.exit(
                "usage: python -m tests.kafka_suites run kafka|coordinatord [--no-deadlines] [SUITE|CLASS…] | table"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
