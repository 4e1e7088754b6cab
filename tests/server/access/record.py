"""Records what Apache Kafka answers to each case and principal: `python -m tests.server.access.record`."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from tests.server.access.cases import PRINCIPALS, ask_all, prepare
from tests.server.access.kafka import logged_in, secured_kafka

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-permissions.json"


async def _record(port: int) -> dict[str, Any]:
    connect = logged_in(port)
    ids = await prepare(connect)
    return await ask_all(connect, ids, list(PRINCIPALS))


def gathered(found: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Case -> outcomes, each with the principals that got it: most of them get one of two or three."""
    made: dict[str, list[dict[str, Any]]] = {}
    for case, by_principal in found.items():
        groups: dict[str, dict[str, Any]] = {}
        for principal, outcome in sorted(by_principal.items()):
            key = json.dumps(outcome, sort_keys=True)
            groups.setdefault(key, {"principals": [], "outcome": outcome})["principals"].append(principal)
        made[case] = list(groups.values())
    return made


def recorded() -> dict[str, dict[str, Any]]:
    """Case -> principal -> Kafka's outcome."""
    return {
        case: {principal: group["outcome"] for group in groups for principal in group["principals"]}
        for case, groups in json.loads(GOLDEN.read_text()).items()
    }


def main() -> None:
    """Write the golden file."""
    with tempfile.TemporaryDirectory() as directory, secured_kafka(Path(directory)) as broker:
        found = asyncio.run(_record(broker.port))
    GOLDEN.write_text(json.dumps(gathered(found), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
