"""What classes found on each side: `found/SIDE.json`, by class."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from tests.kafka_suites.play import Played

FOLDER = Path(__file__).parent / "found"


def read(side: str) -> dict[str, Played]:
    """Read what is stored of a side, by class."""
    path = FOLDER / f"{side}.json"
    return {name: Played(**kept) for name, kept in json.loads(path.read_text()).items()} if path.exists() else {}


def keep(side: str, name: str, played: Played) -> None:
    """Store what a class found, instead of what it found before."""
    kept = {**read(side), name: played}
    text = json.dumps({each: asdict(kept[each]) for each in sorted(kept)}, indent=1, ensure_ascii=False)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{side}.json").write_text(text + "\n")
