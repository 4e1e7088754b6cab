"""The ledger of the script's rebalances, and how the pipeline reads one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from coordinatord.monitoring.offsets_log.source.ledger_topic import ledger_of
from coordinatord.monitoring.offsets_log.source.options import read_options
from kafka_wire.records.rebalance_ledger import LEDGER_TOPIC
from tests.compat.script import SETTINGS, play, play_epochs, seeded
from tests.reference.in_process import run, running_in_process


def write_ledger(directory: Path) -> None:
    """Fill `directory` with the partitions of the ledger that the script leaves."""
    whole = directory / "whole"
    write_everything(whole, epochs=True)
    for path in whole.glob(f"{LEDGER_TOPIC}-*"):
        shutil.move(path, directory / path.name)
    shutil.rmtree(whole)


def write_everything(directory: Path, *, epochs: bool = False) -> None:
    """The data directory of the script, with the ledger; with `epochs`, also those of a consumer group."""

    async def main() -> None:
        async with running_in_process(directory, SETTINGS) as world:
            await play(world)
            if epochs:
                await play_epochs(world)

    with seeded():
        run(main())


def ledger_contents(directory: Path) -> dict[str, Any]:
    """The records as the pipeline reads them."""
    entries = sorted(ledger_of(read_options({"paths": json.dumps([str(directory)])}), {}))
    return {
        "entries": [
            {"partition": partition, "offset": offset, "group": group, "record": json.loads(text)}
            for partition, offset, group, text in entries
        ]
    }
